//! A list that is answered whole, however long it is: read and sent in parts, so that neither the
//! list nor the answer is ever in memory at once.

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use codelab_store::StoreError;
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use serde::Serialize;

use crate::error::{ApiResult, log_refusal};

/// A JSON object: `opening` ends where the list's first element stands, `closing` begins after its
/// last. What fails before the first part is an ordinary error; later the answer is cut, so that
/// nobody takes a part for the whole. No part is empty.
pub(super) async fn response<T, S>(
    opening: String,
    parts: S,
    closing: &'static str,
) -> ApiResult<Response>
where
    T: Serialize,
    S: Stream<Item = Result<Vec<T>, StoreError>> + Send + 'static,
{
    let mut parts = Box::pin(parts.map(|part| elements(&part?)));
    let first = parts.try_next().await?.unwrap_or_default();
    let rest = parts
        .map_ok(|json| format!(",{json}"))
        .inspect_err(log_refusal);
    let pieces = stream::iter([Ok(opening + &first)])
        .chain(rest)
        .chain(stream::iter([Ok(closing.to_owned())]));
    let mut response = Response::new(Body::from_stream(pieces.map_ok(Bytes::from)));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    Ok(response)
}

/// The elements as they stand in a JSON array, without its brackets.
fn elements<T: Serialize>(part: &[T]) -> Result<String, StoreError> {
    let json =
        serde_json::to_string(part).map_err(|error| StoreError::Corrupt(error.to_string()))?;
    Ok(json[1..json.len() - 1].to_owned())
}
