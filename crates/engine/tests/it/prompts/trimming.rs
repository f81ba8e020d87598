//! What is left out when there is too much.

use codelab_engine::PromptLimits;
use codelab_protocol::{Message, ModelMessage};
use serde_json::json;

use super::{Case, assistant, calls, result, tokens, user};

fn limits(messages: usize, tokens: usize) -> PromptLimits {
    PromptLimits {
        messages,
        tokens,
        ..PromptLimits::default()
    }
}

fn numbered(count: usize, chars: usize) -> Vec<Message> {
    let content = |n: usize| format!("<{n}> {}", "слово ".repeat(chars / 6));
    (1..=count)
        .map(|n| {
            if n % 2 == 1 {
                user(&content(n))
            } else {
                assistant(&content(n))
            }
        })
        .collect()
}

/// The numbers of the messages in a text.
fn numbers(text: &str) -> Vec<usize> {
    let found = text
        .split('<')
        .skip(1)
        .filter_map(|part| part.split_once('>')?.0.parse().ok());
    found.collect()
}

#[test]
fn criterion_1_4_and_5_3_a_history_that_is_too_long_keeps_its_last_messages() {
    for (count, chars, bounds, as_messages, as_text) in [
        (4, 40, limits(10, 4000), 4, 4),
        (25, 40, limits(10, 4000), 10, 10),
        (25, 40, limits(3, 4000), 3, 3),
        (10, 3000, limits(10, 4000), 10, 10),
        // Besides the first request. Messages are cut down to three quarters of the bound; in a text
        // a line's time and role take room as well.
        (40, 3000, limits(40, 500), 6, 7),
        (5, 40, limits(0, 4000), 0, 0),
        (5, 40, limits(10, 0), 0, 0),
    ] {
        for (template, newest) in [("", as_messages), ("{{messageHistory}}", as_text)] {
            let case = Case {
                limits: bounds.clone(),
                ..Case::new(template, numbered(count, chars))
            };
            let sent = case.send();
            let past = if template.is_empty() {
                sent.earlier().join("\n")
            } else {
                sent.prompt
            };
            let first = (count == 40).then_some(1);
            let expected: Vec<usize> = first
                .into_iter()
                .chain(count - newest + 1..=count)
                .collect();
            assert_eq!(
                numbers(&past),
                expected,
                "{count} messages of {chars}, {template:?}"
            );
            assert_eq!(sent.report.messages_sent, expected.len());
            assert!(sent.report.tokens_sent <= bounds.tokens);
            assert!(template.is_empty() || expected.is_empty() || tokens(&past) <= bounds.tokens);
        }
    }
}

#[test]
fn criterion_4_1_the_last_and_the_important_messages_are_kept() {
    let filler = |n: usize| assistant(&format!("<{n}> {}", "filler ".repeat(100)));
    let earlier = vec![
        user("<1> the first request"),
        filler(2),
        calls(
            "<3>",
            &[(
                "c-1",
                "ask_followup_question",
                json!({"question": "which?"}),
            )],
        ),
        result("c-1", "ask_followup_question", "<4> the blue one"),
        filler(5),
        calls("<6>", &[("c-2", "write_file", json!({"path": "a"}))]),
        result(
            "c-2",
            "write_file",
            "A person rejected this call: <7> never there",
        ),
        filler(8),
        Message {
            error: true,
            ..assistant("<9> The model could not be reached")
        },
        calls(
            "<10>",
            &[("c-3", "execute_command", json!({"command": "make"}))],
        ),
        result(
            "c-3",
            "execute_command",
            "{\"success\":false,\"error\":\"<11> no rule\"}",
        ),
        filler(12),
        filler(13),
        assistant("<14> the last words"),
    ];
    let important = [1, 3, 4, 6, 7, 9, 10, 11, 14];
    // Messages are cut down to three quarters of the bound.
    for (template, tokens) in [("", 147), ("{{messageHistory}}", 225)] {
        let case = Case {
            limits: limits(20, tokens),
            ..Case::new(template, earlier.clone())
        };
        let sent = case.send();
        let past = if template.is_empty() {
            sent.earlier().join("\n")
        } else {
            sent.prompt
        };
        assert_eq!(numbers(&past), important, "{past}");
    }
}

#[test]
fn criterion_4_2_only_what_is_relevant_is_passed_on() {
    let mut earlier = vec![result(
        "c-0",
        "read_file",
        "a result whose call is not there any more",
    )];
    earlier.extend(numbered(3, 20));
    let sent = Case::new("", earlier).send();
    assert_eq!(sent.report.messages_found, 4);
    assert_eq!(numbers(&sent.earlier().join(" ")), [1, 2, 3]);
    assert!(!sent.earlier().join(" ").contains("not there any more"));
}

