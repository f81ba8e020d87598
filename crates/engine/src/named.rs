//! The tools of MCP servers: which of them an agent is offered, and how it finds the others.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use codelab_protocol::{McpCall, McpPermission, McpToolId, Tool, ToolSpec};
use serde_json::{Value, json};

use crate::agents::tokens_of_tools;
use crate::prompt::shorten;
use crate::{Agent, Lane};

/// Definitions past this size are not all offered, where they also pass a share of the window.
const MAX_OFFERED_TOKENS: u64 = 8_000;
/// The share of the model's window that definitions may take.
const OFFERED_PERCENT: u64 = 10;
/// The window of a model that is not known.
const UNKNOWN_WINDOW: u64 = 128_000;
/// Tools that one search finds.
const MAX_HITS: usize = 10;
/// Found tools that a thread keeps; the oldest is forgotten first.
const MAX_FOUND: usize = 20;
/// Characters of a description that a search shows. The whole one is offered in the next step.
const SHOWN_DESCRIPTION_CHARS: usize = 300;
/// What a word counts in a tool's name, against one in its description.
const NAME_WEIGHT: usize = 3;

/// A tool of an MCP server that agents can be offered.
#[derive(Debug, Clone)]
pub struct NamedTool {
    pub call: McpCall,
    pub permission: McpPermission,
    /// What the model is told. Its name is the one that models see.
    pub spec: Arc<ToolSpec>,
}

/// The tools of MCP servers that a project has at the moment of a step.
#[derive(Debug, Clone, Default)]
pub struct NamedTools {
    /// By their names, so that two requests in a row offer them in the same order.
    tools: BTreeMap<String, NamedTool>,
    /// Why other tools cannot be used now, by the names that models would see.
    off: BTreeMap<String, String>,
}

