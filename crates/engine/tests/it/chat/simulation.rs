//! Thousands of lives of a small Chat, each step checked against what must always be so.

use std::collections::{BTreeMap, VecDeque};

use codelab_engine::{AskerId, Chat, ChatEffect, ChatInput, ChatLimits};
use codelab_protocol::GlobalRole;

use super::super::simulation::rng::Rng;
use super::handover::moved;
use super::{FIRST_ID, STARTED, agent, chat, question, user};

const LIMITS: ChatLimits = ChatLimits {
    history_messages: 8,
    history_bytes: 4000,
    askers: 3,
    backlog: 2,
};
const LIVES: u64 = 2000;
const STEPS: usize = 60;

/// What an observer who keeps everything knows.
#[derive(Default)]
struct Observer {
    pushed: i64,
    /// Asked, in order; the first is the one that is shown.
    waiting: VecDeque<AskerId>,
    asked: u64,
    asked_texts: BTreeMap<AskerId, String>,
    shown: BTreeMap<i64, AskerId>,
    to_do: VecDeque<String>,
    works: bool,
    works_on: String,
}

impl Observer {
    fn step(&mut self, chat: &mut Chat, rng: &mut Rng, step: usize) {
        let text = format!("text {step}");
        let whose = AskerId(1 + rng.below(self.asked as usize + 1) as u64);
        let input = match rng.below(9) {
            0 | 1 => user(&text),
            2 => user("  "),
            3 => agent("ci", &text, if rng.one_in(2) { &["signal"] } else { &[] }),
            4 => question(self.asked + 1, "asker", &text),
            5 => ChatInput::Expired(whose),
            6 => ChatInput::Withdrawn(whose),
            7 => return self.move_on(chat, rng),
            _ if self.works => ChatInput::Rested,
            _ => return,
        };
        let is_question = matches!(input, ChatInput::Question { .. });
        let (asked_user, rested) = (
            matches!(input, ChatInput::UserMessage { .. }),
            input == ChatInput::Rested,
        );
        let signal =
            matches!(&input, ChatInput::AgentMessage { meta, .. } if !meta.tags.is_empty());
        let pending = self.waiting.front().copied();
        let Ok(applied) = chat.apply(input, STARTED) else {
            return;
        };
        if is_question {
            self.asked += 1;
            self.asked_texts.insert(AskerId(self.asked), text);
            self.waiting.push_back(AskerId(self.asked));
        }
        if rested {
            self.works = false;
        }
        let mut answered = false;
        for effect in applied.effects {
            match effect {
                ChatEffect::Push(message) => {
                    assert_eq!(message.id.get(), FIRST_ID + self.pushed, "ids count up");
                    self.pushed += 1;
                    if message
                        .meta
                        .as_ref()
                        .is_some_and(|meta| meta.tags.iter().any(|tag| tag == "question"))
                    {
                        let next = self.waiting.front().copied().expect("somebody asks");
                        assert!(
                            self.shown.values().all(|shown| *shown != next),
                            "shown once"
                        );
                        self.shown.insert(message.id.get(), next);
                    }
                    let is_new = asked_user && pending.is_none()
                        || signal && message.role == GlobalRole::Agent;
                    let has_room = self.to_do.len() < LIMITS.backlog + usize::from(!self.works);
                    if is_new && has_room && message.role != GlobalRole::System {
                        self.to_do.push_back(message.text.clone());
                    }
                    if message.role == GlobalRole::User && pending.is_some() {
                        let question = message
                            .meta
                            .as_ref()
                            .and_then(|meta| meta.reply_to)
                            .expect("an answer");
                        assert_eq!(self.shown.get(&question.get()), pending.as_ref());
                        // The next question is shown within the same step.
                        self.waiting.pop_front();
                        answered = true;
                    }
                }
                ChatEffect::Answer { asker, .. } => assert!(answered && Some(asker) == pending),
                ChatEffect::Expire(asker) => {
                    let slot = self
                        .waiting
                        .iter()
                        .position(|waiting| *waiting == asker)
                        .expect("it waited");
                    self.waiting.remove(slot);
                }
                ChatEffect::Wake(message) => {
                    assert!(!self.works, "one at a time");
                    assert_eq!(
                        self.to_do.pop_front().as_ref(),
                        Some(&message.text),
                        "in order"
                    );
                    self.works = true;
                    self.works_on.clone_from(&message.text);
                }
            }
        }
        self.check(chat);
    }

    /// Another owner goes on. AdaptiveAgent works on the same message again, and askers that come
    /// back find their questions where they were.
    fn move_on(&mut self, chat: &mut Chat, rng: &mut Rng) {
        let (resumed, effects) = moved(chat, LIMITS);
        let woken: Vec<&str> = effects
            .iter()
            .map(|effect| match effect {
                ChatEffect::Wake(message) => message.text.as_str(),
                other => panic!("{other:?}"),
            })
            .collect();
        let expected = self.works.then_some(self.works_on.as_str());
        assert_eq!(woken, Vec::from_iter(expected));
        assert_eq!(
            Vec::from_iter(resumed.after(0)),
            Vec::from_iter(chat.after(0))
        );
        *chat = resumed;
        let mut back = Vec::from_iter(self.waiting.iter().copied());
        while !back.is_empty() {
            let asker = back.swap_remove(rng.below(back.len()));
            let again = question(asker.0, "asker", &self.asked_texts[&asker]);
            let applied = chat.apply(again, STARTED).unwrap();
            assert_eq!(applied.effects, [], "nothing is asked twice");
            let is_shown = self.waiting.front() == Some(&asker);
            assert_eq!(applied.posted.is_some(), is_shown);
        }
        assert_eq!(chat.next_expiry(), None, "every asker came back");
        self.check(chat);
    }

    fn check(&self, chat: &Chat) {
        assert_eq!(chat.askers(), self.waiting.len());
        assert_eq!(chat.backlog(), self.to_do.len());
        assert!(
            self.works || self.to_do.is_empty(),
            "nothing waits while AdaptiveAgent rests"
        );
        assert!(chat.len() <= LIMITS.history_messages && chat.askers() <= LIMITS.askers);
        assert!(chat.backlog() <= LIMITS.backlog);
        let shown = self
            .waiting
            .front()
            .is_none_or(|first| self.shown.values().any(|shown| shown == first));
        assert!(shown, "the first asker's question is shown");
    }
}

#[test]
fn every_asker_ends_once_and_every_message_is_worked_on_in_order() {
    for seed in 0..LIVES {
        let mut rng = Rng::new(seed);
        let mut chat = chat(LIMITS);
        let mut observer = Observer::default();
        for step in 0..STEPS {
            let lived = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                observer.step(&mut chat, &mut rng, step);
            }));
            if let Err(panic) = lived {
                eprintln!("seed {seed}, step {step}");
                std::panic::resume_unwind(panic);
            }
        }
    }
}
