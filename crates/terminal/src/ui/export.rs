//! `/export`: a session as a Markdown file in the workspace.

use std::fmt::Write as _;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use codelab_client::{Client, ClientError};
use codelab_protocol::{Message, ProjectSession, Role, SessionId};

use crate::Language;
use crate::texts::CommandText;

use super::block::Block;
use super::plan::short;
use super::requests::RequestOutcome;

const PAGE: u64 = 200;
/// A session that is larger is exported up to here.
const MAX_BYTES: usize = 64 << 20;
/// Names that are tried before giving up.
const MAX_NAMES: usize = 100;
/// Of a tool call's arguments.
const MAX_ARGUMENT_CHARS: usize = 400;

pub async fn export(
    client: Client,
    session: SessionId,
    folder: PathBuf,
    language: Language,
) -> RequestOutcome {
    let text = match collect(&client, &session).await {
        Ok(text) => text,
        Err(error) => return RequestOutcome::Failed(error),
    };
    let notice = match write(&folder, &session, &text) {
        Ok(path) => language.with(CommandText::Exported, &[&path.display().to_string()]),
        Err(error) => language.with(CommandText::NotExported, &[&error.to_string()]),
    };
    RequestOutcome::Shown(vec![Block::Notice(notice)])
}

async fn collect(client: &Client, session: &SessionId) -> Result<String, ClientError> {
    let mut out = head(&client.project_session(session).await?.session);
    let mut offset = 0;
    loop {
        let page = client
            .project_session_messages(session, None, Some(PAGE), Some(offset))
            .await?;
        page.messages
            .iter()
            .for_each(|message| said(message, &mut out));
        offset += page.messages.len() as u64;
        if page.messages.is_empty() || offset >= page.total || out.len() > MAX_BYTES {
            return Ok(out);
        }
    }
}

fn head(session: &ProjectSession) -> String {
    let title = session.title.as_deref().unwrap_or_default();
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    let title = match title.as_str() {
        "" => session.session_id.as_str(),
        title => title,
    };
    format!(
        "# {title}\n\nSession `{}`, started {}, last activity {}.\n",
        session.session_id, session.created_at, session.last_activity
    )
}

/// What was said and which tools were called. What the tools returned is left out.
fn said(message: &Message, out: &mut String) {
    let who = match message.role {
        Role::User => "You",
        Role::Assistant => message.agent_id.as_ref().map_or("Agent", short),
        Role::Tool | Role::System => return,
    };
    // Writing into a string cannot fail.
    let _ = write!(out, "\n## {who} · {}\n", message.timestamp);
    let text = message.content.trim();
    if !text.is_empty() {
        let _ = write!(out, "\n{text}\n");
    }
    if !message.tool_calls.is_empty() {
        out.push('\n');
    }
    for call in &message.tool_calls {
        let arguments = serde_json::to_string(&call.arguments).unwrap_or_default();
        let shown: String = arguments.chars().take(MAX_ARGUMENT_CHARS).collect();
        let more = if shown.len() < arguments.len() {
            "…"
        } else {
            ""
        };
        let _ = writeln!(out, "- called `{}`: ``{shown}{more}``", call.name);
    }
}

/// Never over a file that is there.
fn write(folder: &Path, session: &SessionId, text: &str) -> io::Result<PathBuf> {
    for number in 1..=MAX_NAMES {
        let name = match number {
            1 => format!("codelab-{session}.md"),
            _ => format!("codelab-{session}-{number}.md"),
        };
        let path = folder.join(name);
        let opened = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path);
        match opened {
            Ok(mut file) => {
                io::Write::write_all(&mut file, text.as_bytes())?;
                return Ok(path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_replaces_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let session = SessionId::parse("chat-1").unwrap();
        let first = write(folder.path(), &session, "one").unwrap();
        let second = write(folder.path(), &session, "two").unwrap();
        assert_eq!(std::fs::read_to_string(first).unwrap(), "one");
        assert_eq!(std::fs::read_to_string(second).unwrap(), "two");
    }
}
