//! What the workspace brings, within a prompt. It stands before everything that changes from turn to
//! turn, and no trimming or summary takes any of it away.

use std::sync::Arc;

use codelab_protocol::{Tool, ToolSpec};

use super::Briefing;

impl Briefing<'_> {
    /// The agent's own tools, then what is the same as long as the workspace and the project are.
    pub(super) fn tools(&self) -> Vec<Arc<ToolSpec>> {
        let (agent, lane) = (self.agent, self.lane);
        let mut tools = self
            .named_tools
            .offer(agent, lane, self.window, self.found());
        if agent.uses_skills(self.instructions, lane) {
            tools.insert(agent.tool_specs(lane).len(), Tool::UseSkill.spec());
        }
        tools
    }

    /// What the workspace brings takes so many tokens of the prompt.
    pub(super) fn brought_tokens(&self) -> u64 {
        let with_skills = self.agent.uses_skills(self.instructions, self.lane);
        let touched = &self.session.touched;
        self.instructions.tokens(touched, self.window, with_skills)
    }

    /// Instructions, then the list of skills.
    pub(super) fn brought(&self) -> String {
        let touched = &self.session.touched;
        let mut brought = self.instructions.told(touched, self.window);
        if self.agent.uses_skills(self.instructions, self.lane) {
            brought.push_str(&self.instructions.told_skills());
        }
        brought
    }
}
