//! What a command may read, run and show: every way to name a path outside the workspace, in every
//! position of a path, and operands that a tool would evaluate.

use codelab_policy::{Policy, RememberKey, Verdict};

use crate::{asked, execute, run};

const ROOT: &str = "/home/ann/src/shop";

/// Ways to name something outside the workspace, or something that is not known.
const OUTSIDE: &[&str] = &[
    "/etc/passwd",
    "/",
    "//etc/passwd",
    "/./etc/passwd",
    "/home/ann/.ssh/id_rsa",
    "/home/ann/src/shop-evil/a",
    "/home/ann/src/shop/../other/a",
    "/home/ann/src/shop/..",
    "/proc/self/environ",
    "/dev/sda",
    "/dev/null/../sda",
    "'/etc/passwd'",
    "\"/etc/passwd\"",
    "/\"etc\"/passwd",
    "\\/etc/passwd",
    "/etc/pass*",
    "/et?/passwd",
    "/[e]tc/passwd",
    "~",
    "~/.bashrc",
    "~root/.bashrc",
    "~+/../x",
    "'~/.bashrc'",
    "..",
    "../",
    "../other/a",
    "./../other/a",
    "src/../../other/a",
    "'../other/a'",
    "'..\\other'",
    "{/etc/passwd,a}",
    "{a,/etc/passwd}",
    "{,a}/etc/passwd",
    "{..,a}/other",
    "{.,a}./other",
    "a{/../..,}/x",
    "{~,a}/x",
    ".*/other",
    ".?/other",
    ".[.]/other",
    "$HOME/.bashrc",
    "\"$HOME\"/.bashrc",
    "${HOME}",
    "$PWD-evil/a",
    "$PWD/../other",
    "$OLDPWD/a",
    "$file",
    "\"$file\"",
    "$(cat list.txt)",
    "\"$(echo /etc/passwd)\"",
    "`cat list.txt`",
];

/// Where a path can stand, as `@`.
const READERS: &[&str] = &[
    "cat @",
    "cat a.txt @",
    "cat -n @",
    "cat -- @",
    "tac @",
    "nl @",
    "rev @",
    "head @",
    "head -5 @",
    "head -n 5 @",
    "tail -f @",
    "wc -l @",
    "cut -d: -f1 @",
    "paste a.txt @",
    "join a.txt @",
    "comm a.txt @",
    "cmp a.txt @",
    "diff a.txt @",
    "diff -r src @",
    "diff -u @ a.txt",
    "sort @",
    "sort -k2 @",
    "uniq @",
    "uniq -c @",
    "fold -w 80 @",
    "expand @",
    "column -t @",
    "od -c @",
    "hexdump -C @",
    "xxd @",
    "strings @",
    "base64 @",
    "base64 -i @",
    "md5sum @",
    "sha256sum a.txt @",
    "shasum -a 256 @",
    "cksum @",
    "file @",
    "stat @",
    "readlink -f @",
    "realpath @",
    "realpath --relative-to=src @",
    "ls @",
    "ls -la @",
    "ls src @",
    "du -sh @",
    "df -h @",
    "tree @",
    "tree -L 2 @",
    "find @ -name x",
    "find src @ -type f",
    "find -L @",
    "find . -newer @",
    "find . -samefile @",
    "fd main @",
    "grep x @",
    "grep -rn x src @",
    "grep -f @ a.txt",
    "grep -rnf @ src",
    "grep @ -e x",
    "grep --file @ a.txt",
    "egrep x @",
    "fgrep x @",
    "rg x @",
    "rg --files @",
    "rg -e x @",
    "rg -f @ src",
    "sed -n 1,5p @",
    "sed -n -e 1p @",
    "sed 's/a/b/' a.txt @",
    "awk '{print}' @",
    "awk -F: '{print $1}' a.txt @",
    "jq . @",
    "jq -r .a a.json @",
    "test -f @",
    "[ -f @ ]",
    "[ ! -d @ ]",
    "[[ -f @ ]]",
    "[ a.txt -nt @ ]",
    "cat < @",
    "cat <@",
    "wc -l < @",
    "while read -r line; do echo x; done < @",
    "{ cat; } < @",
    "for f in @; do cat \"$f\"; done",
    "for f in a.txt @; do wc -l \"$f\"; done",
    "cp @ a.txt",
    "cd @ && ls",
    "tee @",
    "echo x > @",
    "touch @",
    "mkdir -p @",
    "git diff -- @",
    "git diff @ a.txt",
    "git diff --no-index a.txt @",
    "git log -- @",
    "git blame @",
    "git grep x @",
    "git ls-files @",
    "git check-ignore @",
    "pytest @",
    "pytest --ignore @ tests",
    "pytest --cov=src @",
    "python3 -m pytest @",
    "python3 -m unittest @",
    "python3 -m unittest discover @",
    "python3 -m unittest discover -s @",
    "python3 -m unittest discover -s tests -t @",
    "python3 -m py_compile @",
    "python3 -m compileall -q @",
    "black --check @",
    "isort --check @",
    "flake8 @",
    "mypy @",
    "pylint @",
    "pyright @",
    "ruff check --no-fix @",
    "ruff format --check @",
    "bandit -r @",
    "eslint @",
    "prettier --check @",
    "tsc --noEmit -p @",
    "jest @",
    "vitest run @",
    "mocha @",
    "node --test @",
    "node --check @",
    "npm test -- @",
    "deno test @",
    "deno check @",
    "bun test @",
    "go test @",
    "go build @",
    "go vet @",
    "go list @",
    "gofmt -l @",
    "golangci-lint run @",
    "staticcheck @",
    "rustfmt --check @",
    "mix test @",
    "timeout 5 cat @",
    "nice cat @",
    "time cat @",
    "command cat @",
    "echo $(cat @)",
    "ls | cat - @",
];

