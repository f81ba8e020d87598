//! What a person allowed for the rest of the session: shown, and taken back.

use codelab_policy::RememberKey;
use codelab_protocol::{
    ApproveChanged, ApproveMode, Digest, ErrorCode, Remembered, RememberedCalls, RememberedId,
    RememberedRevoked, SessionEventBody, SessionKind, TurnId,
};

use super::{Session, Transition};
use crate::{CallerAnswer, Refusal};

/// Characters of a digest that name a rule among the few of a session.
const ID_CHARS: usize = 16;

impl Session {
    /// What passes without a question, oldest first.
    pub fn remembered_calls(&self) -> Vec<Remembered> {
        self.remembered.iter().filter_map(shown).collect()
    }
}

impl Transition<'_, '_> {
    /// A call that passed already goes on; the next one asks.
    pub(super) fn revoke(
        &mut self,
        id: &RememberedId,
        revoked_by: String,
    ) -> Result<CallerAnswer, Refusal> {
        let is_it = |key: &RememberKey| shown(key).is_some_and(|shown| shown.id == *id);
        let place = self.session.remembered.iter().position(is_it);
        let taken = place.and_then(|place| self.session.remembered.remove(place));
        let Some(remembered) = taken.as_ref().and_then(shown) else {
            let why = "Nothing is remembered under this id; it may have been taken back already";
            return Err(Refusal::new(ErrorCode::NotFound, why));
        };
        self.output.mark_changed();
        self.tell_beside(SessionEventBody::RememberedRevoked(RememberedRevoked {
            remembered,
            revoked_by,
        }));
        Ok(CallerAnswer::Nothing)
    }

    pub(super) fn choose_approve(&mut self, mode: ApproveMode) -> CallerAnswer {
        let is_new = self.session.approve != mode;
        self.session.approve = mode;
        self.output.mark_changed();
        // Before the first turn nobody has seen another one.
        if is_new && self.session.last_turn > 0 {
            let changed = ApproveChanged { approve: mode };
            self.tell_beside(SessionEventBody::ApproveChanged(changed));
        }
        CallerAnswer::Nothing
    }

    /// Something that a person changed beside the turns.
    fn tell_beside(&mut self, event: SessionEventBody) {
        if self.session.kind != SessionKind::Project {
            return;
        }
        let current = self.session.turn.as_ref().map(|turn| turn.id);
        let turn = current.unwrap_or(TurnId(self.session.last_turn));
        self.log().event(turn, event);
        // The newest event of a turn says how it stands.
        if let Some(status) = self.session.suspended() {
            self.output.settle_turn(turn, status);
        }
    }
}

/// The id is made from the rule itself, so it is the same after a restart and on every server.
fn shown(key: &RememberKey) -> Option<Remembered> {
    let covers = match key {
        RememberKey::FileWrites => RememberedCalls::FileWrites,
        RememberKey::Command(text) => {
            let parsed: Result<(String, Option<String>), _> = serde_json::from_str(text);
            let (command, cwd) = parsed.unwrap_or_else(|_| (text.clone(), None));
            RememberedCalls::Command { command, cwd }
        }
        RememberKey::McpTool(tool) => RememberedCalls::McpTool {
            server: tool.server.clone(),
            tool: tool.tool.clone(),
        },
    };
    let digest = Digest::of_json(&serde_json::to_value(key).ok()?);
    let id = digest.as_str().get(..ID_CHARS)?.parse().ok()?;
    Some(Remembered { id, covers })
}
