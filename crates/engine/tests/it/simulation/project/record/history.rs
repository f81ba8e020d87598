//! The session's own history as the store has it: what rewinds take back and give back, and what a
//! fork copies.

use std::collections::BTreeSet;

use codelab_engine::{Applied, Effect, MessageRecord, RanCall, RewoundPart, Session};
use codelab_protocol::{CallId, MessageId, RewindId, Rewound, Role, Tool, TurnId};

use super::Record;

#[derive(Default)]
pub struct History {
    /// Without the threads of tasks, the oldest first.
    said: Vec<Stored>,
    calls: Vec<(CallId, TurnId, String)>,
    /// The call of the rewind that is under way.
    open: Option<CallId>,
    /// Rewinds that hide messages, the last one last.
    hiding: Vec<RewindId>,
    /// Every rewind that anybody was told of.
    rewinds: Vec<RewindId>,
    /// How many messages the present step hid, and how many it showed again.
    hidden: Option<usize>,
    shown: Option<usize>,
}

struct Stored {
    record: MessageRecord,
    rewound: Option<RewindId>,
}

impl History {
    pub fn step(&mut self) {
        (self.hidden, self.shown) = (None, None);
    }

    pub fn message(&mut self, record: &MessageRecord) {
        if record.task.is_none() {
            self.said.push(Stored {
                record: record.clone(),
                rewound: None,
            });
        }
    }

    pub fn called(&mut self, call_id: &CallId, turn: TurnId, tool: &str) {
        if tool == Tool::RewindFiles.as_str() {
            let before = self.open.replace(call_id.clone());
            assert_eq!(before, None, "two rewinds at once");
        }
        self.calls.push((call_id.clone(), turn, tool.to_owned()));
    }

    pub fn closed(&mut self, call_id: &CallId) {
        self.open.take_if(|open| open == call_id);
    }

    pub fn hide(&mut self, id: &RewindId, from: TurnId) {
        let mut hidden = 0;
        for stored in &mut self.said {
            if stored.record.turn >= from && stored.rewound.is_none() {
                stored.rewound = Some(id.clone());
                hidden += 1;
            }
        }
        let before = self.hidden.replace(hidden);
        assert_eq!(before, None, "one step takes back twice");
        self.hiding.push(id.clone());
    }

    pub fn show(&mut self, id: &RewindId) {
        assert_eq!(
            self.hiding.pop().as_ref(),
            Some(id),
            "messages come back in an order that never was"
        );
        let mut shown = 0;
        for stored in &mut self.said {
            if stored.rewound.as_ref() == Some(id) {
                stored.rewound = None;
                shown += 1;
            }
        }
        self.shown = Some(shown);
    }

    /// What people are told is what was done.
    pub fn told(&mut self, rewound: &Rewound) {
        let said = Some(rewound.messages as usize);
        let is_done = rewound.error.is_none() && rewound.scope.has_conversation();
        let (hidden, shown) = match (is_done, rewound.undone) {
            (false, _) => (None, None),
            (true, false) => (said, None),
            (true, true) => (None, said),
        };
        assert_eq!((self.hidden, self.shown), (hidden, shown), "{rewound:?}");
        self.rewinds.push(rewound.rewind_id.clone());
    }

    pub fn agrees(&self, session: &Session) {
        assert_eq!(session.open_rewind().is_some(), self.open.is_some());
        assert!(
            session.turn().is_none() || self.open.is_none(),
            "a turn runs while files go back"
        );
        if let Some(ended) = session.ended_turn() {
            let taken_back = self.said.iter().any(|stored| {
                stored.record.message.message_id == ended.message_id && stored.rewound.is_some()
            });
            assert!(!taken_back, "a turn that was taken back can be run again");
        }
    }

    /// The call of the rewind that is under way.
    pub fn open_rewind(&self) -> Option<CallId> {
        self.open.clone()
    }

    pub fn rewinds(&self) -> &[RewindId] {
        &self.rewinds
    }

    pub fn message_ids(&self) -> Vec<MessageId> {
        let ids = self.said.iter().map(|stored| &stored.record.message);
        ids.map(|message| message.message_id.clone()).collect()
    }

