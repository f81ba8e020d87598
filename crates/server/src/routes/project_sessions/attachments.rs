//! The files of a session's messages.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::Response;
use codelab_protocol::{AttachedFile, Attachment, Digest, MAX_ATTACHMENTS, NewAttachment};

use super::MySession;
use crate::app::App;
use crate::error::{ApiError, ApiResult};
use crate::path::{NamedInPath as _, PathId};

/// A file is what somebody sent, so nothing in it may run in the page's name.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";
/// Other sites cannot show it.
const SAME_ORIGIN: (HeaderName, &str) = (
    HeaderName::from_static("cross-origin-resource-policy"),
    "same-origin",
);

/// The files of a message, decoded and checked.
pub(super) fn checked(attachments: Vec<NewAttachment>) -> ApiResult<Vec<AttachedFile>> {
    if attachments.len() > MAX_ATTACHMENTS {
        let why = format!("A message has at most {MAX_ATTACHMENTS} attachments");
        return Err(refused(why));
    }
    let files = attachments.into_iter().map(|new| {
        let name = new.name.clone();
        AttachedFile::parse(new).map_err(|error| refused(error.to_string()).with("name", name))
    });
    files.collect()
}

fn refused(why: String) -> ApiError {
    ApiError::invalid(why).with("field", "attachments")
}

/// A file of one of the session's messages
#[utoipa::path(
    get, path = "/my/chat/{session_id}/attachments/{digest}",
    responses(
        (status = 200, description = "Its content. Whatever is not an image is served as plain text", body = String, content_type = "application/octet-stream"),
        (status = 404, description = "Unknown session, or no file of its messages"),
    ),
)]
pub(in crate::routes) async fn read(
    State(app): State<App>,
    session: MySession,
    PathId(digest): PathId<Digest>,
) -> ApiResult<Response> {
    let store = app.runtime.store();
    let found = store.attachment(session.row.key, &digest).await?;
    let file = found.ok_or_else(Digest::not_found)?;
    let mut answer = Response::new(Body::from(file.content.to_vec()));
    head(answer.headers_mut(), &file.about);
    Ok(answer)
}

fn head(headers: &mut HeaderMap, about: &Attachment) {
    if let Ok(disposition) = HeaderValue::try_from(disposition(about)) {
        headers.insert(header::CONTENT_DISPOSITION, disposition);
    }
    for (name, value) in [
        (header::CONTENT_TYPE, served_type(about)),
        (SAME_ORIGIN.0, SAME_ORIGIN.1),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// Images keep their type. A text with its own would be a script or a style sheet that the page's
/// policy allows, since it comes from the same server.
fn served_type(about: &Attachment) -> &'static str {
    match about.media_type.as_str() {
        "image/png" => "image/png",
        "image/jpeg" => "image/jpeg",
        "image/gif" => "image/gif",
        "image/webp" => "image/webp",
        _ => "text/plain; charset=utf-8",
    }
}

/// Images are shown; everything else is a download.
fn disposition(about: &Attachment) -> String {
    let kind = match about.is_image() {
        true => "inline",
        false => "attachment",
    };
    let mut name = String::new();
    for byte in about.name.bytes() {
        match byte.is_ascii_alphanumeric() || b"-._".contains(&byte) {
            true => name.push(char::from(byte)),
            false => name.push_str(&format!("%{byte:02X}")),
        }
    }
    format!("{kind}; filename*=UTF-8''{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_any_letters_stays_one_parameter() {
        let about = |name: &str, media_type: &str| Attachment {
            name: name.to_owned(),
            media_type: media_type.to_owned(),
            size: 0,
            digest: Digest::of_bytes(b""),
        };
        for (name, media_type, expected) in [
            ("a b.png", "image/png", "inline; filename*=UTF-8''a%20b.png"),
            (
                "a\"; x=y",
                "text/html",
                "attachment; filename*=UTF-8''a%22%3B%20x%3Dy",
            ),
            (
                "ї.txt",
                "text/plain",
                "attachment; filename*=UTF-8''%D1%97.txt",
            ),
        ] {
            assert_eq!(disposition(&about(name, media_type)), expected);
        }
    }
}
