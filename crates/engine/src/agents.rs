//! Agents are data: the built-in team and the starter pack of a project, written as Markdown files
//! with front matter.

use std::sync::Arc;

use codelab_protocol::{AgentName, AllowedTool, McpToolId, Tool, ToolSpec};
use regex::{Regex, RegexBuilder};
use serde::Deserialize;

use crate::Lane;
use crate::prompt::{tokens_of_bytes, tokens_of_text};

/// One agent definition.
#[derive(Debug, Clone)]
pub struct Agent {
    pub name: AgentName,
    /// What it is in a project; empty in the built-in team.
    pub role: String,
    pub description: String,
    /// The server's default model where absent.
    pub model: Option<String>,
    /// Tried in order where the model cannot be called. The server's own where empty.
    pub fallback_models: Vec<String>,
    pub temperature: Option<f32>,
    pub max_tokens: Option<u32>,
    pub prompt: String,
    pub allowed_tools: Vec<AllowedTool>,
    /// Server tools offered beyond the documented set.
    pub extra_tools: Vec<Tool>,
    /// Only files that match one of these may be written; empty = no restriction.
    pub file_restrictions: Vec<FilePattern>,
    /// How many tasks it works on at once in a project.
    pub concurrency_limit: u32,
}

/// A regular expression that is known to compile.
#[derive(Debug, Clone)]
pub struct FilePattern(Regex);

