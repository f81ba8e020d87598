//! Rewinds: files, messages or both go back to where they were before a message of the user, and
//! forth again.
//!
//! Files go first, by one call of the session's client. Only when that has ended are messages taken
//! back, so that a rewind that failed can be asked for again. Meanwhile messages queue as they do
//! behind a turn.

mod call;
mod facts;

use codelab_protocol::{
    CallId, ErrorCode, LeftFile, MessageId, NotCovered, RewindFiles, RewindId, RewindScope,
    Rewound, RewoundFiles, Role, SessionEventBody, Tool, TurnId, TurnStatus, WrittenByCall,
};
use serde::{Deserialize, Serialize};

pub(crate) use self::call::OpenRewind;
use self::facts::HiddenFacts;
use super::{Session, Transition};
use crate::turn::cut;
use crate::world::{
    MAX_LISTED_CHANGES, MAX_PATH_CHARS, MAX_REWINDS, MAX_REWOUND_CALLS, MAX_SHOWN_COMMAND_BYTES,
};
use crate::{CallerAnswer, Effect, EventRange, Refusal};

/// A rewind that a person asks for, with what the store knows of it.
#[derive(Debug, Clone)]
pub struct RewindInput {
    pub wish: RewindWish,
    pub decided_by: String,
    /// The client that the session is bound to has not been seen for a while.
    pub bound_is_gone: bool,
}

#[derive(Debug, Clone)]
pub enum RewindWish {
    To {
        message_id: MessageId,
        scope: RewindScope,
        /// Absent if the session has no such message.
        found: Option<RewoundPart>,
    },
    Undo(RewindId),
}

/// What would be taken back, as it is stored.
#[derive(Debug, Clone)]
pub struct RewoundPart {
    /// The turn that the message began.
    pub turn: TurnId,
    /// The message's number.
    pub ord: u64,
    pub role: Role,
    /// It answers a question within a turn, or steered one.
    pub is_answer: bool,
    pub is_rewound: bool,
    /// Messages of the session's own history from there on, which no rewind has taken back.
    pub messages: u64,
    /// Their size, by the estimate.
    pub tokens: u64,
    /// The size of those before it.
    pub kept_tokens: u64,
    /// What was done from there on, in any order.
    pub calls: Vec<RanCall>,
}

/// A tool call that did something, or may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RanCall {
    pub call_id: CallId,
    pub tool: String,
    /// The path or the command. Absent where nobody knows whether it ran.
    pub did: Option<String>,
}

/// A rewind that ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RewindRecord {
    rewind_id: RewindId,
    /// What was taken back.
    scope: RewindScope,
    to_message_id: MessageId,
    /// The call of the client, whose result may come late.
    call_id: Option<CallId>,
    messages: u64,
    is_undone: bool,
    /// Paths that count as modified again when it is undone.
    restored: Vec<String>,
    /// What the session knew from what was taken back.
    facts: Option<Box<HiddenFacts>>,
}

/// What is to be done, once the client has ended its part.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Wanted {
    rewind_id: RewindId,
    scope: RewindScope,
    to_message_id: MessageId,
    undo: bool,
    /// Where messages are taken back from; absent for an undoing.
    part: Option<HiddenPart>,
    not_covered: Vec<NotCovered>,
}

/// The messages that are taken back.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct HiddenPart {
    turn: TurnId,
    ord: u64,
    messages: u64,
    tokens: u64,
    kept_tokens: u64,
}

/// How the client's part ended.
enum FilesEnd {
    /// There was none.
    NotWanted,
    Done(RewoundFiles),
    /// No file was changed.
    Failed(String),
    /// Files may have been changed.
    Unknown(String),
}

fn conflict(reason: &str, why: &str) -> Refusal {
    Refusal::new(ErrorCode::RewindConflict, why).with("reason", reason)
}

impl Session {
    /// Whether nothing goes on: no turn, and no rewind.
    pub fn is_idle(&self) -> bool {
        self.turn.is_none() && self.rewind.is_none()
    }

    /// The id of the rewind that is under way.
    pub fn open_rewind(&self) -> Option<&RewindId> {
        self.rewind.as_ref().map(|open| open.id())
    }

    /// The last rewind that is in force.
    fn last_rewind(&mut self) -> Option<&mut RewindRecord> {
        let mut in_force = self.rewinds.iter_mut().rev();
        in_force.find(|record| !record.is_undone)
    }
}

impl Transition<'_, '_> {
    pub(super) fn rewind(&mut self, input: RewindInput) -> Result<CallerAnswer, Refusal> {
        self.session.may_rewind()?;
        let RewindInput {
            wish,
            decided_by,
            bound_is_gone,
        } = input;
        let (wanted, files) = match wish {
            RewindWish::To {
                message_id,
                scope,
                found,
            } => self.wanted_back(message_id, scope, found)?,
            RewindWish::Undo(id) => self.session.wanted_forth(&id)?,
        };
        if wanted.scope.has_files() {
            let has_client = self.space.client_attached;
            let is_gone = self.session.bound.is_some() && bound_is_gone;
            if !has_client || is_gone {
                let why = "No tool runner is there that has the files of this session";
                return Err(conflict("no_client", why));
            }
        }
        let span = EventRange {
            turn: self.session.new_turn_id(),
            after_seq: self.session.last_seq,
        };
        match files {
            Some(files) => self.call_client(span.turn, wanted, &files, decided_by),
            None => self.end_rewind(span.turn, wanted, None, FilesEnd::NotWanted),
        }
        Ok(CallerAnswer::Span(span))
    }

