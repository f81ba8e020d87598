//! The command corpora, alone and inside every wrapper.

use codelab_policy::{Policy, Verdict};

use crate::{asked, execute, next, run};

const HOSTILE: &str = include_str!("../corpus/hostile.txt");
const HARMLESS: &str = include_str!("../corpus/harmless.txt");
const FRESH: &str = include_str!("../corpus/hostile-fresh.txt");
const EVERYDAY: &str = include_str!("../corpus/everyday.txt");

/// The workspace's root in the newer corpora.
const ROOT: &str = "/home/ann/src/shop";

/// The lines of a corpus with `{{hex}}` replaced by the character it names.
fn lines(corpus: &str) -> Vec<String> {
    corpus
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("##"))
        .map(unescaped)
        .collect()
}

fn unescaped(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("{{") {
        let (hex, tail) = after.split_once("}}").expect("an escape is closed");
        text.push_str(before);
        let code = u32::from_str_radix(hex, 16).expect("an escape is a hexadecimal number");
        text.push(char::from_u32(code).expect("an escape names a character"));
        rest = tail;
    }
    text + rest
}

/// The commands of the newer corpora: a line is one, or the JSON string of one.
fn commands(corpus: &str) -> impl Iterator<Item = (&str, String)> {
    let lines = corpus
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("# "));
    lines.map(|line| {
        let text = line.rsplit('\t').next().unwrap_or(line);
        let command = match text.strip_prefix("json:") {
            Some(json) => serde_json::from_str(json).expect("a JSON string"),
            None => text.to_owned(),
        };
        (line, command)
    })
}

#[test]
fn no_command_of_the_fresh_corpus_passes() {
    const WANTED: usize = 4_000;
    let hostile: Vec<(&str, String)> = commands(FRESH).collect();
    assert!(hostile.len() >= WANTED, "only {} commands", hostile.len());
    for policy in [Policy::default(), Policy::default().in_workspace(ROOT)] {
        let passes = |command: &str| policy.review(&execute(command, None)) == Verdict::Allow;
        let passed: Vec<&str> = hostile
            .iter()
            .filter(|(_, command)| passes(command))
            .map(|(line, _)| *line)
            .collect();
        assert!(passed.is_empty(), "passed unasked: {passed:#?}");
    }
}

#[test]
fn everyday_commands_pass_or_ask_as_people_expect() {
    let policy = Policy::default().in_workspace(ROOT);
    let mut seen = [0, 0];
    let mut wrong = Vec::new();
    for (line, command) in commands(EVERYDAY) {
        let verdict = policy.review(&execute(&command, None));
        match (line.split('\t').next(), &verdict) {
            (Some("pass"), Verdict::Allow) => seen[0] += 1,
            (Some("ask"), Verdict::Ask(_)) => seen[1] += 1,
            (Some("either"), _) => {}
            _ => wrong.push((line, verdict)),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(seen[0] >= 400 && seen[1] >= 150, "only {seen:?} commands");
}

#[test]
fn no_hostile_command_passes() {
    let hostile = lines(HOSTILE);
    assert!(hostile.len() >= 300);
    let passed: Vec<&String> = hostile
        .iter()
        .filter(|command| run(command) == Verdict::Allow)
        .collect();
    assert!(passed.is_empty(), "passed unasked: {passed:#?}");
}

/// Text that follows could complete these to something harmless, so each is tried alone.
#[test]
fn an_incomplete_command_asks() {
    for command in [
        "ls &&",
        "ls |",
        "ls)rm x",
        "\"ls",
        "'ls",
        "ls \\",
        "echo \"a\" 'b",
        "ls $(",
        "ls `pwd",
        "if true; then ls",
        "cat <<EOF",
    ] {
        asked(run(command), command);
    }
}

#[test]
fn every_everyday_command_passes() {
    let harmless = lines(HARMLESS);
    assert!(harmless.len() >= 80);
    let refused: Vec<(&String, Verdict)> = harmless
        .iter()
        .map(|command| (command, run(command)))
        .filter(|(_, v)| *v != Verdict::Allow)
        .collect();
    assert!(refused.is_empty(), "asked: {refused:#?}");
}

/// `@` stands for the wrapped command.
const WRAPPERS: &[&str] = &[
    "@; ls",
    "ls; @",
    "ls\n@",
    "@\nls",
    "ls && @",
    "@ && ls",
    "ls || @",
    "ls | @",
    "@ | cat",
    "ls & @",
    "(@)",
    "( ls; @ )",
    "{ @; }",
    "{ ls\n@\n}",
    "echo $(@)",
    "echo \"$(@)\"",
    "echo \"a $(ls; @) b\"",
    "echo `@`",
    "ls $(echo $(@))",
    "if true; then @; fi",
    "if @; then ls; fi",
    "if true\nthen ls\nelse\n@\nfi",
    "while @; do ls; done",
    "while true; do @; done",
    "until false; do\n@\ndone",
    "for f in a b; do @; done",
    "for f in $(@); do ls; done",
    "case a in a) @;; esac",
    "case a in\na)\n@\n;;\n*) ls;; esac",
    "! @",
    "time @",
    "timeout 5 @",
    "command @",
    "nice @",
    "bash <<EOF\n@\nEOF",
    "cat <<EOF\n$(@)\nEOF",
    "cat <<EOF\ntext\nEOF\n@",
    "cat <<'EOF' > out.txt\ntext\nEOF\n@\n",
    "ls > out.txt; @",
    "ls # comment\n@",
    "echo 'quoted'; @",
    "echo \"quoted\"\n@",
    "cd src && @",
    "diff a <(@)",
    "sh -c '@'",
];

#[test]
fn a_wrapped_hostile_command_still_asks() {
    const ROUNDS: usize = 20_000;
    let fresh = commands(FRESH)
        .filter(|(line, _)| !line.starts_with("json:"))
        .map(|(_, command)| command);
    let hostile: Vec<String> = lines(HOSTILE).into_iter().chain(fresh).collect();
    let policy = Policy::default();
    let mut seed = 20_240_817;
    for round in 0..ROUNDS {
        let mut command = hostile[next(&mut seed) % hostile.len()].clone();
        for _ in 0..=next(&mut seed) % 3 {
            let wrapper = WRAPPERS[next(&mut seed) % WRAPPERS.len()];
            // Backquotes nest only when they are escaped. Otherwise they would turn the command
            // into plain text.
            let inner = if wrapper.contains('`') {
                command.replace('`', "\\`")
            } else {
                command
            };
            command = wrapper.replace('@', &inner);
        }
        let verdict = policy.review(&execute(&command, None));
        asked(verdict, &format!("round {round}: {command}"));
    }
}

#[test]
fn a_wrapper_by_itself_is_not_what_asks() {
    let passing = WRAPPERS
        .iter()
        .map(|wrapper| wrapper.replace('@', "ls"))
        .filter(|command| run(command) == Verdict::Allow)
        .count();
    assert!(
        passing > WRAPPERS.len() * 3 / 4,
        "only {passing} of {} wrappers pass with ls",
        WRAPPERS.len()
    );
}
