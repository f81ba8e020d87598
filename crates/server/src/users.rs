//! Authentication of users by a token or a login cookie. A handler gets a [`User`] only from here.

mod chat;
mod cookie;
mod tickets;
mod token;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use codelab_protocol::{ErrorCode, UserId};

pub(crate) use chat::{Speaker, agent_access, chat_access};
pub(crate) use cookie::WebSession;
pub use tickets::LoginTicket;
pub(crate) use tickets::{LOGIN_HOUSEKEEPING, Logins};
pub(crate) use token::Verifier;
pub use token::{SignError, sign_token};

use crate::app::App;
use crate::error::{ApiError, ApiResult};

/// Who somebody is, as a token says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub user_id: UserId,
    pub role: UserRole,
    pub timezone: Option<String>,
    pub household_id: Option<String>,
    pub locale: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserRole {
    User,
    /// May operate the worker space of any project, and nothing else of other users.
    Admin,
}

impl Identity {
    /// Somebody of whom only the number is known.
    pub fn of(user_id: UserId) -> Self {
        Self {
            user_id,
            role: UserRole::User,
            timezone: None,
            household_id: None,
            locale: None,
        }
    }
}

/// The user of a request. A value exists only after access was checked.
#[derive(Debug, Clone)]
pub(crate) struct User(Identity);

impl User {
    pub fn id(&self) -> UserId {
        self.0.user_id
    }

    pub fn identity(&self) -> &Identity {
        &self.0
    }

    pub fn is_admin(&self) -> bool {
        self.0.role == UserRole::Admin
    }

    /// Without a check of access.
    #[cfg(test)]
    pub fn of_test(number: i64) -> Self {
        Self(Identity::of(
            UserId::new(number).expect("a positive number"),
        ))
    }
}

impl FromRequestParts<App> for User {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        parts
            .extensions
            .get::<Self>()
            .cloned()
            .ok_or_else(unauthorized)
    }
}

/// Lets a user's request pass, with the [`User`] in it.
pub(crate) async fn user_access(State(app): State<App>, request: Request, next: Next) -> Response {
    let identity = authenticate(&app, request.headers()).await;
    let_pass(app, identity, request, next).await
}

/// The same for programs: a cookie counts for nothing.
pub(crate) async fn token_access(State(app): State<App>, request: Request, next: Next) -> Response {
    let identity = match request.headers().contains_key(header::AUTHORIZATION) {
        true => authenticate(&app, request.headers()).await,
        false => Err(unauthorized()),
    };
    let_pass(app, identity, request, next).await
}

async fn let_pass(
    app: App,
    identity: ApiResult<Identity>,
    mut request: Request,
    next: Next,
) -> Response {
    match identity {
        Ok(identity) => {
            if let Err(refusal) = app.runtime.shares().request(identity.user_id) {
                return ApiError::from(refusal).into_response();
            }
            let (user, only_reads) = (identity.user_id, request.method().is_safe());
            request.extensions_mut().insert(User(identity));
            // Until the answer is made. Streams are sent afterwards, and have a limit of their own.
            let slot = match only_reads && !is_stream(request.uri().path()) {
                true => match app.runtime.shares().read(user).await {
                    Ok(slot) => Some(slot),
                    Err(refusal) => return ApiError::from(refusal).into_response(),
                },
                false => None,
            };
            let response = next.run(request).await;
            drop(slot);
            // A request that changed something is never answered as refused.
            if only_reads {
                app.buffers.answer(user, response)
            } else {
                response
            }
        }
        Err(error) => refused(error),
    }
}

/// Whether the path is one of a user's event streams.
fn is_stream(path: &str) -> bool {
    path.trim_end_matches('/').ends_with("/events")
}

fn refused(error: ApiError) -> Response {
    let mut response = error.into_response();
    if response.status() == axum::http::StatusCode::UNAUTHORIZED {
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// If a request has a token, only the token counts: a valid cookie does not replace a bad token.
async fn authenticate(app: &App, headers: &HeaderMap) -> ApiResult<Identity> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    match (given.next(), given.next()) {
        (Some(value), None) => {
            let token = value
                .to_str()
                .ok()
                .and_then(bearer)
                .ok_or_else(unauthorized)?;
            app.verifier
                .verify(token, codelab_runtime::now())
                .ok_or_else(unauthorized)
        }
        (None, _) => {
            let session = WebSession::of(headers).ok_or_else(unauthorized)?;
            let user = app
                .runtime
                .store()
                .web_session_user(&session.hash(), codelab_runtime::now())
                .await?;
            user.map(Identity::of).ok_or_else(unauthorized)
        }
        (Some(_), Some(_)) => Err(unauthorized()),
    }
}

/// The scheme's name may have any case.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then_some(token.trim())
}

pub(crate) fn unauthorized() -> ApiError {
    ApiError::new(ErrorCode::Unauthorized, "Invalid or missing token")
}
