//! The tools that MCP clients see.

use std::sync::Arc;

use rmcp::model::{Tool, ToolAnnotations};
use serde_json::Value;

use super::schemas;

/// A tool of CodeLab for MCP clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnTool {
    ListAgents,
    AskAgent,
    StartPlan,
    GetSession,
    ListApprovals,
    DecideApproval,
}

impl OwnTool {
    pub const ALL: [Self; 6] = [
        Self::ListAgents,
        Self::AskAgent,
        Self::StartPlan,
        Self::GetSession,
        Self::ListApprovals,
        Self::DecideApproval,
    ];

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::ListAgents => "list_agents",
            Self::AskAgent => "ask_agent",
            Self::StartPlan => "start_plan",
            Self::GetSession => "get_session",
            Self::ListApprovals => "list_approvals",
            Self::DecideApproval => "decide_approval",
        }
    }

    pub fn definition(self) -> Tool {
        let (input, output) = self.schemas();
        Tool::new(self.name(), self.description(), object(input))
            .with_title(self.title())
            .with_raw_output_schema(object(output))
            .with_annotations(self.annotations())
    }

    fn title(self) -> &'static str {
        match self {
            Self::ListAgents => "List agents",
            Self::AskAgent => "Ask an agent",
            Self::StartPlan => "Start a plan",
            Self::GetSession => "Show a session",
            Self::ListApprovals => "List approvals",
            Self::DecideApproval => "Decide an approval",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::ListAgents => {
                "Lists the agents of a project: their names, what they are for, and the models \
                 that they use."
            }
            Self::AskAgent => {
                "Sends a message to one agent and waits until it has answered or needs somebody. \
                 Without session_id a new session begins; with it, the agent knows what was said \
                 before. The result says in `status` and `next` what to do when something waits: \
                 a decision (decide_approval), an answer to the agent's question (ask_agent again \
                 with the session_id and the answer as message), or a tool runner. If you stop \
                 waiting, the agent goes on; get_session shows its answer later."
            }
            Self::StartPlan => {
                "Has a request planned and split into tasks for several agents. Answers at once \
                 with the session; get_session shows the plan's end and what waits for a person. \
                 In a session where a question is open, the message answers that question."
            }
            Self::GetSession => {
                "Shows a session: its newest messages, whether an agent works in it, and what \
                 waits for a person."
            }
            Self::ListApprovals => {
                "Lists what waits for a decision in all of the user's sessions: tool calls, plans \
                 and budgets."
            }
            Self::DecideApproval => {
                "Approves, rejects or edits a tool call, a plan or a budget that waits. An \
                 approved call runs. Decide only what the user told you to decide. Pass the \
                 digest that was shown, so that nothing else is approved than what they saw."
            }
        }
    }

    /// Whether a call changes nothing.
    pub fn only_reads(self) -> bool {
        match self {
            Self::ListAgents | Self::GetSession | Self::ListApprovals => true,
            Self::AskAgent | Self::StartPlan | Self::DecideApproval => false,
        }
    }

    /// Agents run commands and reach other systems, and a decision lets such a call run.
    fn annotations(self) -> ToolAnnotations {
        let hints = ToolAnnotations::new();
        match self.only_reads() {
            true => hints.read_only(true).open_world(false),
            false => hints
                .read_only(false)
                .destructive(true)
                .idempotent(false)
                .open_world(true),
        }
    }

    /// Of the arguments, and of the result.
    fn schemas(self) -> (Value, Value) {
        match self {
            Self::ListAgents => (schemas::list_agents(), schemas::agents()),
            Self::AskAgent => (schemas::ask_agent(), schemas::answer()),
            Self::StartPlan => (schemas::start_plan(), schemas::accepted()),
            Self::GetSession => (schemas::get_session(), schemas::session()),
            Self::ListApprovals => (schemas::list_approvals(), schemas::approvals()),
            Self::DecideApproval => (schemas::decide_approval(), schemas::decided()),
        }
    }
}

fn object(schema: Value) -> Arc<serde_json::Map<String, Value>> {
    match schema {
        Value::Object(schema) => Arc::new(schema),
        _ => Arc::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_schemas_of_objects_and_honest_hints() {
        for tool in OwnTool::ALL {
            let definition = tool.definition();
            assert_eq!(OwnTool::named(&definition.name), Some(tool));
            let output = definition.output_schema.expect("an output schema");
            for schema in [&definition.input_schema, &output] {
                assert_eq!(schema["type"], "object", "{tool:?}");
                assert!(schema["properties"].is_object(), "{tool:?}");
            }
            assert_eq!(definition.input_schema["additionalProperties"], false);
            let hints = definition.annotations.expect("hints");
            let reads = tool.name().starts_with("list_") || tool.name().starts_with("get_");
            assert_eq!(hints.read_only_hint, Some(reads), "{tool:?}");
        }
    }
}
