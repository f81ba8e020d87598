//! What a workspace brings, read from trees that somebody made to be read wrongly.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use codelab_protocol::Digest;
use codelab_workspace::{BroughtFiles, FoundContents, skill_head};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

struct Tree {
    root: PathBuf,
    outside: PathBuf,
    _folder: TempDir,
}

impl Tree {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let (root, outside) = (base.join("root"), base.join("outside"));
        fs::create_dir(&root).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("secret"), "secret words").unwrap();
        Self {
            root,
            outside,
            _folder: folder,
        }
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn link(&self, to: impl AsRef<Path>, path: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(to, path).unwrap();
    }

    fn pipe(&self, path: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    }

    fn skill(&self, folder: &str, name: &str) {
        let text = format!("---\nname: {name}\ndescription: Does {name}\n---\nHow to {name}\n");
        self.write(&format!("{folder}/{name}/SKILL.md"), text);
    }

    fn files(&self) -> BroughtFiles {
        BroughtFiles::open(&self.root, &[]).unwrap()
    }

    fn read(&self) -> FoundContents {
        let files = self.files();
        let folders = files.instruction_folders(&CancellationToken::new());
        files.read(&folders)
    }
}

fn paths(brought: &FoundContents) -> Vec<&str> {
    let files = brought.instructions.iter();
    files.map(|file| file.path.as_str()).collect()
}

fn notices(brought: &FoundContents) -> String {
    brought.notices.join("\n")
}

#[test]
fn instructions_are_found_by_the_rules_of_the_file_tools() {
    let tree = Tree::new();
    assert_eq!(tree.read(), FoundContents::default());
    tree.write("AGENTS.md", "root");
    tree.write("CLAUDE.md", "not this one");
    tree.write("web/CLAUDE.md", "web");
    tree.write("web/app/AGENTS.md", "app");
    tree.write("web/app/src/main.ts", "");
    tree.write(".gitignore", "build/\n");
    tree.write("build/AGENTS.md", "ignored");
    tree.write("node_modules/left-pad/AGENTS.md", "of others");
    tree.write("web/agents.md", "another name");
    tree.link("AGENTS.md", "docs-link.md");
    tree.link("../AGENTS.md", "api/AGENTS.md");
    let brought = tree.read();
    let expected = [
        "AGENTS.md",
        "api/AGENTS.md",
        "web/CLAUDE.md",
        "web/app/AGENTS.md",
    ];
    assert_eq!(paths(&brought), expected);
    assert_eq!(brought.instructions[0].content, "root");
    assert_eq!(brought.instructions[0].digest, Digest::of_bytes(b"root"));
    assert_eq!(notices(&brought), "");
}

#[test]
fn nothing_is_read_from_outside_and_no_pipe_is_waited_for() {
    let tree = Tree::new();
    tree.link(tree.outside.join("secret"), "AGENTS.md");
    tree.write("CLAUDE.md", "stands behind the link");
    tree.link("../../outside/secret", "a/AGENTS.md");
    tree.pipe("b/AGENTS.md");
    tree.link("/dev/zero", "c/AGENTS.md");
    fs::create_dir_all(tree.root.join("d/AGENTS.md")).unwrap();
    tree.write("e/AGENTS.md", [0xff, 0xfe, b'x']);
    tree.write("f/AGENTS.md", vec![b'x'; 33 * 1024]);
    tree.link("nowhere", "g/AGENTS.md");
    tree.link(&tree.outside, "h");
    fs::write(tree.outside.join("AGENTS.md"), "secret words").unwrap();
    let brought = tree.read();
    assert_eq!(brought.instructions, []);
    let told = notices(&brought);
    for (path, word) in [
        ("AGENTS.md", "out of the workspace"),
        ("a/AGENTS.md", "out of the workspace"),
        ("b/AGENTS.md", "not a file"),
        ("c/AGENTS.md", "out of the workspace"),
        ("e/AGENTS.md", "not UTF-8"),
        ("f/AGENTS.md", "larger than"),
        ("g/AGENTS.md", "not read"),
    ] {
        let line = told.lines().find(|line| line.starts_with(path));
        assert!(
            line.is_some_and(|line| line.contains(word)),
            "{path}: {told}"
        );
    }
    assert!(!told.contains("secret words"));
}