/// Values that are glued to their option.
const GLUED: &[&str] = &[
    "grep -f@ a.txt",
    "grep -rnf@ src",
    "grep --file=@ a.txt",
    "grep --exclude-from=@ -r x .",
    "rg -f@ src",
    "rg --file=@ src",
    "base64 -i@",
    "realpath --relative-to=@ a",
    "pytest --ignore=@ tests",
    "pytest --cov=@ tests",
    "git diff --relative=@",
    "tsc --noEmit --project=@",
    "go test -coverprofile=@ ./...",
    "wc --files0-from=@",
    "du --files0-from=@",
    "sort --files0-from=@",
    "sort -T@ a",
    "diff --from-file=@ a",
    "ls --file=@",
];

#[test]
fn a_path_outside_asks_wherever_it_stands() {
    for policy in [Policy::default(), Policy::default().in_workspace(ROOT)] {
        let mut passed = Vec::new();
        for (template, path) in READERS
            .iter()
            .flat_map(|template| OUTSIDE.iter().map(move |path| (template, path)))
        {
            let command = template.replace('@', path);
            if policy.review(&execute(&command, None)) == Verdict::Allow {
                passed.push(command);
            }
        }
        let exact = OUTSIDE
            .iter()
            .filter(|path| path.starts_with(['/', '.', '~']) && !path.contains(['*', '?', '[']));
        for (template, path) in GLUED
            .iter()
            .flat_map(|template| exact.clone().map(move |path| (template, path)))
        {
            let command = template.replace('@', path);
            if policy.review(&execute(&command, None)) == Verdict::Allow {
                passed.push(command);
            }
        }
        assert!(
            passed.is_empty(),
            "{} passed unasked: {passed:#?}",
            passed.len()
        );
    }
}

/// The same templates pass with a path of the workspace, so it is the path that asks.
#[test]
fn a_path_inside_is_not_what_asks() {
    let policy = Policy::default().in_workspace(ROOT);
    let writes = ["tee @", "echo x > @", "touch @", "cp @ a.txt"];
    let mut asking = Vec::new();
    for template in READERS.iter().filter(|template| !writes.contains(template)) {
        let accepted = [
            "src",
            "./src",
            "src/a.py",
            "tests",
            "tests/test_a.py",
            "a.txt",
            "/home/ann/src/shop/src",
            "./cmd/...",
        ];
        let passes = |path: &&str| {
            policy.review(&execute(&template.replace('@', path), None)) == Verdict::Allow
        };
        if !accepted.iter().any(passes) {
            asking.push(template);
        }
    }
    assert!(asking.is_empty(), "asked with every path: {asking:#?}");
}

