//! The first server's side: sends a request to the owner, and the owner's answer to the caller.

use std::sync::PoisonError;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use codelab_protocol::ErrorCode;
use codelab_runtime::{Destination, OwnedThing, Peer, RouteError};
use codelab_transport::{TransportError, read_whole, recycle};
use hyper::body::Incoming;

use super::answer::{OwnerStream, OwnerWatch};
use super::gate::{GatedBody, HeldBody};
use super::wire::{self, OwnerDecision};
use super::{Forwarded, Forwarder, Forwarding, Routing};
use crate::error::ApiError;

/// To the owner that is known, and once more to the one it moved to.
const MAX_FORWARDS: u32 = 2;
/// The words of an owner that refuses.
const MAX_REFUSAL_BYTES: usize = 64 * 1024;
/// What the caller gets of such an answer, besides its status and body.
const REFUSAL_HEADERS: [HeaderName; 2] = [header::CONTENT_TYPE, header::RETRY_AFTER];
const UNREACHABLE: &str =
    "The server that owns this cannot be reached, and may have accepted the request; try again";

/// Handles a request here, or has it handled by the owner of what it is about.
pub(crate) async fn forward<R: Routing>(
    State(forwarding): State<Forwarding<R>>,
    request: Request,
    next: Next,
) -> Response {
    let routing = &forwarding.routing;
    if routing.is_alone() || request.extensions().get::<Forwarded>().is_some() {
        return next.run(request).await;
    }
    let (thing, request) = match forwarding.thing(request).await {
        Ok((Some(thing), request)) => (thing, request),
        Ok((None, request)) => return next.run(request).await,
        Err(refusal) => return refusal.into_response(),
    };
    // Boxed, so that requests that stay here do not pay for its size.
    match routing.route(&thing).await {
        Ok(Destination::Here(claim)) => {
            forwarding
                .forwarder
                .while_held(claim, next.run(request))
                .await
        }
        Ok(Destination::There { peer, epoch }) => {
            Box::pin(forwarding.to_owner(thing, (peer, epoch), request, next)).await
        }
        Err(error) => ApiError::from(error).into_response(),
    }
}

/// A caller's request on its way.
struct Call {
    parts: Parts,
    body: HeldBody,
}

impl Call {
    fn new(request: Request) -> Self {
        let (parts, body) = request.into_parts();
        Self {
            parts,
            body: HeldBody::new(body),
        }
    }

    fn into_request(self) -> Request {
        let body = self.body.take().unwrap_or_else(Body::empty);
        Request::from_parts(self.parts, body)
    }
}

/// How one attempt ended.
enum Attempt {
    Answered(Response),
    Moved,
    Refused(Response),
    Unreachable(String),
}

impl Attempt {
    fn outcome(&self) -> &'static str {
        match self {
            Self::Answered(_) => "answered",
            Self::Moved => "moved",
            Self::Refused(_) => "refused",
            Self::Unreachable(_) => "unreachable",
        }
    }
}

impl<R: Routing> Forwarding<R> {
    async fn to_owner(
        &self,
        thing: OwnedThing,
        mut owner: (Peer, u64),
        request: Request,
        next: Next,
    ) -> Response {
        let call = Call::new(request);
        for _ in 0..MAX_FORWARDS {
            let attempt = self.attempt(&thing, &owner, &call).await;
            self.forwarder.metrics.count_forward(attempt.outcome());
            match attempt {
                Attempt::Answered(response) => return response,
                Attempt::Refused(response) => {
                    // It leaves, so the next request asks who has it now.
                    self.routing.forget_route(&thing);
                    return response;
                }
                Attempt::Unreachable(reason) => {
                    self.forwarder.tell_unreachable(&owner.0, &reason);
                    self.routing.forget_route(&thing);
                    return unreachable();
                }
                Attempt::Moved => self.routing.forget_route(&thing),
            }
            match self.routing.route(&thing).await {
                Ok(Destination::Here(claim)) => {
                    let handled = next.run(call.into_request());
                    return self.forwarder.while_held(claim, handled).await;
                }
                Ok(Destination::There { peer, epoch }) => owner = (peer, epoch),
                Err(error) => return ApiError::from(error).into_response(),
            }
        }
        unreachable()
    }

