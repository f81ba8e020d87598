//! A user's sessions: making them, talking in them, following what happens.

use std::time::Duration;

use bytes::Bytes;
use codelab_protocol::{
    ChangeProjectSession, CreateProjectSession, DirectAnswer, ForkSession, MessageAccepted,
    MessageId, MessageList, Patch, ProjectId, ProjectSession, ProjectSessionCancelled,
    ProjectSessionDetail, ProjectSessionList, Remembered, RememberedId, RememberedList, RetryTurn,
    RewindSession, Rewound, Role, SendMessage, SessionEvent, SessionId, UsageReport,
};
use codelab_transport::BodyReader;
use http::{HeaderValue, Method};

use crate::client::LAST_EVENT_ID;
use crate::http::{accepted, invalid, parse, with_query};
use crate::stream::StreamEnd;
use crate::{Client, ClientError, EventStream};

const ACCEPTED: u16 = 202;

/// What became of a message that was sent without following its events.
#[derive(Debug, Clone, PartialEq)]
pub enum SendOutcome {
    /// A direct call that ended, also one that failed, or that waits for somebody.
    Answered(Box<DirectAnswer>),
    /// It is durable and will be worked on.
    Accepted(MessageAccepted),
}

impl Client {
    /// Newest activity first; of all projects where none is named.
    pub async fn project_sessions(
        &self,
        project: Option<ProjectId>,
        limit: Option<u64>,
        offset: Option<u64>,
    ) -> Result<ProjectSessionList, ClientError> {
        let project = project.map(|id| id.get().unsigned_abs());
        self.get(&with_query(
            "/my/chat/sessions",
            &[
                ("project_id", project),
                ("limit", limit),
                ("offset", offset),
            ],
        ))
        .await
    }

    pub async fn create_project_session(
        &self,
        body: &CreateProjectSession,
    ) -> Result<ProjectSession, ClientError> {
        self.json(
            self.transport
                .json_request(Method::POST, "/my/chat/sessions", body)?,
        )
        .await
    }

    /// The session with its newest messages and how it stands.
    pub async fn project_session(
        &self,
        session: &SessionId,
    ) -> Result<ProjectSessionDetail, ClientError> {
        self.get(&format!("/my/chat/sessions/{session}")).await
    }

    pub async fn rename_project_session(
        &self,
        session: &SessionId,
        title: &str,
    ) -> Result<ProjectSession, ClientError> {
        let body = ChangeProjectSession {
            title: Patch::Value(title.to_owned()),
            ..ChangeProjectSession::default()
        };
        self.change_project_session(session, &body).await
    }

    pub async fn change_project_session(
        &self,
        session: &SessionId,
        body: &ChangeProjectSession,
    ) -> Result<ProjectSession, ClientError> {
        self.json(self.transport.json_request(
            Method::PATCH,
            &format!("/my/chat/sessions/{session}"),
            body,
        )?)
        .await
    }

    /// The whole session as Markdown, piece by piece.
    pub async fn export_project_session(
        &self,
        session: &SessionId,
    ) -> Result<SessionExport, ClientError> {
        let path = format!("/my/chat/sessions/{session}/export?format=markdown");
        let request = self.transport.request(Method::GET, &path, Bytes::new())?;
        let body = self.transport.open(request).await?.into_body();
        let idle_timeout = Duration::from_millis(self.transport.limits.idle_timeout_ms);
        Ok(SessionExport(BodyReader::new(body, idle_timeout)))
    }

    /// Really deletes it, with everything that was said.
    pub async fn delete_project_session(&self, session: &SessionId) -> Result<(), ClientError> {
        self.without_answer(Method::DELETE, &format!("/my/chat/sessions/{session}"))
            .await
    }

    /// Takes back what was done since a message, or gives it back. `None` while the client still works
    /// on the files: the event `rewound` tells of the end.
    pub async fn rewind_session(
        &self,
        session: &SessionId,
        body: &RewindSession,
    ) -> Result<Option<Rewound>, ClientError> {
        let path = format!("/my/chat/{session}/rewind");
        let request = self.transport.json_request(Method::POST, &path, body)?;
        let response = self
            .transport
            .exchange_within(self.transport.limits.direct_timeout_ms, request)
            .await?;
        if response.status == ACCEPTED {
            return Ok(None);
        }
        parse(&accepted(response)?.body).map(Some)
    }

    /// Sends a message and waits: a direct call for its answer, a planned one until it is durable.
    pub async fn send_project_message(
        &self,
        session: &SessionId,
        message: &SendMessage,
    ) -> Result<SendOutcome, ClientError> {
        let request = self
            .transport
            .json_request(Method::POST, &message_path(session), message)?;
        let response = self
            .transport
            .exchange_within(self.transport.limits.direct_timeout_ms, request)
            .await?;
        if response.status == ACCEPTED {
            return parse(&response.body).map(SendOutcome::Accepted);
        }
        // A direct call that failed says so with an error status and the same body as one that did
        // not.
        match parse(&response.body) {
            Ok(answer) => Ok(SendOutcome::Answered(Box::new(answer))),
            Err(error) => Err(accepted(response).err().unwrap_or(error)),
        }
    }

