//! One model call: its attempts, its retries, and the finished answer.

use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use codelab_protocol::{ModelFailure, ModelOutput, ModelRequest};
use codelab_transport::{HttpClient, HttpLimits, recycle, redirect_host};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, DATE, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::{Frame, Incoming};

use super::answer::{AnswerReader, Finish, ModelAnswer, Progress};
use super::deadline::{CallDeadline, Expired};
use super::failure;
use super::shape::Shape;
use super::wire::WireRequest;
use crate::address::completions_uri;
use crate::config::{ModelAuth, ModelConfigError, OpenAiConfig};
use crate::{Model, ModelDescription, Price, StreamListener, StreamedPart};

const MAX_IDLE_CONNECTIONS: usize = 256;
/// Shorter than most servers' own limit, so that a call seldom meets a connection that is just
/// being closed.
const IDLE_CONNECTION_TIMEOUT: Duration = Duration::from_secs(50);
/// How much of an error answer is read, and how much of that is logged.
const MAX_ERROR_BODY_BYTES: usize = 16 * 1024;
const MAX_LOGGED_CHARS: usize = 1000;
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);
/// How long a server may take to send usage and the end mark after the model has finished.
const FINISH_GRACE: Duration = Duration::from_secs(2);
/// Limits for pieces of an answer that arrive without a pause and are passed on together.
const MAX_HELD_FRAMES: usize = 64;
const MAX_HELD_TIME: Duration = Duration::from_millis(2);
const RETRY_AFTER_MS: [&str; 2] = ["retry-after-ms", "llm_provider-retry-after-ms"];
const RETRY_AFTER_NAMES: [&str; 2] = ["retry-after", "llm_provider-retry-after"];
const INTERNAL_AUTH: HeaderName = HeaderName::from_static("x-internal-auth");

/// Calls one OpenAI-compatible server.
pub struct OpenAiModel {
    config: OpenAiConfig,
    uri: Uri,
    headers: HeaderMap,
    http: HttpClient,
}

/// The result of a call that only tries whether the model works.
#[derive(Debug)]
pub struct Trial {
    pub outcome: Result<ModelOutput, ModelFailure>,
    /// `None` if there was no answer, or the answer had no `Date`.
    pub clock: Option<ServerClock>,
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

/// Why one attempt failed. All but `Final` may be retried.
enum AttemptError {
    Refused {
        status: StatusCode,
        retry_after: Option<Duration>,
        body: String,
    },
    /// The server was not reached.
    Unreachable,
    /// The connection broke before the answer began.
    Dropped,
    Final(ModelFailure),
}

/// A wait before the next attempt.
struct Pause {
    delay: Duration,
    /// Whether the server said how long to wait.
    announced: bool,
}

impl OpenAiModel {
    pub fn new(config: OpenAiConfig) -> Result<Self, ModelConfigError> {
        for (setting, limit) in [
            ("limits.model_timeout_seconds", config.timeout),
            ("limits.model_idle_timeout_seconds", config.idle_timeout),
            ("llm.connect_timeout_seconds", config.connect_timeout),
        ] {
            if limit.is_zero() {
                return Err(ModelConfigError::Zero { setting });
            }
        }
        let uri = completions_uri(&config.base_url)?;
        let limits = HttpLimits {
            connect_timeout: config.connect_timeout,
            idle_connections: MAX_IDLE_CONNECTIONS,
            idle_connection_timeout: IDLE_CONNECTION_TIMEOUT,
        };
        let http = HttpClient::new(&uri, &config.network, limits)?;
        let headers = headers(&config.auth)?;
        Ok(Self {
            config,
            uri,
            headers,
            http,
        })
    }

