//! What the clients of one session sent, what of it was acknowledged, and what they were shown.

mod calls;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

use codelab_client::ClientError;
use codelab_protocol::{AgentName, CallId, Chunk, ChunkBody, ErrorCode, SessionId};

pub use self::calls::{Call, Choice, result_of};
use crate::workload::plan::Plan;

/// Everything is numbered by one clock, so that "sent after that was acknowledged" can be told.
#[derive(Debug, Clone)]
pub struct Ledger {
    pub session: SessionId,
    pub messages: Vec<Sent>,
    pub cancels: Vec<Cancel>,
    pub switches: Vec<Switch>,
    /// Client tool calls, as the events show them.
    pub calls: BTreeMap<CallId, Call>,
    /// Every stored event that any reader saw.
    pub events: BTreeMap<u64, Chunk>,
    /// What contradicted a promise while it happened.
    pub violations: Vec<String>,
    /// Errors after which a client sent its request again, by kind.
    pub trouble: BTreeMap<String, u64>,
    /// Streams of all events that ended or broke before their reader went: when, and why.
    pub cuts: Vec<(Instant, String)>,
    /// Readers can be cut off for longer, so that an event can be seen after a cancel that came
    /// after it.
    pub readers_lag: bool,
    clock: u64,
    people: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Sent, and never answered.
    Unknown,
    Taken {
        at: u64,
    },
    Refused,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    pub started: u64,
    pub outcome: Outcome,
}

/// What a request came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    Taken,
    Refused(u16, Option<ErrorCode>),
    /// The connection broke; it may have been taken.
    Lost,
}

#[derive(Debug, Clone)]
pub struct Sent {
    pub plan: Plan,
    pub attempts: Vec<Attempt>,
    /// Never sent again, so that it stays unknown whether it was taken.
    pub is_abandoned: bool,
}

#[derive(Debug, Clone)]
pub struct Cancel {
    pub drops_queue: bool,
    pub attempt: Attempt,
    /// The acknowledgement said that there was a turn to cancel.
    pub had_turn: bool,
}

#[derive(Debug, Clone)]
pub struct Switch {
    pub agent: AgentName,
    pub attempt: Attempt,
}

/// What the turn waits for, as far as the last event tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Open {
    Approval(CallId),
    Result(CallId),
    Question,
}

impl Sent {
    /// Acknowledged if any attempt was; refused only if every attempt was.
    pub fn outcome(&self) -> Outcome {
        combined(self.attempts.iter())
    }

    pub fn first_sent(&self) -> u64 {
        self.attempts
            .iter()
            .map(|attempt| attempt.started)
            .min()
            .unwrap_or(u64::MAX)
    }
}

pub fn combined<'a>(attempts: impl Iterator<Item = &'a Attempt> + Clone) -> Outcome {
    let taken = attempts
        .clone()
        .filter_map(|attempt| match attempt.outcome {
            Outcome::Taken { at } => Some(at),
            _ => None,
        });
    match taken.min() {
        Some(at) => Outcome::Taken { at },
        None if attempts
            .clone()
            .any(|attempt| attempt.outcome == Outcome::Unknown) =>
        {
            Outcome::Unknown
        }
        None => Outcome::Refused,
    }
}

impl Outcome {
    pub fn is_taken(self) -> bool {
        matches!(self, Self::Taken { .. })
    }

    /// Whether it may have had an effect.
    pub fn is_possible(self) -> bool {
        self != Self::Refused
    }
}

impl Ledger {
    pub fn new(session: SessionId) -> Self {
        Self {
            session,
            messages: Vec::new(),
            cancels: Vec::new(),
            switches: Vec::new(),
            calls: BTreeMap::new(),
            events: BTreeMap::new(),
            violations: Vec::new(),
            trouble: BTreeMap::new(),
            cuts: Vec::new(),
            readers_lag: false,
            clock: 0,
            people: 0,
        }
    }

    pub fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// A number for one person's one attempt, which the audit log will name.
    pub fn new_person(&mut self) -> i64 {
        self.people += 1;
        self.people
    }

    pub fn violate(&mut self, what: impl fmt::Display) {
        self.violations.push(what.to_string());
    }

    pub fn note_cut(&mut self, why: impl fmt::Display) {
        self.cuts.push((Instant::now(), why.to_string()));
    }

    pub fn note_trouble(&mut self, error: &ClientError) {
        let kind = match error {
            ClientError::Status { status, .. } => match error.error_code() {
                Some(code) => format!("{status} {}", code.as_str()),
                None => status.to_string(),
            },
            ClientError::Connect(_) => "not connected".to_owned(),
            _ => "cut off".to_owned(),
        };
        *self.trouble.entry(kind).or_default() += 1;
    }

    fn begin(&mut self) -> Attempt {
        Attempt {
            started: self.tick(),
            outcome: Outcome::Unknown,
        }
    }

    fn settled(&mut self, answered: Answered) -> Outcome {
        match answered {
            Answered::Taken => Outcome::Taken { at: self.tick() },
            Answered::Refused(..) => Outcome::Refused,
            Answered::Lost => Outcome::Unknown,
        }
    }

