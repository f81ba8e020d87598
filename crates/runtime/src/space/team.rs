//! A project's agents as they are now: from the cache, else from the store, and registered on the bus.

use std::sync::Arc;

use codelab_engine::{Agent, FilePattern, Team};
use codelab_protocol::{AgentId, AgentName, ProjectAgent, Tool};
use codelab_store::{AgentRow, StoreError};
use serde::{Deserialize, Serialize};

use super::life::Phase;
use super::{Space, lock};
use crate::cache::{CacheKey, Cached};

/// Agents of a project are read in one page; the server allows no more than this.
const MAX_AGENTS: u64 = 1000;

/// The project's agents, ready for the engine.
pub(crate) struct Crew {
    pub team: Team,
    ids: Vec<(AgentId, AgentName)>,
}

/// An agent as the cache keeps it.
#[derive(Serialize, Deserialize)]
struct Kept {
    #[serde(flatten)]
    agent: ProjectAgent,
    registered: bool,
}

impl Kept {
    /// How many tasks it takes at once; none when it is out of service.
    fn place(&self) -> (AgentName, Option<u32>) {
        (self.agent.name.clone(), self.registered.then_some(self.agent.concurrency_limit))
    }
}

/// The crew made from these very texts of the cache.
pub(crate) struct Memo {
    texts: Vec<Arc<str>>,
    crew: Arc<Crew>,
}

impl Crew {
    /// An agent by its id, its name, or its name without the `agent_` prefix.
    pub fn resolve(&self, target: &str) -> Option<AgentName> {
        let by_id = self.ids.iter().find(|(id, _)| id.as_str() == target).map(|(_, name)| name.clone());
        by_id.or_else(|| self.team.resolve(target).map(|agent| agent.name.clone()))
    }
}

impl Space {
    /// The agents as they are now. An unchanged team costs a few look-ups in memory.
    pub(crate) async fn crew(&self) -> Result<Arc<Crew>, StoreError> {
        self.wake();
        let texts = self.texts().await?;
        if let Some(memo) = lock(&self.memo).as_ref()
            && memo.texts.len() == texts.len()
            && memo.texts.iter().zip(&texts).all(|(a, b)| Arc::ptr_eq(a, b))
        {
            return Ok(Arc::clone(&memo.crew));
        }
        let agents: Vec<Kept> = texts.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
        let ids = agents.iter().map(|Kept { agent, .. }| (agent.agent_id.clone(), agent.name.clone())).collect();
        let places: Vec<_> = agents.iter().map(Kept::place).collect();
        let team = Team::of_project(agents.into_iter().map(|kept| engine_agent(kept.agent)).collect());
        let crew = Arc::new(Crew { team, ids });
        let names: Vec<AgentName> = places.iter().map(|(name, _)| name.clone()).collect();
        self.memories.ensure(self.key, &names).await;
        let mut phase = lock(&self.phase);
        // Cleaned up while this was read: it is used again.
        self.wake_locked(&mut phase);
        if *phase != Phase::Closing {
            self.bring_bus_up_to_date(&places);
            *lock(&self.memo) = Some(Memo { texts, crew: Arc::clone(&crew) });
        }
        Ok(crew)
    }

    /// Every agent's definition as JSON, in the order of the project.
    async fn texts(&self) -> Result<Vec<Arc<str>>, StoreError> {
        let key = CacheKey::team(&self.prefix);
        let fill = match self.cache.get(&key).await {
            Cached::Hit(ids) => match self.cached_texts(&ids).await {
                Some(texts) => return Ok(texts),
                None => None,
            },
            Cached::Miss(fill) => Some(fill),
        };
        let mut fills = Vec::new();
        let Some(rows) = self.rows().await? else { return Err(StoreError::NotFound) };
        let known: Vec<AgentId> =
            rows.agents(MAX_AGENTS, 0).await?.0.into_iter().map(|row| row.agent.agent_id).collect();
        for id in &known {
            fills.push(match self.cache.get(&CacheKey::agent(&self.prefix, id)).await {
                Cached::Hit(_) => None,
                Cached::Miss(fill) => Some(fill),
            });
        }
        // Read again after the misses, so that a change in between makes the fills stale and not the values.
        let agents = rows.agents(MAX_AGENTS, 0).await?.0;
        let mut texts = Vec::with_capacity(agents.len());
        let ids: Vec<AgentId> = agents.iter().map(|row| row.agent.agent_id.clone()).collect();
        for row in agents {
            let id = row.agent.agent_id.clone();
            let registered = row.registered;
            let text: Arc<str> = json(&Kept { agent: project_agent(row), registered }).into();
            if let Some(place) = known.iter().position(|other| *other == id)
                && let Some(fill) = fills.get_mut(place).and_then(Option::take)
            {
                self.cache.put(fill, Arc::clone(&text)).await;
            }
            texts.push(text);
        }
        if let Some(fill) = fill {
            self.cache.put(fill, json(&ids)).await;
        }
        Ok(texts)
    }

    async fn cached_texts(&self, ids: &str) -> Option<Vec<Arc<str>>> {
        let ids: Vec<AgentId> = serde_json::from_str(ids).ok()?;
        let mut texts = Vec::with_capacity(ids.len());
        for id in ids {
            match self.cache.get(&CacheKey::agent(&self.prefix, &id)).await {
                Cached::Hit(text) => texts.push(text),
                Cached::Miss(_) => return None,
            }
        }
        Some(texts)
    }

    /// New agents, new limits, agents out of service, agents that are gone.
    fn bring_bus_up_to_date(&self, places: &[(AgentName, Option<u32>)]) {
        for (name, limit) in places {
            match limit {
                Some(limit) => self.bus.register(name, *limit),
                None => drop(self.bus.deregister(name)),
            }
        }
        for name in self.bus.names() {
            if !places.iter().any(|(present, _)| *present == name) {
                drop(self.bus.remove(&name));
            }
        }
    }

    pub(super) async fn clear_agent_cache(&self) {
        self.cache.clear(&self.prefix).await;
    }

    pub(super) fn cache_size(&self) -> usize {
        self.cache.len(&self.prefix)
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// The stored agent as it is shown and cached.
pub fn project_agent(row: AgentRow) -> ProjectAgent {
    let AgentRow { agent, registered: _, created_at, updated_at } = row;
    ProjectAgent {
        agent_id: agent.agent_id,
        name: agent.name,
        role: agent.role,
        description: agent.description,
        model: agent.model,
        temperature: agent.temperature,
        max_tokens: agent.max_tokens,
        system_prompt: agent.system_prompt,
        allowed_tools: agent.allowed_tools,
        file_restrictions: (!agent.file_restrictions.is_empty()).then_some(agent.file_restrictions),
        concurrency_limit: agent.concurrency_limit,
        created_at,
        updated_at,
    }
}

fn engine_agent(agent: ProjectAgent) -> Agent {
    let restrictions = agent.file_restrictions.unwrap_or_default();
    Agent {
        name: agent.name,
        role: agent.role,
        description: agent.description,
        model: Some(agent.model),
        temperature: agent.temperature.map(|temperature| temperature as f32),
        max_tokens: agent.max_tokens,
        prompt: agent.system_prompt,
        allowed_tools: agent.allowed_tools,
        extra_tools: vec![Tool::SwitchMode],
        // Checked when they were saved; one that no longer compiles lets nothing through rather than everything.
        file_restrictions: restrictions.iter().filter_map(|pattern| FilePattern::parse_or_nothing(pattern)).collect(),
        concurrency_limit: agent.concurrency_limit,
    }
}