    /// Sends a message and follows its events until its turn ends or suspends. A repeat with the
    /// same `client_message_id` follows the first one.
    pub async fn stream_project_message(
        &self,
        session: &SessionId,
        message: &SendMessage,
    ) -> Result<EventStream<SessionEvent>, ClientError> {
        let request = self
            .transport
            .json_request(Method::POST, &message_path(session), message)?;
        self.stream(request, StreamEnd::FirstDone).await
    }

    /// Runs the last turn again, if it failed or was stopped, and follows its events. With the id of
    /// its message, a request that is sent twice runs it once.
    pub async fn retry_turn(
        &self,
        session: &SessionId,
        message_id: Option<MessageId>,
    ) -> Result<EventStream<SessionEvent>, ClientError> {
        let path = format!("/my/chat/{session}/retry");
        let body = RetryTurn { message_id };
        let request = self.transport.json_request(Method::POST, &path, &body)?;
        self.stream(request, StreamEnd::FirstDone).await
    }

    /// Sums the history up now. An event of the session tells of the end.
    pub async fn compact_session(
        &self,
        session: &SessionId,
    ) -> Result<ProjectSession, ClientError> {
        self.act(&format!("/my/chat/{session}/compact")).await
    }

    /// Makes a session with the history up to and including this message.
    pub async fn fork_session(
        &self,
        session: &SessionId,
        at_message_id: &MessageId,
    ) -> Result<ProjectSession, ClientError> {
        let path = format!("/my/chat/{session}/fork");
        let body = ForkSession {
            at_message_id: Some(at_message_id.clone()),
        };
        self.json(self.transport.json_request(Method::POST, &path, &body)?)
            .await
    }

    /// What was approved for the rest of the session.
    pub async fn remembered(&self, session: &SessionId) -> Result<Vec<Remembered>, ClientError> {
        let path = format!("/my/chat/{session}/remembered");
        let list: RememberedList = self.get(&path).await?;
        Ok(list.remembered)
    }

    /// Such calls ask again.
    pub async fn revoke_remembered(
        &self,
        session: &SessionId,
        id: &RememberedId,
    ) -> Result<(), ClientError> {
        let path = format!("/my/chat/{session}/remembered/{id}");
        self.without_answer(Method::DELETE, &path).await
    }

    /// What was said, oldest first.
    pub async fn project_session_messages(
        &self,
        session: &SessionId,
        role: Option<Role>,
        limit: Option<u64>,
        offset: Option<u64>,
    ) -> Result<MessageList, ClientError> {
        let number = |value: Option<u64>| value.map(|value| value.to_string());
        let role = role.map(|role| role.as_str().to_owned());
        let parameters = [
            ("limit", number(limit)),
            ("offset", number(offset)),
            ("role", role),
        ];
        self.get(&with_query(
            &format!("/my/chat/{session}/messages"),
            &parameters,
        ))
        .await
    }

    /// What comes after event number `after` (`None` is from the start); with `follow` also what is
    /// still to happen. For a reader that comes back by itself see [`crate::ResumingEvents`].
    pub async fn project_session_events(
        &self,
        session: &SessionId,
        after: Option<u64>,
        follow: bool,
    ) -> Result<EventStream<SessionEvent>, ClientError> {
        self.log(session, after, follow).await
    }

    /// Everything that happens in the user's sessions, without deltas: what comes after the event
    /// with this id ([`EventStream::last_id`]), or from now on. It ends when the reader falls too far
    /// behind or the server stops; a reader comes back with the last id, to any server.
    pub async fn user_events(
        &self,
        after: Option<&str>,
    ) -> Result<EventStream<SessionEvent>, ClientError> {
        let mut request = self
            .transport
            .request(Method::GET, "/my/events", Bytes::new())?;
        if let Some(after) = after {
            let after = HeaderValue::from_str(after)
                .map_err(|_| invalid(format!("{after:?} is not an id of an event")))?;
            request.headers_mut().insert(LAST_EVENT_ID, after);
        }
        let stream = self.stream(request, StreamEnd::Anywhere).await?;
        Ok(stream.with_opaque_ids())
    }

    /// Ends the turn with everything it has open; waiting messages stay queued unless `drop_queue`.
    pub async fn cancel_project_session(
        &self,
        session: &SessionId,
        drop_queue: bool,
    ) -> Result<ProjectSessionCancelled, ClientError> {
        self.act(&format!(
            "/my/chat/{session}/cancel{}",
            if drop_queue { "?queue=drop" } else { "" }
        ))
        .await
    }

    /// What the user's model calls used, of one project or of all.
    pub async fn usage(&self, project: Option<ProjectId>) -> Result<UsageReport, ClientError> {
        self.get(&with_query("/my/usage", &[("project_id", project)]))
            .await
    }

    pub(crate) async fn without_answer(
        &self,
        method: Method,
        path: &str,
    ) -> Result<(), ClientError> {
        accepted(
            self.transport
                .exchange(self.transport.request(method, path, Bytes::new())?)
                .await?,
        )?;
        Ok(())
    }
}

/// A session on its way into a file.
pub struct SessionExport(BodyReader);

impl SessionExport {
    /// The next piece, or `None` at the end. Nothing follows an error.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        Ok(self.0.next().await?)
    }
}

fn message_path(session: &SessionId) -> String {
    format!("/my/chat/{session}/message")
}