    /// What the store knows of the part from this message on.
    pub fn part(&self, id: &MessageId) -> Option<RewoundPart> {
        let mut all = self.said.iter();
        let found = all.find(|stored| stored.record.message.message_id == *id)?;
        let MessageRecord { turn, message, .. } = &found.record;
        let visible = || self.said.iter().filter(|stored| stored.rewound.is_none());
        let size = |stored: &Stored| stored.record.message.content.len() as u64;
        let taken = || visible().filter(|stored| stored.record.turn >= *turn);
        let kept = visible().filter(|stored| stored.record.turn < *turn);
        let calls = self.calls.iter().filter(|(_, of, _)| of >= turn);
        Some(RewoundPart {
            turn: *turn,
            ord: found.record.ord,
            role: message.role,
            is_within_turn: message.answers.is_some() || message.steered,
            is_rewound: found.rewound.is_some(),
            messages: taken().count() as u64,
            tokens: taken().map(size).sum::<u64>() / 4,
            kept_tokens: kept.map(size).sum::<u64>() / 4,
            calls: calls
                .map(|(call_id, _, tool)| RanCall {
                    call_id: call_id.clone(),
                    tool: tool.clone(),
                    did: Some("w".to_owned()),
                })
                .collect(),
        })
    }

    /// What is visible up to this message, with the results of its calls. Nothing if no session is
    /// forked there.
    pub fn until(&self, id: &MessageId) -> Option<Vec<MessageRecord>> {
        let visible = self.said.iter().filter(|stored| stored.rewound.is_none());
        let visible: Vec<&MessageRecord> = visible.map(|stored| &stored.record).collect();
        let place = visible.iter().position(|record| {
            let can_be_chosen = matches!(record.message.role, Role::User | Role::Assistant);
            record.message.message_id == *id && can_be_chosen
        })?;
        let (before, after) = visible.split_at(place + 1);
        let calls: BTreeSet<&CallId> = visible[place]
            .message
            .tool_calls
            .iter()
            .map(|call| &call.call_id)
            .collect();
        let results = after.iter().filter(|record| {
            let call = record.message.tool_call_id.as_ref();
            call.is_some_and(|call| calls.contains(call))
        });
        Some(before.iter().chain(results).copied().cloned().collect())
    }
}

impl Record {
    /// Of a session that was just forked with these messages.
    pub fn of_fork(copied: &[MessageRecord], applied: &Applied, session: &Session) -> Self {
        let mut record = Self::default();
        for effect in &applied.effects {
            match effect {
                Effect::Event(event) => {
                    record.last_seq += 1;
                    assert_eq!(event.seq, record.last_seq, "event numbers have a gap");
                }
                Effect::Message(message) => {
                    assert_eq!(message.ord, record.messages, "message numbers have a gap");
                    record.messages += 1;
                    record.history.message(message);
                }
                other => panic!("a fork does something: {other:?}"),
            }
        }
        let made: Vec<&MessageRecord> = record.history.said.iter().map(|it| &it.record).collect();
        for (made, copied) in made.iter().zip(copied) {
            let (made, copied) = (&made.message, &copied.message);
            assert_eq!((made.role, &made.content), (copied.role, &copied.content));
            assert_ne!(made.message_id, copied.message_id);
        }
        let calls = made.iter().flat_map(|record| &record.message.tool_calls);
        let calls: BTreeSet<&CallId> = calls.map(|call| &call.call_id).collect();
        let results = made
            .iter()
            .filter_map(|record| record.message.tool_call_id.as_ref());
        let results: Vec<&CallId> = results.collect();
        assert_eq!(results.len(), calls.len(), "a call has no result, or two");
        assert_eq!(results.into_iter().collect::<BTreeSet<_>>(), calls);
        assert!(session.is_idle() && session.waiting().is_empty());
        assert_eq!((session.queued(), session.steering()), (0, 0));
        assert_eq!(session.pending_approvals().count(), 0);
        assert_eq!(session.bound_client(), None);
        assert!(session.remembered_calls().is_empty() && session.ended_turn().is_none());
        record.after_fork(session);
        record
    }

    fn after_fork(&self, session: &Session) {
        assert_eq!(session.last_seq(), self.last_seq);
        assert_eq!(session.message_count(), self.messages);
        assert_eq!(session.spent().tokens, 0);
        self.history.agrees(session);
    }
}