#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("the front matter must stand between two lines of ---")]
    NoFrontMatter,
    #[error("front matter: {0}")]
    FrontMatter(String),
    #[error("file restriction {pattern}: {why}")]
    Pattern { pattern: String, why: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentMode {
    /// The orchestrator routes to specialists.
    Multi,
    /// One universal agent takes everything.
    Single,
}

/// The agents that are registered.
#[derive(Debug, Clone)]
pub struct Team {
    mode: AgentMode,
    universal: AgentName,
    agents: Vec<Agent>,
}

const BUILT_IN: [&str; 6] = [
    include_str!("agents/builtin/orchestrator.md"),
    include_str!("agents/builtin/coder.md"),
    include_str!("agents/builtin/architect.md"),
    include_str!("agents/builtin/debug.md"),
    include_str!("agents/builtin/ask.md"),
    include_str!("agents/builtin/universal.md"),
];

const STARTER_PACK: [&str; 4] = [
    include_str!("agents/starter/agent_coder.md"),
    include_str!("agents/starter/agent_analyzer.md"),
    include_str!("agents/starter/agent_writer.md"),
    include_str!("agents/starter/agent_researcher.md"),
];

pub const DEFAULT_CONCURRENCY_LIMIT: u32 = 4;
/// A compiled file restriction takes at most this much memory.
const PATTERN_BYTES: usize = 1 << 20;

const ORCHESTRATOR: &str = AgentName::ORCHESTRATOR;
const UNIVERSAL: &str = "universal";
/// The names of the starter pack begin with it, and people leave it out.
const PREFIX: &str = "agent_";

/// The agent that is active between turns.
pub fn orchestrator() -> AgentName {
    known_name(ORCHESTRATOR)
}

/// The agents that every new project gets.
pub fn starter_pack() -> Result<Vec<Agent>, AgentError> {
    STARTER_PACK.iter().map(|text| Agent::parse(text)).collect()
}

impl Team {
    /// The built-in team: without `universal` in multi-agent mode, `orchestrator` and `universal`
    /// in single-agent mode.
    pub fn built_in(mode: AgentMode) -> Result<Self, AgentError> {
        let registered = |agent: &Agent| match (mode, agent.name.as_str()) {
            (_, ORCHESTRATOR) => true,
            (AgentMode::Multi, name) => name != UNIVERSAL,
            (AgentMode::Single, name) => name == UNIVERSAL,
        };
        let all = BUILT_IN
            .iter()
            .map(|text| Agent::parse(text))
            .collect::<Result<Vec<_>, _>>()?;
        let agents = all.into_iter().filter(registered).collect();
        Ok(Self {
            mode,
            universal: known_name(UNIVERSAL),
            agents,
        })
    }

    pub fn mode(&self) -> AgentMode {
        self.mode
    }

    pub fn agents(&self) -> &[Agent] {
        &self.agents
    }

    pub fn get(&self, name: &AgentName) -> Option<&Agent> {
        self.agents.iter().find(|agent| agent.name == *name)
    }

    /// The agents of a project; the orchestrator plans for them.
    pub fn of_project(agents: Vec<Agent>) -> Self {
        Self {
            mode: AgentMode::Multi,
            universal: known_name(UNIVERSAL),
            agents,
        }
    }

    /// The same agents without a tool runner: each specialist has only the tools that the server runs
    /// itself.
    pub fn with_server_tools_only(&self) -> Self {
        let mut extra_tools = vec![Tool::Echo, Tool::Calculator];
        if self.specialists().count() > 1 {
            extra_tools.push(Tool::SwitchMode);
        }
        let tools = |agent: &Agent| match agent.name.as_str() {
            ORCHESTRATOR => (Vec::new(), Vec::new()),
            _ => (
                vec![
                    Tool::AttemptCompletion.into(),
                    Tool::AskFollowupQuestion.into(),
                ],
                extra_tools.clone(),
            ),
        };
        let bare = |agent: &Agent| {
            let (allowed_tools, extra_tools) = tools(agent);
            Agent {
                allowed_tools,
                extra_tools,
                ..agent.clone()
            }
        };
        Self {
            agents: self.agents.iter().map(bare).collect(),
            ..self.clone()
        }
    }

    /// An agent by its name, or by its name without the `agent_` prefix.
    pub fn resolve(&self, name: &str) -> Option<&Agent> {
        let prefixed = |agent: &&Agent| agent.name.as_str().strip_prefix(PREFIX) == Some(name);
        self.specialists()
            .find(|agent| agent.name.as_str() == name)
            .or_else(|| self.specialists().find(prefixed))
            // What a planner calls `agent_coder` may be a project's `coder`.
            .or_else(|| {
                name.strip_prefix(PREFIX)
                    .and_then(|bare| self.specialists().find(|a| a.name.as_str() == bare))
            })
    }

    /// Whether tasks can be handed to this agent.
    pub fn is_specialist(&self, name: &AgentName) -> bool {
        name.as_str() != ORCHESTRATOR && self.get(name).is_some()
    }

    pub fn specialists(&self) -> impl Iterator<Item = &Agent> {
        self.agents
            .iter()
            .filter(|agent| agent.name.as_str() != ORCHESTRATOR)
    }

    pub(crate) fn single(&self) -> &AgentName {
        &self.universal
    }
}

impl Agent {
    /// Reads a Markdown file with YAML front matter; the text below it is the prompt.
    pub fn parse(text: &str) -> Result<Self, AgentError> {
        let (matter, prompt) = split(text).ok_or(AgentError::NoFrontMatter)?;
        let matter: FrontMatter = serde_saphyr::from_str(matter)
            .map_err(|error| AgentError::FrontMatter(error.to_string()))?;
        let file_restrictions = matter
            .file_restrictions
            .iter()
            .map(|pattern| FilePattern::parse(pattern))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            name: matter.name,
            role: matter.role,
            description: matter.description,
            model: matter.model,
            fallback_models: matter.fallback_models,
            temperature: matter.temperature,
            max_tokens: matter.max_tokens,
            prompt: prompt.trim().to_owned(),
            allowed_tools: matter.tools,
            extra_tools: matter.extra_tools,
            file_restrictions,
            concurrency_limit: matter
                .concurrency_limit
                .unwrap_or(DEFAULT_CONCURRENCY_LIMIT),
        })
    }

    /// Whether the agent may use a tool there. A task belongs to one agent, so it is never handed
    /// over.
    pub fn offers(&self, tool: Tool, lane: Lane) -> bool {
        self.offered(lane).any(|offered| offered == tool)
    }

    fn offered(&self, lane: Lane) -> impl Iterator<Item = Tool> {
        let fits = move |tool: &Tool| match tool {
            Tool::SwitchMode => lane == Lane::OWN,
            // They are offered where there is something to find, whatever the agent may use.
            Tool::SearchTools | Tool::UseSkill => false,
            _ => true,
        };
        self.allowed_tools
            .iter()
            .filter_map(AllowedTool::built_in)
            .chain(self.extra_tools.iter().copied())
            .filter(fits)
    }

    pub fn may_write(&self, path: &str) -> bool {
        self.file_restrictions.is_empty()
            || self
                .file_restrictions
                .iter()
                .any(|pattern| pattern.0.is_match(path))
    }

    /// Whether the agent may use this tool of an MCP server.
    pub fn may_use(&self, tool: &McpToolId) -> bool {
        let allows = |allowed: &AllowedTool| allowed.allows(&tool.server, &tool.tool);
        self.allowed_tools.iter().any(allows)
    }

    /// What the agent's prompt and its built-in tools take in every call, by the estimate.
    pub fn prompt_tokens(&self, lane: Lane) -> u64 {
        let tools = self.tool_specs(lane);
        tokens_of_text(&self.prompt).saturating_add(tokens_of_tools(&tools))
    }

    pub(crate) fn tool_specs(&self, lane: Lane) -> Vec<Arc<ToolSpec>> {
        self.offered(lane).map(Tool::spec).collect()
    }
}

