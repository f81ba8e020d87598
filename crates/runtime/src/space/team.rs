//! A project's agents as they are now: from the cache, else from the store, and registered on the
//! bus.

use std::sync::Arc;

use codelab_engine::{Agent, FilePattern, Team, TeamFacts};
use codelab_protocol::{AgentId, AgentName, ProjectAgent, Tool};
use codelab_store::{AgentRow, StoreError};
use serde::{Deserialize, Serialize};

use super::life::SpacePhase;
use super::{Space, lock};
use crate::bus::Draining;
use crate::cache::{CacheKey, Cached};

/// Agents that a project can have.
pub const MAX_AGENTS: u64 = 100;
/// Agents of a project are read in one page. Some that are made at the same moment can pass the
/// limit.
pub(crate) const AGENTS_PAGE: u64 = 10 * MAX_AGENTS;

/// The project's agents, ready for the engine.
pub(crate) struct TeamSnapshot {
    pub team: Team,
    /// What the engine's estimates are made of.
    pub facts: Arc<TeamFacts>,
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
    fn of(row: AgentRow, default_model: &str) -> Self {
        let registered = row.registered;
        Self {
            agent: project_agent(row, default_model),
            registered,
        }
    }

    fn registration(&self) -> RegisteredAgent {
        let Self { agent, registered } = self;
        RegisteredAgent {
            name: agent.name.clone(),
            concurrency_limit: agent.concurrency_limit,
            registered: *registered,
        }
    }
}

/// How many tasks an agent takes at once, and whether it takes new ones.
struct RegisteredAgent {
    name: AgentName,
    concurrency_limit: u32,
    registered: bool,
}

/// The team snapshot that the space uses, and how new the reading was that it was made from.
#[derive(Default)]
pub(crate) struct CachedTeam {
    made: Option<(Vec<Arc<str>>, Arc<TeamSnapshot>)>,
    applied: Reading,
    begun: Reading,
}

/// Readings of the project's agents are numbered when they begin, so that an old one never undoes a
/// newer.
#[derive(Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Reading(u64);

impl CachedTeam {
    /// The next use makes the snapshot anew.
    pub fn forget(&mut self) {
        self.made = None;
    }

    fn begin(&mut self) -> Reading {
        self.begun.0 += 1;
        self.begun
    }

    /// The snapshot of just these texts.
    fn snapshot_of(&mut self, texts: &[Arc<str>]) -> Option<Arc<TeamSnapshot>> {
        let (known, team) = self.made.as_mut()?;
        let is_same = |(a, b): (&Arc<str>, &Arc<str>)| Arc::ptr_eq(a, b) || a == b;
        if known.len() != texts.len() || !known.iter().zip(texts).all(is_same) {
            return None;
        }
        // The next comparison looks at pointers only.
        known.clone_from_slice(texts);
        Some(Arc::clone(team))
    }
}

impl TeamSnapshot {
    /// An agent by its id, its name, or its name without the `agent_` prefix.
    pub fn resolve(&self, target: &str) -> Option<AgentName> {
        let by_id = self
            .ids
            .iter()
            .find(|(id, _)| id.as_str() == target)
            .map(|(_, name)| name.clone());
        by_id.or_else(|| self.team.resolve(target).map(|agent| agent.name.clone()))
    }
}

impl Space {
    /// The agents as they are now. An unchanged team costs a few look-ups in memory.
    pub(crate) async fn team_snapshot(&self) -> Result<Arc<TeamSnapshot>, StoreError> {
        self.wake();
        let reading = lock(&self.memo).begin();
        let texts = self.texts().await?;
        if let Some(team) = lock(&self.memo).snapshot_of(&texts) {
            return Ok(team);
        }
        let read: Result<Vec<Kept>, _> = texts
            .iter()
            .map(|text| serde_json::from_str(text))
            .collect();
        let agents = match read {
            Ok(agents) => agents,
            Err(error) => {
                // Written by a server of another version, perhaps.
                tracing::warn!(project = %self.key.project, %error, "cached agent could not be parsed, reading the database");
                self.stored().await?
            }
        };
        let ids = agents
            .iter()
            .map(|Kept { agent, .. }| (agent.agent_id.clone(), agent.name.clone()))
            .collect();
        let slots: Vec<RegisteredAgent> = agents.iter().map(Kept::registration).collect();
        let team = Team::of_project(
            agents
                .into_iter()
                .map(|kept| engine_agent(kept.agent))
                .collect(),
        );
        let price = |model: &str| self.price_of(model);
        let window = |model: &str| self.model.window(model);
        let facts = Arc::new(TeamFacts::new(&team, &self.default_model, price, window));
        let team = Arc::new(TeamSnapshot { team, facts, ids });
        let names: Vec<AgentName> = slots.iter().map(|slot| slot.name.clone()).collect();
        self.memories.expect(self.key, &names);
        let mut phase = lock(&self.phase);
        // Cleaned up while this was read: it is used again.
        self.wake_locked(&mut phase);
        let mut memo = lock(&self.memo);
        if *phase != SpacePhase::Closing && memo.applied < reading {
            memo.applied = reading;
            memo.made = Some((texts, Arc::clone(&team)));
            self.bring_bus_up_to_date(&slots);
        }
        Ok(team)
    }