    fn wanted_back(
        &mut self,
        to_message_id: MessageId,
        scope: RewindScope,
        found: Option<RewoundPart>,
    ) -> Result<(Wanted, Option<RewindFiles>), Refusal> {
        let Some(part) = found else {
            let why = "Message not found";
            let refusal = Refusal::new(ErrorCode::NotFound, why);
            return Err(refusal.with("message_id", to_message_id.as_str()));
        };
        if part.role != Role::User || part.is_answer {
            let why = "A session is rewound to a message of the user that began a turn";
            return Err(
                Refusal::new(ErrorCode::ValidationError, why).with("field", "to_message_id")
            );
        }
        if part.is_rewound {
            return Err(conflict("rewound", "The message was taken back already"));
        }
        let rewind_id = self.world.ids.rewind_id();
        let (written, not_covered) = split(&part.calls);
        if scope.has_files() && written.len() > MAX_REWOUND_CALLS {
            let why =
                format!("More than {MAX_REWOUND_CALLS} writes: rewind to a later message first");
            return Err(conflict("too_many", &why));
        }
        let files = (scope.has_files() && !written.is_empty()).then(|| RewindFiles::Calls {
            rewind_id: rewind_id.clone(),
            calls: written,
        });
        let wanted = Wanted {
            rewind_id,
            scope,
            to_message_id,
            undo: false,
            part: Some(HiddenPart {
                turn: part.turn,
                ord: part.ord,
                messages: part.messages,
                tokens: part.tokens,
                kept_tokens: part.kept_tokens,
            }),
            not_covered: if scope.has_files() {
                not_covered
            } else {
                Vec::new()
            },
        };
        Ok((wanted, files))
    }

    /// The client has ended its part, or there was none: messages follow, and everybody is told.
    fn end_rewind(&mut self, turn: TurnId, wanted: Wanted, call: Option<CallId>, end: FilesEnd) {
        self.output.mark_changed();
        let (files, error, changed) = match end {
            FilesEnd::NotWanted => (RewoundFiles::default(), None, true),
            FilesEnd::Done(files) => (files, None, true),
            FilesEnd::Failed(why) => (RewoundFiles::default(), Some(why), false),
            FilesEnd::Unknown(why) => (RewoundFiles::default(), Some(why), true),
        };
        let mut messages = 0;
        if error.is_none() {
            messages = match wanted.undo {
                false => self.take_back(&wanted, call.clone(), &files.restored),
                true => self.give_back(&wanted),
            };
        } else if changed && !wanted.undo {
            // So that what the client did can be taken back.
            self.session.keep_rewind(RewindRecord {
                rewind_id: wanted.rewind_id.clone(),
                scope: RewindScope::Files,
                to_message_id: wanted.to_message_id.clone(),
                call_id: call.clone(),
                messages: 0,
                is_undone: false,
                restored: Vec::new(),
                facts: None,
            });
        }
        let mut not_covered = wanted.not_covered;
        not_covered.extend(files.not_covered);
        let rewound = Rewound {
            rewind_id: wanted.rewind_id,
            scope: wanted.scope,
            to_message_id: wanted.to_message_id,
            restored: files.restored,
            left: files.left,
            not_covered,
            messages,
            undone: wanted.undo,
            error,
        };
        self.log()
            .event(turn, SessionEventBody::Rewound(Box::new(rewound)));
        // Also where it failed: there is no turn that could be run again.
        self.output.settle_turn(turn, TurnStatus::Completed);
        self.begin_next();
    }

    fn take_back(&mut self, wanted: &Wanted, call_id: Option<CallId>, restored: &[String]) -> u64 {
        let mut record = RewindRecord {
            rewind_id: wanted.rewind_id.clone(),
            scope: wanted.scope,
            to_message_id: wanted.to_message_id.clone(),
            call_id,
            messages: 0,
            is_undone: false,
            restored: Vec::new(),
            facts: None,
        };
        if wanted.scope.has_files() {
            record.restored = self.session.files_restored(restored);
        }
        if wanted.scope.has_conversation()
            && let Some(part) = wanted.part
        {
            record.messages = part.messages;
            record.facts = Some(Box::new(self.hide_facts(part)));
            self.output.push(Effect::HistoryHidden {
                rewind_id: wanted.rewind_id.clone(),
                from: part.turn,
            });
        }
        let messages = record.messages;
        self.session.keep_rewind(record);
        messages
    }

