//! The global Chat: what it keeps, whom it wakes, whom it refuses.

mod handover;
mod simulation;

use codelab_engine::{
    ADAPTIVE_AGENT, AskerId, Chat, ChatApplied, ChatEffect, ChatInput, ChatLimits, IdBlock, Refusal,
};
use codelab_protocol::{ErrorCode, GlobalMessage, GlobalMeta, Timestamp, UserId};

const STARTED: Timestamp = Timestamp::from_millis(1_768_334_400_000);
const FIRST_ID: i64 = 1_768_334_400_000_001;

fn chat(limits: ChatLimits) -> Chat {
    let after = IdBlock::floor(STARTED);
    Chat::new(
        limits,
        IdBlock {
            after,
            until: after + 1_000_000,
        },
    )
}

fn tagged(tags: &[&str]) -> GlobalMeta {
    GlobalMeta {
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        ..GlobalMeta::default()
    }
}

fn agent(author: &str, text: &str, tags: &[&str]) -> ChatInput {
    ChatInput::AgentMessage {
        author: author.to_owned(),
        text: text.to_owned(),
        meta: tagged(tags),
    }
}

fn user(text: &str) -> ChatInput {
    ChatInput::UserMessage {
        text: text.to_owned(),
        user: UserId::new(7),
    }
}

fn question(asker: u64, author: &str, text: &str) -> ChatInput {
    ChatInput::Question {
        asker: AskerId(asker),
        author: author.to_owned(),
        text: text.to_owned(),
        meta: GlobalMeta::default(),
    }
}

fn take(chat: &mut Chat, input: ChatInput) -> ChatApplied {
    chat.apply(input, STARTED).unwrap()
}

fn refused(chat: &mut Chat, input: ChatInput) -> Refusal {
    let before = (chat.len(), chat.askers(), chat.backlog(), chat.last_id());
    let refusal = chat.apply(input, STARTED).unwrap_err();
    assert_eq!(
        (chat.len(), chat.askers(), chat.backlog(), chat.last_id()),
        before,
        "a refusal changes nothing"
    );
    refusal
}

/// `agent ci: built`, `user: yes ↩1 #tag`: ids are counted from the first.
fn line(message: &GlobalMessage) -> String {
    let meta = message.meta.clone().unwrap_or_default();
    let mut line = format!(
        "{} {}: {}",
        message.role.as_str(),
        message.author,
        message.text
    );
    if let Some(id) = meta.reply_to {
        line.push_str(&format!(" ↩{}", id.get() - FIRST_ID + 1));
    }
    meta.tags
        .iter()
        .for_each(|tag| line.push_str(&format!(" #{tag}")));
    line
}

fn lines(chat: &Chat) -> Vec<String> {
    chat.after(0).map(|message| line(message)).collect()
}

/// Everything but what is pushed.
fn done(applied: &ChatApplied) -> Vec<String> {
    let done = applied.effects.iter().filter_map(|effect| match effect {
        ChatEffect::Push(_) => None,
        ChatEffect::Answer { asker, answer } => {
            Some(format!("answer {}: {}", asker.0, answer.answer))
        }
        ChatEffect::Expire(asker) => Some(format!("expire {}", asker.0)),
        ChatEffect::Wake(message) => Some(format!("wake: {}", message.text)),
    });
    done.collect()
}

#[test]
fn an_agent_speaks_first_and_is_read_later() {
    let mut chat = chat(ChatLimits::default());
    let posted = take(&mut chat, agent("ci", "The build is green", &["build"]))
        .posted
        .unwrap();
    assert_eq!(posted.get(), FIRST_ID);
    assert_eq!(lines(&chat), ["agent ci: The build is green #build"]);
    assert_eq!(chat.after(0).count(), 1);
    assert_eq!(chat.after(FIRST_ID).count(), 0);
}

#[test]
fn an_answer_wakes_its_asker_alone() {
    let mut chat = chat(ChatLimits::default());
    take(&mut chat, question(1, "deploy", "Now?"));
    let waiting = take(&mut chat, question(2, "backup", "Where to?"));
    assert_eq!(waiting.posted, None, "one question at a time");
    assert_eq!(lines(&chat), ["agent deploy: Now? #question"]);
    let answered = take(&mut chat, user("  yes \n"));
    assert_eq!(done(&answered), ["answer 1: yes"]);
    assert_eq!(
        lines(&chat)[1..],
        ["user user: yes ↩1", "agent backup: Where to? #question"]
    );
    assert_eq!(
        done(&take(&mut chat, user("the moon"))),
        ["answer 2: the moon"]
    );
    assert_eq!(
        done(&take(&mut chat, user("hello"))),
        ["wake: hello"],
        "nobody asks any more"
    );
}

