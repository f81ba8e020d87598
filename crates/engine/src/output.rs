//! What a step has decided so far. A part of the engine that is given only these can add to what
//! happens and to what people see, and can change nothing else.

use codelab_protocol::{CallId, TurnId, TurnStatus};

use crate::{Applied, CallerAnswer, Effect, EventBody, EventRecord};

/// The effects of a step, in their order.
#[derive(Debug, Default)]
pub(crate) struct Output {
    effects: Vec<Effect>,
    /// The state changed without an effect.
    changed: bool,
}

impl Output {
    pub fn push(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// For a change of the state that has no effect of its own.
    pub fn mark_changed(&mut self) {
        self.changed = true;
    }

    /// Whether this step has decided the approval already.
    pub fn closes_approval(&self, id: &CallId) -> bool {
        let closes = |effect: &Effect| matches!(effect, Effect::ApprovalClosed { call_id, .. } if call_id == id);
        self.effects.iter().any(closes)
    }

    /// Marks the last event as the one after which readers of the turn may stop.
    pub fn settle(&mut self, status: TurnStatus) {
        let last = self.effects.iter_mut().rev().find_map(Effect::as_event_mut);
        if let Some(event) = last {
            event.settled = Some(status);
        }
    }

    /// The same for the last event of this turn: the step can have shown events of other turns after
    /// it, such as a message that queues or a result that comes late.
    pub fn settle_turn(&mut self, turn: TurnId, status: TurnStatus) {
        let mut events = self
            .effects
            .iter_mut()
            .rev()
            .filter_map(Effect::as_event_mut);
        if let Some(event) = events.find(|event| event.turn == turn) {
            event.settled = Some(status);
        }
    }

    /// The last event of the turn is now the one after which its readers may stop, if another one
    /// was.
    pub fn settle_with_last(&mut self, turn: TurnId) {
        let mut events = self
            .effects
            .iter_mut()
            .rev()
            .filter_map(Effect::as_event_mut)
            .filter(|event| event.turn == turn);
        if let Some(last) = events.next() {
            last.settled = events.find_map(|event| event.settled.take());
        }
    }

    fn insert_event(&mut self, last_seq: u64, turn: TurnId, body: EventBody) {
        let mut place = self.effects.len();
        let mut seq = last_seq;
        let events = self.effects.iter_mut().enumerate();
        let events = events.filter_map(|(at, effect)| Some((at, effect.as_event_mut()?)));
        for (number, (at, event)) in events.enumerate() {
            if number == 0 && event.settled.is_none() {
                continue;
            }
            place = place.min(at);
            seq = seq.min(event.seq);
            event.seq += 1;
        }
        let record = EventRecord {
            seq,
            turn,
            body,
            settled: None,
        };
        self.effects.insert(place, Effect::Event(record));
    }

    pub fn finish(self, answer: CallerAnswer) -> Applied {
        let changed = self.changed || !self.effects.is_empty() || answer != CallerAnswer::Nothing;
        Applied {
            effects: self.effects,
            answer,
            changed,
        }
    }
}

/// The session's events. Their numbers have no gaps.
pub(crate) struct EventLog<'a> {
    pub last_seq: &'a mut u64,
    pub output: &'a mut Output,
}

impl EventLog<'_> {
    pub fn event(&mut self, turn: TurnId, body: impl Into<EventBody>) {
        *self.last_seq += 1;
        self.output.push(Effect::Event(EventRecord {
            seq: *self.last_seq,
            turn,
            body: body.into(),
            settled: None,
        }));
    }

    /// Puts an event behind the first one of the step, or before it if the turn ends with that. The
    /// later ones move up by one.
    pub fn second_event(&mut self, turn: TurnId, body: impl Into<EventBody>) {
        *self.last_seq += 1;
        self.output.insert_event(*self.last_seq, turn, body.into());
    }
}