#[test]
fn a_known_root_makes_absolute_paths_inside() {
    let known = Policy::default().in_workspace(ROOT);
    for command in [
        "cat /home/ann/src/shop/README.md",
        "ls /home/ann/src/shop",
        "ls /home/ann/src/shop/src/*.rs",
        "grep -rn x /home/ann/src/shop/src",
        "cd /home/ann/src/shop && git status",
        "cd /home/ann/src/shop/web && npm test",
        "pytest /home/ann/src/shop/tests",
        "echo x > /home/ann/src/shop/out.txt",
        "wc -l < /home/ann/src/shop/a.txt",
        "[ -f /home/ann/src/shop/a ]",
    ] {
        assert_eq!(
            known.review(&execute(command, None)),
            Verdict::Allow,
            "{command}"
        );
        asked(run(command), command);
        asked(
            Policy::default()
                .in_workspace("/home/ann/src/other")
                .review(&execute(command, None)),
            command,
        );
        for root in ["/", "/home", "", "shop", "~"] {
            asked(
                Policy::default()
                    .in_workspace(root)
                    .review(&execute(command, None)),
                command,
            );
        }
    }
    assert_eq!(
        known.review(&execute("cat a.txt", Some("/home/ann/src/shop/src"))),
        Verdict::Allow
    );
    assert_eq!(
        known.review(&execute("git status", Some("/home/ann/src/shop"))),
        Verdict::Allow
    );
    asked(
        known.review(&execute("ls", Some("/home/ann/src"))),
        "a folder above the root",
    );
    asked(
        known.review(&execute(
            "cd web; cd /home/ann/src/shop && git status",
            None,
        )),
        "git after another folder",
    );
    asked(
        known.review(&execute("echo x > /home/ann/src/shop/.git/a.txt", None)),
        "a protected path by its whole name",
    );
}

/// The folder of a call exists. The folder that `cd` names may not.
#[test]
fn a_folder_beneath_may_look_up_to_the_root() {
    let inside = |command: &str, cwd: &str| {
        Policy::default().review(&execute(command, Some(cwd))) == Verdict::Allow
    };
    assert!(inside("cat ../README.md", "web"));
    assert!(inside("grep -rn x ../src", "web"));
    assert!(!inside("cat ../../other/a", "web"));
    assert!(!inside("cd src && cat ../../../x", "web"));
    asked(run("cd web && cat ../README.md"), "cd may fail");
}

#[test]
fn loops_over_known_names_are_followed() {
    for command in [
        "for f in src/*.rs; do wc -l \"$f\"; done",
        "for f in a.txt b.txt; do cat $f; done",
        "for d in web api; do ls \"$d/src\"; done",
        "for i in 1 2 3; do echo $i; cat log$i.txt; done",
        "for f in *.py; do grep -n x -- \"$f\"; done",
        "cat \"$PWD/README.md\"",
        "for d in a b; do for f in x y; do cat $d/$f; done; done",
        "cat *.txt",
        "wc -l *.py",
        "ls -d */",
        "grep -n x *.rs",
        "cat src/*/mod.rs",
        "ls src/{a,b}",
    ] {
        assert_eq!(run(command), Verdict::Allow, "{command}");
    }
    for command in [
        "for f in src/*.rs; do wc -l $f; done",
        "for f in 'a /etc/passwd'; do cat $f; done",
        "for f in ''; do cat $f/etc/passwd; done",
        "for f in .; do cat $f./other; done",
        "for f in ..; do cat src/$f/$f/x; done",
        "for f in a; do read -r f; cat $f; done < list.txt",
        "for f in -f/etc/passwd; do grep $f a.txt; done",
        "for f in --pre=./x; do rg $f a; done",
        "for f in ls; do $f; done",
        "for f in ls; do timeout 5 $f; done",
        "for f; do cat $f; done",
        "for f in a $x; do cat $f; done",
        "for f in ~; do ls $f; done",
        "cat ${PWD}x/a",
        "echo /etc/*",
        "echo ../*",
        "echo ~/.ssh/*",
        "for f in /home/*; do echo $f; done",
        "echo {/etc/*,a}",
        "grep {-f/etc/passwd,x} a",
        "grep x {-f/etc/passwd,a}",
        "grep x [-]f/etc/passwd",
        "grep x */etc/passwd",
        "wc -l */*.py",
        "rg {a,/etc/passwd}",
        "grep {root,/etc/passwd}",
        "awk '{print}' *.txt",
        "sed -n 1p *.py",
        "sort *",
    ] {
        asked(run(command), command);
    }
}

