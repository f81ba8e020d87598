//! Serves the built web page: its files, their content types and cache rules.

use std::collections::HashMap;
use std::io::Write;
use std::sync::OnceLock;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use codelab_engine::Locale;
use codelab_protocol::Digest;
use flate2::Compression;
use flate2::write::GzEncoder;

/// No inline code, nothing from elsewhere, in no frame. Its own frame is the one that draws diagrams.
pub(crate) const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self' data:; font-src 'self'; connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'";

/// The frame draws a model's text, so it has no origin: no cookies, no storage, no way into the page
/// around it. A drawing brings its styles inline. Nothing is loaded but the frame's own script.
const FRAME_POLICY: &str = "sandbox allow-scripts; default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; \
     img-src data:; font-src 'none'; connect-src 'none'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'self'";

const INDEX: &str = "/index.html";
/// Pages that the page shows in a frame.
const FRAMES: &str = "/frame/";
/// How the built page names its language.
const LANGUAGE: &str = "<html lang=\"en\"";
/// What the page's build puts here has a hash in its name, so it never changes.
const HASHED: &str = "/assets/";

/// One file of the page, by its address.
pub(crate) struct PageFile {
    pub path: &'static str,
    pub bytes: &'static [u8],
}

const EMBEDDED: &[PageFile] = include!(concat!(env!("OUT_DIR"), "/page.rs"));

pub(crate) struct WebPage {
    files: HashMap<&'static str, Served>,
}

/// A file, and what is made of it when it is first asked for.
struct Served {
    bytes: Bytes,
    hash: OnceLock<String>,
    packed: OnceLock<Option<Bytes>>,
}

impl WebPage {
    /// What was there when the program was built; perhaps nothing. The page is told the server's
    /// language, if it has one.
    pub fn embedded(locale: Option<Locale>) -> Self {
        Self::of(EMBEDDED, locale)
    }

    fn of(files: &'static [PageFile], locale: Option<Locale>) -> Self {
        let bytes = |file: &PageFile| match locale.filter(|_| file.path == INDEX) {
            Some(locale) => in_language(file.bytes, locale),
            None => Bytes::from_static(file.bytes),
        };
        let served = |file: &PageFile| Served {
            bytes: bytes(file),
            hash: OnceLock::new(),
            packed: OnceLock::new(),
        };
        Self {
            files: files.iter().map(|file| (file.path, served(file))).collect(),
        }
    }

    /// The addresses of its files, but for the page itself.
    pub fn paths(&self) -> impl Iterator<Item = &'static str> {
        self.files.keys().copied().filter(|path| *path != INDEX)
    }

    pub fn has(&self, path: &str) -> bool {
        path != INDEX && self.files.contains_key(path)
    }

    /// The page itself; none where it was not built.
    pub fn index(&self, asked: &HeaderMap) -> Option<Response> {
        let mut response = self.answer(INDEX, asked)?;
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static(CONTENT_SECURITY_POLICY),
        );
        // Not cached: an old page would ask for files that no longer exist.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.remove(header::ETAG);
        Some(response)
    }

    /// A file, compressed if the browser accepts that, or 304 if it has not changed.
    pub fn answer(&self, path: &str, asked: &HeaderMap) -> Option<Response> {
        let file = self.files.get(path)?;
        let packed = takes_gzip(asked).then(|| file.packed(path)).flatten();
        let tag = format!(
            "\"{}{}\"",
            file.hash(),
            if packed.is_some() { "-gzip" } else { "" }
        );
        let unchanged = path != INDEX
            && asked
                .get(header::IF_NONE_MATCH)
                .is_some_and(|known| names(known, &tag));
        let mut response = match unchanged {
            true => StatusCode::NOT_MODIFIED.into_response(),
            false => {
                Body::from(packed.clone().unwrap_or_else(|| file.bytes.clone())).into_response()
            }
        };
        let headers = response.headers_mut();
        let keep = if path.starts_with(HASHED) {
            "public, max-age=31536000, immutable"
        } else {
            "no-cache"
        };
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(keep));
        if path.starts_with(FRAMES) {
            headers.insert(
                header::CONTENT_SECURITY_POLICY,
                HeaderValue::from_static(FRAME_POLICY),
            );
        }
        headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        headers.extend(
            HeaderValue::try_from(tag)
                .ok()
                .map(|tag| (header::ETAG, tag)),
        );
        if !unchanged {
            headers.insert(
                header::CONTENT_TYPE,
                HeaderValue::from_static(content_type(path)),
            );
            headers.extend(
                packed.map(|_| (header::CONTENT_ENCODING, HeaderValue::from_static("gzip"))),
            );
        }
        Some(response)
    }
}

impl Served {
    fn hash(&self) -> &str {
        self.hash
            .get_or_init(|| Digest::of_bytes(&self.bytes).as_str().to_owned())
    }

    /// None if compression saves nothing.
    fn packed(&self, path: &str) -> Option<Bytes> {
        let pack = || {
            if !is_text(path) {
                return None;
            }
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            encoder.write_all(&self.bytes).ok()?;
            encoder
                .finish()
                .ok()
                .filter(|packed| packed.len() < self.bytes.len())
                .map(Bytes::from)
        };
        self.packed.get_or_init(pack).clone()
    }
}

/// `data-locale` tells the page that this is a setting and not merely what it was built with.
fn in_language(page: &[u8], locale: Locale) -> Bytes {
    let tag = locale.tag();
    let page = String::from_utf8_lossy(page);
    Bytes::from(page.replacen(
        LANGUAGE,
        &format!("<html lang=\"{tag}\" data-locale=\"{tag}\""),
        1,
    ))
}

fn takes_gzip(asked: &HeaderMap) -> bool {
    let accepted = asked
        .get_all(header::ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
        let refused = quality
            .trim()
            .strip_prefix("q=")
            .is_some_and(|q| q.trim().parse() == Ok(0.0_f32));
        name.trim().eq_ignore_ascii_case("gzip") && !refused
    })
}

fn names(known: &HeaderValue, tag: &str) -> bool {
    let known = known.to_str().unwrap_or_default();
    known
        .split(',')
        .map(str::trim)
        .any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag)
}

fn is_text(path: &str) -> bool {
    let kind = content_type(path);
    kind.starts_with("text/")
        || kind.starts_with("application/") && kind.ends_with("json")
        || kind == "image/svg+xml"
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "webp" => "image/webp",
        "woff2" => "font/woff2",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
#[path = "page/tests.rs"]
mod tests;
