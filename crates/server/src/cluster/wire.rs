//! What servers say to each other.
//!
//! A forwarded request is `POST /cluster/forward` with the caller's own headers and body, and headers
//! that say the rest. Its answer is the acknowledgement. The body of that answer is the answer to
//! the caller: four bytes with the length of a JSON head, the head, then the body as it comes.

use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::response;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use bytes::{BufMut as _, Bytes, BytesMut};
use codelab_protocol::{ProjectId, SessionId};
use codelab_runtime::OwnedThing;
use serde::{Deserialize, Serialize};

use super::Forwarded;
use super::gate::GatedBody;
use super::key::ClusterKey;
use crate::listen::{CallerAddress, ReservedConnection};

pub(super) const FORWARD_PATH: &str = "/cluster/forward";

pub(super) const KEY: HeaderName = HeaderName::from_static("x-codelab-cluster-key");
const METHOD: HeaderName = HeaderName::from_static("x-codelab-forward-method");
const PATH: HeaderName = HeaderName::from_static("x-codelab-forward-path");
const THING: HeaderName = HeaderName::from_static("x-codelab-forward-thing");
const CALLER: HeaderName = HeaderName::from_static("x-codelab-forward-caller");
/// The caller's `Content-Length`. The forwarded body has none of its own, because it can end without
/// a byte where the owner refuses the request.
const LENGTH: HeaderName = HeaderName::from_static("x-codelab-forward-length");
/// In a request what the sender knows, in a refusal what the receiver knows.
pub(super) const EPOCH: HeaderName = HeaderName::from_static("x-codelab-forward-epoch");
/// Of the acknowledgement: that a server of this installation made it, and what it decided.
pub(super) const DECISION: HeaderName = HeaderName::from_static("x-codelab-forward-decision");

/// The headers that a forward adds to those of the caller, with `Transfer-Encoding`.
pub(crate) const FORWARD_HEADERS: usize = 8;

/// The length before the head of an answer.
const PREFIX_BYTES: usize = 4;
/// A head is a status and some headers.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// What the owner decided about a forwarded request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnerDecision {
    /// It works on the request; the answer follows.
    Accepted,
    /// Another server owns what the request is about.
    Moved,
    /// It cannot accept anything now; its words are for the caller.
    Refused,
}

impl OwnerDecision {
    pub fn header(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Accepted => "accepted",
            Self::Moved => "moved",
            Self::Refused => "refused",
        })
    }

    /// Nothing if no server of ours made the answer.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let given = headers.get(DECISION)?;
        [Self::Accepted, Self::Moved, Self::Refused]
            .into_iter()
            .find(|decision| decision.header() == *given)
    }
}

/// Headers that are about one connection and not about the request or answer.
const HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    // The first server has answered it.
    header::EXPECT,
];

/// The headers without those that are about one connection, or that servers say to each other.
fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let mut kept = headers.clone();
    for listed in headers.get_all(header::CONNECTION) {
        let names = listed.to_str().unwrap_or_default().split(',');
        for name in names.filter_map(|name| name.trim().parse::<HeaderName>().ok()) {
            kept.remove(name);
        }
    }
    let ours = [KEY, METHOD, PATH, THING, CALLER, LENGTH, EPOCH, DECISION];
    for name in HOP_BY_HOP.into_iter().chain(ours) {
        kept.remove(name);
    }
    kept
}

/// The request that carries a caller's request to the owner.
pub(super) fn outer_request(
    address: &str,
    key: &ClusterKey,
    caller: &Parts,
    (thing, epoch): (&OwnedThing, u64),
    body: GatedBody,
) -> Result<axum::http::Request<GatedBody>, axum::http::Error> {
    let mut headers = end_to_end(&caller.headers);
    if let Some(length) = headers.remove(header::CONTENT_LENGTH) {
        headers.insert(LENGTH, length);
    }
    let path = caller.uri.path_and_query();
    let path = path.map_or("/", PathAndQuery::as_str);
    headers.insert(KEY, key.header());
    headers.insert(METHOD, HeaderValue::from_str(caller.method.as_str())?);
    headers.insert(PATH, HeaderValue::from_bytes(path.as_bytes())?);
    headers.insert(THING, HeaderValue::from_str(&thing_text(thing))?);
    headers.insert(EPOCH, HeaderValue::from(epoch));
    if let Some(CallerAddress(address)) = caller.extensions.get() {
        headers.insert(CALLER, HeaderValue::from_str(&address.to_string())?);
    }
    let uri: Uri = format!("{}{FORWARD_PATH}", address.trim_end_matches('/')).parse()?;
    let mut request = axum::http::Request::new(body);
    *request.method_mut() = Method::POST;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    Ok(request)
}