#[test]
fn names_that_cannot_be_shown_are_passed_over_and_texts_are_kept_as_they_are() {
    let tree = Tree::new();
    tree.write("AGENTS.md", "hidden \u{202e} and \u{1b}[2J\n");
    tree.write("a\u{202e}b/AGENTS.md", "x");
    tree.write("a\nb/AGENTS.md", "x");
    tree.skill(".agents/skills", "plain");
    fs::create_dir_all(tree.root.join(".agents/skills/x\u{200b}y")).unwrap();
    let brought = tree.read();
    assert_eq!(paths(&brought), ["AGENTS.md"]);
    assert!(brought.instructions[0].content.contains('\u{202e}'));
    assert_eq!(brought.skills.len(), 1);
    let told = notices(&brought);
    assert!(
        told.contains("\\u{202e}") && told.contains("\\u{200b}"),
        "{told}"
    );
    assert!(!told.contains('\u{202e}') && !told.contains('\u{200b}'));
}

#[test]
fn a_tree_with_too_many_files_is_bounded_and_says_so() {
    let tree = Tree::new();
    tree.write("AGENTS.md", "root");
    for number in 0..10_000 {
        tree.write(&format!("deep/n{}/m{number}/AGENTS.md", number % 100), "x");
    }
    tree.write("shallow/AGENTS.md", "nearest to the root");
    let brought = tree.read();
    assert_eq!(brought.instructions.len(), 64);
    assert!(
        paths(&brought).contains(&"shallow/AGENTS.md"),
        "the shallowest count"
    );
    let told = notices(&brought);
    assert!(told.contains("10001 folders have"), "{told}");
    assert!(brought.notices.len() <= 32);
}

#[test]
fn a_skill_is_its_whole_folder() {
    let tree = Tree::new();
    tree.skill(".agents/skills", "deploy");
    tree.write(".agents/skills/deploy/scripts/run.sh", "echo 1");
    tree.write(".agents/skills/README.md", "no skill");
    let files = tree.files();
    let folders = files.instruction_folders(&CancellationToken::new());
    let digest = || {
        let brought = files.read(&folders);
        assert_eq!(brought.notices, Vec::<String>::new());
        brought.skills[0].digest.clone()
    };
    let brought = files.read(&folders);
    let skill = &brought.skills[0];
    assert_eq!(
        (skill.name.as_str(), skill.description.as_str()),
        ("deploy", "Does deploy")
    );
    assert_eq!(skill.folder, ".agents/skills/deploy");
    let names: Vec<&str> = skill.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(names, ["SKILL.md", "scripts/run.sh"]);
    let first = digest();
    assert_eq!(first, digest());
    tree.write(".agents/skills/deploy/scripts/run.sh", "echo 2");
    let second = digest();
    assert_ne!(first, second, "a changed script is another content");
    let script = tree.root.join(".agents/skills/deploy/scripts/run.sh");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    assert_ne!(second, digest(), "so is one that can be run");
    fs::remove_file(script).unwrap();
    assert_ne!(second, digest());
}

