//! The earlier sessions of a project, with the folders that they were held in.

use codelab_client::{Client, ClientError};
use codelab_protocol::{ProjectId, SessionId};

use crate::texts::CommandText;
use crate::{Language, Text};

use super::WorkPlace;
use super::picker::{ListedSession, title_of};
use super::requests::{RequestOutcome, minute};

const LISTED_SESSIONS: u64 = 15;

/// The newest sessions of the project; `current` is marked.
pub async fn list(
    client: Client,
    project: ProjectId,
    current: Option<SessionId>,
    place: WorkPlace,
    language: Language,
) -> RequestOutcome {
    match listed(&client, project, &place, language).await {
        Ok((sessions, more)) => {
            let row = |(index, session): (usize, &ListedSession)| {
                let ListedSession { id, when, title } = session;
                let mark = match current.as_ref() == Some(id) {
                    true => format!("  ({})", language.text(Text::ThisSession)),
                    false => String::new(),
                };
                format!("{:>2}  {id}  {when}  {title}{mark}", index + 1)
            };
            let mut rows: Vec<String> = sessions.iter().enumerate().map(row).collect();
            rows.push(language.text(CommandText::SessionsHint).to_owned());
            rows.extend(more);
            let ids = sessions.into_iter().map(|session| session.id);
            RequestOutcome::Listed(ids.collect(), rows)
        }
        Err(error) => RequestOutcome::Failed(error),
    }
}

/// The sessions to choose from when the chat starts.
pub async fn choices(
    client: Client,
    project: ProjectId,
    place: WorkPlace,
    language: Language,
) -> RequestOutcome {
    match listed(&client, project, &place, language).await {
        Ok((sessions, more)) => RequestOutcome::Choices(sessions, more),
        Err(error) => RequestOutcome::Failed(error),
    }
}

/// The newest sessions, and what to say if there are older ones.
async fn listed(
    client: &Client,
    project: ProjectId,
    place: &WorkPlace,
    language: Language,
) -> Result<(Vec<ListedSession>, Option<String>), ClientError> {
    let list = client
        .project_sessions(Some(project), Some(LISTED_SESSIONS), None)
        .await?;
    let one = |session: codelab_protocol::ProjectSession| {
        let whence = match place.folder_of(&session.session_id) {
            Some(folder) if folder == place.folder => None,
            Some(folder) => {
                let folder = folder.display().to_string();
                Some(language.with(CommandText::InOtherFolder, &[&folder]))
            }
            None => Some(language.text(CommandText::NotOfChat).to_owned()),
        };
        let whence = whence.map(|whence| format!("  ({whence})"));
        let title = title_of(session.title, language);
        ListedSession {
            id: session.session_id,
            when: minute(session.last_activity),
            title: title + whence.as_deref().unwrap_or_default(),
        }
    };
    let (total, shown) = (list.total, list.sessions.len() as u64);
    let more = (total > shown).then(|| {
        let values = [&shown.to_string(), &total.to_string()];
        language.with(CommandText::MoreSessions, &values.map(String::as_str))
    });
    Ok((list.sessions.into_iter().map(one).collect(), more))
}