    async fn attempt(
        &self,
        thing: &OwnedThing,
        (peer, epoch): &(Peer, u64),
        call: &Call,
    ) -> Attempt {
        let forwarder = &self.forwarder;
        let client = match forwarder.peers.client(&peer.address) {
            Ok(client) => client,
            Err(reason) => return Attempt::Unreachable(reason),
        };
        let (gate, body) = GatedBody::new(&call.body);
        let about = (thing, *epoch);
        let outer = wire::outer_request(&peer.address, &forwarder.key, &call.parts, about, body);
        let outer = match outer {
            Ok(outer) => outer,
            Err(error) => return Attempt::Unreachable(error.to_string()),
        };
        let within = forwarder.limits.acknowledge_within;
        let acknowledged = codelab_transport::within(within, async {
            let answer = client.send(outer).await?;
            Acknowledged::read(answer).await
        });
        match acknowledged.await {
            Ok(Acknowledged::Accepted(body)) => {
                gate.open();
                self.answered(body, peer, call).await
            }
            Ok(Acknowledged::Moved { epoch: current }) => {
                tracing::debug!(server = %peer.server_id, epoch, current, "the owner of a forwarded request has moved");
                Attempt::Moved
            }
            Ok(Acknowledged::Refused(response)) => Attempt::Refused(response),
            Ok(Acknowledged::Unknown(status)) => Attempt::Unreachable(format!(
                "the address answered with HTTP {status}, and not as a server of this installation"
            )),
            Err(error) => Attempt::Unreachable(error.to_string()),
        }
    }

    async fn answered(&self, body: Incoming, peer: &Peer, call: &Call) -> Attempt {
        let (routing, server_id) = (self.routing.clone(), peer.server_id.clone());
        let is_living = move || routing.is_living(&server_id);
        let watch = OwnerWatch::new(self.forwarder.limits.check_owner_every, is_living);
        let stream = OwnerStream { body, watch };
        let answer = stream.answer(&call.parts.method, &self.forwarder);
        tokio::select! {
            answer = answer => match answer {
                Ok(response) => Attempt::Answered(response),
                Err(_) if call.body.is_broken() => {
                    Attempt::Answered(ApiError::unreadable_body().into_response())
                }
                Err(lost) => Attempt::Unreachable(lost.to_string()),
            },
            () = self.forwarder.stopped() => {
                Attempt::Refused(ApiError::from(RouteError::Stopping).into_response())
            }
        }
    }
}

impl Forwarder {
    /// It concerns every request to that server for as long as it lasts.
    fn tell_unreachable(&self, owner: &Peer, reason: &str) {
        let (server, address) = (&owner.server_id, &owner.address);
        let mut reminder = self
            .unreachable
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match reminder.is_due(Instant::now()) {
            true => {
                tracing::warn!(%server, %address, reason, "forwarding a request to its owner failed")
            }
            false => {
                tracing::debug!(%server, %address, reason, "forwarding a request to its owner failed")
            }
        }
    }
}

/// What the owner said at once.
enum Acknowledged {
    /// The answer to the caller follows.
    Accepted(Incoming),
    Moved {
        epoch: Option<u64>,
    },
    /// What the caller gets.
    Refused(Response),
    /// Something else is at the address, or a server with another key.
    Unknown(StatusCode),
}

impl Acknowledged {
    async fn read(answer: axum::http::Response<Incoming>) -> Result<Self, TransportError> {
        let status = answer.status();
        match OwnerDecision::of(answer.headers()) {
            Some(OwnerDecision::Accepted) => Ok(Self::Accepted(answer.into_body())),
            Some(OwnerDecision::Moved) => {
                let epoch = wire::epoch(answer.headers());
                recycle(answer.into_body());
                Ok(Self::Moved { epoch })
            }
            Some(OwnerDecision::Refused) => {
                let whole = read_whole(answer, MAX_REFUSAL_BYTES).await?;
                Ok(Self::Refused(refusal(whole)))
            }
            // The caller's headers fit into the limit, and with those of the forward they do not.
            None if status == StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => {
                Ok(Self::Refused(status.into_response()))
            }
            None => Ok(Self::Unknown(status)),
        }
    }
}

/// The owner's refusal for the caller.
fn refusal(answer: axum::http::Response<bytes::Bytes>) -> Response {
    let (parts, body) = answer.into_parts();
    let kept = REFUSAL_HEADERS.into_iter().filter_map(|name| {
        let value = parts.headers.get(&name)?.clone();
        Some((name, value))
    });
    let headers: HeaderMap = kept.collect();
    (parts.status, headers, body).into_response()
}

fn unreachable() -> Response {
    ApiError::new(ErrorCode::OwnerUnreachable, UNREACHABLE).into_response()
}
