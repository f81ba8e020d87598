//! `limit`: a plain relay to the model that does nothing else. CodeLab is compared with it.

use anyhow::Context as _;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use tokio::net::TcpListener;

#[derive(Clone)]
struct Relay {
    http: reqwest::Client,
    url: String,
}

pub async fn serve(listener: TcpListener, model_url: &str) -> anyhow::Result<()> {
    let http = reqwest::Client::builder()
        .tcp_nodelay(true)
        .pool_max_idle_per_host(usize::MAX)
        .build()?;
    let relay = Relay {
        http,
        url: format!("{model_url}/v1/chat/completions"),
    };
    let app = Router::new().route("/turn", post(turn)).with_state(relay);
    axum::serve(
        axum::serve::ListenerExt::tap_io(listener, |socket| drop(socket.set_nodelay(true))),
        app,
    )
    .await
    .context("the relay ended")
}

async fn turn(State(relay): State<Relay>, body: Bytes) -> Response {
    let request = relay
        .http
        .post(&relay.url)
        .header(header::CONTENT_TYPE, "application/json")
        .body(body);
    match request.send().await {
        Ok(answer) => (
            [(header::CONTENT_TYPE, "text/event-stream")],
            Body::from_stream(answer.bytes_stream()),
        )
            .into_response(),
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}
