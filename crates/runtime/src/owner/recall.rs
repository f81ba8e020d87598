//! What agents are reminded of when they begin.

use codelab_engine::{ModelCall, Purpose};
use codelab_protocol::Role;
use codelab_store::{SessionKey, StoreError};

use super::Owner;
use crate::history::Recent;
use crate::runtime::Inner;

impl Owner {
    /// Makes the calls. An agent that begins is reminded first; that takes its time beside the
    /// owner, who goes on.
    pub(super) async fn begin_calls(&mut self, mut calls: Vec<ModelCall>) {
        // What one input asked for, another that came with it may have made needless.
        if let Some(loaded) = &self.loaded {
            let wanted = loaded.session.model_calls();
            calls.retain(|call| wanted.iter().any(|(id, _)| *id == call.id));
        }
        for call in calls {
            let space = self.loaded.as_ref().and_then(|loaded| loaded.space.clone());
            let asked = if space.is_some() {
                self.asked(&call).await
            } else {
                None
            };
            match space.zip(asked) {
                Some((space, asked)) => self.models.recall(call, space, asked),
                None => self.call_model(call, None).await,
            }
        }
    }

    /// What the agent that begins with this call is asked to do.
    async fn asked(&mut self, call: &ModelCall) -> Option<String> {
        let Purpose::Step { origin, .. } = &call.purpose else {
            return None;
        };
        let loaded = self.loaded.as_mut()?;
        let thread = loaded
            .session
            .turn()?
            .threads()
            .find(|thread| thread.lane() == call.id.lane)?;
        if call.id.step != thread.begins_with() {
            return None;
        }
        // Where the history cannot be read, the call itself says so.
        let recent = history(&self.runtime, loaded.key, &mut loaded.recent, call)
            .await
            .ok()?;
        let asked = recent
            .history_of(origin)
            .current
            .iter()
            .find(|message| message.role == Role::User)?;
        Some(asked.content.clone())
    }
}

/// What the call's prompt is made of, read from the store unless it is there.
pub(super) async fn history<'a>(
    runtime: &Inner,
    key: SessionKey,
    recent: &'a mut Option<Recent>,
    call: &ModelCall,
) -> Result<&'a mut Recent, StoreError> {
    let recent = match recent {
        Some(recent) => recent,
        none => none
            .insert(Recent::load(&runtime.store, key, Some(call.id.turn), &runtime.prompt).await?),
    };
    if let Purpose::Step { origin, .. } = &call.purpose
        && let (Some(plan), Some(task)) = (&origin.plan_id, &origin.task_id)
    {
        recent
            .load_task(&runtime.store, key, plan, task, &runtime.prompt)
            .await?;
    }
    Ok(recent)
}
