//! A whole session as one file.

use std::fmt::Write as _;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use codelab_protocol::{ExportedSession, Message, PartialReason, Role, SessionId};
use codelab_runtime::{StreamSlot, state_of};
use codelab_store::{Store, StoreError};
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::super::long_list;
use super::{MySession, shown};
use crate::app::App;
use crate::body::Params;
use crate::error::{ApiResult, log_refusal};

const MARKDOWN: &str = "text/markdown; charset=utf-8";

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(in super::super) struct ExportQuery {
    /// Without it, Markdown.
    #[serde(default)]
    #[param(inline)]
    format: ExportFormat,
}

#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum ExportFormat {
    #[default]
    Markdown,
    Json,
}

/// The whole session as a file
#[utoipa::path(
    get, path = "/my/chat/sessions/{session_id}/export", params(ExportQuery),
    responses((status = 200, description = "Every message, oldest first", content((String = "text/markdown"), (ExportedSession = "application/json")))),
)]
pub(in crate::routes) async fn export(
    State(app): State<App>,
    session: MySession,
    Params(query): Params<ExportQuery>,
) -> ApiResult<Response> {
    let state = state_of(&session.row)?;
    let (about, id) = (shown(&session.row, &state), session.id().clone());
    let slot = app.runtime.shares().stream(session.user.id())?;
    let messages = parts(app.runtime.store().clone(), session, slot);
    match query.format {
        ExportFormat::Json => {
            let about = serde_json::to_string(&about)
                .map_err(|error| StoreError::Corrupt(error.to_string()))?;
            let opening = format!(r#"{{"session":{about},"messages":["#);
            let answer = long_list::response(opening, messages, "]}").await?;
            Ok(as_file(answer, &id, "json"))
        }
        ExportFormat::Markdown => {
            let title = about.title.as_deref().unwrap_or(id.as_str());
            let opening = format!("# {title}\n");
            let rest = messages.map_ok(|part| part.iter().map(written).collect::<String>());
            let text = stream::iter([Ok(opening)]).chain(rest.inspect_err(log_refusal));
            let mut answer = Response::new(Body::from_stream(text.map_ok(Bytes::from)));
            let kind = HeaderValue::from_static(MARKDOWN);
            answer.headers_mut().insert(header::CONTENT_TYPE, kind);
            Ok(as_file(answer, &id, "md"))
        }
    }
}

fn as_file(mut answer: Response, id: &SessionId, ending: &str) -> Response {
    let disposition = format!("attachment; filename=\"{id}.{ending}\"");
    if let Ok(value) = HeaderValue::try_from(disposition) {
        answer
            .headers_mut()
            .insert(header::CONTENT_DISPOSITION, value);
    }
    answer
}

/// The messages of a session, some at a time. It is one of the user's streams, and fails if the
/// session is deleted meanwhile: nobody shall take a part for the whole.
fn parts(
    store: Store,
    session: MySession,
    slot: StreamSlot,
) -> impl Stream<Item = Result<Vec<Message>, StoreError>> + Send {
    let start = (store, session, slot, 0);
    stream::try_unfold(start, |(store, session, slot, after)| async move {
        let part = store.history(session.row.key, after).await?;
        let Some(last) = part.last().map(|stored| stored.ord) else {
            let is_there = session.mine.session(session.id()).await?.is_some();
            return if is_there {
                Ok(None)
            } else {
                Err(StoreError::NotFound)
            };
        };
        let messages = part.into_iter().map(|stored| stored.message).collect();
        Ok(Some((messages, (store, session, slot, last))))
    })
}

fn written(message: &Message) -> String {
    if message.rewound.is_some() {
        // One line for each turn that was taken back.
        let begins = message.role == Role::User && message.answers.is_none();
        let line = "\n*A message and what followed it was taken back.*\n";
        return if begins {
            line.to_owned()
        } else {
            String::new()
        };
    }
    let name = message.name.as_deref();
    let who = match message.role {
        Role::User => "You".to_owned(),
        Role::System => "System".to_owned(),
        Role::Assistant => name.unwrap_or("Assistant").to_owned(),
        Role::Tool => format!("Result of {}", name.unwrap_or("a tool")),
    };
    let mut text = format!("\n## {who}\n\n*{}*\n", message.timestamp);
    let content = message.content.trim();
    match message.role {
        _ if content.is_empty() => {}
        Role::Tool => push_block(&mut text, "", content),
        Role::User | Role::System | Role::Assistant => {
            let _ = write!(text, "\n{content}\n");
        }
    }
    for file in &message.attachments {
        let (name, kind) = (one_line(&file.name), &file.media_type);
        let _ = write!(text, "\n*Attached: {name} ({kind}, {} bytes)*\n", file.size);
    }
    let ended = match message.reason {
        None => String::new(),
        Some(PartialReason::Stopped) => "Stopped before it was finished.".to_owned(),
        Some(PartialReason::Failed) => match &message.error_message {
            Some(why) => format!("Failed before it was finished: {}", one_line(why)),
            None => "Failed before it was finished.".to_owned(),
        },
    };
    if !ended.is_empty() {
        let _ = write!(text, "\n*{ended}*\n");
    }
    for call in &message.tool_calls {
        let _ = write!(text, "\nCalls `{}`:\n", call.name);
        let arguments = serde_json::to_string_pretty(&call.arguments).unwrap_or_default();
        push_block(&mut text, "json", &arguments);
    }
    text
}

/// The whole text between two marks of emphasis.
fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").replace('*', "\\*")
}

/// A block of code, with a fence that its text cannot end.
fn push_block(text: &mut String, language: &str, code: &str) {
    let longest = code
        .split(|character| character != '`')
        .map(str::len)
        .max()
        .unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let _ = write!(text, "\n{fence}{language}\n{code}\n{fence}\n");
}

#[cfg(test)]
mod tests {
    use codelab_protocol::{MessageId, Timestamp};

    use super::*;

    #[test]
    fn a_result_cannot_end_its_block() {
        let (id, time) = (
            MessageId::parse("m-1").unwrap(),
            Timestamp::from_millis(1_768_334_400_005),
        );
        let result = Message {
            name: Some("read_file".to_owned()),
            ..Message::new(id, Role::Tool, "````\n# not a heading".to_owned(), time)
        };
        assert_eq!(
            written(&result),
            "\n## Result of read_file\n\n*2026-01-13T20:00:00.005Z*\n\n`````\n````\n# not a heading\n`````\n"
        );
    }
}