#[test]
fn whoever_stops_waiting_makes_room_for_the_next() {
    for (end, tag) in [
        (ChatInput::Expired as fn(AskerId) -> ChatInput, "expired"),
        (ChatInput::Withdrawn, "withdrawn"),
    ] {
        let mut chat = chat(ChatLimits::default());
        for (asker, author) in [(1, "a"), (2, "b"), (3, "c")] {
            take(&mut chat, question(asker, author, "?"));
        }
        assert_eq!(done(&take(&mut chat, end(AskerId(2)))), ["expire 2"]);
        assert_eq!(
            lines(&chat),
            ["agent a: ? #question"],
            "a question that was never shown leaves no trace"
        );
        assert_eq!(done(&take(&mut chat, end(AskerId(1)))), ["expire 1"]);
        let seen = lines(&chat);
        assert!(
            seen[1].starts_with("system ChatAgent: a ") && seen[1].ends_with(&format!("↩1 #{tag}")),
            "{seen:?}"
        );
        assert_eq!(seen[2], "agent c: ? #question");
        assert_eq!(
            done(&take(&mut chat, end(AskerId(1)))),
            [""; 0],
            "nobody waits twice"
        );
        assert_eq!(done(&take(&mut chat, user("yes"))), ["answer 3: yes"]);
    }
}

#[test]
fn adaptive_agent_works_on_one_thing_at_a_time_in_order() {
    let mut chat = chat(ChatLimits {
        backlog: 2,
        ..ChatLimits::default()
    });
    assert_eq!(done(&take(&mut chat, user("one"))), ["wake: one"]);
    assert_eq!(
        done(&take(&mut chat, agent("ci", "two", &["signal"]))),
        [""; 0]
    );
    take(&mut chat, user("three"));
    assert_eq!(refused(&mut chat, user("four")).code.as_str(), "QUEUE_FULL");
    // What an agent says is taken all the same, and that nobody works on it is said.
    let posted = take(&mut chat, agent("ci", "five", &["signal"])).posted;
    assert_eq!(posted.unwrap().get(), FIRST_ID + 3);
    assert!(lines(&chat)[4].ends_with("↩4 #busy"), "{:?}", lines(&chat));
    assert_eq!(done(&take(&mut chat, ChatInput::Rested)), ["wake: two"]);
    assert_eq!(done(&take(&mut chat, ChatInput::Rested)), ["wake: three"]);
    assert_eq!(done(&take(&mut chat, ChatInput::Rested)), [""; 0]);
    assert_eq!(done(&take(&mut chat, user("six"))), ["wake: six"]);
}

#[test]
fn only_a_signal_of_somebody_else_wakes_adaptive_agent() {
    let mut chat = chat(ChatLimits::default());
    let cases: &[(&str, &[&str], bool)] = &[
        ("ci", &[], false),
        ("ci", &["signals", "urgent"], false),
        (ADAPTIVE_AGENT, &["signal"], false),
        ("  AdaptiveAgent ", &["signal"], false),
        ("ci", &["urgent", "signal"], true),
    ];
    for (author, tags, wakes) in cases {
        let applied = take(&mut chat, agent(author, "news", tags));
        assert_eq!(
            done(&applied) == ["wake: news"],
            *wakes,
            "{author:?} {tags:?}"
        );
    }
    let said = ChatInput::SystemMessage {
        text: "news".to_owned(),
        meta: tagged(&["signal"]),
    };
    take(&mut chat, ChatInput::Rested);
    assert_eq!(done(&take(&mut chat, said)), [""; 0]);
}