    /// The agents as the database has them.
    async fn stored(&self) -> Result<Vec<Kept>, StoreError> {
        let Some(rows) = self.rows().await? else {
            return Err(StoreError::NotFound);
        };
        Ok(rows
            .agents(AGENTS_PAGE, 0)
            .await?
            .0
            .into_iter()
            .map(|row| Kept::of(row, &self.default_model))
            .collect())
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
        let Some(rows) = self.rows().await? else {
            return Err(StoreError::NotFound);
        };
        let known: Vec<AgentId> = rows
            .agents(AGENTS_PAGE, 0)
            .await?
            .0
            .into_iter()
            .map(|row| row.agent.agent_id)
            .collect();
        for id in &known {
            fills.push(
                match self.cache.get(&CacheKey::agent(&self.prefix, id)).await {
                    Cached::Hit(_) => None,
                    Cached::Miss(fill) => Some(fill),
                },
            );
        }
        // Read again after the misses, so that a change in between makes the fills stale and not
        // the values.
        let agents = rows.agents(AGENTS_PAGE, 0).await?.0;
        let mut texts = Vec::with_capacity(agents.len());
        let ids: Vec<AgentId> = agents
            .iter()
            .map(|row| row.agent.agent_id.clone())
            .collect();
        for row in agents {
            let id = row.agent.agent_id.clone();
            let text: Arc<str> = json(&Kept::of(row, &self.default_model)).into();
            if let Some(slot) = known.iter().position(|other| *other == id)
                && let Some(fill) = fills.get_mut(slot).and_then(Option::take)
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

    /// New agents, new limits, agents out of service, agents that are gone. One that is on its way
    /// out takes no tasks, whatever was read.
    fn bring_bus_up_to_date(&self, registered: &[RegisteredAgent]) {
        let leaving = lock(&self.leaving);
        let agents: Vec<_> = registered
            .iter()
            .map(|agent| {
                let is_in_service = agent.registered && !leaving.contains(&agent.name);
                (&agent.name, agent.concurrency_limit, is_in_service)
            })
            .collect();
        self.bus.update(&agents);
    }

    /// The agent is on its way out: it takes no new tasks until that is over, however often its row
    /// is read meanwhile.
    pub(super) fn leave_service(&self, agent: &AgentName) -> Draining {
        let mut leaving = lock(&self.leaving);
        leaving.insert(agent.clone());
        self.bus.deregister(agent)
    }

    /// The row says now what is so.
    pub(super) fn end_leave(&self, agent: &AgentName) {
        lock(&self.leaving).remove(agent);
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
pub fn project_agent(row: AgentRow, default_model: &str) -> ProjectAgent {
    let AgentRow {
        agent,
        registered: _,
        created_at,
        updated_at,
    } = row;
    ProjectAgent {
        agent_id: agent.agent_id,
        name: agent.name,
        role: agent.role,
        description: agent.description,
        model_inherited: agent.model.is_none(),
        model: agent.model.unwrap_or_else(|| default_model.to_owned()),
        fallback_models: agent.fallback_models,
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
        // The cache may be older than this server's default.
        model: (!agent.model_inherited).then_some(agent.model),
        fallback_models: agent.fallback_models,
        temperature: agent.temperature.map(|temperature| temperature as f32),
        max_tokens: agent.max_tokens,
        prompt: agent.system_prompt,
        allowed_tools: agent.allowed_tools,
        extra_tools: vec![Tool::SwitchMode],
        // Checked when they were saved; one that no longer compiles lets nothing through rather
        // than everything.
        file_restrictions: restrictions
            .iter()
            .filter_map(|pattern| FilePattern::parse_or_nothing(pattern))
            .collect(),
        concurrency_limit: agent.concurrency_limit,
    }
}