impl NamedTools {
    /// `off`: why other tools cannot be used now, by the names that models would see.
    pub fn new(tools: impl IntoIterator<Item = NamedTool>, off: BTreeMap<String, String>) -> Self {
        let tools = tools.into_iter();
        Self {
            tools: tools.map(|tool| (tool.spec.name.clone(), tool)).collect(),
            off,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// The tool that this agent calls by this name.
    pub(crate) fn of_agent(&self, agent: &Agent, name: &str) -> Option<&NamedTool> {
        self.tools.get(name).filter(|tool| tool.is_for(agent))
    }

    /// Why this very tool cannot be called, where it is known to be off, forbidden or another one now.
    pub(crate) fn refuses(&self, name: &str, id: &McpToolId) -> Option<String> {
        match self.tools.get(name) {
            Some(tool) if tool.call.id != *id => {
                Some("its definition changed since it was shown".to_owned())
            }
            Some(tool) if tool.permission == McpPermission::Forbid => {
                Some("a person forbade it meanwhile".to_owned())
            }
            Some(_) => None,
            None => self.off.get(name).cloned(),
        }
    }

    pub(crate) fn why_off(&self, name: &str) -> Option<&str> {
        self.off.get(name).map(String::as_str)
    }

    /// What the agent is offered in its next step. `found`: what it found by searching.
    pub(crate) fn offer(
        &self,
        agent: &Agent,
        lane: Lane,
        window: Option<u64>,
        found: &[String],
    ) -> Vec<Arc<ToolSpec>> {
        let mut offered = agent.tool_specs(lane);
        offered.extend(self.beyond(agent, window, found));
        offered
    }

    /// What the tools of MCP servers add to the agent's prompt, by the estimate.
    pub(crate) fn tokens(&self, agent: &Agent, window: Option<u64>, found: &[String]) -> u64 {
        tokens_of_tools(&self.beyond(agent, window, found))
    }

    fn beyond(&self, agent: &Agent, window: Option<u64>, found: &[String]) -> Vec<Arc<ToolSpec>> {
        let own = || self.tools.values().filter(|tool| tool.is_for(agent));
        let all: Vec<Arc<ToolSpec>> = own().map(|tool| Arc::clone(&tool.spec)).collect();
        if !are_too_many(&all, window) {
            return all;
        }
        // The newest that fit; the model can search again for the others.
        let mut offered = vec![Tool::SearchTools.spec()];
        for name in found.iter().rev() {
            offered.extend(
                own()
                    .find(|tool| tool.spec.name == *name)
                    .map(|t| Arc::clone(&t.spec)),
            );
            if are_too_many(&offered, window) {
                offered.pop();
                break;
            }
        }
        offered[1..].sort_by(|one, other| one.name.cmp(&other.name));
        offered
    }

    /// Whether the agent has to search for its tools.
    pub(crate) fn is_searched(&self, agent: &Agent, window: Option<u64>) -> bool {
        let own = self.tools.values().filter(|tool| tool.is_for(agent));
        let all: Vec<_> = own.map(|tool| Arc::clone(&tool.spec)).collect();
        are_too_many(&all, window)
    }

    /// The tools of the agent that fit the words best.
    pub(crate) fn search(&self, agent: &Agent, query: &str) -> Vec<&NamedTool> {
        let words: BTreeSet<String> = words(query).collect();
        let own = self.tools.values().filter(|tool| tool.is_for(agent));
        let mut hits: Vec<(usize, &NamedTool)> = own
            .map(|tool| (tool.score(&words), tool))
            .filter(|(score, _)| *score > 0)
            .collect();
        hits.sort_by_key(|(score, tool)| (Reverse(*score), &tool.spec.name));
        hits.truncate(MAX_HITS);
        hits.into_iter().map(|(_, tool)| tool).collect()
    }

    /// What the model reads of a search.
    pub(crate) fn shown_hits(&self, agent: &Agent, hits: &[&NamedTool]) -> Value {
        let shown = |tool: &&NamedTool| {
            let description = shorten(&tool.spec.description, SHOWN_DESCRIPTION_CHARS);
            json!({"name": tool.spec.name, "description": description})
        };
        if !hits.is_empty() {
            return json!({"tools": hits.iter().map(shown).collect::<Vec<_>>()});
        }
        let own = self.tools.values().filter(|tool| tool.is_for(agent));
        let mut servers: BTreeMap<&str, usize> = BTreeMap::new();
        own.for_each(|tool| *servers.entry(tool.call.id.server.as_str()).or_default() += 1);
        json!({"tools": [], "servers": servers, "note": "No tool fits these words. The number of tools of each server is shown."})
    }
}

impl NamedTool {
    fn is_for(&self, agent: &Agent) -> bool {
        self.permission != McpPermission::Forbid && agent.may_use(&self.call.id)
    }

    fn score(&self, query: &BTreeSet<String>) -> usize {
        let count = |text: &str| {
            let text: BTreeSet<String> = words(text).collect();
            let meets = |word: &&String| text.iter().any(|own| own.starts_with(word.as_str()));
            query.iter().filter(meets).count()
        };
        count(&self.spec.name) * NAME_WEIGHT + count(&self.spec.description)
    }
}

fn are_too_many(tools: &[Arc<ToolSpec>], window: Option<u64>) -> bool {
    let share = window.unwrap_or(UNKNOWN_WINDOW) / 100 * OFFERED_PERCENT;
    tokens_of_tools(tools) > share.max(MAX_OFFERED_TOKENS)
}

fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}

/// Keeps what a thread found, newest last.
pub(crate) fn keep_found(found: &mut Vec<String>, hits: &[&NamedTool]) {
    for name in hits.iter().map(|tool| &tool.spec.name) {
        found.retain(|known| known != name);
        found.push(name.clone());
    }
    let too_many = found.len().saturating_sub(MAX_FOUND);
    found.drain(..too_many);
}

#[cfg(test)]
mod tests {
    use codelab_protocol::{Digest, McpPlace, McpServerName, offered_name};
    use serde_json::value::RawValue;

    use super::*;

