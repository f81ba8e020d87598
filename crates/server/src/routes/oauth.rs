//! `/oauth/callback`: where providers send people back to after they agreed that CodeLab calls an
//! MCP server for them. It needs no login: the state that comes along is used once and names
//! everything.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use codelab_runtime::{NotAuthorized, ProviderAnswer, now, state_hash};
use serde::Deserialize;
use utoipa::IntoParams;

use super::login::Attempts;
use crate::app::App;
use crate::body::Params;
use crate::error::log_refusal;

pub(super) const CALLBACK: &str = "/oauth/callback";
const POLICY: &str = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'";
/// Longer codes are nobody's.
const MAX_PARAMETER_BYTES: usize = 4096;

/// What providers send back. Other parameters mean nothing.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct CallbackQuery {
    /// As it stood in the address where the person agreed.
    state: Option<String>,
    code: Option<String>,
    /// The provider, where it says who it is.
    iss: Option<String>,
}

/// Come back from an authorization
///
/// The provider of an MCP server's authorization sends the person's browser here.
#[utoipa::path(
    get, path = "/oauth/callback", params(CallbackQuery),
    responses(
        (status = 200, description = "CodeLab is authorized", body = String, content_type = "text/html"),
        (status = 400, description = "The state is unknown, used or too old, or the provider refused", body = String, content_type = "text/html"),
        (status = 429, description = "Too many come back at once", body = String, content_type = "text/html"),
        (status = 503, description = "The database is unavailable", body = String, content_type = "text/html"),
    ),
)]
pub(super) async fn callback(
    State(app): State<App>,
    Params(query): Params<CallbackQuery>,
) -> Response {
    match finished(&app, query).await {
        Ok(server) => page(
            StatusCode::OK,
            "CodeLab is authorized",
            &format!("CodeLab can use the server {server} now. You can close this page."),
        ),
        Err((status, why)) => page(status, "CodeLab is not authorized", &why),
    }
}

async fn finished(app: &App, query: CallbackQuery) -> Result<String, (StatusCode, String)> {
    let unknown = || (StatusCode::BAD_REQUEST, NotAuthorized::Unknown.to_string());
    let state = query.state.ok_or_else(unknown)?;
    let hash = state_hash(&state).ok_or_else(unknown)?;
    // Nobody guesses 256 bits; those who try must not keep the database busy.
    let found = {
        let Some(_slot) = Attempts::slot(&app.oauth_attempts).await else {
            let why = "Too many come back at once; reload this page later".to_owned();
            return Err((StatusCode::TOO_MANY_REQUESTS, why));
        };
        let store = app.runtime.store();
        store.project_of_mcp_authorization(&hash, now()).await
    };
    match found {
        Ok(Some(_)) => {}
        Ok(None) => return Err(unknown()),
        Err(error) => return Err(unavailable(&error)),
    }
    let fits = |text: &String| text.len() <= MAX_PARAMETER_BYTES;
    let answer = ProviderAnswer {
        code: query.code.filter(fits),
        iss: query.iss.filter(fits),
    };
    let finished = app.runtime.finish_mcp_authorization(&state, answer).await;
    finished
        .map(|server| server.to_string())
        .map_err(|error| match error {
            NotAuthorized::Store(error) => unavailable(&error),
            NotAuthorized::Unknown | NotAuthorized::Refused { .. } => {
                (StatusCode::BAD_REQUEST, error.to_string())
            }
        })
}

fn unavailable(error: &codelab_store::StoreError) -> (StatusCode, String) {
    log_refusal(error);
    let why = "The database is not available. Begin the authorization again later".to_owned();
    (StatusCode::SERVICE_UNAVAILABLE, why)
}

fn page(status: StatusCode, title: &str, text: &str) -> Response {
    let text = super::page::escaped(text);
    let html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <link rel=\"stylesheet\" href=\"/assets/status.css\"></head>\
         <body><main><h1>{title}</h1><p class=\"lead\">{text}</p></main></body></html>"
    );
    let headers = [(header::CONTENT_SECURITY_POLICY, POLICY)];
    (status, headers, Html(html)).into_response()
}
