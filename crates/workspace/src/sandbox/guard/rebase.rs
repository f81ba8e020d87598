//! The list of a rebase that waits to go on. Git runs the programs that it names when somebody
//! continues.

use std::collections::BTreeSet;
use std::path::Path;

use super::find::Kept;

/// In a git folder.
pub(super) const REBASE_LIST: &str = "rebase-merge/git-rebase-todo";

pub(super) fn is_rebase_list(path: &Path) -> bool {
    path.ends_with(REBASE_LIST)
}

/// Without the lines that run programs and that `before` did not have; nothing where there are none
/// of these.
pub(super) fn without_programs(now: &Kept, before: Option<&Kept>) -> Option<Kept> {
    let known: BTreeSet<&[u8]> = match before {
        Some(Kept::File {
            content: Some(content),
            ..
        }) => lines(content).filter(|line| runs(line)).collect(),
        _ => BTreeSet::new(),
    };
    let Kept::File {
        content: Some(content),
        mode,
        ..
    } = now
    else {
        return Some(Kept::written(Vec::new(), 0o644));
    };
    let is_fresh = |line: &&[u8]| runs(line) && !known.contains(line);
    if !lines(content).any(|line| is_fresh(&line)) {
        return None;
    }
    let rest: Vec<&[u8]> = lines(content).filter(|line| !is_fresh(line)).collect();
    Some(Kept::written(rest.concat(), *mode))
}

fn lines(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    content.split_inclusive(|byte| *byte == b'\n')
}

fn runs(line: &[u8]) -> bool {
    let word = line
        .trim_ascii()
        .split(u8::is_ascii_whitespace)
        .next()
        .unwrap_or_default();
    matches!(word, b"exec" | b"x")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_new_lines_that_run_programs_are_taken_out() {
        let list = |text: &str| Kept::written(text.as_bytes().to_vec(), 0o644);
        let before = list("pick 1 a\nexec make test\n");
        for (now, expected) in [
            ("pick 1 a\nexec make test\n", None),
            ("exec make test\n", None),
            ("pick 1 exec\n", None),
            (
                "exec evil\npick 1 a\nexec make test\n",
                Some("pick 1 a\nexec make test\n"),
            ),
            ("pick 1 a\n  x\tevil", Some("pick 1 a\n")),
        ] {
            assert_eq!(
                without_programs(&list(now), Some(&before)),
                expected.map(list),
                "{now}"
            );
        }
        assert_eq!(
            without_programs(&Kept::Link("x".into()), None),
            Some(list(""))
        );
    }
}
