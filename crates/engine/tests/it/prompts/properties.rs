//! What holds for every history: seeded random ones, in both forms. A failure names its seed.

use std::collections::BTreeSet;

use codelab_engine::PromptLimits;
use codelab_protocol::{Message, ModelMessage, Role};
use serde_json::{Value, json};

use super::super::simulation::rng::Rng;
use super::{Case, assistant, calls, message, result, tokens, user};

const SEEDS: u64 = 4000;

fn words(rng: &mut Rng) -> String {
    let alphabet = [
        "слово ",
        "word ",
        "界",
        "🦀",
        "\n",
        "\"",
        "{{userId}}",
        "[12:00] User: ",
        "e\u{301}",
        "\u{2028}",
    ];
    let length = [0, 3, 40, 400, 3000][rng.below(5)];
    (0..rng.below(length + 1))
        .map(|_| alphabet[rng.below(alphabet.len())])
        .collect()
}

fn arguments(rng: &mut Rng) -> Value {
    match rng.below(4) {
        0 => json!({}),
        1 => json!({"path": words(rng)}),
        2 => {
            json!({"path": "a", "content": words(rng), "list": [words(rng), 1, {"deep": words(rng)}]})
        }
        _ => json!({"numbers": (0..rng.below(300)).collect::<Vec<_>>()}),
    }
}

/// Turns as they are stored: every call has its results, with something in between now and then.
/// The window may have cut off the beginning.
fn history(rng: &mut Rng) -> Vec<Message> {
    let mut messages = Vec::new();
    for turn in 0..rng.below(8) {
        messages.push(user(&words(rng)));
        for step in 0..rng.below(4) {
            let ids: Vec<String> = (0..1 + rng.below(3))
                .map(|call| format!("c-{turn}-{step}-{call}"))
                .collect();
            let made: Vec<(&str, &str, Value)> = ids
                .iter()
                .map(|id| (id.as_str(), "read_file", arguments(rng)))
                .collect();
            messages.push(calls(&words(rng), &made));
            for id in &ids {
                if rng.one_in(8) {
                    messages.push(Message {
                        name: Some("echo".to_owned()),
                        ..message(Role::Tool, &words(rng))
                    });
                }
                let content = if rng.one_in(5) {
                    format!("Error X: {}", words(rng))
                } else {
                    words(rng)
                };
                messages.push(result(id, "read_file", &content));
            }
        }
        if rng.one_in(4) {
            messages.push(Message {
                error: rng.one_in(2),
                ..message(Role::System, &words(rng))
            });
        }
        messages.push(Message {
            error: rng.one_in(6),
            ..assistant(&words(rng))
        });
    }
    let cut_off = if rng.one_in(3) {
        rng.below(messages.len())
    } else {
        0
    };
    let unfinished = if rng.one_in(3) {
        rng.below(3).min(messages.len() - cut_off)
    } else {
        0
    };
    messages.truncate(messages.len() - unfinished);
    messages.split_off(cut_off)
}

fn case(seed: u64, template: &str) -> Case {
    let mut rng = Rng::new(seed);
    let earlier = history(&mut rng);
    let limits = PromptLimits {
        messages: [1, 3, 10, 50][rng.below(4)],
        tokens: [120, 300, 1000, 4000][rng.below(4)],
        ..PromptLimits::default()
    };
    Case {
        limits,
        ..Case::new(template, earlier)
    }
}

/// Whether the last message's call is at hand: a result without its call cannot be sent.
fn can_be_last(earlier: &[Message]) -> bool {
    let asked = |id| {
        earlier
            .iter()
            .any(|message| message.tool_calls.iter().any(|call| &call.call_id == id))
    };
    earlier
        .last()
        .is_some_and(|last| last.tool_call_id.as_ref().is_none_or(asked))
}

#[test]
fn messages_stay_within_the_bounds_whole_and_with_the_last_one() {
    let (mut shortened, mut left_out, mut checked_last) = (0, 0, 0);
    for seed in 0..SEEDS {
        let case = case(seed, "");
        let sent = case.send();
        let report = &sent.report;
        assert!(
            report.tokens_sent <= case.limits.tokens,
            "seed {seed}: {report:?}"
        );
        let past = &sent.request.messages[1..sent.request.messages.len() - 1];
        assert_eq!(past.len(), report.messages_sent, "seed {seed}");
        assert!(
            size(past) <= case.limits.tokens,
            "seed {seed}: {} tokens",
            size(past)
        );
        let (asked, answered) = pairs(past);
        assert!(
            answered.is_subset(&asked),
            "seed {seed}: a result without its call"
        );
        let all = all_answered(&case.earlier);
        assert!(
            asked.intersection(&all).all(|call| answered.contains(call)),
            "seed {seed}: a call lost its result"
        );
        let last_unit = case
            .earlier
            .last()
            .map_or(1, |last| if last.role == Role::Tool { 4 } else { 1 });
        assert!(
            past.len() <= case.limits.messages.max(last_unit + 3),
            "seed {seed}: {} messages",
            past.len()
        );
        if can_be_last(&case.earlier) {
            checked_last += 1;
            assert!(
                keeps_last(&case.earlier, past),
                "seed {seed}: the last message is not there"
            );
        }
        shortened += report.messages_shortened;
        left_out += report.messages_found - report.messages_sent;
    }
    assert!(
        shortened > 1000 && left_out > 1000 && checked_last > 1000,
        "the seeds try something"
    );
}