    /// Makes one call, and reads the server's clock from the answer.
    pub async fn trial(&self, request: &ModelRequest) -> Trial {
        let mut clock = None;
        let outcome = self
            .answer(request, &mut |_: StreamedPart<'_>| {}, &mut clock)
            .await;
        Trial { outcome, clock }
    }

    async fn answer(
        &self,
        request: &ModelRequest,
        hear: &mut StreamListener<'_>,
        clock: &mut Option<ServerClock>,
    ) -> Result<ModelOutput, ModelFailure> {
        let mut deadline = CallDeadline::new(self.config.timeout, self.config.idle_timeout);
        let mut shape = Shape::new(self.config.wire_model(&request.model));
        let (mut retries, mut waited) = (0, Duration::ZERO);
        loop {
            deadline.begin();
            let error = match self
                .attempt(
                    encode(request, &shape)?,
                    &shape.model,
                    &mut deadline,
                    hear,
                    clock,
                )
                .await
            {
                Ok(answer) => return Ok(self.output(answer, &shape, request)),
                Err(error) => error,
            };
            if let Some(next) = self.degrade(&error, &shape, request) {
                shape = next;
                continue;
            }
            let pause = self
                .pause(&error, retries, waited)
                .filter(|pause| pause.delay < deadline.remaining());
            let Some(Pause { delay, announced }) = pause else {
                return Err(error.into_failure(&shape.model));
            };
            retries += 1;
            if announced {
                waited += delay;
                hear(StreamedPart::Waiting(delay));
            }
            tracing::debug!(agent = %request.agent, model = %shape.model, retries, "model call failed, trying again");
            tokio::time::sleep(delay).await;
        }
    }

    /// Sends the request once. If this fails with anything but a final error, `hear` has not been
    /// called.
    async fn attempt(
        &self,
        body: Bytes,
        model: &str,
        deadline: &mut CallDeadline,
        hear: &mut StreamListener<'_>,
        clock: &mut Option<ServerClock>,
    ) -> Result<ModelAnswer, AttemptError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        let response = match deadline.bound(self.http.send(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                tracing::warn!(%model, %error, "model server did not answer");
                return Err(if error.is_connect() {
                    AttemptError::Unreachable
                } else {
                    AttemptError::Dropped
                });
            }
            Err(expired) => return Err(AttemptError::Final(self.timed_out(expired, model))),
        };
        deadline.answered();
        *clock = ServerClock::read(response.headers(), SystemTime::now());
        if let Some(host) = redirect_host(response.status(), response.headers()) {
            tracing::warn!(%model, %host, "redirect of the model server refused, it would carry the key along");
            let failure = failure::redirected(response.status(), model);
            return Err(AttemptError::Final(failure));
        }
        if !response.status().is_success() {
            return Err(self.refusal(response, model, deadline).await);
        }
        self.read(response.into_body(), model, deadline, hear)
            .await
            .map_err(AttemptError::Final)
    }

    async fn read(
        &self,
        mut body: Incoming,
        model: &str,
        deadline: &mut CallDeadline,
        hear: &mut StreamListener<'_>,
    ) -> Result<ModelAnswer, ModelFailure> {
        let mut reader = AnswerReader::new(self.config.max_output_bytes);
        let mut in_grace = false;
        let mut holds = Holds::default();
        loop {
            let at_hand = if holds.may_hold() {
                at_hand(&mut body, deadline.is_burst()).await
            } else {
                None
            };
            let frame = match at_hand {
                Some(frame) => {
                    holds.one_more();
                    Ok(frame)
                }
                None => {
                    holds = Holds::default();
                    show(&mut reader, hear);
                    deadline.bound(body.frame()).await
                }
            };
            let frame = match frame {
                Ok(Some(Ok(frame))) => frame,
                Ok(None | Some(Err(_))) => break,
                Err(_) if reader.is_finished() => break,
                Err(expired) => return Err(self.timed_out(expired, model)),
            };
            let Some(bytes) = frame.data_ref() else {
                continue;
            };
            let pushed = reader.push(bytes);
            if pushed.is_err() {
                show(&mut reader, hear);
            }
            let progress = pushed.map_err(|defect| failure::defective(defect, model))?;
            match progress {
                Progress::Going => deadline
                    .heard()
                    .map_err(|expired| self.timed_out(expired, model))?,
                Progress::Finished if in_grace => {
                    if deadline.heard().is_err() {
                        break;
                    }
                }
                Progress::Finished => {
                    in_grace = true;
                    deadline.shorten(FINISH_GRACE);
                }
                Progress::Done => {
                    recycle(body);
                    break;
                }
            }
        }
        show(&mut reader, hear);
        reader
            .end()
            .map_err(|defect| failure::defective(defect, model))?;
        show(&mut reader, hear);
        Ok(reader.into_answer())
    }

