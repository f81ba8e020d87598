//! What the person is told about a command, the limits, the patterns that always ask.

use codelab_policy::{Policy, RememberKey, Verdict};

use crate::{asked, execute, run};

#[test]
fn the_reason_names_the_danger() {
    for (command, reason) in [
        ("rm -rf build", "Dangerous command: rm -rf"),
        ("ls; rm -r -f build", "Dangerous command: rm -r -f"),
        ("env A=b sudo ls", "Dangerous command: env"),
        ("ls | sudo tee /etc/x", "Dangerous command: sudo"),
        (
            "A=b ls",
            "Command requires approval: changes the environment",
        ),
        (
            "./run.sh",
            "Command requires approval: runs a file by its path",
        ),
        ("ls &", "Command requires approval: runs in the background"),
        (
            "frobnicate",
            "Command requires approval: frobnicate is not a known safe program",
        ),
        (
            "echo x > src/a.rs",
            "Command requires approval: File modification requires approval: src/a.rs",
        ),
        (
            "echo x > .git/config",
            "Command requires approval: changes a protected path: .git/config (names a protected path)",
        ),
        (
            "ls 'x",
            "The command cannot be analysed: a quote is not closed",
        ),
    ] {
        assert_eq!(asked(run(command), command).reason, reason, "{command}");
    }
}

#[test]
fn the_parts_show_every_simple_command() {
    let cases: &[(&str, &[(&str, bool)])] = &[
        (
            "ls -la; rm x && pwd",
            &[("ls -la", false), ("rm x", true), ("pwd", false)],
        ),
        ("echo $(rm x)", &[("rm x", true), ("echo $(rm x)", false)]),
        (
            "if true; then (rm a | cat); fi > /tmp/x",
            &[
                ("true", false),
                ("rm a", true),
                ("cat", false),
                ("> /tmp/x", true),
            ],
        ),
        (
            "diff <(ls) b",
            &[("ls", false), ("diff <(ls) b", true), ("<(ls)", true)],
        ),
        ("for f in *; do A=b ls; done", &[("A=b ls", true)]),
        (
            "cat <<EOF | rm x\n$(pwd)\nEOF",
            &[("cat <<EOF", false), ("rm x", true), ("pwd", false)],
        ),
    ];
    for (command, expected) in cases {
        let ask = asked(run(command), command);
        let parts: Vec<(&str, bool)> = ask
            .parts
            .iter()
            .map(|part| (part.text.as_str(), part.reason.is_some()))
            .collect();
        assert_eq!(parts, *expected, "{command}");
    }
}

#[test]
fn a_remembered_command_is_the_very_same_one() {
    let key = |command: &str, cwd: Option<&str>| {
        asked(Policy::default().review(&execute(command, cwd)), command)
            .remember
            .unwrap()
    };
    let keys = [
        key("npm install", None),
        key("npm  install", None),
        key("npm install ", None),
        key("npm install", Some("web")),
        key("npm install", Some("api")),
        key("npm ci", Some("web")),
    ];
    for (index, one) in keys.iter().enumerate() {
        assert!(matches!(one, RememberKey::Command(text) if text.contains("npm")));
        assert!(
            keys.iter().skip(index + 1).all(|other| one != other),
            "{one:?}"
        );
    }
    assert_eq!(key("npm install", Some("web")), keys[3]);
    let text = serde_json::to_string(&keys[0]).unwrap();
    assert_eq!(serde_json::from_str::<RememberKey>(&text).unwrap(), keys[0]);
}