/// A caller's request as the owner gets it.
pub(super) struct InnerRequest {
    pub thing: OwnedThing,
    /// The owner's epoch, as far as the sender knows.
    pub epoch: Option<u64>,
    pub request: Request,
}

/// Nothing if a header is missing or wrong.
pub(super) fn inner_request(outer: Request) -> Option<InnerRequest> {
    let (mut parts, body) = outer.into_parts();
    let given = std::mem::take(&mut parts.headers);
    let method = Method::from_bytes(given.get(METHOD)?.as_bytes()).ok()?;
    let path = PathAndQuery::try_from(given.get(PATH)?.as_bytes()).ok()?;
    let thing = parse_thing(given.get(THING)?.to_str().ok()?)?;
    let caller = given.get(CALLER).and_then(|text| text.to_str().ok());
    let caller = caller.and_then(|text| text.parse().ok());
    let mut headers = end_to_end(&given);
    // What the connection between servers says of its own body.
    headers.remove(header::CONTENT_LENGTH);
    if let Some(length) = given.get(LENGTH) {
        headers.insert(header::CONTENT_LENGTH, length.clone());
    }
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = Uri::from(path);
    *request.headers_mut() = headers;
    request.extensions_mut().insert(Forwarded { caller });
    if let Some(reserved) = parts.extensions.remove::<ReservedConnection>() {
        request.extensions_mut().insert(reserved);
    }
    Some(InnerRequest {
        thing,
        epoch: epoch(&given),
        request,
    })
}

pub(super) fn epoch(headers: &HeaderMap) -> Option<u64> {
    headers.get(EPOCH)?.to_str().ok()?.parse().ok()
}

fn thing_text(thing: &OwnedThing) -> String {
    match thing {
        OwnedThing::Project(id) => format!("project {id}"),
        OwnedThing::Session(id) => format!("session {id}"),
        OwnedThing::Chat => "chat".to_owned(),
    }
}

fn parse_thing(text: &str) -> Option<OwnedThing> {
    if text == "chat" {
        return Some(OwnedThing::Chat);
    }
    match text.split_once(' ')? {
        ("project", id) => ProjectId::parse(id).map(OwnedThing::Project),
        ("session", id) => SessionId::parse(id).ok().map(OwnedThing::Session),
        _ => None,
    }
}

/// Status and headers of the answer to the caller. A header's bytes are written as the characters
/// with the same numbers.
#[derive(Serialize, Deserialize)]
struct AnswerHead {
    status: u16,
    headers: Vec<(String, String)>,
}

/// The head of an answer as it stands before its body.
pub(super) fn head_frame(answer: &response::Parts) -> Bytes {
    let headers = end_to_end(&answer.headers);
    let headers = headers.iter().map(|(name, value)| {
        let text = value.as_bytes().iter().map(|byte| char::from(*byte));
        (name.as_str().to_owned(), text.collect())
    });
    let head = AnswerHead {
        status: answer.status.as_u16(),
        headers: headers.collect(),
    };
    let json = serde_json::to_vec(&head).unwrap_or_default();
    let mut frame = BytesMut::with_capacity(PREFIX_BYTES + json.len());
    frame.put_u32(u32::try_from(json.len()).unwrap_or(u32::MAX));
    frame.put_slice(&json);
    frame.freeze()
}

/// What the beginning of an answer is.
pub(super) enum Beginning {
    /// More of it must come first.
    Short,
    /// It is not the head of an answer.
    Wrong,
    Head(StatusCode, HeaderMap),
}

