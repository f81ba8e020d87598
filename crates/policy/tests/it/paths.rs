//! Files and directories: what is protected, what belongs to the system.

use codelab_policy::{Policy, RememberKey, Verdict};
use codelab_protocol::{ListFiles, ReadFile, ToolArguments};

use crate::{asked, execute, write};

const PROTECTED: &[&str] = &[
    ".git/hooks/pre-commit",
    ".git/config",
    "./.git/config",
    ".git//config",
    ".git",
    "sub/.git/hooks/post-checkout",
    "a/../.git/hooks/x",
    "a/b/../../.git/config",
    ".git/../.git/config",
    ".GIT/config",
    ".Git/Hooks/pre-push",
    ".git\\hooks\\pre-commit",
    "a\\..\\.git\\config",
    ".git./config",
    ".git /config",
    ".git/hooks./pre-commit",
    ".git::$INDEX_ALLOCATION/config",
    "GIT~1/config",
    ".g\u{200c}it/config",
    ".g\u{131}t/config",
    "/home/anna/project/.git/config",
    "C:\\work\\.git\\config",
    ".gitmodules",
    ".gitattributes",
    "codelab.toml",
    "CodeLab.TOML",
    "conf/codelab.toml",
    "codelab.toml.",
    ".codelab/policy.toml",
    ".codelab",
    "/home/anna/.config/codelab/x",
    ".bashrc",
    ".bash_profile",
    ".ba\u{17f}hrc",
    ".zshrc",
    ".profile",
    ".envrc",
    "sub/.envrc",
    ".husky/pre-commit",
    ".vscode/tasks.json",
    ".vscode/settings.json",
    ".VSCode/Settings.json",
    ".vscode/x/../tasks.json",
    "project.code-workspace",
    ".idea/workspace.xml",
    ".devcontainer/devcontainer.json",
    ".github/workflows/ci.yml",
    ".gitlab-ci.yml",
    "lefthook.toml",
    "lefthook-local.json",
    "captainhook.json",
    ".huskyrc.js",
    "simple-git-hooks.json",
    ".simple-git-hooks.cjs",
    ".vs/tasks.vs.json",
    ".theia/tasks.json",
    "_vimrc",
    ".lazy.lua",
    ".dir-locals-2.el",
    ".ycm_extra_conf.py",
    ".project",
    ".run/a.run.xml",
    ".autoenv.zsh",
    "mise.local.toml",
    ".mise/config.toml",
    "mise/config.toml",
    ".screenrc",
    ".semaphore/semaphore.yml",
    "buildspec.yml",
    "cloudbuild.yaml",
    ".tekton/push.yaml",
    "wercker.yml",
    "codemagic.yaml",
    ".builds/a.yml",
    ".build.yml",
    ".drone.star",
    ".cirrus.star",
    ".gitpod.yml",
    ".zuul.yaml",
    ".taskcluster.yml",
    ".azure-pipelines/ci.yml",
    ".packit.yaml",
    "bitrise.yml",
    "sub/mcp.json",
    ".amazonq/mcp.json",
    "opencode.json",
    ".cursorrules",
    ".clinerules",
    ".circleci/config.yml",
    "Jenkinsfile",
    ".pre-commit-config.yaml",
    ".cargo/config.toml",
    ".npmrc",
    ".ssh/authorized_keys",
    "lib/sitecustomize.py",
    ".hg/hgrc",
    ".helix/languages.toml",
    ".codex/config.toml",
    "Jenkinsfile.release",
];

const PLAIN: &[&str] = &[
    "src/main.rs",
    "README.md",
    ".gitignore",
    ".github/CODEOWNERS",
    ".vscode/notes.json",
    "git/hooks/x",
    "docs/.gitkeep",
    "codelab.toml.md",
    "src/codelab/toml.rs",
    "agit/config",
    "digit~1/x",
    "a/../b.rs",
    "tests/data.json",
];

#[test]
fn writing_a_protected_path_always_asks() {
    for path in PROTECTED {
        let ask = asked(Policy::default().review(&write(path)), path);
        assert_eq!(ask.remember, None, "{path:?} could be remembered");
        assert!(
            ask.reason
                .starts_with("File modification requires approval"),
            "{}",
            ask.reason
        );
        asked(
            Policy::default().review(&ToolArguments::CreateDirectory {
                path: (*path).to_owned(),
            }),
            path,
        );
    }
}

#[test]
fn writing_any_other_file_asks_and_can_be_remembered() {
    for path in PLAIN {
        let ask = asked(Policy::default().review(&write(path)), path);
        assert_eq!(ask.remember, Some(RememberKey::FileWrites), "{path}");
        assert_eq!(ask.reason, "File modification requires approval");
    }
    for path in ["../outside.rs", "/etc/passwd", "a\u{202e}b.rs"] {
        assert_eq!(
            asked(Policy::default().review(&write(path)), path).remember,
            None,
            "{path:?}"
        );
    }
}