    async fn refusal(
        &self,
        response: Response<Incoming>,
        model: &str,
        deadline: &mut CallDeadline,
    ) -> AttemptError {
        let status = response.status();
        let retry_after = retry_after(response.headers(), SystemTime::now());
        let mut body = response.into_body();
        let mut kept = Vec::new();
        while kept.len() < MAX_ERROR_BODY_BYTES {
            let Ok(Some(Ok(frame))) = deadline.bound(body.frame()).await else {
                break;
            };
            kept.extend_from_slice(frame.data_ref().map_or(&[], |bytes| bytes));
            if deadline.heard().is_err() {
                break;
            }
        }
        kept.truncate(MAX_ERROR_BODY_BYTES);
        let body = String::from_utf8_lossy(&kept).into_owned();
        let redacted = self
            .config
            .auth
            .secret()
            .map_or_else(|| body.clone(), |secret| secret.redact(&body));
        let logged: String = redacted.chars().take(MAX_LOGGED_CHARS).collect();
        tracing::debug!(%model, status = status.as_u16(), body = %logged, "model server refused a call");
        AttemptError::Refused {
            status,
            retry_after,
            body,
        }
    }

    fn degrade(
        &self,
        error: &AttemptError,
        shape: &Shape,
        request: &ModelRequest,
    ) -> Option<Shape> {
        let AttemptError::Refused { status, body, .. } = error else {
            return None;
        };
        let next = shape.after(
            *status,
            body,
            request,
            self.config.fallback_for(&shape.model),
        )?;
        if next.model != shape.model {
            tracing::warn!(agent = %request.agent, asked_model = %shape.model, used_model = %next.model, "model server does not know the model, using the fallback");
        }
        Some(next)
    }

    /// How long to wait before the next attempt; `None` if there is none. An announced wait beyond
    /// the limit fails the call at once, because a person waits for the answer.
    fn pause(&self, error: &AttemptError, retries: u32, waited: Duration) -> Option<Pause> {
        let asked = match error {
            AttemptError::Unreachable | AttemptError::Dropped => None,
            AttemptError::Refused {
                status,
                retry_after,
                ..
            } if is_temporary(*status) => *retry_after,
            AttemptError::Refused { .. } | AttemptError::Final(_) => return None,
        };
        if retries >= self.config.max_retries {
            return None;
        }
        let backoff = self
            .config
            .retry_delay
            .saturating_mul(2_u32.saturating_pow(retries))
            .min(MAX_RETRY_DELAY);
        // Jitter spreads the retries of callers that were refused at the same time.
        let backoff = backoff.mul_f64(0.5 + fastrand::f64() / 2.0);
        match asked {
            None => Some(Pause {
                delay: backoff,
                announced: false,
            }),
            Some(asked) if waited.saturating_add(asked) > self.config.rate_limit_wait => None,
            Some(asked) => Some(Pause {
                delay: asked.max(backoff),
                announced: true,
            }),
        }
    }

    fn output(&self, answer: ModelAnswer, shape: &Shape, request: &ModelRequest) -> ModelOutput {
        let mut warnings = Vec::new();
        let asked = self.config.wire_model(&request.model);
        if shape.model != asked {
            warnings.push(format!(
                "The model server does not know \"{asked}\"; \"{}\" answered instead.",
                shape.model
            ));
        }
        match answer.finish {
            Finish::Complete => {}
            Finish::TokenLimit => {
                warnings.push("The answer was cut short at its token limit.".to_owned())
            }
            Finish::Filtered => {
                warnings.push("The model server withheld a part of the answer.".to_owned())
            }
        }
        let usage = answer.usage.map(|mut usage| {
            usage.cost_usd = self.config.prices.cost(&shape.model, &usage);
            usage
        });
        ModelOutput {
            text: answer.text,
            tool_calls: answer.tool_calls,
            usage,
            warnings,
        }
    }

    fn timed_out(&self, expired: Expired, model: &str) -> ModelFailure {
        let limit = match expired {
            Expired::Total => self.config.timeout,
            Expired::Idle => self.config.idle_timeout,
        };
        failure::timed_out(expired, limit, model)
    }
}

impl Model for OpenAiModel {
    fn call<'a>(
        &'a self,
        request: &'a ModelRequest,
        hear: &'a mut StreamListener<'a>,
    ) -> BoxFuture<'a, Result<ModelOutput, ModelFailure>> {
        async move { self.answer(request, hear, &mut None).await }.boxed()
    }

    fn price(&self, asked: &str) -> Option<Price> {
        self.config.prices.price(self.config.wire_model(asked))
    }

    fn describe(&self) -> ModelDescription {
        let named = self
            .config
            .model_override
            .as_ref()
            .or(self.config.fallback_model.as_ref());
        let label = named.map_or_else(|| "as each agent says".to_owned(), String::clone);
        ModelDescription { label, demo: false }
    }
}