    /// Whether any client was told that the session took something.
    pub fn exists(&self) -> bool {
        self.messages.iter().any(|sent| sent.outcome().is_taken())
            || self
                .switches
                .iter()
                .any(|switch| switch.attempt.outcome.is_taken())
            || !self.events.is_empty()
    }

    pub fn add_message(&mut self, plan: Plan) -> usize {
        self.messages.push(Sent {
            plan,
            attempts: Vec::new(),
            is_abandoned: false,
        });
        self.messages.len() - 1
    }

    pub fn begin_message(&mut self, number: usize) -> usize {
        let attempt = self.begin();
        self.messages[number].attempts.push(attempt);
        self.messages[number].attempts.len() - 1
    }

    pub fn end_message(&mut self, number: usize, attempt: usize, answered: Answered) {
        let outcome = self.settled(answered);
        let sent = &mut self.messages[number];
        let started = sent.attempts[attempt].started;
        let label = sent.plan.label.clone();
        let was_taken = matches!(sent.outcome(), Outcome::Taken { at } if at < started);
        sent.attempts[attempt].outcome = outcome;
        match answered {
            Answered::Taken | Answered::Lost => {}
            Answered::Refused(status, code) if was_taken => {
                self.violate(format!(
                    "{label} was acknowledged, and its repeat was refused: {status} {code:?}"
                ));
            }
            Answered::Refused(429, Some(ErrorCode::QueueFull)) => {}
            Answered::Refused(status, code) => {
                self.violate(format!("{label} was refused: {status} {code:?}"))
            }
        }
    }

    pub fn begin_cancel(&mut self, drops_queue: bool) -> usize {
        let attempt = self.begin();
        self.cancels.push(Cancel {
            drops_queue,
            attempt,
            had_turn: false,
        });
        self.cancels.len() - 1
    }

    pub fn end_cancel(&mut self, number: usize, answered: Answered, had_turn: bool) {
        let outcome = self.settled(answered);
        self.cancels[number].attempt.outcome = outcome;
        self.cancels[number].had_turn = had_turn;
        if let Answered::Refused(status, code) = answered {
            self.violate(format!("a cancel was refused: {status} {code:?}"));
        }
    }

    pub fn begin_switch(&mut self, agent: AgentName) -> usize {
        let attempt = self.begin();
        self.switches.push(Switch { agent, attempt });
        self.switches.len() - 1
    }

    pub fn end_switch(&mut self, number: usize, answered: Answered) {
        let outcome = self.settled(answered);
        self.switches[number].attempt.outcome = outcome;
        if let Answered::Refused(status, code) = answered {
            self.violate(format!("a switch was refused: {status} {code:?}"));
        }
    }

    /// Records an event; a number never shows two different ones.
    pub fn saw(&mut self, id: u64, chunk: &Chunk) {
        match self.events.get(&id) {
            Some(before) if before != chunk => {
                self.violate(format!(
                    "event {id} was shown as {before:?} and as {chunk:?}"
                ));
            }
            Some(_) => {}
            None => {
                self.events.insert(id, chunk.clone());
                if let ChunkBody::ToolCall(call) = &chunk.body {
                    let at = if self.readers_lag { 0 } else { self.tick() };
                    self.calls
                        .entry(call.tool_call.call_id.clone())
                        .or_default()
                        .shown(call, at);
                }
            }
        }
    }

    /// The last event before the first one that no reader saw.
    pub fn contiguous(&self) -> u64 {
        self.events
            .keys()
            .zip(1..)
            .take_while(|(seen, expected)| **seen == *expected)
            .count() as u64
    }

    pub fn last_event(&self) -> Option<&ChunkBody> {
        self.events.last_key_value().map(|(_, chunk)| &chunk.body)
    }

    /// What waits for somebody outside, by the newest event that was seen.
    pub fn open(&self) -> Option<Open> {
        match self.last_event()? {
            ChunkBody::ToolCall(call) if call.requires_approval => {
                Some(Open::Approval(call.tool_call.call_id.clone()))
            }
            ChunkBody::ToolCall(call) => Some(Open::Result(call.tool_call.call_id.clone())),
            ChunkBody::Question(_) => Some(Open::Question),
            _ => None,
        }
    }

    /// Where the session returns between turns, if no unanswered switch leaves it open.
    pub fn home(&self) -> Option<AgentName> {
        let Some(last) = self.switches.last() else {
            return AgentName::parse("orchestrator").ok();
        };
        last.attempt.outcome.is_taken().then(|| last.agent.clone())
    }

    /// Whether a cancel may have ended a call that was seen open at `since`.
    pub fn may_be_cancelled(&self, since: u64) -> bool {
        self.cancels
            .iter()
            .any(|cancel| match cancel.attempt.outcome {
                Outcome::Taken { at } => at > since,
                Outcome::Unknown => true,
                Outcome::Refused => false,
            })
    }
}