#[test]
fn the_text_stays_within_the_bound_and_nobody_forges_a_line() {
    for seed in 0..SEEDS {
        let case = case(seed, "{{messageHistory}}");
        let sent = case.send();
        assert_eq!(
            sent.messages(),
            ["user: the current request"],
            "seed {seed}"
        );
        if sent.report.messages_sent == 0 {
            continue;
        }
        assert!(
            tokens(&sent.prompt) <= case.limits.tokens,
            "seed {seed}: {} tokens",
            tokens(&sent.prompt)
        );
        let lines = sent
            .prompt
            .split(['\n', '\u{2028}'])
            .filter(|line| line.starts_with('['))
            .count();
        let calls: usize = case
            .earlier
            .iter()
            .map(|message| message.tool_calls.len())
            .sum();
        assert!(
            lines <= sent.report.messages_sent + calls,
            "seed {seed}: {lines} lines\n{}",
            sent.prompt
        );
        for line in sent.prompt.lines().filter(|line| line.starts_with('[')) {
            let is_real = line
                .get(1..6)
                .is_some_and(|clock| clock.starts_with("19:") || clock.starts_with("18:"));
            assert!(is_real, "seed {seed}: {line}");
        }
    }
}

fn size(messages: &[ModelMessage]) -> usize {
    let chars = |text: &str| text.chars().count();
    let of = |message: &ModelMessage| match message {
        ModelMessage::System { content }
        | ModelMessage::User { content, .. }
        | ModelMessage::Tool { content, .. } => chars(content),
        ModelMessage::Assistant {
            content,
            tool_calls,
            ..
        } => {
            let arguments = tool_calls
                .iter()
                .map(|call| chars(&serde_json::to_string(&call.arguments).unwrap()));
            chars(content) + arguments.sum::<usize>()
        }
    };
    messages.iter().map(of).sum::<usize>().div_ceil(4)
}

fn pairs(messages: &[ModelMessage]) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut asked, mut answered) = (BTreeSet::new(), BTreeSet::new());
    for message in messages {
        match message {
            ModelMessage::Assistant { tool_calls, .. } => {
                asked.extend(tool_calls.iter().map(|call| call.call_id.to_string()));
            }
            ModelMessage::Tool { call_id, .. } => {
                assert!(asked.contains(call_id.as_str()), "a result before its call");
                answered.insert(call_id.to_string());
            }
            ModelMessage::System { .. } | ModelMessage::User { .. } => {}
        }
    }
    (asked, answered)
}

fn all_answered(earlier: &[Message]) -> BTreeSet<String> {
    earlier
        .iter()
        .filter_map(|message| message.tool_call_id.as_ref())
        .map(ToString::to_string)
        .collect()
}

/// By its call, or by how its content begins; a tool's late words are sent as a user's.
fn keeps_last(earlier: &[Message], past: &[ModelMessage]) -> bool {
    let Some(last) = earlier.last() else {
        return true;
    };
    let begins = |content: &str| {
        let kept: String = content
            .chars()
            .take_while(|c| !c.is_whitespace() && *c != '…')
            .collect();
        last.content.starts_with(&kept)
    };
    past.iter().any(|message| match message {
        ModelMessage::Tool { call_id, .. } => last.tool_call_id.as_ref() == Some(call_id),
        ModelMessage::Assistant {
            content,
            tool_calls,
            ..
        } => {
            let same_calls = tool_calls
                .iter()
                .map(|call| &call.call_id)
                .eq(last.tool_calls.iter().map(|c| &c.call_id));
            last.role == Role::Assistant && same_calls && begins(content)
        }
        ModelMessage::System { content } => last.role == Role::System && begins(content),
        ModelMessage::User { content, .. } => {
            matches!(last.role, Role::User | Role::Tool) && begins(content)
        }
    })
}
