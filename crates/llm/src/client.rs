//! Calls of one model at one provider: attempts, retries, and the finished answer. The formats of
//! providers differ; see [`crate::wire`].

mod deadline;
mod failure;
mod listing;
mod reading;
mod retry;

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use codelab_protocol::{ModelFailure, ModelFailureKind, ModelRequest};
use codelab_transport::{HttpClient, HttpLimits, NetworkOptions, redirect_host};
use http::header::{ACCEPT, CONTENT_TYPE, DATE, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;

use crate::address::endpoint;
use crate::answer::{Defect, ModelAnswer};
use crate::config::{CallLimits, ModelAuth, ModelConfigError, ProviderConfig};
use crate::provider_error::{ProviderError, words};
use crate::shape::Shape;
use crate::wire::{ProviderWire, wire_of};
use crate::{StreamListener, StreamedPart};

pub(crate) use deadline::{CallDeadline, Expired};
pub(crate) use failure::Callee;
pub(crate) use listing::ListedModel;
use retry::Retries;

const MAX_IDLE_CONNECTIONS: usize = 256;
/// Shorter than most servers' own limit, so that a call seldom meets a connection that is just
/// being closed.
const IDLE_CONNECTION_TIMEOUT: Duration = Duration::from_secs(50);
/// How much of an error answer is read, and how much of that is logged.
const MAX_ERROR_BODY_BYTES: usize = 16 * 1024;
const INTERNAL_AUTH: HeaderName = HeaderName::from_static("x-internal-auth");

/// One provider: its address, its key, its format.
pub(crate) struct Provider {
    pub name: String,
    wire: Box<dyn ProviderWire>,
    config: ProviderConfig,
    limits: CallLimits,
    uri: Uri,
    models_uri: Uri,
    headers: HeaderMap,
    http: HttpClient,
}

/// The server's clock and ours when the answer arrived.
#[derive(Debug, Clone, Copy)]
pub struct ServerClock {
    /// From the header `Date`, in whole seconds.
    pub theirs: SystemTime,
    pub ours: SystemTime,
}

impl ServerClock {
    fn read(headers: &HeaderMap, ours: SystemTime) -> Option<Self> {
        let theirs = httpdate::parse_http_date(headers.get(DATE)?.to_str().ok()?).ok()?;
        Some(Self { theirs, ours })
    }
}

/// What the attempts of one call share.
pub(crate) struct CallState<'a, 'h> {
    pub deadline: CallDeadline,
    pub hear: &'a mut StreamListener<'h>,
    pub clock: Option<ServerClock>,
}

/// What becomes of a model that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// Another model takes its place, so it is not asked again.
    OneAttempt,
    /// There is no other model, so it is asked again as long as the limits allow.
    Retry,
}

/// A call without an answer.
pub(crate) struct CallError {
    pub failure: ModelFailure,
    /// Whether the listener got nothing, so that another model may answer instead.
    pub unheard: bool,
    /// How long the server asked to wait.
    pub wait: Option<Duration>,
}

/// Why one attempt failed.
enum AttemptError {
    /// The provider refused the call, or reported an error before the answer began.
    Refused {
        error: ProviderError,
        wait: Option<Duration>,
    },
    /// The server was not reached.
    Unreachable,
    /// The connection broke before the answer began.
    Dropped,
    /// Never tried again.
    Final(Box<CallError>),
}

impl Provider {
    pub fn new(
        name: &str,
        config: &ProviderConfig,
        limits: CallLimits,
        network: &NetworkOptions,
    ) -> Result<Self, ModelConfigError> {
        let wire = wire_of(config);
        let address = |path| {
            endpoint(&config.url, path).map_err(|source| ModelConfigError::Address {
                setting: config.url_setting.clone(),
                source,
            })
        };
        let (uri, models_uri) = (address(wire.calls_path())?, address(wire.models_path())?);
        let http_limits = HttpLimits {
            connect_timeout: limits.connect_timeout,
            idle_connections: MAX_IDLE_CONNECTIONS,
            idle_connection_timeout: IDLE_CONNECTION_TIMEOUT,
        };
        let http = HttpClient::new(&uri, network, http_limits).map_err(|source| {
            ModelConfigError::Network {
                setting: config.url_setting.clone(),
                source,
            }
        })?;
        Ok(Self {
            name: name.to_owned(),
            headers: headers(wire.as_ref(), config)?,
            wire,
            config: config.clone(),
            limits,
            uri,
            models_uri,
            http,
        })
    }

