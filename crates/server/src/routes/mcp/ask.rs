//! Messages to agents: one that waits for its answer, and one that is planned.

use axum::Json;
use axum::extract::State;
use codelab_protocol::{
    CallId, CreateProjectSession, ErrorCode, SendMessage, SessionId, WaitingKind,
};
use codelab_runtime::{AcceptedMessage, RuntimeError, state_of};
use rmcp::model::CallToolResult;
use serde::Deserialize;
use tokio::sync::watch;

use super::super::project_sessions::{self, MySession, answer, messages};
use super::calls::{OwnToolCall, WaitingCall, named, project_id};
use super::{outcome, progress};
use crate::app::App;
use crate::body::{self, OptionalJsonBody};
use crate::error::{ApiError, ApiResult};
use crate::users::User;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AskAgent {
    agent: String,
    message: String,
    project_id: Option<i64>,
    session_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StartPlan {
    message: String,
    project_id: Option<i64>,
    session_id: Option<String>,
}

/// Where a message goes: a session of before, or one that is made for it.
struct Place {
    session: MySession,
    is_new: bool,
}

/// Sends a message to an agent. In a session where a question of an agent is open, it is the answer.
pub(super) async fn ask_agent(call: OwnToolCall) -> ApiResult<WaitingCall> {
    let OwnToolCall {
        app, user, tells, ..
    } = call;
    let given: AskAgent = body::arguments(call.arguments)?;
    required("agent", &given.agent)?;
    required("message", &given.message)?;
    // Before the message is accepted: if its stream is refused, nothing was said.
    let slot = tells
        .then(|| app.runtime.shares().stream(user.id()))
        .transpose()?;
    let place = Place::of(&app, &user, given.project_id, given.session_id).await?;
    let question = match place.is_new {
        true => None,
        false => open_question(&place.session)?,
    };
    let (session, sent) = match question {
        Some(question) => answer_question(&app, place.session, question, given.message).await?,
        None => {
            let message = SendMessage {
                content: Some(given.message),
                target_agent: Some(given.agent),
                ..SendMessage::default()
            };
            place.send(&app, message).await?
        }
    };
    let agent = match sent.agent {
        Some(agent) => agent,
        None => state_of(&session.row)?.current_agent().clone(),
    };
    let (tell, news) = watch::channel("The message was accepted".to_owned());
    let work = Box::pin(async move {
        let tell = |event: &_| {
            if let Some(text) = progress::said(event) {
                tell.send_replace(text);
            }
        };
        let found = answer::direct(&app, &session.row, sent.reader, agent, tell).await;
        outcome::answered(session.id(), found)
    });
    Ok(WaitingCall { work, news, slot })
}

/// Has a message planned, and does not wait for the plan.
pub(super) async fn start_plan(call: OwnToolCall) -> ApiResult<CallToolResult> {
    let OwnToolCall { app, user, .. } = call;
    let given: StartPlan = body::arguments(call.arguments)?;
    required("message", &given.message)?;
    let place = Place::of(&app, &user, given.project_id, given.session_id).await?;
    let message = SendMessage {
        content: Some(given.message),
        ..SendMessage::default()
    };
    let (session, sent) = place.send(&app, message).await?;
    let accepted = answer::accepted(sent.reader).await?;
    Ok(outcome::planned(session.id(), accepted))
}

fn required(field: &str, text: &str) -> ApiResult<()> {
    match text.trim().is_empty() {
        true => Err(ApiError::missing(field)),
        false => Ok(()),
    }
}

/// The question of an agent that waits longest for an answer. What a caller says to an agent is never
/// told to an MCP server that asks meanwhile.
fn open_question(session: &MySession) -> ApiResult<Option<CallId>> {
    let state = state_of(&session.row)?;
    let questions = state.waiting().into_iter().filter(|waiting| {
        waiting.kind == WaitingKind::Question && !state.is_open_question(&waiting.call_id)
    });
    let mut ids = questions.map(|question| question.call_id);
    Ok(ids.next())
}

async fn answer_question(
    app: &App,
    session: MySession,
    question: CallId,
    text: String,
) -> ApiResult<(MySession, AcceptedMessage)> {
    let answered = app
        .runtime
        .answer_question(&session.row, question, text)
        .await;
    let sent = AcceptedMessage {
        reader: answered?,
        agent: None,
    };
    Ok((session, sent))
}

impl Place {
    async fn of(
        app: &App,
        user: &User,
        project: Option<i64>,
        session: Option<String>,
    ) -> ApiResult<Self> {
        let project = project.map(project_id).transpose()?;
        if let Some(id) = session {
            let session = named(app, user, &id).await?;
            if project.is_some_and(|project| project != session.row.project()) {
                let why = "The session is in another project; leave project_id out";
                return Err(
                    ApiError::new(ErrorCode::ValidationError, why).with("field", "project_id")
                );
            }
            return Ok(Self {
                session,
                is_new: false,
            });
        }
        let new = CreateProjectSession {
            project_id: project,
            ..CreateProjectSession::default()
        };
        let body = OptionalJsonBody(new);
        let made = project_sessions::create(State(app.clone()), user.clone(), body).await?;
        let (_, Json(made)) = made;
        Ok(Self {
            session: MySession::named(app, user.clone(), &made.session_id).await?,
            is_new: true,
        })
    }

    /// Sends a message. A session that was made for one that is refused does not stay.
    async fn send(
        self,
        app: &App,
        message: SendMessage,
    ) -> ApiResult<(MySession, AcceptedMessage)> {
        let message = messages::checked(&self.session, message)?;
        match app
            .runtime
            .project_message(&self.session.row, message)
            .await
        {
            Ok(sent) => Ok((self.session, sent)),
            Err(error) => {
                if self.is_new && matches!(error, RuntimeError::Refused(_)) {
                    forget(app, &self.session).await;
                }
                Err(error.into())
            }
        }
    }
}

async fn forget(app: &App, session: &MySession) {
    if let Err(error) = app.runtime.delete_project_session(&session.row).await {
        let session: &SessionId = session.id();
        tracing::debug!(%session, %error, "an empty session could not be deleted");
    }
}