impl FilePattern {
    pub fn parse(pattern: &str) -> Result<Self, AgentError> {
        RegexBuilder::new(pattern)
            .size_limit(PATTERN_BYTES)
            .build()
            .map(Self)
            .map_err(|error| AgentError::Pattern {
                pattern: pattern.to_owned(),
                why: error.to_string(),
            })
    }

    /// A pattern that was checked before. One that does not compile any more matches nothing,
    /// rather than everything.
    pub fn parse_or_nothing(pattern: &str) -> Option<Self> {
        Self::parse(pattern).or_else(|_| Self::parse(NOTHING)).ok()
    }

    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

/// What the definitions of these tools take, by the estimate.
pub(crate) fn tokens_of_tools(tools: &[Arc<ToolSpec>]) -> u64 {
    let bytes = |spec: &Arc<ToolSpec>| {
        spec.name.len() + spec.description.len() + spec.parameters.get().len()
    };
    tokens_of_bytes(tools.iter().map(bytes).sum())
}

/// Matches no text at all.
const NOTHING: &str = r"[^\s\S]";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FrontMatter {
    name: AgentName,
    #[serde(default)]
    role: String,
    description: String,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    fallback_models: Vec<String>,
    #[serde(default)]
    temperature: Option<f32>,
    #[serde(default)]
    max_tokens: Option<u32>,
    tools: Vec<AllowedTool>,
    #[serde(default)]
    extra_tools: Vec<Tool>,
    #[serde(default)]
    file_restrictions: Vec<String>,
    #[serde(default)]
    concurrency_limit: Option<u32>,
}

fn split(text: &str) -> Option<(&str, &str)> {
    let rest = text
        .trim_start_matches('\u{feff}')
        .strip_prefix("---")?
        .strip_prefix('\n')?;
    let end = rest.find("\n---\n")?;
    Some((rest.get(..end)?, rest.get(end + 5..)?))
}

fn known_name(name: &'static str) -> AgentName {
    // The names of the built-in team are valid ids; a test reads every one of them.
    #[allow(clippy::unwrap_used)]
    AgentName::parse(name).unwrap()
}

#[cfg(test)]
mod tests {
    use codelab_protocol::ToolSide;

    use super::*;

    fn tools(agent: &Agent) -> Vec<String> {
        let tools = agent.allowed_tools.iter();
        tools.map(ToString::to_string).collect()
    }

    #[test]
    fn the_team_has_exactly_the_documented_tools() {
        let all = [
            "read_file",
            "write_file",
            "list_files",
            "search_in_code",
            "create_directory",
            "execute_command",
            "attempt_completion",
            "ask_followup_question",
        ];
        let expected: [(&str, &[&str], &[&str]); 5] = [
            (
                "orchestrator",
                &["read_file", "list_files", "search_in_code"],
                &[],
            ),
            ("coder", &all, &["switch_mode", "echo", "calculator"]),
            (
                "architect",
                &[
                    "read_file",
                    "write_file",
                    "list_files",
                    "search_in_code",
                    "attempt_completion",
                    "ask_followup_question",
                ],
                &["switch_mode"],
            ),
            (
                "debug",
                &[
                    "read_file",
                    "list_files",
                    "search_in_code",
                    "execute_command",
                    "attempt_completion",
                    "ask_followup_question",
                ],
                &["switch_mode"],
            ),
            (
                "ask",
                &[
                    "read_file",
                    "search_in_code",
                    "list_files",
                    "attempt_completion",
                ],
                &["switch_mode"],
            ),
        ];
        let team = Team::built_in(AgentMode::Multi).unwrap();
        assert_eq!(team.agents().len(), expected.len());
        for (agent, (name, allowed, extra)) in team.agents().iter().zip(expected) {
            assert_eq!(agent.name.as_str(), name);
            assert_eq!(tools(agent), allowed, "{name}");
            assert_eq!(
                agent
                    .extra_tools
                    .iter()
                    .map(|t| t.as_str())
                    .collect::<Vec<_>>(),
                extra,
                "{name}"
            );
            assert!(!agent.prompt.is_empty() && !agent.description.is_empty());
        }
        let single = Team::built_in(AgentMode::Single).unwrap();
        let names: Vec<_> = single
            .agents()
            .iter()
            .map(|agent| agent.name.as_str())
            .collect();
        assert_eq!(names, ["orchestrator", "universal"]);
        assert_eq!(tools(single.get(single.single()).unwrap()), all);
    }