#[test]
fn a_command_that_changes_a_protected_path_is_never_remembered() {
    for path in PROTECTED.iter().filter(|path| path.is_ascii()) {
        for command in [
            format!("cp evil.txt '{path}'"),
            format!("echo x > '{path}'"),
            format!("tee '{path}'"),
            format!("sed -i s/a/b/ '{path}'"),
            format!("python3 -c \"open(r'{path}', 'w')\""),
            format!("dd if=x 'of={path}'"),
            format!("mv x '{path}'"),
            format!("ls; touch '{path}'"),
        ] {
            let ask = asked(Policy::default().review(&execute(&command, None)), &command);
            assert_eq!(ask.remember, None, "{command} could be remembered");
        }
    }
}

#[test]
fn a_protected_folder_is_protected_from_within() {
    for (command, cwd) in [
        ("cp a.txt pre-commit", ".git/hooks"),
        ("echo x > x.txt", ".git"),
        ("echo x > tasks.json", ".vscode"),
        ("echo x > ci.txt", "sub/.github/workflows"),
        ("cp evil.txt config", "/home/anna/project/.git"),
    ] {
        let ask = asked(
            Policy::default().review(&execute(command, Some(cwd))),
            command,
        );
        assert_eq!(ask.remember, None, "{command} in {cwd}");
    }
    for command in [
        "cd .git && echo x > x.txt",
        "cd .vscode; cp a.json tasks.json",
        "cd sub/.git/hooks && ls",
    ] {
        assert_eq!(
            asked(Policy::default().review(&execute(command, None)), command).remember,
            None,
            "{command}"
        );
    }
    for command in [
        "git config core.hooksPath x",
        "git submodule add x",
        "touch .g*/config",
        "cp a .gi?/hooks/b",
        "x=.git; cp a $x/hooks/b",
        "for f in .git/hooks/x; do cp a $f; done",
        "for f in .g'it'/hooks/x; do cp a $f; done",
        "python3 <<'EOF'\nopen('.git/hooks/x', 'w')\nEOF",
    ] {
        assert_eq!(
            asked(Policy::default().review(&execute(command, None)), command).remember,
            None,
            "{command}"
        );
    }
}

#[test]
fn reading_is_free() {
    let path = ".git/config".to_owned();
    let read = ToolArguments::ReadFile(ReadFile {
        path: path.clone(),
        start_line: None,
        end_line: None,
    });
    let list = ToolArguments::ListFiles(ListFiles {
        path,
        recursive: true,
        pattern: None,
    });
    for arguments in [
        read,
        list,
        execute("cat .git/config", None),
        execute("grep -rn x .git/hooks", None),
    ] {
        assert_eq!(
            Policy::default().review(&arguments),
            Verdict::Allow,
            "{arguments:?}"
        );
    }
}

#[test]
fn system_directories_ask() {
    let cases = [
        ("/etc", true),
        ("/etc/x", true),
        ("/ETC/x", true),
        ("/usr/local/x", true),
        ("/bin", true),
        ("/sbin/x", true),
        ("/var/lib/x", true),
        ("/sys/x", true),
        ("/boot", true),
        ("/private/etc/x", true),
        ("/System/x", true),
        ("C:\\Windows\\x", true),
        ("c:/Program Files/x", true),
        ("//etc/x", true),
        ("/./etc", true),
        ("/home/../etc/x", true),
        ("/../etc", true),
        ("/etc.", true),
        ("/", true),
        ("..", true),
        ("../x", true),
        ("a/../../x", true),
        ("..\\x", true),
        ("a\u{200b}b", true),
        ("/etcetera", false),
        ("/etc-backup/x", false),
        ("/etc/../home/anna/x", false),
        ("/home/anna/project/etc", false),
        ("/variable/x", false),
        ("etc/x", false),
        ("usr", false),
        ("src/new", false),
        ("a/../b", false),
        ("./a", false),
        ("...", false),
        (".vscode", false),
        (".github", false),
    ];
    for (path, asks) in cases {
        let verdict = Policy::default().review(&ToolArguments::CreateDirectory {
            path: path.to_owned(),
        });
        assert_eq!(
            matches!(&verdict, Verdict::Ask(_)),
            asks,
            "{path:?}: {verdict:?}"
        );
        if let Verdict::Ask(ask) = verdict {
            assert_eq!(ask.remember, None);
        }
    }
}

#[test]
fn a_policy_can_protect_more() {
    let policy = Policy::default().protect("deploy/*.yaml");
    assert_eq!(
        asked(policy.review(&write("k8s/Deploy/prod.yaml")), "added").remember,
        None
    );
    assert_eq!(
        asked(policy.review(&write("deploy/notes.md")), "other").remember,
        Some(RememberKey::FileWrites)
    );
}