    pub fn callee<'a>(&'a self, model: &'a str) -> Callee<'a> {
        Callee {
            provider: &self.name,
            model,
            key_setting: &self.config.key_setting,
            url_setting: &self.config.url_setting,
        }
    }

    /// Calls `shape.model`. `shape` changes to what the provider accepts.
    pub async fn call(
        &self,
        request: &ModelRequest,
        shape: &mut Shape,
        persistence: Persistence,
        state: &mut CallState<'_, '_>,
    ) -> Result<ModelAnswer, CallError> {
        let mut retries = Retries::default();
        loop {
            state.deadline.begin();
            if persistence == Persistence::OneAttempt {
                state.deadline.limit_beginning();
            }
            let error = match self.attempt(request, shape, state).await {
                Ok(answer) => return Ok(answer),
                Err(AttemptError::Final(error)) => return Err(*error),
                Err(error) => error,
            };
            if let AttemptError::Refused { error, .. } = &error
                && let Some(next) = shape.after(error, request)
            {
                *shape = next;
                continue;
            }
            let error = self.call_error(error, &shape.model);
            let kind = error.failure.kind.unwrap_or(ModelFailureKind::Nonsense);
            let pause = match persistence {
                Persistence::Retry if retry::is_temporary(kind) => {
                    retries.next(error.wait, &self.limits)
                }
                Persistence::Retry | Persistence::OneAttempt => None,
            };
            let Some(pause) = pause.filter(|pause| pause.delay < state.deadline.remaining()) else {
                return Err(error);
            };
            if pause.announced {
                (state.hear)(StreamedPart::Waiting {
                    kind,
                    wait: pause.delay,
                });
            }
            tracing::debug!(agent = %request.agent, provider = %self.name, model = %shape.model, kind = kind.as_str(), retries = retries.count(), "model call failed, trying again");
            tokio::time::sleep(pause.delay).await;
        }
    }

