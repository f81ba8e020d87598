//! Searches an agent's memory before a model call, where the engine asks for that.

use codelab_engine::{ModelCall, Purpose, RecallAbout};
use codelab_protocol::{MessageId, Role, UserId};
use codelab_store::{SessionKey, StoreError};

use super::{LoadedSession, Owner};
use crate::history::Recent;
use crate::runtime::Inner;

impl Owner {
    /// Makes the calls. One that wants a search of the agent's memory waits for it beside the owner,
    /// who goes on.
    pub(super) async fn begin_calls(&mut self, mut calls: Vec<ModelCall>) {
        // What one input asked for, another that came with it may have made needless.
        if let Some(loaded) = &self.loaded {
            let wanted = loaded.session.model_calls();
            calls.retain(|call| wanted.iter().any(|(id, _)| *id == call.id));
        }
        for call in calls {
            let space = self.loaded.as_ref().and_then(|loaded| loaded.space.clone());
            let about = self.recall_about(&call).await;
            let bound = self
                .loaded
                .as_ref()
                .and_then(|l| l.session.bound_client().cloned());
            match space {
                Some(space)
                    if about.is_some()
                        || !space.knows_tools()
                        || space.awaits_instructions(bound.as_ref()) =>
                {
                    self.models.prepare(call, space, bound, about);
                }
                Some(_) | None => self.call_model(call, None).await,
            }
        }
    }

    /// The text that the agent's memory is searched for, where the engine wants that.
    async fn recall_about(&mut self, call: &ModelCall) -> Option<String> {
        let about = call.recall.as_ref()?;
        let loaded = self.loaded.as_mut()?;
        // Where the history cannot be read, the call itself says so.
        let (key, asked) = (loaded.key, loaded.asked());
        let recent = history(&self.runtime, (key, asked), &mut loaded.recent, call)
            .await
            .ok()?;
        let message = match about {
            RecallAbout::Request(id) => {
                let said = recent.history().current;
                said.iter().find(|message| message.message_id == *id)
            }
            RecallAbout::Task(origin) => {
                let said = recent.history_of(origin).current;
                said.iter().find(|message| message.role == Role::User)
            }
        };
        message.map(|message| message.content.clone())
    }
}

impl LoadedSession {
    /// Whose session it is, and the message that its turn answers.
    pub(super) fn asked(&self) -> Option<(UserId, MessageId)> {
        let (space, turn) = self.space.as_ref().zip(self.session.turn())?;
        Some((space.user(), turn.message_id().clone()))
    }
}

/// What the call's prompt is made of, read from the store unless it is there. `asked`: see
/// [`LoadedSession::asked`].
pub(super) async fn history<'a>(
    runtime: &Inner,
    (key, asked): (SessionKey, Option<(UserId, MessageId)>),
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
        if let Some((user, request)) = asked {
            recent
                .load_request(&runtime.store, (user, key), plan, &request)
                .await?;
        }
        recent.pass_files(plan, task);
    }
    Ok(recent)
}
