//! The Chat at its next owner.

use codelab_engine::{
    ADAPTIVE_AGENT, AskerId, Chat, ChatApplied, ChatEffect, ChatHandover, ChatInput, ChatLimits,
    DEFAULT_ANSWER_SECONDS, IdBlock,
};
use codelab_protocol::{GlobalMessageId, GlobalMeta, Timestamp};
use serde_json::{Value, json};

use super::{FIRST_ID, STARTED, agent, chat, done, lines, question, refused, take, user};

/// The Chat as the next owner has it, through the stored form.
pub(super) fn moved(chat: &Chat, limits: ChatLimits) -> (Chat, Vec<ChatEffect>) {
    let after = chat.last_id();
    let block = IdBlock {
        after,
        until: after + 1_000_000,
    };
    Chat::resume(limits, block, stored(&chat.hand_over()), STARTED)
}

fn stored(handover: &ChatHandover) -> ChatHandover {
    serde_json::from_str(&serde_json::to_string(handover).unwrap()).unwrap()
}

fn resumed(chat: &Chat) -> Chat {
    let (chat, effects) = moved(chat, ChatLimits::default());
    assert_eq!(effects, []);
    chat
}

fn at(chat: &mut Chat, input: ChatInput, seconds: u64) -> ChatApplied {
    chat.apply(input, STARTED.plus_seconds(seconds)).unwrap()
}

fn about(message: GlobalMessageId, asker: u64, text: &str) -> ChatInput {
    ChatInput::Question {
        asker: AskerId(asker),
        author: ADAPTIVE_AGENT.to_owned(),
        text: text.to_owned(),
        meta: GlobalMeta {
            reply_to: Some(message),
            ..GlobalMeta::default()
        },
    }
}

#[test]
fn everything_goes_along_and_ids_grow() {
    let mut old = chat(ChatLimits::default());
    take(&mut old, agent("ci", "The build is green", &["build"]));
    take(&mut old, user("one"));
    take(&mut old, agent("ci", "two", &["signal"]));
    take(&mut old, question(1, "deploy", "Now?"));
    take(&mut old, question(2, "backup", "Where to?"));
    let (before, last) = (lines(&old), old.last_id());

    let block = IdBlock {
        after: last + 5_000,
        until: last + 9_000,
    };
    let handover = stored(&old.hand_over());
    let (mut new, effects) = Chat::resume(ChatLimits::default(), block, handover, STARTED);
    assert!(
        matches!(effects.as_slice(), [ChatEffect::Wake(message)] if message.text == "one"),
        "what AdaptiveAgent worked on is worked on again: {effects:?}"
    );
    assert_eq!(lines(&new), before);
    assert_eq!((new.askers(), new.backlog()), (2, 1));
    assert_eq!(
        new.after(last).count(),
        0,
        "a reader goes on after its last message"
    );
    assert_eq!(done(&take(&mut new, ChatInput::Rested)), ["wake: two"]);
    assert_eq!(done(&take(&mut new, ChatInput::Rested)), [""; 0]);
    let answered = take(&mut new, user("yes"));
    assert_eq!(answered.posted.unwrap().get(), last + 5_001);
    assert_eq!(
        lines(&new)[before.len() + 1],
        "agent backup: Where to? #question"
    );
}

#[test]
fn an_asker_that_comes_back_finds_its_question() {
    let mut old = chat(ChatLimits::default());
    take(&mut old, question(1, "deploy", "Now?"));
    take(&mut old, question(2, "backup", "Where to?"));
    take(&mut old, question(3, "backup", "When?"));
    let mut new = resumed(&old);
    let before = lines(&new);

    assert_eq!(take(&mut new, question(7, "backup", "When?")).posted, None);
    let shown = take(&mut new, question(8, " deploy ", "Now?"));
    assert_eq!(shown.posted.unwrap().get(), FIRST_ID);
    assert_eq!((lines(&new), new.askers()), (before, 3), "asked once");
    // Somebody else asks the same, and the first asker asks twice.
    take(&mut new, question(9, "other", "Now?"));
    take(&mut new, question(10, "deploy", "Now?"));
    assert_eq!(new.askers(), 5);

    assert_eq!(done(&take(&mut new, user("yes"))), ["answer 8: yes"]);
    // Nobody has come back for this one yet.
    assert_eq!(done(&take(&mut new, user("the moon"))), [""; 0]);
    let late = take(&mut new, question(11, "backup", "Where to?"));
    assert_eq!(done(&late), ["answer 11: the moon"]);
    assert!(late.posted.is_some());
    assert_eq!(
        done(&take(&mut new, user("at night"))),
        ["answer 7: at night"]
    );
    // An answer is given once.
    take(&mut new, question(12, "backup", "Where to?"));
    assert_eq!(new.askers(), 3);
}

