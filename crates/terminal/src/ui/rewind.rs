//! `/rewind`: takes back files, messages or both since one of the person's messages, and `/redo` gives
//! them back.

use codelab_client::{Client, SessionItem, SessionNote, SessionView};
use codelab_protocol::{
    Message, MessageId, RewindId, RewindScope, RewindSession, Rewound, Role, SessionId,
};

use crate::Language;
use crate::texts::RewindText;

use super::block::Block;
use super::requests::RequestOutcome;

/// Messages that are offered, the newest first.
const MAX_LISTED: usize = 20;
/// Messages of the person that are read.
const PAGE: u64 = 200;
/// Characters that are shown of each.
const SHOWN_CHARS: usize = 72;
/// Paths that are shown of each list of a result.
const MAX_SHOWN: usize = 20;

/// What the person wants, by the words behind the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RewindRequest {
    List,
    To(usize, RewindScope),
    Undo,
    /// Words that say none of these.
    Unclear,
}

impl RewindRequest {
    pub fn parse(words: Option<&str>) -> Self {
        let words: Vec<&str> = words.unwrap_or_default().split_whitespace().collect();
        let scope = |word: Option<&&str>| match word.map(|word| word.to_ascii_lowercase()) {
            None => Some(RewindScope::Both),
            Some(word) => match word.as_str() {
                "files" => Some(RewindScope::Files),
                "conversation" => Some(RewindScope::Conversation),
                "both" => Some(RewindScope::Both),
                _ => None,
            },
        };
        match words.as_slice() {
            [] => Self::List,
            ["undo"] => Self::Undo,
            [number, rest @ ..] if rest.len() <= 1 => {
                let number = number.parse().ok().filter(|number| *number > 0);
                match number.zip(scope(rest.first())) {
                    Some((number, scope)) => Self::To(number, scope),
                    None => Self::Unclear,
                }
            }
            _ => Self::Unclear,
        }
    }
}

/// The person's messages that a session can go back to.
pub async fn list(client: Client, session: SessionId, language: Language) -> RequestOutcome {
    match offered(&client, &session).await {
        Err(error) => RequestOutcome::Failed(error),
        Ok(messages) if messages.is_empty() => {
            let notice = language.text(RewindText::NothingToRewind).to_owned();
            RequestOutcome::Shown(vec![Block::Notice(notice)])
        }
        Ok(messages) => {
            let row = |(index, (_, text)): (usize, &(MessageId, String))| {
                let line: Vec<&str> = text.split_whitespace().collect();
                let line: String = line.join(" ").chars().take(SHOWN_CHARS).collect();
                format!("{:>2}  {line}", index + 1)
            };
            let mut rows: Vec<String> = messages.iter().enumerate().map(row).collect();
            rows.push(language.text(RewindText::RewindHint).to_owned());
            RequestOutcome::Rewindable(messages, rows)
        }
    }
}

async fn offered(
    client: &Client,
    session: &SessionId,
) -> Result<Vec<(MessageId, String)>, codelab_client::ClientError> {
    let counted = client
        .project_session_messages(session, Some(Role::User), Some(1), None)
        .await?;
    let offset = counted.total.saturating_sub(PAGE);
    let page = client
        .project_session_messages(session, Some(Role::User), Some(PAGE), Some(offset))
        .await?;
    // Neither taken back already, nor said within a turn.
    let can_be_chosen =
        |said: &Message| said.rewound.is_none() && said.answers.is_none() && !said.steered;
    let said = page.messages.into_iter().rev().filter(can_be_chosen);
    let said = said.map(|said| (said.message_id, said.content));
    Ok(said.take(MAX_LISTED).collect())
}

/// An event of the session tells of the end. `text` is what the person may want to send again.
pub async fn rewind(
    client: Client,
    session: SessionId,
    body: RewindSession,
    text: Option<String>,
) -> RequestOutcome {
    match client.rewind_session(&session, &body).await {
        Ok(rewound) => {
            let failed = rewound.is_some_and(|rewound| rewound.error.is_some());
            let takes_words = body.scope.is_some_and(RewindScope::has_conversation);
            RequestOutcome::Rewound(text.filter(|_| takes_words && !failed))
        }
        Err(error) => RequestOutcome::Failed(error),
    }
}

/// The last rewind that is in force, as far as the view reaches.
pub fn last_in_force(view: &SessionView) -> Option<RewindId> {
    let mut in_force: Vec<&RewindId> = Vec::new();
    for item in view.items() {
        if let SessionItem::Note(SessionNote::Rewound(rewound)) = item {
            in_force.retain(|id| **id != rewound.rewind_id);
            if !rewound.undone {
                in_force.push(&rewound.rewind_id);
            }
        }
    }
    in_force.last().map(|id| (*id).clone())
}

/// How a rewind ended, in the person's language.
pub fn told(rewound: &Rewound, language: Language) -> Vec<String> {
    if let Some(error) = &rewound.error {
        return vec![language.with(RewindText::NotRewound, &[error])];
    }
    let title = match rewound.undone {
        true => RewindText::Undone,
        false => RewindText::Rewound,
    };
    let files = rewound.restored.len().to_string();
    let mut rows = vec![language.with(title, &[&files, &rewound.messages.to_string()])];
    let shown = |path: &String| format!("  {path}");
    rows.extend(rewound.restored.iter().take(MAX_SHOWN).map(shown));
    if !rewound.left.is_empty() {
        rows.push(language.text(RewindText::Left).to_owned());
        let left = rewound.left.iter().take(MAX_SHOWN);
        rows.extend(left.map(|left| format!("  {}: {}", left.path, left.reason)));
    }
    if !rewound.not_covered.is_empty() {
        rows.push(language.text(RewindText::NotCovered).to_owned());
        let others = rewound.not_covered.iter().take(MAX_SHOWN);
        rows.extend(others.map(|other| match &other.reason {
            Some(reason) => format!("  {}: {reason}", other.what),
            None => format!("  {}", other.what),
        }));
    }
    if !rewound.undone {
        rows.push(language.text(RewindText::RedoHint).to_owned());
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_behind_the_command_say_where_to_and_what() {
        for (words, expected) in [
            (None, RewindRequest::List),
            (Some("2"), RewindRequest::To(2, RewindScope::Both)),
            (Some("2 files"), RewindRequest::To(2, RewindScope::Files)),
            (
                Some("1 Conversation"),
                RewindRequest::To(1, RewindScope::Conversation),
            ),
            (Some("undo"), RewindRequest::Undo),
            (Some("0"), RewindRequest::Unclear),
            (Some("1 all"), RewindRequest::Unclear),
            (Some("1 files now"), RewindRequest::Unclear),
        ] {
            assert_eq!(RewindRequest::parse(words), expected, "{words:?}");
        }
    }
}
