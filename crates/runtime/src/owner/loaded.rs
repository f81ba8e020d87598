//! A session in memory: what its owner holds of it between two inputs.

use std::sync::Arc;

use codelab_engine::{Applied, Effect, Input, Refusal, Session, SpaceSnapshot, World};
use codelab_protocol::{CallId, SessionKind, Timestamp};
use codelab_store::audit_chain::AuditKey;
use codelab_store::{AuditHead, Epoch, Schedule, SessionKey, StoreError};

use crate::commit::{PreparedCommit, StoredPosition, prepare};
use crate::feed::Feed;
use crate::history::Recent;
use crate::ids::RandomIds;
use crate::runtime::Inner;
use crate::space::{HeldSlots, SlotChanges, Space, TeamSnapshot};

/// The session as far as it is in memory.
pub(super) struct LoadedSession {
    pub(super) key: SessionKey,
    pub(super) epoch: Epoch,
    pub(super) session: Session,
    pub(super) system_prompt: Option<String>,
    pub(super) audit_head: AuditHead,
    pub(super) schedule: Schedule,
    pub(super) recent: Option<Recent>,
    /// The worker space of its project; none for a session of the runtime kind.
    pub(super) space: Option<Arc<Space>>,
    /// Not in the store yet; the first commit makes it.
    pub(super) new: bool,
}

/// What holds for all inputs of a step.
#[derive(Clone, Copy)]
pub(super) struct StepContext<'a> {
    pub(super) now: Timestamp,
    /// Asked once, so that the engine knows of every call that is not made.
    pub(super) stopping: bool,
    /// Has the text of the answers that are being written.
    pub(super) feed: &'a Feed,
}

impl LoadedSession {
    /// Lets the engine decide, and performs what it decided about the worker space, before any other
    /// session of the project decides. The changes are to be kept or rolled back with the commit.
    pub(super) fn apply(
        &mut self,
        input: Input,
        runtime: &Inner,
        team: Option<&TeamSnapshot>,
        slots: &mut HeldSlots,
        earlier: &[SlotChanges],
        StepContext {
            now,
            stopping,
            feed,
        }: StepContext<'_>,
    ) -> (Result<Applied, Refusal>, SlotChanges) {
        let root = self
            .space
            .as_ref()
            .and_then(|space| space.workspace_of(self.session.bound_client()));
        let here = root.map(|root| runtime.policy.in_workspace(&root));
        let project = self.space.as_deref().zip(team);
        let session_id = self.session.id().clone();
        let _admission = project.map(|(space, _)| space.bus().admission());
        let snapshot =
            project.map(|(space, team)| space.snapshot(&self.session, team, slots, earlier));
        let mut world = World {
            now,
            ids: &mut RandomIds,
            team: project.map_or(&runtime.team, |(_, team)| &team.team),
            limits: &runtime.limits,
            policy: here.as_ref().unwrap_or(&runtime.policy),
            space: snapshot.unwrap_or_else(|| SpaceSnapshot {
                facts: Arc::clone(&runtime.facts),
                ..SpaceSnapshot::default()
            }),
            stopping,
            streamed: feed,
        };
        let applied = self.session.apply(input, &mut world);
        let changes = match (&applied, project) {
            (Ok(applied), Some((space, _))) => slots.perform(&applied.effects, space, &session_id),
            (Err(refusal), Some((space, _))) if refusal.is_agent_queue_full() => {
                space.count_refusal();
                SlotChanges::default()
            }
            (Ok(_) | Err(_), _) => SlotChanges::default(),
        };
        (applied, changes)
    }

    pub(super) fn prepare(
        &self,
        kind: SessionKind,
        effects: Vec<Effect>,
        audit_key: &AuditKey,
        activity: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<PreparedCommit, StoreError> {
        let (key, epoch, schedule) = (self.key, self.epoch, self.schedule);
        let stored = StoredPosition {
            key,
            epoch,
            kind,
            schedule,
            audit_head: &self.audit_head,
            audit_key,
        };
        prepare(&self.session, effects, &stored, activity, now)
            .map_err(|error| StoreError::Invalid(format!("a state could not be written: {error}")))
    }

    /// Whether the current turn still holds this call.
    pub(super) fn holds(&self, call_id: &CallId) -> bool {
        self.session.turn().is_some_and(|turn| {
            turn.threads()
                .any(|thread| thread.phase.call_id() == Some(call_id))
        })
    }
}
