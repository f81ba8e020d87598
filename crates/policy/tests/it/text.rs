//! Nothing shown to a person hides anything.

use codelab_policy::visible;

use crate::{asked, run, write};
use codelab_policy::Policy;

#[test]
fn hidden_characters_are_shown() {
    for (text, shown) in [
        ("plain text", "plain text"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("привіт, світ — ok ✓", "привіт, світ — ok ✓"),
        ("e\u{301}", "e\u{301}"),
        ("a\u{202e}b", "a\\u{202e}b"),
        ("a\u{2066}b\u{2069}", "a\\u{2066}b\\u{2069}"),
        ("a\u{200b}b", "a\\u{200b}b"),
        ("a\u{feff}b", "a\\u{feff}b"),
        ("a\rb", "a\\u{d}b"),
        ("a\0b", "a\\u{0}b"),
        ("\u{1b}[2J", "\\u{1b}[2J"),
        ("a\u{85}b", "a\\u{85}b"),
        ("a\u{a0}b", "a\\u{a0}b"),
        ("a\u{2028}b", "a\\u{2028}b"),
        ("a\u{3000}b", "a\\u{3000}b"),
        ("a\u{3164}b", "a\\u{3164}b"),
        ("a\u{e0041}b", "a\\u{e0041}b"),
        ("a\u{fe0f}b", "a\\u{fe0f}b"),
        ("a\u{e000}b", "a\\u{e000}b"),
        ("a\u{10ffff}b", "a\\u{10ffff}b"),
    ] {
        assert_eq!(visible(text), shown);
    }
}

#[test]
fn a_question_shows_what_would_run() {
    let command = "ls \u{202e}txt.exe\r\nrm x";
    let ask = asked(run(command), command);
    assert_eq!(ask.parts[0].text, "ls \\u{202e}txt.exe\\u{d}\nrm x");
    assert_eq!(ask.remember, None);
    let path = "a\u{202e}sr.niam";
    let ask = asked(Policy::default().review(&write(path)), path);
    assert!(ask.reason.contains("a\\u{202e}sr.niam"), "{}", ask.reason);
}
