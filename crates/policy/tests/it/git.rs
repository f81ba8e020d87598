//! Which lines run git, and nothing else.

use codelab_policy::{is_git_only, runs_git};

#[test]
fn a_line_of_git_calls_is_told_apart() {
    for command in [
        "git commit -m 'fix the parser'",
        "git commit -am \"exec: a message\"",
        "git add -A && git commit -m x",
        "git add src; git status",
        "git add src\ngit commit -m x --no-verify",
        "cd sub && git commit -m x",
        "git --no-pager log -3",
        "git -C sub status",
        "git -c core.hooksPath=.husky/_ commit -m x",
        "git add src/*.rs",
        "git add -- *.rs",
        "git commit --amend --no-edit # again",
        "git merge --strategy-option=theirs main",
        "git cherry-pick -x HEAD~2",
        "git rebase main",
        "git push origin main",
        "git log -S text",
        "git commit --signoff -m x",
        "git commit -mSpecial",
        "git tag -a -msome v1",
        "cd a && git -C b/c commit -m 'two words'",
    ] {
        assert!(is_git_only(command), "{command}");
        assert!(runs_git(command), "{command}");
    }
}

#[test]
fn a_line_that_runs_anything_else_is_not_git_only() {
    for command in [
        "",
        "ls",
        "cd sub",
        "git",
        "git commit -m x | cat",
        "git add x && ls",
        "git log > out.txt",
        "git commit -F - <<EOF\nx\nEOF",
        "git commit -m \"$(ls)\"",
        "git commit -m `ls`",
        "git commit -m $MESSAGE",
        "git add x || git status",
        "! git status",
        "(git status)",
        "{ git status; }",
        "if true; then git status; fi",
        "git fetch &",
        "A=b git commit -m x",
        "env git commit -m x",
        "time git commit -m x",
        "command git commit -m x",
        "'git' status",
        "/usr/bin/git status",
        "./git status",
        "cd .. && git status",
        "cd /tmp && git status",
        "cd ~ && git status",
        "cd $X && git status",
        "git -C .. status",
        "git -C /tmp status",
        "git -c core.hooksPath=/etc/hooks commit -m x",
        "git -c core.hooksPath=../x commit -m x",
        "git -c core.hooksPath= commit -m x",
        "git -c core.hooksPathx=x commit -m x",
        "git -c core.pager=x log",
        "git --git-dir=x commit -m x",
        "git --work-tree=/ checkout .",
        "git --exec-path=. status",
        "git --config-env=core.pager=X log",
        "git -p log",
        "git co main",
        "git frobnicate",
        "git config core.hooksPath x",
        "git init",
        "git clone x",
        "git submodule update",
        "git bisect run ls",
        "git difftool -x ls",
        "git filter-branch --tree-filter ls",
        "git hook run pre-commit",
        "git rebase --exec ls main",
        "git rebase --exe ls main",
        "git rebase -x ls main",
        "git rebase -ix ls main",
        "git rebase -i main",
        "git merge -s evil main",
        "git merge --strategy=evil main",
        "git pull --upload-pack=./x",
        "git pull --upl ./x",
        "git push --receive-pack=./x",
        "git fetch 'ext::sh -c ls'",
        "git grep -O./x foo",
        "git grep --open-files-in-pager=./x foo",
        "git diff --ext-diff",
        "git commit -S -m x",
        "git commit --gpg-sign -m x",
        "git tag -s v1",
        "git log --show-signature",
        // Letters that are flags of these subcommands, and not those of a message.
        "git rebase -mx 'touch x'",
        "git grep -FO'touch x' needle",
        "git grep -mO./x needle",
        "git am -mS x",
        "git cherry-pick -mS x",
        "git checkout -mp",
        "git pull -FsX",
        "git add *",
        "git add ~/x",
        "git status {--x,-y}",
        "git commit -m 'x",
    ] {
        assert!(!is_git_only(command), "{command}");
    }
}

#[test]
fn a_line_that_may_run_git_is_noticed() {
    for command in [
        "git status",
        "ls; git status",
        "ls | git apply",
        "/usr/bin/git status",
        "GIT status",
        "git-lfs pull",
        "env A=b git status",
        "timeout 5 git status",
        "xargs git add",
        "sh -c 'cd x; git status'",
        "find . -exec git add {} +",
        "python3 -c \"import os; os.system('git status')\"",
        "$X status",
        "sh -c \"$X\"",
        "echo $(git status)",
        "git status 'x",
        "ls \u{202e}",
    ] {
        assert!(runs_git(command), "{command}");
    }
    for command in [
        "ls -la",
        "cargo test",
        "cat .git/config",
        "grep -rn git src",
        "echo git",
        "cd git && ls",
        "A=b ls",
    ] {
        assert!(!runs_git(command), "{command}");
    }
}
