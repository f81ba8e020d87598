//! The owner's side: accepts a forwarded request, acknowledges it, and answers it.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use codelab_runtime::RouteError;
use hyper::body::Frame;
use tower::ServiceExt as _;

use super::wire::{self, DECISION, EPOCH, InnerRequest, OwnerDecision};
use super::{Forwarding, Routing};
use crate::error::ApiError;

/// Before the routes: requests that other servers forward. All others go on to `inner`, whatever
/// their headers say.
pub(crate) async fn entrance<R: Routing>(
    forwarding: Forwarding<R>,
    inner: Router,
    request: Request,
) -> Response {
    if !forwarding.is_from_server(&request) {
        return handled(inner, request).await;
    }
    match wire::inner_request(request) {
        Some(given) => forwarding.receive(inner, given).await,
        None => StatusCode::BAD_REQUEST.into_response(),
    }
}

impl<R: Routing> Forwarding<R> {
    /// Without the key, the route does not exist.
    fn is_from_server(&self, request: &Request) -> bool {
        request.uri().path() == wire::FORWARD_PATH
            && request.method() == Method::POST
            && !self.routing.is_alone()
            && self.forwarder.key.is_in(request.headers())
    }

    /// Acknowledges at once. The body of the answer does the work, so that the work ends when the
    /// connection does.
    async fn receive(self, inner: Router, given: InnerRequest) -> Response {
        let claim = match self.routing.accept_forwarded(&given.thing).await {
            Ok(claim) => claim,
            Err(error) => return refused(error, given.epoch),
        };
        let forwarder = self.forwarder;
        let working = Box::pin(async move {
            let handling = handled(inner, given.request);
            forwarder.while_held(claim, handling).await
        });
        let mut response = Response::new(Body::new(InnerAnswer::Working(working)));
        decided(&mut response, OwnerDecision::Accepted);
        response
    }
}

async fn handled(inner: Router, request: Request) -> Response {
    inner
        .oneshot(request)
        .await
        .unwrap_or_else(|never| match never {})
}

fn refused(error: RouteError, known: Option<u64>) -> Response {
    if let RouteError::Moved { epoch } = error {
        tracing::debug!(
            epoch,
            known,
            "refused a forwarded request, another server is the owner"
        );
        let mut response = StatusCode::MISDIRECTED_REQUEST.into_response();
        decided(&mut response, OwnerDecision::Moved);
        response
            .headers_mut()
            .insert(EPOCH, HeaderValue::from(epoch));
        return response;
    }
    let mut response = ApiError::from(error).into_response();
    decided(&mut response, OwnerDecision::Refused);
    response
}

fn decided(response: &mut Response, decision: OwnerDecision) {
    response.headers_mut().insert(DECISION, decision.header());
}

/// The answer to the caller: first made, then its head, then its body.
enum InnerAnswer {
    Working(Pin<Box<dyn Future<Output = Response> + Send>>),
    Body(Body),
}

impl HttpBody for InnerAnswer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match &mut *self {
            Self::Working(working) => {
                let (head, body) = ready!(working.as_mut().poll(context)).into_parts();
                *self = Self::Body(body);
                Poll::Ready(Some(Ok(Frame::data(wire::head_frame(&head)))))
            }
            Self::Body(body) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Working(_) => false,
            Self::Body(body) => body.is_end_stream(),
        }
    }
}