#[test]
fn an_answer_that_nobody_fetched_goes_along_too() {
    let mut first = chat(ChatLimits::default());
    take(&mut first, question(1, "deploy", "Now?"));
    let mut second = resumed(&first);
    take(&mut second, user("yes"));
    let mut third = resumed(&second);
    let back = take(&mut third, question(5, "deploy", "Now?"));
    assert_eq!(done(&back), ["answer 5: yes"]);
}

#[test]
fn a_full_chat_still_takes_back_its_askers() {
    let limits = ChatLimits {
        askers: 2,
        ..ChatLimits::default()
    };
    let mut old = chat(limits);
    take(&mut old, question(1, "a", "?"));
    take(&mut old, question(2, "b", "?"));
    let (mut new, _) = moved(&old, limits);
    assert_eq!(
        refused(&mut new, question(3, "c", "?")).code.as_str(),
        "QUEUE_FULL"
    );
    take(&mut new, question(4, "b", "?"));
    take(&mut new, question(5, "a", "?"));
    assert_eq!(done(&take(&mut new, user("yes"))), ["answer 5: yes"]);
}

#[test]
fn orphans_end_when_their_askers_stay_away() {
    let mut first = chat(ChatLimits::default());
    for (asker, author) in [(1, "a"), (2, "b"), (3, "c"), (4, "d")] {
        take(&mut first, question(asker, author, "?"));
    }
    let mut second = resumed(&first);
    let due = STARTED.plus_seconds(DEFAULT_ANSWER_SECONDS);
    assert_eq!(second.next_expiry(), Some(due));
    at(&mut second, question(8, "c", "?"), 1);
    at(&mut second, user("to a"), 2);

    // Another move does not prolong the wait of those who were away already.
    let (mut third, _) = Chat::resume(
        ChatLimits::default(),
        IdBlock {
            after: second.last_id(),
            until: second.last_id() + 10_000,
        },
        stored(&second.hand_over()),
        STARTED.plus_seconds(100),
    );
    assert_eq!(third.next_expiry(), Some(due));
    let seen = third.len();
    at(&mut third, ChatInput::ExpiryDue, 299);
    assert_eq!((third.len(), third.askers()), (seen, 3), "not yet");
    at(&mut third, ChatInput::ExpiryDue, 300);
    assert_eq!(third.askers(), 1, "b and d have left, c came back once");
    let said = lines(&third);
    assert!(
        said[seen].starts_with("system ChatAgent: b ") && said[seen].ends_with("#expired"),
        "{said:?}"
    );
    assert_eq!(said[seen + 1], "agent c: ? #question");
    assert_eq!(
        third.next_expiry(),
        Some(STARTED.plus_seconds(100 + DEFAULT_ANSWER_SECONDS))
    );
    let late = at(&mut third, question(9, "a", "?"), 301);
    assert_eq!((done(&late), late.posted), (vec![], None), "asked anew");
}

#[test]
fn adaptive_agent_that_works_again_needs_no_question_of_before() {
    let asks = || {
        let mut old = chat(ChatLimits::default());
        let woken_by = take(&mut old, user("Deploy it")).posted.unwrap();
        take(&mut old, about(woken_by, 1, "Where to?"));
        take(&mut old, question(2, "backup", "Now?"));
        (moved(&old, ChatLimits::default()).0, woken_by)
    };
    let (mut same, woken_by) = asks();
    take(&mut same, about(woken_by, 5, "Where to?"));
    assert_eq!(done(&take(&mut same, user("prod"))), ["answer 5: prod"]);

    let (mut other, woken_by) = asks();
    take(&mut other, about(woken_by, 5, "To which server?"));
    let said = lines(&other);
    assert!(said[2].ends_with("↩2 #withdrawn"), "{said:?}");
    assert_eq!(said[3], "agent backup: Now? #question");
    assert_eq!(other.askers(), 2);

    let (mut none, _) = asks();
    take(&mut none, ChatInput::Rested);
    assert_eq!(none.askers(), 1);
    assert_eq!(lines(&none)[3], "agent backup: Now? #question");
}

