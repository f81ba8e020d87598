//! `/rewind`: takes back files, messages or both since one of the person's messages, and `/redo` gives
//! them back.

use codelab_client::{
    CallView, Client, ClientError, SessionItem, SessionNote, SessionView, ToolCallStatus,
};
use codelab_protocol::{
    CallOutcome, LeftFile, Message, MessageId, NotCovered, RewindId, RewindScope, RewindSession,
    Rewound, RewoundFiles, Role, SessionId, Tool, WrittenByCall,
};
use codelab_workspace::Workspace;
use serde_json::Value;

use crate::Language;
use crate::texts::RewindText;

use super::requests::{RequestOutcome, minute};
use super::text::{BOLD, DIM, TextLine};

/// Messages that are offered, the newest first.
const MAX_LISTED: usize = 20;
/// Messages of the person that are read.
const PAGE: u64 = 200;
/// Characters that are shown of each.
const SHOWN_CHARS: usize = 72;
/// Paths that are shown of each list of a result.
const MAX_SHOWN: usize = 20;
/// Paths that are shown of each list of what a rewind would do.
const MAX_FORESEEN: usize = 6;

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

/// A message of the person that a session can go back to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaidMessage {
    pub id: MessageId,
    pub when: String,
    pub text: String,
}

impl SaidMessage {
    /// Its beginning, as one line.
    pub fn line(&self) -> String {
        let words: Vec<&str> = self.text.split_whitespace().collect();
        let whole = words.join(" ");
        match whole.char_indices().nth(SHOWN_CHARS) {
            Some((end, _)) => format!("{}…", &whole[..end]),
            None => whole,
        }
    }
}

/// The person's messages that a session can go back to, the newest first.
pub async fn list(client: Client, session: SessionId) -> RequestOutcome {
    match offered(&client, &session).await {
        Ok(messages) => RequestOutcome::Rewindable(messages),
        Err(error) => RequestOutcome::Failed(error),
    }
}

/// The list as lines, where nobody can choose from it by keys.
pub fn lines(messages: &[SaidMessage], language: Language) -> Vec<String> {
    let row = |(index, said): (usize, &SaidMessage)| format!("{:>2}  {}", index + 1, said.line());
    let mut rows: Vec<String> = messages.iter().enumerate().map(row).collect();
    rows.push(language.text(RewindText::RewindHint).to_owned());
    rows
}

async fn offered(client: &Client, session: &SessionId) -> Result<Vec<SaidMessage>, ClientError> {
    let counted = client
        .project_session_messages(session, Some(Role::User), Some(1), None)
        .await?;
    let offset = counted.total.saturating_sub(PAGE);
    let page = client
        .project_session_messages(session, Some(Role::User), Some(PAGE), Some(offset))
        .await?;
    let begins_turn = |said: &Message| said.answers.is_none() && !said.steered;
    let can_be_chosen = |said: &Message| said.rewound.is_none() && begins_turn(said);
    let said = page.messages.into_iter().rev().filter(can_be_chosen);
    let said = said.map(|said| SaidMessage {
        id: said.message_id,
        when: minute(said.timestamp),
        text: said.content,
    });
    Ok(said.take(MAX_LISTED).collect())
}

/// What was done since a message, as far as the view reaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoneSince {
    written: Vec<WrittenByCall>,
    /// What no rewind takes back.
    others: Vec<NotCovered>,
}

/// `None` if the view does not reach back to the message.
pub fn done_since(view: &SessionView, message: &MessageId) -> Option<DoneSince> {
    let mut done = DoneSince {
        written: Vec::new(),
        others: Vec::new(),
    };
    for item in view.items().rev() {
        match item {
            SessionItem::Message(said) if said.message_id == *message => return Some(done),
            SessionItem::Call(call) => done.note(call),
            _ => {}
        }
    }
    None
}

