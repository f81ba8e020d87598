//! How Markdown looks in a terminal.

use super::*;

fn shown(text: &str, width: usize) -> String {
    lines(text, width)
        .iter()
        .map(|line| line.to_text() + "\n")
        .collect()
}

#[test]
fn markdown_is_shown_as_lines() {
    let text = "# Title\n\nA paragraph with **bold**, *italic*, `code` and ~~old~~ text that is longer than a row.\n\n\
                - one\n- two with more words than fit in a row\n  - inner\n    1. deep\n- [x] done\n- [ ] open\n\n\
                3. three\n4. four\n\n> quoted text that goes on\n>\n> - in a list\n\n```python\ndef f():\n\treturn 'a line that is longer than the screen is'\n```\n\n---\n\n\
                | file | what it holds | n |\n|:--|:-:|--:|\n| `a.py` | the parser and everything | 7 |\n| b | x | 1000 |\n\n\
                See [the page](https://example.org/x) and <https://example.org>.\n\n<b>html</b> ![pic](x.png)";
    insta::assert_snapshot!(shown(text, 40));
}

#[test]
fn styles_are_kept() {
    let line = &lines("a **b** `c` [d](e)", 80)[0];
    let found: Vec<(&str, Style)> = line
        .spans()
        .iter()
        .map(|span| (span.text(), span.style()))
        .collect();
    let link = Style {
        is_underlined: true,
        ..Style::PLAIN
    };
    let plain = Style::PLAIN;
    assert_eq!(
        found,
        [
            ("a ", plain),
            ("b", BOLD),
            (" ", plain),
            ("c", CODE),
            (" ", plain),
            ("d", link),
            (" (e)", DIM)
        ]
    );
}

#[test]
fn no_text_can_command_the_terminal_or_break_the_renderer() {
    let deep = format!("{}x", "> - ".repeat(500));
    let wide = format!("|{}\n|{}\n", "a|".repeat(200), "-|".repeat(200));
    for text in [
        "\u{1b}[2J",
        "`\u{1b}]52;c;x\u{7}`",
        "```\n\u{9b}1A\r\n```",
        "[a](\u{202e}b)",
        "",
        "\n\n",
        "-",
        &deep,
        &wide,
    ] {
        for width in [0, 1, 7, 80] {
            for line in lines(text, width) {
                assert!(
                    !line
                        .to_text()
                        .chars()
                        .any(|c| c.is_control() || c == '\u{202e}'),
                    "{text:?}: {line:?}"
                );
            }
        }
    }
}

#[test]
fn code_has_colours_where_its_language_is_known() {
    for (word, line, expected) in [
        ("diff", "-old", Style::colour(Colour::Red)),
        ("diff", "+new", Style::colour(Colour::Green)),
        ("rust", "let", Style::colour(Colour::Magenta)),
        ("", "let", CODE),
    ] {
        let text = format!("```{word}\n{line}\n```\n");
        let lines = lines(&text, 80);
        let span = lines[0].spans().last().unwrap();
        assert_eq!((span.text(), span.style()), (line, expected), "{word}");
    }
}