#[test]
fn a_skill_that_leads_out_is_not_used() {
    let tree = Tree::new();
    for name in ["out", "pipe", "linked", "dangling", "sound"] {
        tree.skill(".agents/skills", name);
    }
    tree.link(tree.outside.join("secret"), ".agents/skills/out/notes.md");
    tree.pipe(".agents/skills/pipe/input");
    tree.link("../sound", ".agents/skills/linked/more");
    tree.link("nowhere", ".agents/skills/dangling/file");
    tree.link("../sound/SKILL.md", ".agents/skills/sound/again.md");
    fs::create_dir_all(tree.outside.join("foreign")).unwrap();
    fs::write(
        tree.outside.join("foreign/SKILL.md"),
        "---\nname: foreign\ndescription: x\n---\nsecret words",
    )
    .unwrap();
    tree.link(tree.outside.join("foreign"), ".agents/skills/foreign");
    tree.write(".agents/skills/empty/README.md", "");
    tree.write(".agents/skills/broken/SKILL.md", "no front matter");
    tree.write(".agents/skills/bytes/SKILL.md", [0xff]);
    tree.write(".agents/skills/large/SKILL.md", vec![b'x'; 65 * 1024]);
    tree.skill(".agents/skills", "huge");
    tree.write(".agents/skills/huge/data", vec![0; 5 << 20]);
    tree.skill(".agents/skills", "many");
    for number in 0..300 {
        tree.write(&format!(".agents/skills/many/f{number}"), "");
    }
    let brought = tree.read();
    let names: Vec<&str> = brought
        .skills
        .iter()
        .map(|skill| skill.name.as_str())
        .collect();
    assert_eq!(names, ["sound"]);
    let told = notices(&brought);
    for name in [
        "out", "pipe", "linked", "dangling", "foreign", "empty", "broken", "bytes", "large",
        "huge", "many",
    ] {
        assert!(
            told.contains(&format!(".agents/skills/{name}")),
            "{name}: {told}"
        );
    }
    assert!(!told.contains("secret words"));
}

#[test]
fn the_first_skill_of_a_name_counts_and_a_link_to_it_is_no_second() {
    let tree = Tree::new();
    tree.skill(".agents/skills", "deploy");
    tree.skill(".agents/skills", "linked");
    tree.skill(".claude/skills", "deploy");
    tree.skill(".claude/skills", "other");
    tree.link("../../.agents/skills/linked", ".claude/skills/linked");
    let brought = tree.read();
    let folders: Vec<&str> = brought
        .skills
        .iter()
        .map(|skill| skill.folder.as_str())
        .collect();
    let expected = [
        ".agents/skills/deploy",
        ".agents/skills/linked",
        ".claude/skills/other",
    ];
    assert_eq!(folders, expected);
    assert_eq!(brought.notices.len(), 1, "{:?}", brought.notices);
    assert!(brought.notices[0].starts_with(".claude/skills/deploy is not used"));
}

#[test]
fn commands_are_markdown_files_of_their_folder() {
    let tree = Tree::new();
    tree.write(".agents/commands/fix.md", "Fix $ARGUMENTS");
    tree.write(".agents/commands/notes.txt", "");
    tree.link(tree.outside.join("secret"), ".agents/commands/steal.md");
    let brought = tree.read();
    assert_eq!(brought.commands.len(), 1);
    assert_eq!(brought.commands[0].path, ".agents/commands/fix.md");
    assert!(notices(&brought).contains("steal.md is a link"));
}