impl AttemptError {
    fn into_failure(self, model: &str) -> ModelFailure {
        match self {
            Self::Refused {
                status: StatusCode::TOO_MANY_REQUESTS,
                retry_after,
                ..
            } => failure::rate_limited(retry_after, SystemTime::now(), model),
            Self::Refused { status, .. } => failure::refused(status, model),
            Self::Unreachable => failure::unavailable(model),
            Self::Dropped => failure::dropped(model),
            Self::Final(failure) => failure,
        }
    }
}

/// Counts pieces of an answer that were read but not passed on yet, because more had arrived.
#[derive(Default)]
struct Holds {
    frames: usize,
    since: Option<Instant>,
}

impl Holds {
    fn may_hold(&self) -> bool {
        self.frames < MAX_HELD_FRAMES
            && self
                .since
                .is_none_or(|since| since.elapsed() < MAX_HELD_TIME)
    }

    fn one_more(&mut self) {
        self.frames += 1;
        self.since.get_or_insert_with(Instant::now);
    }
}

/// The next piece of an answer, if it has arrived. In a burst this yields to the scheduler once, so
/// that the connection hands over all it has read and the pieces are passed on together. A single
/// piece is passed on at once.
async fn at_hand(
    body: &mut Incoming,
    is_burst: bool,
) -> Option<Option<Result<Frame<Bytes>, hyper::Error>>> {
    if let Some(frame) = body.frame().now_or_never() {
        return Some(frame);
    }
    if !is_burst {
        return None;
    }
    tokio::task::yield_now().await;
    body.frame().now_or_never()
}

fn show(reader: &mut AnswerReader, hear: &mut StreamListener<'_>) {
    let text = reader.fresh_text();
    if !text.is_empty() {
        hear(StreamedPart::Text(text));
    }
}

fn encode(request: &ModelRequest, shape: &Shape) -> Result<Bytes, ModelFailure> {
    match serde_json::to_vec(&WireRequest::new(request, shape)) {
        Ok(body) => Ok(Bytes::from(body)),
        Err(error) => {
            tracing::error!(%error, "model request cannot be written as JSON");
            Err(failure::refused(StatusCode::BAD_REQUEST, &shape.model))
        }
    }
}

fn headers(auth: &ModelAuth) -> Result<HeaderMap, ModelConfigError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(
        ACCEPT,
        HeaderValue::from_static("text/event-stream, application/json"),
    );
    let (name, value, setting) = match auth {
        ModelAuth::None => return Ok(headers),
        ModelAuth::Bearer(key) => (
            AUTHORIZATION,
            format!("Bearer {}", key.expose()),
            "LLM_API_KEY",
        ),
        ModelAuth::InternalHeader(key) => {
            (INTERNAL_AUTH, key.expose().to_owned(), "INTERNAL_API_KEY")
        }
    };
    let mut value = HeaderValue::try_from(value).map_err(|_| ModelConfigError::Key { setting })?;
    value.set_sensitive(true);
    headers.insert(name, value);
    Ok(headers)
}

/// How long the server asks to wait. Gateways pass on the header of the server behind them under
/// names of their own.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |text: &str| text.parse::<f64>().ok();
    let wait_ms = RETRY_AFTER_MS
        .iter()
        .find_map(|name| text(name).and_then(number))
        .map(|ms| ms / 1000.0);
    let wait = || {
        RETRY_AFTER_NAMES.iter().find_map(|name| {
            let text = text(name)?;
            let until = || {
                Some(
                    httpdate::parse_http_date(text)
                        .ok()?
                        .duration_since(now)
                        .unwrap_or_default(),
                )
            };
            number(text).or_else(|| until().map(|wait| wait.as_secs_f64()))
        })
    };
    wait_ms
        .or_else(wait)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

fn is_temporary(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error()
}
