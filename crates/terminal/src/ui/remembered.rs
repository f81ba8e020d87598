//! `/memory`: what the agents of the project remember, from which folders, and letting one forget.

use codelab_client::{Client, ClientError};
use codelab_protocol::{ContextInteraction, ProjectAgent, ProjectId};

use crate::Language;
use crate::texts::MemoryText;

use super::WorkPlace;
use super::block::Block;
use super::plan::short;
use super::requests::RequestOutcome;

const SHOWN: u64 = 10;
const MAX_TEXT_CHARS: usize = 160;
const FORGET: &str = "forget";

/// What was asked for behind `/memory`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryRequest {
    Counts,
    Of(String),
    Forget(String),
}

impl MemoryRequest {
    pub fn parse(words: Option<&str>) -> Self {
        let words: Vec<&str> = words.unwrap_or_default().split_whitespace().collect();
        match words.as_slice() {
            [] => Self::Counts,
            [verb, agent] if *verb == FORGET => Self::Forget((*agent).to_owned()),
            [agent, ..] => Self::Of((*agent).to_owned()),
        }
    }
}

pub async fn memory(
    client: Client,
    project: ProjectId,
    request: MemoryRequest,
    place: WorkPlace,
    language: Language,
) -> RequestOutcome {
    match told(&client, project, request, &place, language).await {
        Ok(block) => RequestOutcome::Shown(vec![block]),
        Err(error) => RequestOutcome::Failed(error),
    }
}

async fn told(
    client: &Client,
    project: ProjectId,
    request: MemoryRequest,
    place: &WorkPlace,
    language: Language,
) -> Result<Block, ClientError> {
    let agents = client.project_agents(project).await?;
    let wanted = match &request {
        MemoryRequest::Counts => return counts(client, project, &agents, language).await,
        MemoryRequest::Of(wanted) | MemoryRequest::Forget(wanted) => wanted,
    };
    let is_wanted =
        |agent: &&ProjectAgent| agent.name.as_str() == wanted || short(&agent.name) == wanted;
    let Some(agent) = agents.iter().find(is_wanted) else {
        let names: Vec<&str> = agents.iter().map(|agent| short(&agent.name)).collect();
        let values = [wanted.as_str(), &names.join(", ")];
        return Ok(Block::Notice(
            language.with(crate::Text::NoSuchAgent, &values),
        ));
    };
    if matches!(request, MemoryRequest::Forget(_)) {
        client.clear_context(project, &agent.agent_id).await?;
        let name = short(&agent.name);
        return Ok(Block::Notice(language.with(MemoryText::Forgotten, &[name])));
    }
    let list = client.context(project, &agent.agent_id, SHOWN).await?;
    let mut rows: Vec<String> = list
        .interactions
        .iter()
        .map(|one| row(one, place, language))
        .collect();
    let (shown, total) = (rows.len().to_string(), list.total.to_string());
    rows.push(language.with(MemoryText::Shown, &[&shown, &total]));
    Ok(Block::Listing(rows))
}

async fn counts(
    client: &Client,
    project: ProjectId,
    agents: &[ProjectAgent],
    language: Language,
) -> Result<Block, ClientError> {
    let width = agents.iter().map(|agent| short(&agent.name).len()).max();
    let width = width.unwrap_or_default();
    let mut rows = Vec::new();
    for agent in agents {
        let total = client.context(project, &agent.agent_id, 1).await?.total;
        let total = language.with(MemoryText::Count, &[&language.grouped(total)]);
        rows.push(format!("{:width$}  {total}", short(&agent.name)));
    }
    rows.push(language.with(MemoryText::Explained, &[&project.to_string()]));
    Ok(Block::Listing(rows))
}

/// When and where it was, and how it begins.
fn row(one: &ContextInteraction, place: &WorkPlace, language: Language) -> String {
    let when = one.timestamp.to_string();
    let when = when.get(..16).unwrap_or(&when).replace('T', " ");
    let folder = one.session_id.as_ref().and_then(|id| place.folder_of(id));
    let whence = match folder {
        Some(folder) if folder == place.folder => language.text(MemoryText::Here).to_owned(),
        Some(folder) => folder.display().to_string(),
        None => language.text(MemoryText::Elsewhere).to_owned(),
    };
    let words: Vec<&str> = one.text.split_whitespace().collect();
    let text: String = words.join(" ").chars().take(MAX_TEXT_CHARS).collect();
    format!("{when}  {whence}: {text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_behind_the_command_are_understood() {
        for (words, expected) in [
            (None, MemoryRequest::Counts),
            (Some("coder"), MemoryRequest::Of("coder".to_owned())),
            (
                Some("forget coder"),
                MemoryRequest::Forget("coder".to_owned()),
            ),
            (Some("forget"), MemoryRequest::Of("forget".to_owned())),
        ] {
            assert_eq!(MemoryRequest::parse(words), expected, "{words:?}");
        }
    }
}