/// The folder's name, the text, and whether it is a skill here. What is one here must be one for the
/// validator of the specification too; the other way round only where the last field says so.
fn corpus() -> Vec<(&'static str, String, bool, bool)> {
    let matter = |name: &str, more: &str| format!("---\nname: {name}\n{more}\n---\nText\n");
    let long = "x".repeat(1024);
    vec![
        ("plain", matter("plain", "description: Does it"), true, true),
        (
            "a1-b2",
            matter("a1-b2", "description: \"Does: it\""),
            true,
            true,
        ),
        (
            "all-fields",
            matter(
                "all-fields",
                "description: >\n  Two lines\n  of text\nlicense: MIT\ncompatibility: Needs git\nmetadata:\n  author: me\n  version: \"1.0\"\nallowed-tools: Bash(git:*) Read",
            ),
            true,
            true,
        ),
        (
            "tool-list",
            matter(
                "tool-list",
                "description: d\nallowed-tools:\n  - Read\n  - Bash(jq:*)",
            ),
            true,
            true,
        ),
        (
            "longest",
            matter("longest", &format!("description: {long}")),
            true,
            true,
        ),
        (
            "crlf",
            matter("crlf", "description: d").replace('\n', "\r\n"),
            true,
            true,
        ),
        (
            "block",
            matter("block", "description: |\n  [not a list]\n  key: {v}"),
            true,
            true,
        ),
        (
            "no-body",
            "---\nname: no-body\ndescription: d\n---".to_owned(),
            true,
            true,
        ),
        (
            "comment",
            matter("comment", "# a comment\ndescription: d # more"),
            true,
            true,
        ),
        (
            "too-long",
            matter("too-long", &format!("description: x{long}")),
            false,
            false,
        ),
        ("Upper", matter("Upper", "description: d"), false, false),
        ("-dash", matter("-dash", "description: d"), false, false),
        ("dash-", matter("dash-", "description: d"), false, false),
        (
            "two--dashes",
            matter("two--dashes", "description: d"),
            false,
            false,
        ),
        (
            "under_score",
            matter("under_score", "description: d"),
            false,
            false,
        ),
        ("another", matter("other", "description: d"), false, false),
        (
            "no-name",
            "---\ndescription: d\n---\n".to_owned(),
            false,
            false,
        ),
        (
            "no-description",
            "---\nname: no-description\n---\n".to_owned(),
            false,
            false,
        ),
        (
            "empty-description",
            matter("empty-description", "description: \"\""),
            false,
            false,
        ),
        (
            "blank",
            matter("blank", "description: \"  \""),
            false,
            false,
        ),
        ("no-matter", "# Title\n".to_owned(), false, false),
        (
            "unclosed",
            "---\nname: unclosed\ndescription: d\n".to_owned(),
            false,
            false,
        ),
        (
            "not-yaml",
            matter("not-yaml", "description: a: b: c"),
            false,
            false,
        ),
        (
            "twice",
            matter("twice", "description: d\ndescription: e"),
            false,
            false,
        ),
        (
            "extra-field",
            matter("extra-field", "description: d\nmodel: opus"),
            false,
            false,
        ),
        (
            "long-compatibility",
            matter(
                "long-compatibility",
                &format!("description: d\ncompatibility: {}", "x".repeat(501)),
            ),
            false,
            false,
        ),
        (
            "flow-list",
            matter("flow-list", "description: d\nallowed-tools: [Read]"),
            false,
            false,
        ),
        (
            "anchor",
            matter("anchor", "description: &a d\nlicense: *a"),
            false,
            false,
        ),
        (
            "fence",
            matter("fence", "description: \"a --- b\""),
            false,
            false,
        ),
        (
            "bom",
            format!("\u{feff}{}", matter("bom", "description: d")),
            false,
            false,
        ),
        // The validator takes any letters; the specification names a to z.
        ("навык", matter("навык", "description: d"), false, true),
        // The specification wants one character at least.
        (
            "no-compatibility",
            matter("no-compatibility", "description: d\ncompatibility: \"\""),
            false,
            true,
        ),
        // The specification wants text for text.
        (
            "nested-metadata",
            matter(
                "nested-metadata",
                "description: d\nmetadata:\n  a:\n    b: c",
            ),
            false,
            true,
        ),
    ]
}

#[test]
fn skills_follow_the_specification() {
    for (name, text, is_skill, _) in corpus() {
        let head = skill_head(name, &text);
        assert_eq!(head.is_ok(), is_skill, "{name}: {head:?}");
    }
    let name = "x".repeat(65);
    let text = format!("---\nname: {name}\ndescription: d\n---\n");
    assert!(skill_head(&name, &text).unwrap_err().contains("64"));
}

/// `CODELAB_TEST_SKILLS_VALIDATOR` is the program `agentskills` of the package `skills-ref`.
#[test]
fn the_validator_of_the_specification_takes_every_skill_that_counts_here() {
    let Ok(validator) = std::env::var("CODELAB_TEST_SKILLS_VALIDATOR") else {
        println!("skipped: CODELAB_TEST_SKILLS_VALIDATOR is not set");
        return;
    };
    let tree = Tree::new();
    for (name, text, is_skill, is_valid) in corpus() {
        tree.write(&format!("skills/{name}/SKILL.md"), &text);
        let validated = Command::new(&validator)
            .env("PYTHONUTF8", "1")
            .arg("validate")
            .arg(tree.root.join("skills").join(name))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&validated.stderr).into_owned()
            + &String::from_utf8_lossy(&validated.stdout);
        assert_eq!(validated.status.success(), is_valid, "{name}: {said}");
        assert!(
            is_valid || !is_skill,
            "{name} counts here and is not valid: {said}"
        );
    }
}
