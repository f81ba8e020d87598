//! Connections to the one model server: pooled, HTTP/1.1, with TLS only where the address asks for
//! it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::config::{ModelConfigError, OpenAiConfig};

const MAX_IDLE_CONNECTIONS: usize = 256;
/// Shorter than the usual server's, so that a call seldom meets a connection that is just being
/// closed.
const IDLE_CONNECTION_TIMEOUT: Duration = Duration::from_secs(50);
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);
/// How long, and for how many bytes, a finished answer's body is read on to its end so that the
/// connection can be used again.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
const MAX_DRAIN_BYTES: usize = 64 * 1024;

/// A plain connector for `http`, so that a server without TLS needs no certificate store.
pub enum Transport {
    Plain(Client<HttpConnector, Full<Bytes>>),
    Tls(Client<HttpsConnector<HttpConnector>, Full<Bytes>>),
}

impl Transport {
    pub fn new(tls: bool, config: &OpenAiConfig) -> Result<Self, ModelConfigError> {
        let mut http = HttpConnector::new();
        http.set_nodelay(true);
        http.set_connect_timeout(Some(config.connect_timeout));
        http.set_keepalive(Some(TCP_KEEPALIVE));
        if !tls {
            return Ok(Self::Plain(client(http)));
        }
        http.enforce_http(false);
        let https = HttpsConnectorBuilder::new()
            .with_provider_and_platform_verifier(Arc::new(rustls::crypto::ring::default_provider()))
            .map_err(|error| ModelConfigError::Certificates {
                reason: error.to_string(),
            })?
            .https_only()
            .enable_http1()
            .wrap_connector(http);
        Ok(Self::Tls(client(https)))
    }

    pub async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Error> {
        match self {
            Self::Plain(client) => client.request(request).await,
            Self::Tls(client) => client.request(request).await,
        }
    }
}

fn client<C: Connect + Clone>(connector: C) -> Client<C, Full<Bytes>> {
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_CONNECTION_TIMEOUT)
        .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
        .build(connector)
}

/// Lets the connection of a complete answer go back to the pool, without making the caller wait for
/// it.
pub fn recycle(body: Incoming) {
    tokio::spawn(tokio::time::timeout(DRAIN_TIMEOUT, drain(body)));
}

async fn drain(mut body: Incoming) {
    let mut drained = 0;
    while let Some(Ok(frame)) = body.frame().await {
        drained += frame.data_ref().map_or(0, Bytes::len);
        if drained > MAX_DRAIN_BYTES {
            return;
        }
    }
}