#[test]
fn criterion_4_3_long_messages_lose_their_middle() {
    let long = format!("The task: {}and then report.", "подробности ".repeat(4000));
    // Messages are cut down to three quarters of the bound.
    for (template, room) in [("", 3000), ("{{messageHistory}}", 4000)] {
        let sent = Case::new(template, vec![user(&long), assistant("Understood.")]).send();
        let past = if template.is_empty() {
            sent.earlier().join("\n")
        } else {
            sent.prompt
        };
        for part in [
            "The task: подробности",
            "characters left out …]",
            "подробности and then report.",
            "Understood.",
        ] {
            assert!(past.contains(part), "{part}");
        }
        let used = tokens(&past);
        assert!(used <= room + 8, "{used}");
        assert!(used > room - 100, "the room is used: {used}");
        assert_eq!(sent.report.messages_shortened, 1);
    }
}

#[test]
fn long_arguments_are_shortened_and_stay_arguments() {
    let file = "line\n".repeat(10_000);
    let earlier = vec![
        user("write it"),
        calls(
            "",
            &[(
                "c-1",
                "write_file",
                json!({"path": "a.txt", "content": file, "tags": ["x".repeat(9000)]}),
            )],
        ),
        result("c-1", "write_file", "written"),
        assistant("Done."),
    ];
    let sent = Case::new("", earlier).send();
    assert_eq!(sent.report.messages_sent, 4);
    assert!(sent.report.tokens_sent <= 4000 && sent.report.tokens_found > 4000);
    let arguments = sent
        .request
        .messages
        .iter()
        .find_map(|message| match message {
            ModelMessage::Assistant { tool_calls, .. } => {
                Some(tool_calls.first()?.arguments.clone())
            }
            _ => None,
        });
    let arguments = arguments.unwrap();
    assert_eq!(arguments["path"], "a.txt");
    assert!(
        arguments["content"]
            .as_str()
            .unwrap()
            .contains("characters left out"),
        "{arguments:?}"
    );
}

#[test]
fn criterion_4_4_four_characters_are_a_token() {
    // Two messages of 40 characters are 20 tokens, whatever the alphabet; what is that short is
    // kept or left out whole.
    for letter in ["a", "ж", "界", "🦀"] {
        for (bound, sent) in [(20, 2), (19, 1)] {
            let earlier = vec![user(&letter.repeat(40)), assistant(&letter.repeat(40))];
            let case = Case {
                limits: limits(10, bound),
                ..Case::new("", earlier)
            };
            let report = case.send().report;
            assert_eq!(
                (report.tokens_found, report.tokens_sent),
                (20, 10 * sent),
                "{letter} {bound}"
            );
        }
    }
}

/// A turn with a tool call, of about a twelfth of a thousand tokens.
fn turn(number: usize) -> Vec<Message> {
    let call = format!("c-{number}");
    let words = "word ".repeat(20);
    vec![
        user(&format!("<{number}> {words}")),
        calls("", &[(&call, "read_file", json!({"path": "a.md"}))]),
        result(&call, "read_file", &words),
        assistant(&words),
    ]
}

/// The server of a model reuses what it has read, as long as a request begins with the same bytes.
#[test]
fn turns_in_a_row_begin_alike_although_the_history_is_too_long() {
    let (mut earlier, mut before) = (Vec::new(), Vec::new());
    let (mut pairs, mut alike) = (0, 0);
    for number in 1..=24 {
        earlier.extend(turn(number));
        let case = Case {
            limits: limits(200, 1000),
            ..Case::new("", earlier.clone())
        };
        let (sent, again) = (case.send(), case.send());
        assert_eq!(sent.request, again.request);
        let past = sent.earlier();
        assert!(sent.report.tokens_sent <= 1000, "{:?}", sent.report);
        assert_eq!(numbers(&past.join(" ")).last(), Some(&number));
        // From here on the history does not fit.
        if number > 14 {
            assert!(sent.report.messages_sent < sent.report.messages_found);
            assert!(sent.report.tokens_sent > 600, "{:?}", sent.report);
            pairs += 1;
            alike += usize::from(past.starts_with(&before));
        }
        before = past;
    }
    assert_eq!(pairs, 10);
    assert!(alike >= 6, "{alike} of {pairs} pairs begin alike");
}

/// A turn's own messages take room from the history, but not a little with each step.
#[test]
fn steps_of_a_turn_begin_alike_where_the_window_decides() {
    let earlier: Vec<Message> = (1..=200).flat_map(turn).collect();
    let mut case = Case {
        limits: PromptLimits::by_window(),
        window: Some(9_000),
        ..Case::new("", earlier)
    };
    let first = case.send();
    assert!(first.report.messages_sent < first.report.messages_found);
    let past = first.request.messages[..first.request.messages.len() - 1].to_vec();
    for step in 1..4 {
        case.current.extend(turn(300 + step).split_off(1));
        let messages = case.send().request.messages;
        assert_eq!(messages[..past.len()], past, "step {step}");
    }
    case.current.push(assistant(&"word ".repeat(5000)));
    let sent = case.send().report.tokens_sent;
    assert!(
        sent < first.report.tokens_sent,
        "a long turn needs the room"
    );
}