impl DoneSince {
    fn note(&mut self, view: &CallView) {
        let CallView { call, .. } = view;
        let succeeded = match &view.status {
            ToolCallStatus::Finished { result, .. } => result["success"] != false,
            ToolCallStatus::Closed(CallOutcome::Unknown | CallOutcome::Cancelled) => false,
            _ => return,
        };
        let argument = |name: &str| call.arguments.get(name).and_then(Value::as_str);
        let is = |tool: Tool| call.name == tool.as_str();
        if is(Tool::WriteFile) || is(Tool::CreateDirectory) {
            self.written.push(WrittenByCall {
                call_id: call.call_id.clone(),
                path: argument("path").filter(|_| succeeded).map(str::to_owned),
            });
        } else if is(Tool::ExecuteCommand) || view.mcp.is_some() {
            self.others.push(NotCovered {
                tool: call.name.clone(),
                what: argument("command").unwrap_or(&call.name).to_owned(),
                reason: None,
            });
        }
    }
}

/// What a rewind to the message would do to the files of this folder.
pub async fn foresee(
    workspace: Workspace,
    session: SessionId,
    message: MessageId,
    done: Option<DoneSince>,
) -> RequestOutcome {
    let look = move || {
        let DoneSince { written, others } = done?;
        let mut files = workspace.foresee_rewind(&session, &written)?;
        files.not_covered.extend(others);
        Some(files)
    };
    let files = tokio::task::spawn_blocking(look).await;
    RequestOutcome::Foreseen(message, files.ok().flatten())
}

/// What stands above the question what to take back.
pub fn heading(
    said: &SaidMessage,
    files: Option<&RewoundFiles>,
    language: Language,
) -> Vec<TextLine> {
    let title = language.with(RewindText::GoesBackTo, &[&said.line()]);
    let mut rows = vec![TextLine::styled(&title, BOLD)];
    let Some(files) = files else {
        let unknown = language.text(RewindText::FilesUnknown);
        rows.push(TextLine::styled(&format!("  {unknown}"), DIM));
        return rows;
    };
    let mut list = |title: RewindText, entries: Vec<String>| {
        if entries.is_empty() {
            return;
        }
        rows.push(TextLine::plain(&format!("  {}", language.text(title))));
        let shown = entries.iter().take(MAX_FORESEEN);
        rows.extend(shown.map(|entry| TextLine::plain(&format!("    {entry}"))));
        let more = entries.len().saturating_sub(MAX_FORESEEN);
        if more > 0 {
            let more = language.with(RewindText::More, &[&more.to_string()]);
            rows.push(TextLine::styled(&format!("    {more}"), DIM));
        }
    };
    let left = files.left.iter().map(|left| left_row(left, language));
    let others = files.not_covered.iter();
    let others = others.map(|other| uncovered_row(other, language));
    list(RewindText::WouldRestore, files.restored.clone());
    list(RewindText::WouldLeave, left.collect());
    list(RewindText::NotCovered, others.collect());
    if files.restored.is_empty() && files.left.is_empty() {
        let none = language.text(RewindText::NoFileWritten);
        rows.insert(1, TextLine::styled(&format!("  {none}"), DIM));
    }
    rows
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
        // One that failed changed nothing, and an undoing that failed left it in force.
        if let SessionItem::Note(SessionNote::Rewound(rewound)) = item
            && rewound.error.is_none()
        {
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
        rows.extend(left.map(|left| format!("  {}", left_row(left, language))));
    }
    if !rewound.not_covered.is_empty() {
        rows.push(language.text(RewindText::NotCovered).to_owned());
        let others = rewound.not_covered.iter().take(MAX_SHOWN);
        rows.extend(others.map(|other| format!("  {}", uncovered_row(other, language))));
    }
    if !rewound.undone {
        rows.push(language.text(RewindText::RedoHint).to_owned());
    }
    rows
}

fn left_row(left: &LeftFile, language: Language) -> String {
    format!("{}: {}", left.path, language.reason(&left.reason))
}

fn uncovered_row(other: &NotCovered, language: Language) -> String {
    match &other.reason {
        Some(reason) => format!("{}: {}", other.what, language.reason(reason)),
        None => other.what.clone(),
    }
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
