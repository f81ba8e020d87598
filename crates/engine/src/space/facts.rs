//! Facts about the agents' models, and the estimates that are made of them: what a call and a task
//! may cost. The runtime knows prices; how they become an estimate is decided here.

use std::collections::BTreeMap;

use codelab_protocol::AgentName;

use super::{Lane, SpaceSnapshot};
use crate::Team;

const MILLION: f64 = 1_000_000.0;

/// What is known of the agents of a project and of the orchestrator. It changes only with the team,
/// so it is made once for each.
#[derive(Debug, Clone, Default)]
pub struct TeamFacts {
    pub agents: BTreeMap<AgentName, AgentFacts>,
    /// For the orchestrator, which is no agent of the project.
    pub orchestrator: AgentFacts,
}

#[derive(Debug, Clone, Default)]
pub struct AgentFacts {
    /// The model that the agent's calls go to.
    pub model: String,
    /// Absent when the price is not known.
    pub price: Option<TokenPrice>,
    /// The context window of the model in tokens, where it is known.
    pub window: Option<u64>,
    /// What the agent's own prompt and its tools take in every call, by the estimate.
    pub prompt_tokens: u64,
    /// The same for a task of a plan, which has other tools.
    pub task_prompt_tokens: u64,
}

/// The model that a person chose for a session, in place of its agents' own.
#[derive(Debug, Clone)]
pub struct SessionModel {
    pub model: String,
    /// Absent when the price is not known.
    pub price: Option<TokenPrice>,
    /// The context window in tokens, where it is known.
    pub window: Option<u64>,
}

/// Dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenPrice {
    pub prompt_usd: f64,
    pub answer_usd: f64,
}

impl TokenPrice {
    fn of_call(self, prompt_tokens: u64, answer_tokens: u64) -> f64 {
        let prompt = prompt_tokens as f64 * self.prompt_usd;
        let answer = answer_tokens as f64 * self.answer_usd;
        (prompt + answer) / MILLION
    }

    /// Half of a task's tokens are taken as written by the model.
    fn of_task(self, tokens: u64) -> f64 {
        tokens as f64 * (self.prompt_usd + self.answer_usd) / 2.0 / MILLION
    }

    fn of_answer_token(self) -> f64 {
        self.of_call(0, 1_000_000) / MILLION
    }
}

impl TeamFacts {
    /// `price` says what the tokens of a model cost, `window` how many fit into its context.
    pub fn new(
        team: &Team,
        default_model: &str,
        price: impl Fn(&str) -> Option<TokenPrice>,
        window: impl Fn(&str) -> Option<u64>,
    ) -> Self {
        let facts = |agent: &crate::Agent| {
            let model = agent.model.as_deref().unwrap_or(default_model);
            let facts = AgentFacts {
                model: model.to_owned(),
                price: price(model),
                window: window(model),
                prompt_tokens: agent.prompt_tokens(Lane::OWN),
                task_prompt_tokens: agent.prompt_tokens(Lane::of_task(0)),
            };
            (agent.name.clone(), facts)
        };
        Self {
            agents: team.agents().iter().map(facts).collect(),
            orchestrator: AgentFacts {
                model: default_model.to_owned(),
                price: price(default_model),
                window: window(default_model),
                ..AgentFacts::default()
            },
        }
    }

    fn of(&self, agent: &AgentName) -> &AgentFacts {
        self.agents.get(agent).unwrap_or(&self.orchestrator)
    }
}

impl SpaceSnapshot {
    /// The session's model, where the agent's calls go to it.
    fn chosen_for(&self, agent: &AgentName) -> Option<&SessionModel> {
        let chosen = self.session_model.as_ref();
        chosen.filter(|_| self.facts.agents.contains_key(agent))
    }

    /// The model that the agent's calls go to.
    pub(crate) fn model_of(&self, agent: &AgentName) -> &str {
        match self.chosen_for(agent) {
            Some(chosen) => &chosen.model,
            None => &self.facts.of(agent).model,
        }
    }

    /// The context window of the model that the agent's calls go to.
    pub(crate) fn window_of(&self, agent: &AgentName) -> Option<u64> {
        match self.chosen_for(agent) {
            Some(chosen) => chosen.window,
            None => self.facts.of(agent).window,
        }
    }

    fn price_of(&self, agent: &AgentName) -> Option<TokenPrice> {
        match self.chosen_for(agent) {
            Some(chosen) => chosen.price,
            None => self.facts.of(agent).price,
        }
    }

    pub(crate) fn prompt_tokens(&self, agent: &AgentName, lane: Lane) -> u64 {
        let facts = self.facts.of(agent);
        match lane.task() {
            None => facts.prompt_tokens,
            Some(_) => facts.task_prompt_tokens,
        }
    }

    /// What a call of the agent's model costs, of so many tokens each way, where that is known.
    pub(crate) fn call_usd(
        &self,
        agent: &AgentName,
        prompt_tokens: u64,
        answer_tokens: u64,
    ) -> Option<f64> {
        Some(self.price_of(agent)?.of_call(prompt_tokens, answer_tokens))
    }

    pub(crate) fn answer_token_usd(&self, agent: &AgentName) -> Option<f64> {
        Some(self.price_of(agent)?.of_answer_token())
    }

    /// What a task of so many tokens costs, where that is known.
    pub(crate) fn task_usd(&self, agent: &AgentName, tokens: u64) -> Option<f64> {
        Some(self.price_of(agent)?.of_task(tokens))
    }

    pub(crate) fn usual_tokens(&self, agent: &AgentName) -> Option<u64> {
        self.usual_tokens.get(agent).copied()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn calls_of_a_session_with_its_own_model_cost_what_that_model_costs() {
        let price = |usd: f64| TokenPrice {
            prompt_usd: usd,
            answer_usd: usd,
        };
        let facts = |usd| AgentFacts {
            model: "cheap".to_owned(),
            price: Some(price(usd)),
            ..AgentFacts::default()
        };
        let coder: AgentName = "agent_coder".parse().unwrap();
        let orchestrator: AgentName = "orchestrator".parse().unwrap();
        let mut space = SpaceSnapshot {
            facts: Arc::new(TeamFacts {
                agents: [(coder.clone(), facts(1.0))].into(),
                orchestrator: facts(2.0),
            }),
            ..SpaceSnapshot::default()
        };
        assert_eq!(space.call_usd(&coder, 1_000_000, 0), Some(1.0));
        let mut choose = |price| {
            space.session_model = Some(SessionModel {
                model: "dear".to_owned(),
                price,
                window: None,
            });
            let of = |agent| {
                (
                    space.model_of(agent).to_owned(),
                    space.task_usd(agent, 1_000_000),
                )
            };
            (of(&coder), of(&orchestrator))
        };
        let cheap = ("cheap".to_owned(), Some(2.0));
        let dear = |usd| ("dear".to_owned(), usd);
        assert_eq!(choose(Some(price(50.0))), (dear(Some(50.0)), cheap.clone()));
        assert_eq!(choose(None), (dear(None), cheap), "its price is not known");
    }
}
