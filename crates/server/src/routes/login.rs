//! `/login` and `/logout`: a login link's ticket becomes a cookie, until it is given back.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use codelab_protocol::{ErrorBody, ErrorCode, LoggedIn, Login};

use super::{Invalid, Refused};
use crate::app::App;
use crate::body::SmallJsonBody;
use crate::error::{ApiError, ApiResult};
use crate::users::{LoginTicket, WebSession};

/// Counts wrong tickets. Nobody guesses 256 bits; this keeps those who try from keeping the database busy.
#[derive(Default)]
pub(crate) struct Attempts(Mutex<Option<(Instant, u32)>>);

const WINDOW_SECONDS: u32 = 10;
const WINDOW: Duration = Duration::from_secs(WINDOW_SECONDS as u64);
const MAX_WRONG_PER_WINDOW: u32 = 50;

impl Attempts {
    fn may_try(&self) -> bool {
        let window = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        !matches!(*window, Some((since, wrong)) if since.elapsed() < WINDOW && wrong >= MAX_WRONG_PER_WINDOW)
    }

    fn was_wrong(&self) {
        let mut window = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match window.as_mut() {
            Some((since, wrong)) if since.elapsed() < WINDOW => *wrong += 1,
            _ => *window = Some((Instant::now(), 1)),
        }
    }
}

/// Log in on the web page with the ticket of a login link
///
/// A ticket works once, for ten minutes. The cookie lasts thirty days.
#[utoipa::path(
    post,
    path = "/login",
    tag = "login",
    security(()),
    request_body = Login,
    responses(
        (status = 200, description = "Logged in; the answer sets the cookie", body = LoggedIn),
        (status = 401, description = "The ticket is unknown, used or too old", body = ErrorBody),
        (status = 403, description = "Foreign host name or origin", body = ErrorBody),
        (status = 429, description = "Too many wrong tickets; see `Retry-After`", body = ErrorBody),
        (status = 503, description = "The database is unavailable", body = ErrorBody),
        (status = 507, description = "The disk is full; nothing was changed", body = ErrorBody),
        Invalid,
    ),
)]
pub(super) async fn login(State(app): State<App>, SmallJsonBody(body): SmallJsonBody<Login>) -> ApiResult<Response> {
    if !app.login_attempts.may_try() {
        let message = format!("Too many wrong tickets; try again in {WINDOW_SECONDS} seconds");
        return Err(ApiError::new(ErrorCode::RateLimited, message).retry_after_seconds(WINDOW_SECONDS));
    }
    let logged_in = match LoginTicket::parse(&body.ticket) {
        Some(ticket) => app.logins.log_in(&ticket, codelab_runtime::now()).await?,
        None => None,
    };
    let Some((user_id, session, expires_at)) = logged_in else {
        app.login_attempts.was_wrong();
        return Err(ApiError::new(ErrorCode::Unauthorized, "This login link is unknown, used or too old"));
    };
    let mut response = Json(LoggedIn { user_id, expires_at }).into_response();
    if let Some(cookie) = session.set(app.is_secure) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

/// End the login of this browser
#[utoipa::path(
    post,
    path = "/logout",
    tag = "login",
    security((), ("login_cookie" = [])),
    responses((status = 204, description = "There is no login any more, whether there was one or not"), Refused),
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