    fn give_back(&mut self, wanted: &Wanted) -> u64 {
        let record = self.session.last_rewind();
        let Some(record) = record.filter(|record| record.rewind_id == wanted.rewind_id) else {
            never!("a rewind is undone that is not the last one");
            return 0;
        };
        record.is_undone = true;
        let messages = record.messages;
        let (facts, restored) = (record.facts.take(), std::mem::take(&mut record.restored));
        restored
            .into_iter()
            .for_each(|path| self.session.note_modified(path));
        if let Some(facts) = facts {
            self.show_facts(*facts, messages);
            self.output.push(Effect::HistoryShown {
                rewind_id: wanted.rewind_id.clone(),
            });
        }
        messages
    }
}

impl Session {
    fn may_rewind(&self) -> Result<(), Refusal> {
        if self.turn.is_some() {
            let why = "A turn is under way; rewind when it has ended, or stop it first";
            return Err(conflict("busy", why));
        }
        if self.rewind.is_some() {
            return Err(conflict("rewinding", "Another rewind is under way"));
        }
        if self.is_compacting() {
            return Err(conflict("compacting", "The history is being summed up"));
        }
        Ok(())
    }

    fn wanted_forth(&mut self, id: &RewindId) -> Result<(Wanted, Option<RewindFiles>), Refusal> {
        let known = self.rewinds.iter().find(|record| record.rewind_id == *id);
        let Some(known) = known else {
            let refusal = Refusal::new(ErrorCode::NotFound, "Rewind not found");
            return Err(refusal.with("rewind_id", id.as_str()));
        };
        if known.is_undone {
            return Err(conflict("undone", "The rewind was taken back already"));
        }
        let wanted = Wanted {
            rewind_id: id.clone(),
            scope: known.scope,
            to_message_id: known.to_message_id.clone(),
            undo: true,
            part: None,
            not_covered: Vec::new(),
        };
        let has_files = known.call_id.is_some();
        let last = self.last_rewind().map(|record| record.rewind_id.clone());
        if last.as_ref() != Some(id) {
            let why = "A later rewind is in force: take that one back first";
            return Err(conflict("not_last", why));
        }
        let files = has_files.then(|| RewindFiles::Undo { undo: id.clone() });
        Ok((wanted, files))
    }

    /// The oldest one cannot be undone any more.
    fn keep_rewind(&mut self, record: RewindRecord) {
        if self.rewinds.len() >= MAX_REWINDS {
            self.rewinds.pop_front();
        }
        self.rewinds.push_back(record);
    }

    /// Files that are as they were do not count as modified. Returns those that did.
    fn files_restored(&mut self, restored: &[String]) -> Vec<String> {
        let (back, stays): (Vec<_>, Vec<_>) = std::mem::take(&mut self.modified_files)
            .into_iter()
            .partition(|path| restored.contains(path));
        self.modified_files = stays.into();
        back
    }
}

/// What the client is asked to take back, and what nobody can.
fn split(calls: &[RanCall]) -> (Vec<WrittenByCall>, Vec<NotCovered>) {
    let is_write = |call: &&RanCall| {
        [Tool::WriteFile, Tool::CreateDirectory]
            .map(Tool::as_str)
            .contains(&call.tool.as_str())
    };
    let (writes, others): (Vec<&RanCall>, Vec<&RanCall>) = calls.iter().partition(is_write);
    let written = writes.into_iter().map(|call| WrittenByCall {
        call_id: call.call_id.clone(),
        path: call.did.clone(),
    });
    let mut not_covered: Vec<NotCovered> = others
        .iter()
        .take(MAX_LISTED_CHANGES)
        .map(|call| NotCovered {
            tool: call.tool.clone(),
            what: cut(
                call.did.as_deref().unwrap_or_default(),
                MAX_SHOWN_COMMAND_BYTES,
            )
            .to_owned(),
            reason: None,
        })
        .collect();
    if let Some(more) = others
        .len()
        .checked_sub(MAX_LISTED_CHANGES)
        .filter(|more| *more > 0)
    {
        not_covered.push(NotCovered {
            tool: String::new(),
            what: format!("… and {more} more"),
            reason: None,
        });
    }
    (written.collect(), not_covered)
}

/// What a client says, within bounds: it becomes an event.
fn bounded(files: RewoundFiles) -> RewoundFiles {
    let short = |text: String| text.chars().take(MAX_PATH_CHARS).collect::<String>();
    RewoundFiles {
        restored: files
            .restored
            .into_iter()
            .take(MAX_LISTED_CHANGES + 1)
            .map(short)
            .collect(),
        left: files
            .left
            .into_iter()
            .take(MAX_LISTED_CHANGES + 1)
            .map(|left| LeftFile {
                path: short(left.path),
                reason: short(left.reason),
            })
            .collect(),
        not_covered: files
            .not_covered
            .into_iter()
            .take(MAX_LISTED_CHANGES + 1)
            .map(|uncovered| NotCovered {
                tool: short(uncovered.tool),
                what: short(uncovered.what),
                reason: uncovered.reason.map(short),
            })
            .collect(),
    }
}