    #[test]
    fn a_team_without_client_tools_has_server_tools_only() {
        for (mode, switches) in [(AgentMode::Multi, true), (AgentMode::Single, false)] {
            let team = Team::built_in(mode).unwrap().with_server_tools_only();
            for agent in team.specialists() {
                let offered: Vec<Tool> = agent.offered(Lane::OWN).collect();
                assert!(
                    offered.iter().all(|tool| tool.side() == ToolSide::Server),
                    "{}: {offered:?}",
                    agent.name
                );
                assert!(
                    agent.offers(Tool::AskFollowupQuestion, Lane::OWN)
                        && agent.offers(Tool::Echo, Lane::OWN)
                );
                assert_eq!(
                    agent.offers(Tool::SwitchMode, Lane::OWN),
                    switches,
                    "{}",
                    agent.name
                );
            }
            assert_eq!(
                team.get(&orchestrator())
                    .unwrap()
                    .offered(Lane::OWN)
                    .count(),
                0
            );
        }
    }

    #[test]
    fn the_starter_pack_is_as_documented() {
        let pack = starter_pack().unwrap();
        let read = ["read_file", "list_files", "search_in_code"];
        let finish = ["attempt_completion", "ask_followup_question"];
        let expected: [(&str, &str, f32, u32, Vec<&str>); 4] = [
            (
                "agent_coder",
                "developer",
                0.3,
                4096,
                vec![
                    "read_file",
                    "write_file",
                    "list_files",
                    "search_in_code",
                    "create_directory",
                    "execute_command",
                ],
            ),
            ("agent_analyzer", "analyst", 0.5, 2048, read.to_vec()),
            (
                "agent_writer",
                "writer",
                0.7,
                2048,
                [&read[..], &["write_file"]].concat(),
            ),
            ("agent_researcher", "researcher", 0.6, 3096, read.to_vec()),
        ];
        assert_eq!(pack.len(), expected.len());
        for (agent, (name, role, temperature, max_tokens, own)) in pack.iter().zip(expected) {
            assert_eq!((agent.name.as_str(), agent.role.as_str()), (name, role));
            assert_eq!(
                (agent.model.as_deref(), agent.temperature),
                (None, Some(temperature)),
                "{name}"
            );
            assert_eq!(
                (agent.max_tokens, agent.concurrency_limit),
                (Some(max_tokens), 4),
                "{name}"
            );
            // Only the coder uses tools of MCP servers.
            let mcp: &[&str] = if name == "agent_coder" {
                &["mcp__*"]
            } else {
                &[]
            };
            let expected = [&own[..], &finish[..], mcp].concat();
            assert_eq!(tools(agent), expected, "{name}");
            assert!(
                crate::unknown_placeholders(&agent.prompt).is_empty()
                    && !agent.description.is_empty(),
                "{name}"
            );
        }
        for (path, allowed) in [
            ("a.md", true),
            ("docs/b.txt", true),
            ("c.rst", true),
            ("d.py", false),
            ("md", false),
            ("a.md.sh", false),
        ] {
            assert_eq!(pack[2].may_write(path), allowed, "{path}");
        }
        assert!(pack[0].may_write("src/main.rs"));
    }

    #[test]
    fn the_architect_writes_markdown_only() {
        let team = Team::built_in(AgentMode::Multi).unwrap();
        let architect = team.get(&known_name("architect")).unwrap();
        for (path, allowed) in [
            ("docs/a.md", true),
            ("a.py", false),
            ("a.md.py", false),
            ("md", false),
            ("a.md\nb.py", false),
        ] {
            assert_eq!(architect.may_write(path), allowed, "{path:?}");
        }
        assert!(
            team.get(&known_name("coder"))
                .unwrap()
                .may_write("src/main.rs")
        );
    }

    #[test]
    fn a_bad_definition_says_what_is_wrong() {
        let cases = [
            ("no front matter", "between two lines"),
            (
                "---\nname: a b\ndescription: x\ntools: []\n---\nprompt",
                "agent must be",
            ),
            (
                "---\nname: a\ndescription: x\ntools: [fly]\n---\nprompt",
                "fly",
            ),
            (
                "---\nname: a\ndescription: x\ntools: []\nfile_restrictions: ['(']\n---\nprompt",
                "file restriction",
            ),
            (
                "---\nname: a\ndescription: x\ntools: []\ncolour: red\n---\nprompt",
                "colour",
            ),
        ];
        for (text, part) in cases {
            let error = Agent::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text:?} gave {error}");
        }
    }
}
