//! The name of an agent's collection. It becomes the name of a file or of a collection on a server,
//! so all its parts are validated.

use std::fmt;
use std::sync::Arc;

use codelab_protocol::{AgentName, ProjectId, UserId};

use crate::MemoryError;

/// `user{user_id}_project{project_id}_{agent_name}_context`: one agent of one project of one user.
///
/// Different agents have different names: the ids are digits, and the agent's name is everything
/// between the project's id and the end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CollectionName {
    name: Arc<str>,
    user: UserId,
    project: ProjectId,
    agent: AgentName,
}

impl CollectionName {
    /// Names of a project's agents use `a-z 0-9 _`. Other agent names are refused here, because
    /// some file systems and Qdrant do not distinguish them.
    pub fn new(user: UserId, project: ProjectId, agent: &AgentName) -> Result<Self, MemoryError> {
        let is_allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        if !agent.as_str().bytes().all(is_allowed) {
            return Err(MemoryError::Invalid {
                reason: format!("agent {agent} must be named with a-z 0-9 _"),
            });
        }
        let name = format!("user{user}_project{project}_{agent}_context").into();
        Ok(Self {
            name,
            user,
            project,
            agent: agent.clone(),
        })
    }

    /// Reads a name that `new` made; `None` for any other.
    pub fn parse(name: &str) -> Option<Self> {
        let (user, rest) = name.strip_prefix("user")?.split_once("_project")?;
        let (project, agent) = rest.strip_suffix("_context")?.split_once('_')?;
        Self::new(
            UserId::parse(user)?,
            ProjectId::parse(project)?,
            &AgentName::parse(agent).ok()?,
        )
        .ok()
    }

    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// Whose memory it is.
    pub fn parts(&self) -> (UserId, ProjectId, AgentName) {
        (self.user, self.project, self.agent.clone())
    }
}

impl fmt::Display for CollectionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(user: i64, project: i64, agent: &str) -> Result<String, MemoryError> {
        let (user, project) = (
            UserId::new(user).expect("positive"),
            ProjectId::new(project).expect("positive"),
        );
        CollectionName::new(user, project, &AgentName::parse(agent).expect("a name"))
            .map(|name| name.to_string())
    }

    #[test]
    fn a_name_is_the_documented_one_or_refused() {
        assert_eq!(
            name(7, 42, "agent_coder").unwrap(),
            "user7_project42_agent_coder_context"
        );
        for agent in ["Coder", "a.b", "..", "a:b", "a-b"] {
            assert!(
                matches!(name(1, 1, agent), Err(MemoryError::Invalid { .. })),
                "{agent}"
            );
        }
    }

    #[test]
    fn only_such_names_are_read() {
        for name in [
            "user7_project42_agent_coder_context",
            "user1_project1_context_context",
            "user1_project1___context",
        ] {
            assert_eq!(
                CollectionName::parse(name)
                    .map(|name| name.to_string())
                    .as_deref(),
                Some(name)
            );
        }
        for name in [
            "",
            "user7_project42__context",
            "user7_project42_context",
            "user0_project1_a_context",
            "user01_project1_a_context",
            "user1_project+1_a_context",
            "user1_project1_A_context",
            "user1_project1_a_context2",
            "documents",
        ] {
            assert_eq!(CollectionName::parse(name), None, "{name}");
        }
    }
}
