//! Finds what one request is about: in its path, or in its body, which is read for that and passed
//! on unchanged.

use axum::body::{Body, HttpBody as _};
use axum::extract::{FromRequestParts as _, MatchedPath, RawPathParams, Request};
use axum::http::header;
use bytes::Bytes;
use codelab_protocol::{CreateProjectSession, ProjectId, SessionId, UserId};
use codelab_runtime::{OwnedThing, state_hash};
use serde::Deserialize;

use super::table::{self, Subject};
use super::{Forwarding, Routing};
use crate::body;
use crate::error::ApiError;
use crate::guarded::Guarded;
use crate::path::NamedInPath;
use crate::routes::OwnTool;
use crate::users::User;

/// The one field of a body that says which session it is about. The handler checks the others.
#[derive(Deserialize)]
struct NamedSession {
    session_id: Option<SessionId>,
}

/// What an MCP message says about its owner, if it calls a tool. The handler checks the rest.
#[derive(Deserialize)]
struct NamedCall {
    params: CallParams,
}

#[derive(Deserialize)]
struct CallParams {
    name: String,
    #[serde(default)]
    arguments: CallArguments,
}

#[derive(Default, Deserialize)]
struct CallArguments {
    session_id: Option<String>,
    project_id: Option<i64>,
}

impl<R: Routing> Forwarding<R> {
    /// What the request is about, and the request. Nothing if any server can answer it: it is about
    /// nothing that has an owner, or it names nothing and its handler refuses it.
    pub(super) async fn thing(
        &self,
        request: Request,
    ) -> Result<(Option<OwnedThing>, Request), ApiError> {
        let subject = match request.extensions().get::<MatchedPath>() {
            Some(route) => table::subject(request.method(), route.as_str()),
            None => Subject::Local,
        };
        match subject {
            Subject::Local => Ok((None, request)),
            Subject::Chat => Ok((Some(OwnedThing::Chat), request)),
            Subject::Project => {
                let (id, request) = named_in_path::<ProjectId>(request).await;
                Ok((id.map(OwnedThing::Project), request))
            }
            Subject::Session => {
                let (id, request) = named_in_path::<SessionId>(request).await;
                Ok((id.map(OwnedThing::Session), request))
            }
            Subject::ProjectOfSession => {
                let (id, request) = named_in_path::<SessionId>(request).await;
                let project = match id {
                    Some(session) => self.routing.project_of_session(&session).await?,
                    None => None,
                };
                Ok((project.map(OwnedThing::Project), request))
            }
            Subject::ProjectOfState => {
                let state = named_in_query(request.uri().query().unwrap_or_default());
                let project = match state.and_then(state_hash) {
                    Some(hash) => self.routing.project_of_state(&hash).await?,
                    None => None,
                };
                Ok((project.map(OwnedThing::Project), request))
            }
            Subject::SessionInBody => {
                let (bytes, request) = self.with_bytes(request).await?;
                let named = bytes.and_then(|bytes| body::parsed(&bytes).ok());
                let session = named.and_then(|named: NamedSession| named.session_id);
                Ok((session.map(OwnedThing::Session), request))
            }
            Subject::ProjectInBody => {
                let (project, request) = self.project_in_body(request).await?;
                Ok((project.map(OwnedThing::Project), request))
            }
            Subject::ProjectOfToolCall => {
                let (bytes, request) = self.with_bytes(request).await?;
                let call = bytes.and_then(|bytes| body::parsed::<NamedCall>(&bytes).ok());
                let user = request.extensions().get::<User>().map(User::id);
                let project = match (call, user) {
                    (Some(call), Some(user)) => self.project_of_call(call.params, user).await?,
                    (None, _) | (_, None) => None,
                };
                Ok((project.map(OwnedThing::Project), request))
            }
        }
    }

    /// Nothing where the tool only reads rows, and where its arguments name nothing.
    async fn project_of_call(
        &self,
        call: CallParams,
        user: UserId,
    ) -> Result<Option<ProjectId>, ApiError> {
        let takes_default = match OwnTool::named(&call.name) {
            Some(OwnTool::AskAgent | OwnTool::StartPlan) => true,
            Some(OwnTool::GetSession | OwnTool::DecideApproval) => false,
            Some(OwnTool::ListAgents | OwnTool::ListApprovals) | None => return Ok(None),
        };
        let CallArguments {
            session_id,
            project_id,
        } = call.arguments;
        match (session_id, project_id) {
            (Some(session), _) => match SessionId::from_path(&session) {
                Some(session) => Ok(self.routing.project_of_session(&session).await?),
                None => Ok(None),
            },
            (None, Some(project)) if takes_default => Ok(ProjectId::new(project)),
            (None, None) if takes_default => Ok(Some(self.routing.default_project(user).await?)),
            (None, _) => Ok(None),
        }
    }

    async fn project_in_body(
        &self,
        request: Request,
    ) -> Result<(Option<ProjectId>, Request), ApiError> {
        let Some(user) = request.extensions().get::<User>().map(User::id) else {
            return Ok((None, request));
        };
        // The route allows a request without a body.
        let is_empty =
            request.body().is_end_stream() && !request.headers().contains_key(header::CONTENT_TYPE);
        let (named, request) = if is_empty {
            (Some(CreateProjectSession::default()), request)
        } else {
            let (bytes, request) = self.with_bytes(request).await?;
            let parsed = bytes.and_then(|bytes| body::parsed(&bytes).ok());
            (parsed, request)
        };
        let project = match named.map(|named| named.project_id) {
            Some(Some(project)) => Some(project),
            Some(None) => Some(self.routing.default_project(user).await?),
            None => None,
        };
        Ok((project, request))
    }

    /// Reads the body within the limits that handlers have. The request has the same bytes after it.
    /// Nothing where the headers alone make the handler refuse the body.
    async fn with_bytes(&self, request: Request) -> Result<(Option<Bytes>, Request), ApiError> {
        let limit = self.forwarder.body_bytes;
        if body::check_head(request.headers(), limit).is_err() {
            return Ok((None, request));
        }
        let (parts, arriving) = request.into_parts();
        let user = parts.extensions.get::<User>().map(User::id);
        let mut held = self.forwarder.buffers.hold(user);
        let bytes = Bytes::from(body::whole(arriving, limit, &mut held).await?);
        let again = Guarded::body(Body::from(bytes.clone()), held);
        Ok((Some(bytes), Request::from_parts(parts, again)))
    }
}

/// A state has no characters that a query would encode.
fn named_in_query(query: &str) -> Option<&str> {
    let mut parameters = query.split('&');
    parameters.find_map(|parameter| parameter.strip_prefix("state="))
}

async fn named_in_path<T: NamedInPath>(request: Request) -> (Option<T>, Request) {
    let (mut parts, body) = request.into_parts();
    let named = RawPathParams::from_request_parts(&mut parts, &()).await;
    let id = named.ok().and_then(|named| {
        let (_, text) = named.iter().find(|(name, _)| *name == T::PARAMETER)?;
        T::from_path(text)
    });
    (id, Request::from_parts(parts, body))
}
