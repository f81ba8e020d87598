//! The order that models insist on: the results of a message's tool calls come right after it.

use std::collections::BTreeSet;

use codelab_protocol::{CallId, Message};

/// Whatever came in between, a late result of an earlier call, stands after them.
pub(super) fn results_first<'a>(messages: impl Iterator<Item = &'a Message>) -> Vec<&'a Message> {
    let mut ordered = Vec::new();
    let mut held_back: Vec<&Message> = Vec::new();
    let mut awaited: BTreeSet<&CallId> = BTreeSet::new();
    for message in messages {
        let is_awaited = message
            .tool_call_id
            .as_ref()
            .is_some_and(|call_id| awaited.remove(call_id));
        if !is_awaited && !awaited.is_empty() {
            held_back.push(message);
            continue;
        }
        awaited.extend(message.tool_calls.iter().map(|call| &call.call_id));
        ordered.push(message);
        if awaited.is_empty() {
            ordered.append(&mut held_back);
        }
    }
    ordered.append(&mut held_back);
    ordered
}

#[cfg(test)]
mod tests {
    use codelab_protocol::{MessageId, Role, Timestamp, ToolCall};

    use super::*;

    /// `A+1+2` asks for the calls 1 and 2, `T=1` is the result of 1, anything else a message.
    fn message(text: &str) -> Message {
        let call = |id: &str| CallId::parse(&format!("call-{id}")).unwrap();
        let tool_calls = text.split('+').skip(1).map(|id| ToolCall {
            call_id: call(id),
            name: "read_file".to_owned(),
            arguments: Default::default(),
        });
        let role = if text.starts_with('A') {
            Role::Assistant
        } else {
            Role::Tool
        };
        let id = MessageId::parse("m").unwrap();
        Message {
            tool_calls: tool_calls.collect(),
            tool_call_id: text.strip_prefix("T=").map(call),
            ..Message::new(id, role, text.to_owned(), Timestamp::from_millis(0))
        }
    }

    #[test]
    fn nothing_stands_between_a_call_and_its_result() {
        let cases = [
            ("U A+1 T=1 A", "U A+1 T=1 A"),
            ("A+1 late T=1 A", "A+1 T=1 late A"),
            ("A+1+2 T=2 late T=1 A+3 T=3", "A+1+2 T=2 T=1 late A+3 T=3"),
            ("A+1 late", "A+1 late"),
            ("A+1 late other T=1", "A+1 T=1 late other"),
        ];
        for (given, expected) in cases {
            let messages: Vec<Message> = given.split(' ').map(message).collect();
            let ordered: Vec<&str> = results_first(messages.iter())
                .iter()
                .map(|m| m.content.as_str())
                .collect();
            assert_eq!(ordered.join(" "), expected);
        }
    }
}