#[test]
fn a_handover_is_shortened_by_its_oldest_messages() {
    let mut old = chat(ChatLimits::default());
    for n in 0..20 {
        // Each of these bytes takes six in JSON.
        take(
            &mut old,
            agent("ci", &format!("{n}{}", "\u{1}".repeat(100)), &[]),
        );
    }
    take(&mut old, user("one"));
    for n in 0..10 {
        take(
            &mut old,
            question(n, "asker", &format!("{n}{}", "x".repeat(100))),
        );
    }
    let whole = old.hand_over();
    let bytes = |handover: &ChatHandover| serde_json::to_vec(handover).unwrap().len();
    let parts = |handover: &ChatHandover| {
        let value: Value = serde_json::to_value(handover).unwrap();
        ["history", "queued", "waiting"].map(|part| value[part].as_array().unwrap().len())
    };
    let shortened = |max| {
        let mut handover = whole.clone();
        handover.shorten(max);
        assert!(bytes(&handover) <= max, "{max}");
        handover
    };
    assert_eq!(shortened(bytes(&whole)), whole);
    for max in [bytes(&whole) - 1, 10_000, 5_000] {
        let handover = shortened(max);
        let [history, queued, waiting] = parts(&handover);
        assert!((1..22).contains(&history), "{history}");
        assert_eq!((queued, waiting), (9, 1));
        // The newest message that left would not have fitted.
        assert!(max - bytes(&handover) < 800, "{max}");
    }
    let [history, queued, waiting] = parts(&shortened(1_000));
    assert_eq!((history, waiting), (0, 1));
    assert!(queued < 9);
}

#[test]
fn a_handover_of_another_release_is_understood() {
    let empty: ChatHandover = serde_json::from_value(json!({})).unwrap();
    assert_eq!(empty, ChatHandover::default());
    let written = json!({
        "history": [
            { "id": 11, "ts": "2026-01-13T20:00:00.000Z", "role": "user", "author": "user", "text": "Deploy it" },
            { "id": 12, "ts": "2026-01-13T20:00:00.000Z", "role": "agent", "author": "deploy", "text": "Now?",
              "meta": { "tags": ["question"] } },
        ],
        "shown": { "question_id": 12, "author": "deploy", "text": "Now?", "meta": {} },
        "queued": [{ "author": "backup", "text": "Where to?", "meta": {}, "expires_at": "2026-01-13T20:00:10.000Z" }],
        "answered": [{
            "author": "ci", "text": "Again?", "answer": { "question_id": 9, "answer": "no" },
            "expires_at": "2026-01-13T20:00:10.000Z",
        }],
        "waiting": [
            { "id": 11, "ts": "2026-01-13T20:00:00.000Z", "role": "user", "author": "user", "text": "Deploy it" },
        ],
    });
    let handover: ChatHandover = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(
        serde_json::to_value(&handover).unwrap(),
        written,
        "stored names never change"
    );
    let mut newer = written;
    newer["something_new"] = json!(1);
    assert_eq!(
        serde_json::from_value::<ChatHandover>(newer).unwrap(),
        handover
    );
}

#[test]
fn limits_of_the_new_owner_hold() {
    let mut old = chat(ChatLimits::default());
    for text in ["one", "two", "three", "four"] {
        take(&mut old, user(text));
    }
    for asker in 0..4 {
        take(&mut old, question(asker, "asker", &format!("{asker}?")));
    }
    let limits = ChatLimits {
        history_messages: 3,
        askers: 2,
        backlog: 1,
        ..ChatLimits::default()
    };
    let (new, effects) = moved(&old, limits);
    assert_eq!((new.len(), new.askers(), new.backlog()), (3, 2, 1));
    let busy = effects
        .iter()
        .filter(|effect| matches!(effect, ChatEffect::Push(_)));
    assert_eq!(busy.count(), 2, "who is not worked on is told so");
}

#[test]
fn a_block_from_before_is_not_used() {
    let block = |after| IdBlock {
        after,
        until: after + 2_000,
    };
    let mut chat = Chat::new(ChatLimits::default(), block(10_000));
    chat.add_ids(block(5_000));
    assert_eq!(chat.ids_left(), 2_000);
    chat.add_ids(block(12_000));
    assert_eq!(chat.ids_left(), 4_000);
    // Not even if the counter in the database were lost.
    let history = json!({ "history": [
        { "id": 50_000, "ts": Timestamp::from_millis(0), "role": "agent", "author": "ci", "text": "built" },
    ] });
    let handover = serde_json::from_value(history).unwrap();
    let (mut chat, _) = Chat::resume(ChatLimits::default(), block(10_000), handover, STARTED);
    refused(&mut chat, agent("ci", "built", &[]));
    assert_eq!(chat.last_id(), 50_000);
}
