//! Making every agent's memory anew from SQL, while no server runs on it.

use codelab_memory::Memory;
use codelab_store::{AgentLocation, Store, StoreError};

use super::{Memories, RebuildError};
use crate::metrics::Metrics;
use crate::space::SpaceKey;

/// Agents read at once.
const PAGE: u64 = 500;

/// Goes through the agents of all users; `each` hears how many interactions an agent's memory holds
/// now, or why not. What is left of agents who are gone is removed.
pub async fn rebuild_memories(
    store: Store,
    memory: Memory,
    mut each: impl FnMut(&AgentLocation, Result<u64, RebuildError>),
) -> Result<(), StoreError> {
    let memories = Memories::new(memory, store.clone(), Metrics::new(), None);
    let mut after = 0;
    loop {
        let agents = store.agents_of_all(after, PAGE).await?;
        let Some(last) = agents.last() else { break };
        after = last.number;
        for agent_ref in &agents {
            let key = SpaceKey {
                user: agent_ref.user_id,
                project: agent_ref.project_id,
            };
            each(agent_ref, memories.rebuild(key, &agent_ref.agent).await);
        }
    }
    memories.remove_orphans().await;
    memories.close().await;
    Ok(())
}