    fn tool(server: &str, name: &str, description: &str) -> NamedTool {
        let server = McpServerName::parse(server).unwrap();
        let spec = ToolSpec {
            name: offered_name(&server, name),
            description: description.to_owned(),
            parameters: RawValue::from_string("{}".to_owned()).unwrap(),
        };
        let id = McpToolId {
            server,
            tool: name.to_owned(),
            definition: Digest::of_bytes(description.as_bytes()),
        };
        NamedTool {
            call: McpCall {
                id,
                runs_at: McpPlace::Client,
                description: String::new(),
                hints: BTreeMap::new(),
            },
            permission: McpPermission::Ask,
            spec: Arc::new(spec),
        }
    }

    fn agent(tools: &str) -> Agent {
        let text = format!("---\nname: a\ndescription: x\ntools: [{tools}]\n---\nprompt");
        Agent::parse(&text).unwrap()
    }

    fn names(offered: &[Arc<ToolSpec>]) -> Vec<&str> {
        offered.iter().map(|spec| spec.name.as_str()).collect()
    }

    #[test]
    fn an_agent_is_offered_what_it_may_use() {
        let forbidden = NamedTool {
            permission: McpPermission::Forbid,
            ..tool("git", "push", "")
        };
        let tools = NamedTools::new(
            [tool("git", "log", ""), tool("db", "query", ""), forbidden],
            BTreeMap::new(),
        );
        let cases: [(&str, &[&str]); 4] = [
            ("echo", &["echo"]),
            ("echo, mcp__*", &["echo", "mcp__db__query", "mcp__git__log"]),
            ("mcp__git__*", &["mcp__git__log"]),
            ("mcp__db__query", &["mcp__db__query"]),
        ];
        for (allowed, expected) in cases {
            let agent = agent(allowed);
            assert_eq!(names(&tools.offer(&agent, Lane::OWN, None, &[])), expected);
            assert!(tools.of_agent(&agent, "mcp__git__push").is_none());
        }
    }

    #[test]
    fn too_many_definitions_are_searched() {
        let long = "x".repeat(4 * 1000);
        let many = (0..20).map(|number| tool("big", &format!("t{number}"), &long));
        let tools = NamedTools::new(
            many.chain([tool("git", "log", "Shows commits")]),
            BTreeMap::new(),
        );
        let agent = agent("mcp__*");
        let offered = tools.offer(&agent, Lane::OWN, None, &[]);
        assert_eq!(names(&offered), ["search_tools"]);
        let wide = tools.offer(&agent, Lane::OWN, Some(1_000_000), &[]);
        assert_eq!(wide.len(), 21);
        let hits = tools.search(&agent, "show me commits");
        assert_eq!(hits.len(), 1);
        let mut found = Vec::new();
        keep_found(&mut found, &hits);
        let offered = tools.offer(&agent, Lane::OWN, None, &found);
        assert_eq!(names(&offered), ["search_tools", "mcp__git__log"]);
        assert_eq!(tools.search(&agent, "t").len(), MAX_HITS);
        let all: Vec<String> = (0..20)
            .map(|number| format!("mcp__big__t{number}"))
            .collect();
        let offered = tools.offer(&agent, Lane::OWN, None, &all);
        assert!(
            offered.len() < 15,
            "what was found is bounded: {}",
            offered.len()
        );
        assert!(names(&offered).contains(&"mcp__big__t19"));
        let none = tools.shown_hits(&agent, &tools.search(&agent, "zebra"));
        assert_eq!(none["servers"], json!({"big": 20, "git": 1}));
    }

    #[test]
    fn what_was_found_is_bounded() {
        let tools: Vec<NamedTool> = (0..50).map(|n| tool("s", &format!("t{n}"), "")).collect();
        let mut found = Vec::new();
        keep_found(&mut found, &tools.iter().collect::<Vec<_>>());
        assert_eq!(found.len(), MAX_FOUND);
        assert_eq!(found.last().unwrap(), "mcp__s__t49");
        keep_found(&mut found, &[&tools[30]]);
        assert_eq!(
            (found.len(), found.last().unwrap().as_str()),
            (MAX_FOUND, "mcp__s__t30")
        );
    }
}
