//! The runtime API, one method per route.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use codelab_protocol::{
    AgentHistory, AgentList, AgentStreamRequest, AuditList, CreateSession, CurrentAgent, Health,
    PendingApprovals, SessionAck, SessionCreated, SessionHistory, SessionId, SessionList,
};
use codelab_transport::NetworkOptions;
use http::header::ACCEPT;
use http::{HeaderName, HeaderValue, Method, Request};
use http_body_util::Full;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::http::{ApiConnection, accepted, invalid, parse, with_query};
use crate::logged::LoggedEvent;
use crate::stream::StreamEnd;
use crate::{ClientError, ClientLimits, Credentials, EventStream, RawResponse};

pub(crate) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// A handle on one server; clones share its connections.
#[derive(Clone)]
pub struct Client {
    pub(crate) transport: Arc<ApiConnection>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Client {
    /// `base_url` is `http://host:port` or `https://host`, with a path prefix if the server has
    /// one. Trusts the system's certificates and uses no proxy.
    pub fn new(base_url: &str, access: Credentials) -> Result<Self, ClientError> {
        Self::with_network(base_url, access, &NetworkOptions::default())
    }

    /// Like [`Client::new`], with the CA file and proxies of `network`.
    pub fn with_network(
        base_url: &str,
        access: Credentials,
        network: &NetworkOptions,
    ) -> Result<Self, ClientError> {
        let limits = ClientLimits::default();
        Ok(Self {
            transport: Arc::new(ApiConnection::new(base_url, &access, limits, network)?),
        })
    }

    pub fn with_limits(
        base_url: &str,
        access: Credentials,
        limits: ClientLimits,
    ) -> Result<Self, ClientError> {
        let network = NetworkOptions::default();
        Ok(Self {
            transport: Arc::new(ApiConnection::new(base_url, &access, limits, &network)?),
        })
    }

    /// `POST /agent/message/stream`: the events of this message's turn, until it ends or suspends.
    pub async fn send(&self, request: &AgentStreamRequest) -> Result<EventStream, ClientError> {
        let request =
            self.transport
                .json_request(Method::POST, "/agent/message/stream", request)?;
        self.stream(request, StreamEnd::FirstDone).await
    }

    /// `GET /sessions/{id}/events`: what comes after event number `after` (`None` is from the
    /// start); with `follow` also what is still to happen.
    pub async fn events(
        &self,
        session: &SessionId,
        after: Option<u64>,
        follow: bool,
    ) -> Result<EventStream, ClientError> {
        self.log(session, after, follow).await
    }

    /// Also the report of an unhealthy server, which may come with status 503.
    pub async fn health(&self) -> Result<Health, ClientError> {
        let response = self
            .transport
            .exchange(
                self.transport
                    .request(Method::GET, "/health", Bytes::new())?,
            )
            .await?;
        if response.status == 503
            && let Ok(report) = parse(&response.body)
        {
            return Ok(report);
        }
        parse(&accepted(response)?.body)
    }

    /// Lets the server hand over what it owns to the other servers of its installation.
    pub async fn drain(&self) -> Result<(), ClientError> {
        let request = self
            .transport
            .request(Method::POST, "/cluster/drain", Bytes::new())?;
        accepted(self.transport.exchange(request).await?).map(drop)
    }

    pub async fn agents(&self) -> Result<AgentList, ClientError> {
        self.get("/agents").await
    }

    pub async fn current_agent(&self, session: &SessionId) -> Result<CurrentAgent, ClientError> {
        self.get(&format!("/agents/{session}/current")).await
    }

    /// The server's own defaults apply where `limit` or `offset` is not given.
    pub async fn sessions(
        &self,
        limit: Option<u64>,
        offset: Option<u64>,
    ) -> Result<SessionList, ClientError> {
        self.get(&with_query(
            "/sessions",
            &[("limit", limit), ("offset", offset)],
        ))
        .await
    }

    pub async fn create_session(
        &self,
        body: &CreateSession,
    ) -> Result<SessionCreated, ClientError> {
        self.json(
            self.transport
                .json_request(Method::POST, "/sessions", body)?,
        )
        .await
    }

    /// Deletes a session. It can be restored, unless `hard` purges it.
    pub async fn delete_session(&self, session: &SessionId, hard: bool) -> Result<(), ClientError> {
        let path = format!(
            "/sessions/{session}{}",
            if hard { "?hard=true" } else { "" }
        );
        accepted(
            self.transport
                .exchange(
                    self.transport
                        .request(Method::DELETE, &path, Bytes::new())?,
                )
                .await?,
        )?;
        Ok(())
    }

    pub async fn restore(&self, session: &SessionId) -> Result<SessionAck, ClientError> {
        self.act(&format!("/sessions/{session}/restore")).await
    }

    pub async fn reset(&self, session: &SessionId) -> Result<SessionAck, ClientError> {
        self.act(&format!("/sessions/{session}/reset")).await
    }

    /// Ends the turn; waiting messages stay queued unless `drop_queue`.
    pub async fn cancel(
        &self,
        session: &SessionId,
        drop_queue: bool,
    ) -> Result<SessionAck, ClientError> {
        self.act(&format!(
            "/sessions/{session}/cancel{}",
            if drop_queue { "?queue=drop" } else { "" }
        ))
        .await
    }

    pub async fn history(&self, session: &SessionId) -> Result<SessionHistory, ClientError> {
        self.get(&format!("/sessions/{session}/history")).await
    }

    pub async fn pending_approvals(
        &self,
        session: &SessionId,
    ) -> Result<PendingApprovals, ClientError> {
        self.get(&format!("/sessions/{session}/pending-approvals"))
            .await
    }

    pub async fn agent_history(&self, session: &SessionId) -> Result<AgentHistory, ClientError> {
        self.get(&format!("/sessions/{session}/agent-history"))
            .await
    }

    pub async fn audit(&self, session: &SessionId) -> Result<AuditList, ClientError> {
        self.get(&format!("/sessions/{session}/audit")).await
    }

    /// The Prometheus text.
    pub async fn metrics(&self) -> Result<String, ClientError> {
        let request = self
            .transport
            .request(Method::GET, "/metrics", Bytes::new())?;
        let body = accepted(self.transport.exchange(request).await?)?.body;
        String::from_utf8(body.into()).map_err(|_| invalid("the metrics are not UTF-8".into()))
    }

    pub async fn openapi(&self) -> Result<Value, ClientError> {
        self.get("/openapi.json").await
    }

    /// Any request, and the answer whatever its status. `path` may carry a query. The client's own
    /// access header is sent unless `headers` names the same one; nothing else is added but `Host`
    /// and the length.
    pub async fn raw(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<RawResponse, ClientError> {
        let mut request = self.transport.request(method, path, body.into())?;
        let map = request.headers_mut();
        for (name, _) in headers {
            map.remove(*name);
        }
        for (name, value) in headers {
            let parsed = HeaderName::from_bytes(name.as_bytes())
                .ok()
                .zip(HeaderValue::from_bytes(value.as_bytes()).ok());
            let (key, value) = parsed
                .ok_or_else(|| invalid(format!("{name:?} is not a header that can be sent")))?;
            map.try_append(key, value)
                .map_err(|_| invalid("there are too many headers".into()))?;
        }
        self.transport.exchange(request).await
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.json(self.transport.request(Method::GET, path, Bytes::new())?)
            .await
    }

    pub(crate) async fn act<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.json(self.transport.request(Method::POST, path, Bytes::new())?)
            .await
    }

    pub(crate) async fn json<T: DeserializeOwned>(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<T, ClientError> {
        parse(&accepted(self.transport.exchange(request).await?)?.body)
    }

    /// The log of a session, of whichever kind `E` is.
    pub(crate) async fn log<E: LoggedEvent>(
        &self,
        session: &SessionId,
        after: Option<u64>,
        follow: bool,
    ) -> Result<EventStream<E>, ClientError> {
        let query = if follow { "" } else { "?follow=false" };
        let path = format!("{}{query}", E::log_path(session));
        let mut request = self.transport.request(Method::GET, &path, Bytes::new())?;
        if let Some(after) = after {
            request
                .headers_mut()
                .insert(LAST_EVENT_ID, HeaderValue::from(after));
        }
        self.stream(
            request,
            if follow {
                StreamEnd::AfterDone
            } else {
                StreamEnd::Anywhere
            },
        )
        .await
    }

    pub(crate) async fn stream<E: LoggedEvent>(
        &self,
        mut request: Request<Full<Bytes>>,
        closing: StreamEnd,
    ) -> Result<EventStream<E>, ClientError> {
        request
            .headers_mut()
            .insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        EventStream::new(
            self.transport.open(request).await?,
            closing,
            &self.transport.limits,
        )
    }
}