#[test]
fn dangerous_patterns_ask_on_the_raw_text() {
    for command in [
        "rm -rf x",
        "rm x -rf",
        "grep 'rm -rf' notes.txt",
        "RM -RF x",
        "echo sudo",
        "grep -rn SUDO src",
        "echo 'chmod'",
        "cat chown",
        "echo hi > /dev/tty",
        "echo '>/dev/sda'",
        "ls >/dev/null > /dev/sda",
        "ls | cat sh",
        "ls >/dev/null|cat sh",
        "cat x | SH",
    ] {
        let ask = asked(run(command), command);
        assert!(
            ask.reason.starts_with("Dangerous command: "),
            "{command}: {}",
            ask.reason
        );
    }
    for command in [
        "ls > /dev/null",
        "ls 2>/dev/null",
        "ls >/dev/null 2>&1; pwd",
        "ls | cat shell.txt",
        "echo pseudo",
    ] {
        assert_eq!(run(command), Verdict::Allow, "{command}");
    }
}

#[test]
fn more_than_fifty_parts_ask() {
    let line = |count: usize| vec!["ls"; count].join("; ");
    assert_eq!(run(&line(50)), Verdict::Allow);
    let ask = asked(run(&line(51)), "51 parts");
    assert!(ask.reason.contains("more than 50"), "{}", ask.reason);
    assert!(ask.parts.len() <= 51);
    let hidden = asked(
        run(&format!("{}; rm -rf build", line(60))),
        "one is dangerous",
    );
    let shown: Vec<&str> = hidden.parts.iter().map(|part| part.text.as_str()).collect();
    assert_eq!(shown.len(), 51);
    assert_eq!(shown[49..], ["rm -rf build", "…"], "it is never left out");
    asked(run(&format!("ls $({})", line(50))), "51 parts, nested");
}

#[test]
fn pathological_lines_ask_without_harm() {
    const MANY: usize = 100_000;
    let openers = [
        "(",
        "((",
        "$(",
        "`",
        "{ ",
        "${",
        "$((",
        "if ",
        "while ",
        "for x in ",
        "case a in a) ",
        "<(",
        "\"$(",
        "'",
        "\"",
        "! ",
        "<<a ",
        "time ",
        "[",
        "&& ",
        "\\",
        "\n",
        "{a,",
        "!",
        "[[ ",
    ];
    for opener in openers {
        for count in [1_000, MANY] {
            asked(run(&format!("rm {}", opener.repeat(count))), opener);
            asked(run(&format!("{}rm x", opener.repeat(count))), opener);
        }
    }
    for (open, close) in [
        ("(", ")"),
        ("$(", ")"),
        ("{ ", "; }"),
        ("if ", "; then ls; fi"),
        ("echo $(", ")"),
    ] {
        asked(
            run(&format!("{}ls{}", open.repeat(500), close.repeat(500))),
            open,
        );
    }
    let ask = asked(run(&"ls ".repeat(350_000)), "1 MB");
    assert_eq!(ask.remember, None);
    assert!(ask.parts[0].text.len() < 10_000);
}

#[test]
fn the_folder_of_a_command_counts() {
    let review = |command: &str, cwd: &str| Policy::default().review(&execute(command, Some(cwd)));
    assert_eq!(review("ls", "src"), Verdict::Allow);
    assert_eq!(review("cargo test", "crates/core"), Verdict::Allow);
    assert_eq!(review("git status", "."), Verdict::Allow);
    for (command, cwd) in [
        ("ls", "../other"),
        ("ls", "a/../../b"),
        ("git status", "sub"),
        ("ls", "a\u{202e}b"),
        ("touch x", "/etc"),
        ("make test", "/tmp/evil"),
    ] {
        asked(review(command, cwd), command);
    }
}

#[test]
fn a_policy_can_ask_for_more() {
    let policy = Policy::default().ask_for(r"\bcargo\s+test\b").unwrap();
    let ask = asked(policy.review(&execute("Cargo  TEST", None)), "added");
    assert!(
        ask.reason.starts_with("Dangerous command: matches"),
        "{}",
        ask.reason
    );
    assert_eq!(policy.review(&execute("cargo build", None)), Verdict::Allow);
    assert!(
        Policy::default()
            .ask_for("(")
            .unwrap_err()
            .to_string()
            .contains('(')
    );
}