    /// Sends the request once. If this fails with anything but a final error, the listener has
    /// heard nothing.
    async fn attempt(
        &self,
        request: &ModelRequest,
        shape: &Shape,
        state: &mut CallState<'_, '_>,
    ) -> Result<ModelAnswer, AttemptError> {
        let callee = self.callee(&shape.model);
        let body = self
            .wire
            .encode(request, shape, &self.name)
            .map_err(|error| {
                tracing::error!(%error, "model request cannot be written as JSON");
                final_error(
                    callee.refused(ModelFailureKind::Nonsense, None, None, None),
                    true,
                )
            })?;
        let mut sent = Request::new(Full::new(Bytes::from(body)));
        *sent.method_mut() = Method::POST;
        *sent.uri_mut() = self.uri.clone();
        *sent.headers_mut() = self.headers.clone();
        let response = match state.deadline.bound(self.http.send(sent)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                tracing::debug!(provider = %self.name, model = %shape.model, %error, "model server did not answer");
                return Err(match error.is_connect() {
                    true => AttemptError::Unreachable,
                    false => AttemptError::Dropped,
                });
            }
            Err(expired) => {
                return Err(final_error(self.timed_out(expired, &shape.model), true));
            }
        };
        state.deadline.answered();
        state.clock = ServerClock::read(response.headers(), SystemTime::now());
        let status = response.status();
        if let Some(host) = redirect_host(status, response.headers()) {
            tracing::warn!(provider = %self.name, model = %shape.model, %host, "redirect of the model server refused, it would carry the key along");
            return Err(final_error(callee.redirected(status.as_u16()), true));
        }
        let is_limited = status == StatusCode::TOO_MANY_REQUESTS;
        let wait = retry::announced_wait(response.headers(), is_limited, SystemTime::now());
        if !status.is_success() {
            let error = self.refusal(response, &shape.model, state).await;
            return Err(AttemptError::Refused { error, wait });
        }
        self.read(response.into_body(), shape, wait, state).await
    }

    async fn refusal(
        &self,
        response: Response<Incoming>,
        model: &str,
        state: &mut CallState<'_, '_>,
    ) -> ProviderError {
        let status = response.status().as_u16();
        let mut body = response.into_body();
        let mut kept = Vec::new();
        while kept.len() < MAX_ERROR_BODY_BYTES {
            let Ok(Some(Ok(frame))) = state.deadline.bound(body.frame()).await else {
                break;
            };
            kept.extend_from_slice(frame.data_ref().map_or(&[], |bytes| bytes));
            if state.deadline.heard().is_err() {
                break;
            }
        }
        kept.truncate(MAX_ERROR_BODY_BYTES);
        let body = String::from_utf8_lossy(&kept);
        let logged = words::shown(&body, self.config.auth.secret()).unwrap_or_default();
        tracing::debug!(provider = %self.name, %model, status, body = %logged, "model server refused a call");
        ProviderError::of_body(status, &body)
    }

    fn call_error(&self, error: AttemptError, model: &str) -> CallError {
        let callee = self.callee(model);
        let (failure, wait) = match error {
            AttemptError::Refused { error, wait } => {
                let wait = wait.or_else(|| retry::wait_in_text(&error.text()));
                (self.refused(&error, wait, &callee), wait)
            }
            AttemptError::Unreachable => (callee.unavailable(), None),
            AttemptError::Dropped => (callee.dropped(), None),
            AttemptError::Final(error) => return *error,
        };
        CallError {
            failure,
            unheard: true,
            wait,
        }
    }

    fn refused(
        &self,
        error: &ProviderError,
        wait: Option<Duration>,
        callee: &Callee<'_>,
    ) -> ModelFailure {
        let said = error.shown(self.config.auth.secret());
        callee.refused(error.kind(), error.status, said, wait)
    }

    /// An answer that is not one. An error that the provider reports before the first token is
    /// like a refusal.
    fn defective(
        &self,
        defect: Defect,
        model: &str,
        unheard: bool,
        wait: Option<Duration>,
    ) -> AttemptError {
        let callee = self.callee(model);
        match defect {
            Defect::Reported(error) if unheard => AttemptError::Refused {
                error: *error,
                wait,
            },
            Defect::Reported(error) => final_error(self.refused(&error, None, &callee), false),
            defect => final_error(callee.defective(&defect), unheard),
        }
    }

    fn timed_out(&self, expired: Expired, model: &str) -> ModelFailure {
        let limit = match expired {
            Expired::Total => self.limits.timeout,
            Expired::Idle => self.limits.idle_timeout,
        };
        self.callee(model).timed_out(expired, limit)
    }
}

fn final_error(failure: ModelFailure, unheard: bool) -> AttemptError {
    AttemptError::Final(Box::new(CallError {
        failure,
        unheard,
        wait: None,
    }))
}

fn headers(
    wire: &dyn ProviderWire,
    config: &ProviderConfig,
) -> Result<HeaderMap, ModelConfigError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(
        ACCEPT,
        HeaderValue::from_static("text/event-stream, application/json"),
    );
    headers.extend(wire.extra_headers());
    let (name, value) = match &config.auth {
        ModelAuth::None => return Ok(headers),
        ModelAuth::Key(key) => wire.key_header(key),
        ModelAuth::InternalHeader(key) => (INTERNAL_AUTH, key.expose().to_owned()),
    };
    let mut value = HeaderValue::try_from(value).map_err(|_| ModelConfigError::Key {
        setting: config.key_setting.clone(),
    })?;
    value.set_sensitive(true);
    headers.insert(name, value);
    Ok(headers)
}
