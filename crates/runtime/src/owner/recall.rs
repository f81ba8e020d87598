//! What agents are reminded of when they begin.

use codelab_engine::{ModelCall, Purpose};
use codelab_protocol::Role;
use codelab_store::{SessionKey, StoreError};
use futures_util::future::join_all;

use super::Owner;
use crate::history::Recent;
use crate::runtime::Inner;

impl Owner {
    /// For each call what its agent is reminded of; none where it does not begin with it. All are looked for at once: a
    /// memory that hangs holds a step up once, however many tasks begin in it.
    pub(super) async fn recalled(&mut self, calls: &[ModelCall]) -> Vec<Option<Vec<String>>> {
        let mut searches = Vec::with_capacity(calls.len());
        for call in calls {
            let space = self.loaded.as_ref().and_then(|loaded| loaded.space.clone());
            let asked = self.asked(call).await;
            searches.push(async move {
                match (space, asked) {
                    (Some(space), Some(asked)) => Some(space.recall(&call.agent, &asked).await),
                    _ => None,
                }
            });
        }
        join_all(searches).await
    }

    /// What the agent that begins with this call is asked to do.
    async fn asked(&mut self, call: &ModelCall) -> Option<String> {
        let Purpose::Step { origin, .. } = &call.purpose else { return None };
        if call.id.step != 1 {
            return None;
        }
        let loaded = self.loaded.as_mut()?;
        // Where the history cannot be read, the call itself says so.
        let recent = history(&self.runtime, loaded.key, &mut loaded.recent, call).await.ok()?;
        let asked = recent.history_of(origin).current.iter().find(|message| message.role == Role::User)?;
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
        none => none.insert(Recent::load(&runtime.store, key, Some(call.id.turn), &runtime.prompt).await?),
    };
    if let Purpose::Step { origin, .. } = &call.purpose
        && let (Some(plan), Some(task)) = (&origin.plan_id, &origin.task_id)
    {
        recent.load_task(&runtime.store, key, plan, task, &runtime.prompt).await?;
    }
    Ok(recent)
}