#[test]
fn what_is_blank_or_too_large_is_no_event() {
    let mut chat = chat(ChatLimits {
        askers: 1,
        ..ChatLimits::default()
    });
    let long = "x".repeat(32 * 1024 + 1);
    let cases = [
        (user(""), "MISSING_REQUIRED_FIELD"),
        (user(" \n\t\u{a0}\u{2003}"), "MISSING_REQUIRED_FIELD"),
        (user(&long), "VALIDATION_ERROR"),
        (agent("ci", " ", &[]), "MISSING_REQUIRED_FIELD"),
        (agent("ci", &long, &[]), "VALIDATION_ERROR"),
        (agent(" ", "x", &[]), "MISSING_REQUIRED_FIELD"),
        (agent(&"a".repeat(65), "x", &[]), "VALIDATION_ERROR"),
        (agent("a\nb", "x", &[]), "VALIDATION_ERROR"),
        (agent("ci", "x", &[""]), "VALIDATION_ERROR"),
        (agent("ci", "x", &[&"t".repeat(65)]), "VALIDATION_ERROR"),
        (agent("ci", "x", &["t"; 17]), "VALIDATION_ERROR"),
        (question(1, "ci", "\n"), "MISSING_REQUIRED_FIELD"),
        (question(1, "", "?"), "MISSING_REQUIRED_FIELD"),
    ];
    for (input, code) in cases {
        assert_eq!(
            refused(&mut chat, input.clone()).code.as_str(),
            code,
            "{input:?}"
        );
    }
    take(&mut chat, question(1, "ci", "?"));
    assert_eq!(
        refused(&mut chat, question(2, "ci", "?")).code.as_str(),
        "QUEUE_FULL"
    );
}

#[test]
fn the_oldest_messages_leave() {
    let mut few = chat(ChatLimits {
        history_messages: 3,
        ..ChatLimits::default()
    });
    for text in ["one", "two", "three", "four"] {
        take(&mut few, agent("ci", text, &[]));
    }
    assert_eq!(
        lines(&few),
        ["agent ci: two", "agent ci: three", "agent ci: four"]
    );
    // A reader that was away for long gets what there is.
    assert_eq!(few.after(FIRST_ID - 10).count(), 3);
    assert_eq!(few.after(FIRST_ID + 1).count(), 2);
    let mut small = chat(ChatLimits {
        history_bytes: 3000,
        ..ChatLimits::default()
    });
    for _ in 0..10 {
        take(&mut small, agent("ci", &"x".repeat(1000), &[]));
    }
    assert_eq!(small.len(), 2);
}

#[test]
fn what_was_said_since_a_message_waited_is_known_when_its_turn_comes() {
    let mut chat = chat(ChatLimits::default());
    take(&mut chat, user("first"));
    let second = take(&mut chat, user("second")).posted.unwrap();
    take(&mut chat, user("third"));
    take(&mut chat, agent(ADAPTIVE_AGENT, "answer to the first", &[]));
    assert_eq!(done(&take(&mut chat, ChatInput::Rested)), ["wake: second"]);
    let known: Vec<&str> = chat
        .known_to(second)
        .map(|message| message.text.as_str())
        .collect();
    assert_eq!(
        known,
        ["answer to the first", "first"],
        "not itself, nor what is still to come"
    );
}

#[test]
fn ids_grow_through_reserved_blocks_and_wait_for_the_next_one() {
    let mut chat = Chat::new(
        ChatLimits::default(),
        IdBlock {
            after: 10,
            until: 1_012,
        },
    );
    let post = |chat: &mut Chat| take(chat, agent("ci", "built", &[])).posted.unwrap().get();
    assert_eq!((post(&mut chat), post(&mut chat)), (11, 12));
    // The last ones are for what the Chat itself has to say.
    assert_eq!(
        refused(&mut chat, agent("ci", "built", &[])).code,
        ErrorCode::DbWriteError
    );
    assert_eq!(
        refused(&mut chat, question(1, "ci", "Go on?")).code,
        ErrorCode::DbWriteError
    );
    let system = ChatInput::SystemMessage {
        text: "said".to_owned(),
        meta: GlobalMeta::default(),
    };
    assert_eq!(take(&mut chat, system).posted.unwrap().get(), 13);
    chat.add_ids(IdBlock {
        after: 5_000,
        until: 7_000,
    });
    let given: Vec<i64> = (0..1_500).map(|_| post(&mut chat)).collect();
    assert!(
        given.windows(2).all(|pair| pair[0] < pair[1]),
        "they only grow"
    );
    assert_eq!(
        (given[0], given[998], given[999]),
        (14, 1_012, 5_001),
        "another server may have the ones between"
    );
}
