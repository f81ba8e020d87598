//! What a session knows from messages that are taken back: kept aside, so that an undoing brings it
//! back.

use codelab_protocol::TurnId;
use serde::{Deserialize, Serialize};

use super::HiddenPart;
use crate::compaction::HiddenSummary;
use crate::session::{EndedTurn, MessageSize, Session, Transition};
use crate::world::{MAX_MODIFIED_FILES, MAX_PATH_CHARS};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct HiddenFacts {
    summary: HiddenSummary,
    said: Vec<MessageSize>,
    ended: Option<EndedTurn>,
    last_error: Option<String>,
    /// Messages of the session's own history afterwards. Others than these mean that something was
    /// said since.
    left: u64,
}

impl Transition<'_, '_> {
    pub(super) fn hide_facts(&mut self, part: HiddenPart) -> HiddenFacts {
        let is_hidden = |turn: TurnId| turn >= part.turn;
        let summary = self.hide_summary(part.ord, part.messages, (part.tokens, part.kept_tokens));
        let session = &mut *self.session;
        let (said, stays): (Vec<MessageSize>, Vec<MessageSize>) = session
            .said
            .drain(..)
            .partition(|size| is_hidden(size.turn));
        session.said = stays.into();
        // A turn that is taken back cannot be run again, and its late results are nobody's news.
        let ended = session.ended.take_if(|ended| is_hidden(ended.turn));
        session.late.retain(|late| !is_hidden(late.turn));
        session.last_began_at = None;
        session.rejected_plan = None;
        HiddenFacts {
            summary,
            said,
            ended,
            last_error: session.last_error.take(),
            left: session.compaction.said(),
        }
    }

    pub(super) fn show_facts(&mut self, facts: HiddenFacts, messages: u64) {
        let HiddenFacts {
            summary,
            said,
            ended,
            last_error,
            left,
        } = facts;
        let is_same = self.session.compaction.said() == left;
        self.show_summary(summary, messages);
        let session = &mut *self.session;
        let mut sizes: Vec<MessageSize> = session.said.drain(..).chain(said).collect();
        sizes.sort_by_key(|size| size.turn);
        session.said = sizes.into();
        session.last_began_at = None;
        // What was said since is newer.
        if is_same {
            session.ended = session.ended.take().or(ended);
            session.last_error = session.last_error.take().or(last_error);
        }
    }
}

impl Session {
    pub(super) fn note_modified(&mut self, path: String) {
        let path: String = path.chars().take(MAX_PATH_CHARS).collect();
        self.modified_files.retain(|file| *file != path);
        self.modified_files.push_back(path);
        if self.modified_files.len() > MAX_MODIFIED_FILES {
            self.modified_files.pop_front();
        }
    }
}