/// Takes the head from the beginning of an answer. What is left belongs to the body.
pub(super) fn take_head(arrived: &mut BytesMut) -> Beginning {
    let Some(prefix) = arrived.first_chunk::<PREFIX_BYTES>() else {
        return Beginning::Short;
    };
    let length = u32::from_be_bytes(*prefix) as usize;
    if length > MAX_HEAD_BYTES {
        return Beginning::Wrong;
    }
    if arrived.len() < PREFIX_BYTES + length {
        return Beginning::Short;
    }
    let head = arrived.split_to(PREFIX_BYTES + length);
    match parse_head(&head[PREFIX_BYTES..]) {
        Some((status, headers)) => Beginning::Head(status, headers),
        None => Beginning::Wrong,
    }
}

fn parse_head(json: &[u8]) -> Option<(StatusCode, HeaderMap)> {
    let head: AnswerHead = serde_json::from_slice(json).ok()?;
    let status = StatusCode::from_u16(head.status).ok()?;
    let mut headers = HeaderMap::with_capacity(head.headers.len());
    for (name, text) in head.headers {
        let bytes: Result<Vec<u8>, _> = text.chars().map(u8::try_from).collect();
        let value = HeaderValue::from_maybe_shared(Bytes::from(bytes.ok()?)).ok()?;
        headers.append(name.parse::<HeaderName>().ok()?, value);
    }
    Some((status, headers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_are_read_as_they_were_written() {
        let session = SessionId::parse("a.B_c:d-1").unwrap();
        for thing in [
            OwnedThing::Chat,
            OwnedThing::Session(session),
            OwnedThing::Project(ProjectId::new(42).unwrap()),
        ] {
            assert_eq!(parse_thing(&thing_text(&thing)), Some(thing));
        }
        for wrong in ["", "Chat", "project", "project 0", "session a/b", "user 1"] {
            assert_eq!(parse_thing(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_head_is_read_from_any_pieces() {
        let mut answer = axum::http::Response::new(()).into_parts().0;
        answer.status = StatusCode::CONFLICT;
        let odd = HeaderValue::from_bytes(b"caf\xe9").unwrap();
        answer.headers.append("x-odd", odd.clone());
        let cookies = ["a=1", "b=2"].map(HeaderValue::from_static);
        for cookie in &cookies {
            answer.headers.append(header::SET_COOKIE, cookie.clone());
        }
        answer
            .headers
            .insert(header::CONNECTION, HeaderValue::from_static("close"));
        let frame = head_frame(&answer);
        let mut arrived = BytesMut::new();
        for byte in &frame {
            assert!(matches!(take_head(&mut arrived), Beginning::Short));
            arrived.put_u8(*byte);
        }
        arrived.put_slice(b"body");
        let Beginning::Head(status, headers) = take_head(&mut arrived) else {
            panic!("a head");
        };
        assert_eq!(status, StatusCode::CONFLICT);
        assert_eq!(headers.get("x-odd"), Some(&odd));
        let read: Vec<_> = headers.get_all(header::SET_COOKIE).iter().collect();
        assert_eq!(read, cookies.iter().collect::<Vec<_>>());
        assert!(!headers.contains_key(header::CONNECTION));
        assert_eq!(&arrived[..], b"body");
    }

    #[test]
    fn what_is_no_head_is_refused() {
        for wrong in [&b"HTTP/1.1 200"[..], b"\0\0\0\x02{}", b"\0\0\0\x02[]"] {
            let mut arrived = BytesMut::from(wrong);
            assert!(matches!(take_head(&mut arrived), Beginning::Wrong));
        }
    }

    #[test]
    fn headers_about_one_connection_stay_there() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "keep-alive, X-Mine"),
            ("x-mine", "1"),
            ("transfer-encoding", "chunked"),
            ("expect", "100-continue"),
            ("x-codelab-cluster-key", "forged"),
            ("x-codelab-forward-method", "DELETE"),
            ("authorization", "Bearer t"),
            ("last-event-id", "7"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        let kept = end_to_end(&headers);
        let names: Vec<&str> = kept.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["authorization", "last-event-id"]);
    }
}
