//! `/login` and `/logout`: a login link's ticket becomes a cookie, until it is given back.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use codelab_protocol::{ErrorCode, LoggedIn, Login};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::app::App;
use crate::body::SmallJsonBody;
use crate::error::{ApiError, ApiResult};
use crate::users::{LoginTicket, WebSession};

/// Lets few tickets be looked for at once. Nobody guesses 256 bits; this keeps those who try from
/// keeping the database busy, and nobody else from logging in: a right ticket waits its turn.
pub(crate) struct Attempts(Semaphore);

const MAX_AT_ONCE: usize = 4;
const DEADLINE: Duration = Duration::from_secs(5);
const RETRY_AFTER_SECONDS: u32 = 5;

impl Attempts {
    /// `None` where too many wait already.
    pub(super) async fn slot(attempts: &Self) -> Option<SemaphorePermit<'_>> {
        let acquired = tokio::time::timeout(DEADLINE, attempts.0.acquire()).await;
        acquired.ok()?.ok()
    }
}

impl Default for Attempts {
    fn default() -> Self {
        Self(Semaphore::new(MAX_AT_ONCE))
    }
}

/// Log in on the web page with the ticket of a login link
///
/// A ticket works once, for ten minutes. The cookie lasts thirty days.
#[utoipa::path(
    post, path = "/login", request_body = Login,
    responses(
        (status = 200, description = "Logged in; the answer sets the cookie", body = LoggedIn),
        (status = 401, description = "The ticket is unknown, used or too old"),
        (status = 429, description = "Too many log in at once; see `Retry-After`"),
        (status = 503, description = "The database is unavailable"),
    ),
)]
pub(super) async fn login(
    State(app): State<App>,
    SmallJsonBody(body): SmallJsonBody<Login>,
) -> ApiResult<Response> {
    let logged_in = match LoginTicket::parse(&body.ticket) {
        Some(ticket) => {
            let Some(_slot) = Attempts::slot(&app.login_attempts).await else {
                let message = "Too many log in at once; try again later";
                return Err(ApiError::new(ErrorCode::RateLimited, message)
                    .retry_after_seconds(RETRY_AFTER_SECONDS));
            };
            app.logins.log_in(&ticket, codelab_runtime::now()).await?
        }
        None => None,
    };
    let Some((user_id, session, expires_at)) = logged_in else {
        return Err(ApiError::new(
            ErrorCode::Unauthorized,
            "This login link is unknown, used or too old",
        ));
    };
    let mut response = Json(LoggedIn {
        user_id,
        expires_at,
    })
    .into_response();
    if let Some(cookie) = session.set(app.is_secure) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

/// End the login of this browser
#[utoipa::path(
    post, path = "/logout", security((), ("login_cookie" = [])),
    responses((status = 204, description = "There is no login any more, whether there was one or not")),
)]
pub(super) async fn logout(State(app): State<App>, headers: HeaderMap) -> ApiResult<Response> {
    if let Some(session) = WebSession::of(&headers) {
        app.logins.log_out(&session).await?;
    }
    let mut response = StatusCode::NO_CONTENT.into_response();
    if let Some(cookie) = WebSession::clear(app.is_secure) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    Ok(response)
}
