//! Who may use the global Chat: other programs by the internal key, users as the setting allows.

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use codelab_protocol::{ErrorCode, UserId};

use super::{Identity, UserRole, authenticate, refused, unauthorized};
use crate::access::has_internal_key;
use crate::app::App;
use crate::config::ChatAccess;
use crate::error::{ApiError, bad_internal_key};

/// Who speaks or reads in the Chat. A value exists only after access was checked.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Speaker {
    /// Whoever holds the internal key.
    Program,
    User(UserId),
}

impl Speaker {
    pub fn user(self) -> Option<UserId> {
        match self {
            Self::Program => None,
            Self::User(user) => Some(user),
        }
    }
}

impl FromRequestParts<App> for Speaker {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        parts
            .extensions
            .get::<Self>()
            .copied()
            .ok_or_else(unauthorized)
    }
}

/// Lets programs and users pass, with the [`Speaker`] in the request.
pub(crate) async fn chat_access(
    State(app): State<App>,
    mut request: Request,
    next: Next,
) -> Response {
    let speaker = match has_internal_key(request.headers(), &app.internal_api_key) {
        true => Speaker::Program,
        false => match authenticate(&app, request.headers()).await {
            Ok(identity) if may_use(app.chat_access, &identity) => {
                if let Err(refusal) = app.runtime.shares().request(identity.user_id) {
                    return ApiError::from(refusal).into_response();
                }
                Speaker::User(identity.user_id)
            }
            Ok(_) => return forbidden(app.chat_access),
            Err(error) => return refused(error),
        },
    };
    if app.chat_access == ChatAccess::Off {
        return forbidden(app.chat_access);
    }
    request.extensions_mut().insert(speaker);
    next.run(request).await
}

/// Lets programs pass. A user gets 403, because users may not speak as an agent.
pub(crate) async fn agent_access(State(app): State<App>, request: Request, next: Next) -> Response {
    if !has_internal_key(request.headers(), &app.internal_api_key) {
        return match authenticate(&app, request.headers()).await {
            Ok(_) => ApiError::new(
                ErrorCode::Forbidden,
                "Only agents with the internal key may do this",
            )
            .into_response(),
            Err(_) => bad_internal_key(),
        };
    }
    if app.chat_access == ChatAccess::Off {
        return forbidden(app.chat_access);
    }
    next.run(request).await
}

fn may_use(access: ChatAccess, identity: &Identity) -> bool {
    match access {
        ChatAccess::All => true,
        ChatAccess::Admin => identity.role == UserRole::Admin,
        ChatAccess::Off => false,
    }
}

fn forbidden(access: ChatAccess) -> Response {
    let message = match access {
        ChatAccess::All | ChatAccess::Admin => "The Chat of this server is for admins",
        ChatAccess::Off => "The Chat of this server is switched off",
    };
    ApiError::new(ErrorCode::Forbidden, message).into_response()
}