#[test]
fn the_environment_is_not_shown() {
    for command in [
        "env",
        "printenv",
        "printenv PATH",
        "set",
        "export",
        "export -p",
        "declare -p",
        "declare -x",
        "typeset -p",
        "readonly -p",
        "compgen -v",
        "compgen -e",
        "ps e",
        "ps eww",
        "ps auxe",
        "ps auxeww",
        "ps axe -o pid",
        "ps -E",
        "ps -ww -E",
        "ps -o pid,environ",
        "ps -eo environ",
        "ps --environment",
        "cat /proc/self/environ",
        "cat /proc/*/environ",
        "strings /proc/1/environ",
        "tr '\\0' '\\n' < /proc/self/environ",
        "awk 'BEGIN{for(k in ENVIRON) print k}'",
        "awk 'BEGIN{print ENVIRON[\"HOME\"]}'",
        "awk 'BEGIN{print SYMTAB[\"ENV\" \"IRON\"]}'",
        "jq -n env",
        "jq -n '$ENV'",
        "jq -n '$ENV.PATH'",
        "jq -n 'env.PATH'",
        "jq -n 'env|keys'",
        "jq -n '[env]'",
        "jq -n '. as $x|env'",
        "jq -n '$__prog_args'",
        "jq --arg a $nothing . env",
        "jq --arg $nothing b . env",
        "jq -n 'import \"a\" as $x; $x'",
        "jq 'include \"a\"; .' a.json",
        "echo $API_KEY",
        "echo \"$GITHUB_TOKEN\"",
        "echo ${AWS_SECRET_ACCESS_KEY}",
        "cat <<EOF\n$DATABASE_URL\nEOF",
        "cat <<< \"$SECRET\"",
        "echo $npm_config_token",
        "[ -n \"$OPENAI_API_KEY\" ] && echo set",
        "printf '%s' \"$PASSWORD\"",
        "for k in \"$TOKEN\"; do echo $k; done",
        "case $TOKEN in sk*) echo yes;; esac",
        "go env",
        "git var -l",
        "npm config ls -l",
        "npm run env",
        "python3 -m site",
        "rustc --print cfg",
    ] {
        asked(run(command), command);
    }
    for command in [
        "ps",
        "ps aux",
        "ps -ef",
        "ps -p 1 -o pid,cmd",
        "ps aux --sort=-rss",
        "echo $HOME",
        "jq .env a.json",
        "jq '.a.env' a.json",
        "awk '$3 > 10 {print $1}' a.txt",
        "awk 'NR>=1 && NR<=5' a.txt",
    ] {
        assert_eq!(run(command), Verdict::Allow, "{command}");
    }
}

/// Formatters rewrite sources: they ask, and a person can allow that command for the session. Forms
/// that only report pass.
#[test]
fn formatters_ask_unless_they_only_report() {
    for (rewrites, reports) in [
        ("black .", "black --check ."),
        ("black src/a.py", "black --diff src/a.py"),
        ("black -q src", "black -q --check src"),
        ("python3 -m black src", "python3 -m black --check src"),
        ("isort .", "isort --check-only ."),
        ("isort src/a.py", "isort -c src/a.py"),
        ("isort --profile black .", "isort --diff --profile black ."),
        ("ruff format", "ruff format --check"),
        ("ruff format src", "ruff format --diff src"),
        ("ruff check --fix", "ruff check --isolated"),
        ("ruff check src", "ruff check --no-fix src"),
        ("ruff check --fix-only src", "ruff check --diff src"),
        ("ruff check --add-noqa", "ruff check --no-fix ."),
        ("rustfmt a.rs", "rustfmt --check a.rs"),
        (
            "rustfmt --edition 2021 src/lib.rs",
            "rustfmt --check --edition 2021 src/lib.rs",
        ),
        ("cargo fmt", "cargo fmt --check"),
        ("cargo fmt --all", "cargo fmt --all -- --check"),
        ("cargo clippy --fix", "cargo clippy"),
        ("cargo fix", "cargo check"),
        ("gofmt -w .", "gofmt -l ."),
        ("gofmt -l -w a.go", "gofmt -d a.go"),
        ("gofmt -s --w=true a.go", "gofmt -s a.go"),
        ("go fmt ./...", "go vet ./..."),
        ("go fix ./...", "go build ./..."),
        ("prettier --write .", "prettier --check ."),
        ("prettier -w src", "prettier -c src"),
        ("eslint --fix src", "eslint src"),
        ("eslint src --fix", "eslint src --quiet"),
        ("deno fmt", "deno fmt --check"),
        ("npm run lint:fix", "npm run lint"),
        ("npm run format", "npm run format-check"),
        ("npm run test:update-snapshots", "npm run test:unit"),
        ("jest -u", "jest"),
        ("make fmt", "make lint"),
        ("autopep8 -i a.py", "flake8 a.py"),
        ("sed -i s/a/b/ a.py", "sed s/a/b/ a.py"),
    ] {
        let ask = asked(run(rewrites), rewrites);
        assert!(
            matches!(ask.remember, Some(RememberKey::Command(_))),
            "{rewrites} cannot be remembered"
        );
        assert_eq!(run(reports), Verdict::Allow, "{reports}");
    }
    let reason = asked(run("black ."), "black").reason;
    assert_eq!(
        reason,
        "Command requires approval: black: rewrites files unless it is given --check or --diff"
    );
    for hidden in [
        "black -- --check",
        "black --check-x .",
        "cargo fmt -p --check",
        "rustfmt --edition --check a.rs",
    ] {
        asked(run(hidden), hidden);
    }
}
