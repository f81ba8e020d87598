//! Files that people send with their messages, and images that tools read.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::Digest;

/// The most files of one message.
pub const MAX_ATTACHMENTS: usize = 8;
/// The most characters of a file's name.
pub const MAX_ATTACHMENT_NAME_CHARS: usize = 200;
/// The largest image. In base64 it has 5 MiB, which is the limit of some model servers.
pub const MAX_IMAGE_BYTES: u64 = 3840 * 1024;
const MAX_MEDIA_TYPE_BYTES: usize = 100;
/// The shortest row of backquotes around a block.
pub const MIN_FENCE: usize = 3;
/// The images that models take.
const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// A file of a message. Its content is read by its digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Attachment {
    pub name: String,
    pub media_type: String,
    /// In bytes.
    pub size: u64,
    /// SHA-256 of the content, in hex.
    pub digest: Digest,
}

impl Attachment {
    /// Whether it is an image that models take. Everything else is a text.
    pub fn is_image(&self) -> bool {
        IMAGE_TYPES.contains(&self.media_type.as_str())
    }
}

/// A file as a message brings it: a PNG, JPEG, GIF or WebP image, or a text in UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct NewAttachment {
    #[schema(min_length = 1, max_length = 200)]
    pub name: String,
    #[schema(min_length = 3, max_length = 100)]
    pub media_type: String,
    /// The content in base64.
    #[schema(format = Byte)]
    pub data: String,
}

impl NewAttachment {
    pub fn new(name: impl Into<String>, media_type: impl Into<String>, content: &[u8]) -> Self {
        Self {
            name: name.into(),
            media_type: media_type.into(),
            data: STANDARD.encode(content),
        }
    }
}

/// A file with its content, which was checked: it is what `about` says.
#[derive(Clone, PartialEq)]
pub struct AttachedFile {
    pub about: Attachment,
    pub content: Arc<[u8]>,
}

/// Shows nothing of what people wrote.
impl fmt::Debug for AttachedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.about.fmt(f)
    }
}

/// Why a file is not accepted. The words are for the person who sent it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AttachmentError {
    #[error("An attachment needs a name")]
    NoName,
    #[error(
        "The name of an attachment has at most {MAX_ATTACHMENT_NAME_CHARS} characters, on one line and \
         without marks that change the order of its letters"
    )]
    BadName,
    #[error("{name}: media_type must be a media type such as image/png or text/plain")]
    BadMediaType { name: String },
    #[error("{name}: data is not valid base64")]
    BadBase64 { name: String },
    #[error("{name} is not the {media_type} image that its media_type says")]
    OtherType { name: String, media_type: String },
    #[error("{name} has {size} bytes; an image has at most {MAX_IMAGE_BYTES}")]
    ImageTooLarge { name: String, size: u64 },
    #[error(
        "{name} can be neither shown nor read: attach PNG, JPEG, GIF or WebP images, or text in UTF-8"
    )]
    Unsupported { name: String },
}

impl AttachedFile {
    /// Decodes a file and checks that it is what it says.
    pub fn parse(new: NewAttachment) -> Result<Self, AttachmentError> {
        let name = new.name.trim().to_owned();
        if name.is_empty() {
            return Err(AttachmentError::NoName);
        }
        let is_long = name.chars().count() > MAX_ATTACHMENT_NAME_CHARS;
        if is_long || name.contains(misleads) {
            return Err(AttachmentError::BadName);
        }
        let Some(media_type) = essence(&new.media_type) else {
            return Err(AttachmentError::BadMediaType { name });
        };
        let Ok(content) = STANDARD.decode(new.data.as_bytes()) else {
            return Err(AttachmentError::BadBase64 { name });
        };
        if IMAGE_TYPES.contains(&media_type.as_str()) {
            if image_type(&content) != Some(media_type.as_str()) {
                return Err(AttachmentError::OtherType { name, media_type });
            }
            let size = content.len() as u64;
            if size > MAX_IMAGE_BYTES {
                return Err(AttachmentError::ImageTooLarge { name, size });
            }
        } else if content.contains(&0) || std::str::from_utf8(&content).is_err() {
            return Err(AttachmentError::Unsupported { name });
        }
        Ok(Self {
            about: Attachment {
                name,
                media_type,
                size: content.len() as u64,
                digest: Digest::of_bytes(&content),
            },
            content: content.into(),
        })
    }
}

/// Names stand on one line wherever they are shown, and no letter of one changes the order of the
/// others.
fn misleads(c: char) -> bool {
    let changes_order = matches!(
        c,
        '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') || changes_order
}

/// A row of backquotes for the beginning and end of a block of this content: longer than any row in
/// it, so that nothing in the content ends the block.
pub fn fence(content: &str) -> String {
    let rows = content.split(|c| c != '`').map(str::len);
    let longest = rows.max().unwrap_or_default();
    "`".repeat(MIN_FENCE.max(longest + 1))
}

/// `type/subtype` in lower case, without parameters.
fn essence(media_type: &str) -> Option<String> {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    let is_token = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
    };
    let (kind, subtype) = essence.split_once('/')?;
    let is_valid = essence.len() <= MAX_MEDIA_TYPE_BYTES && is_token(kind) && is_token(subtype);
    is_valid.then(|| essence.to_ascii_lowercase())
}

/// The media type of an image that models take, by how its content begins.
pub fn image_type(content: &[u8]) -> Option<&'static str> {
    if content.starts_with(b"\x89PNG\r\n\x1a\n") {
        Some("image/png")
    } else if content.starts_with(b"\xff\xd8\xff") {
        Some("image/jpeg")
    } else if content.starts_with(b"GIF87a") || content.starts_with(b"GIF89a") {
        Some("image/gif")
    } else if content.starts_with(b"RIFF") && content.get(8..12) == Some(b"WEBP".as_slice()) {
        Some("image/webp")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";

    #[test]
    fn a_file_is_what_its_media_type_says() {
        let webp = b"RIFF\x04\0\0\0WEBPVP8 ";
        for (name, media_type, content, stored) in [
            ("a.png", "image/png", PNG, "image/png"),
            (" a.png ", "IMAGE/PNG; x=y", PNG, "image/png"),
            ("a.jpg", "image/jpeg", b"\xff\xd8\xff\xe0", "image/jpeg"),
            ("a.gif", "image/gif", b"GIF89a", "image/gif"),
            ("a.webp", "image/webp", webp, "image/webp"),
            (
                "заметки.txt",
                "text/plain",
                "Привіт".as_bytes(),
                "text/plain",
            ),
            ("a.svg", "image/svg+xml", b"<svg/>", "image/svg+xml"),
            ("empty", "application/json", b"", "application/json"),
        ] {
            let file = AttachedFile::parse(NewAttachment::new(name, media_type, content)).unwrap();
            let expected = Attachment {
                name: name.trim().to_owned(),
                media_type: stored.to_owned(),
                size: content.len() as u64,
                digest: Digest::of_bytes(content),
            };
            assert_eq!(file.about, expected);
            assert_eq!(&*file.content, content);
        }
    }

    #[test]
    fn anything_else_is_refused_with_a_reason() {
        let long = "n".repeat(MAX_ATTACHMENT_NAME_CHARS + 1);
        let mut large = PNG.to_vec();
        large.resize(MAX_IMAGE_BYTES as usize + 1, 0);
        for (name, media_type, content, why) in [
            ("  ", "image/png", PNG, "needs a name"),
            (long.as_str(), "image/png", PNG, "at most 200 characters"),
            ("a\nb", "image/png", PNG, "on one line"),
            ("a\u{202e}gnp.exe", "image/png", PNG, "order of its letters"),
            ("a\u{2067}b", "image/png", PNG, "order of its letters"),
            ("a", "image/png", large.as_slice(), "at most 3932160"),
            ("a", "", PNG, "must be a media type"),
            ("a", "png", PNG, "must be a media type"),
            ("a", "image/p ng", PNG, "must be a media type"),
            ("a.jpg", "image/jpeg", PNG, "not the image/jpeg image"),
            ("a.png", "image/png", b"text", "not the image/png image"),
            ("a.txt", "text/plain", b"\xff\xfe", "neither shown nor read"),
            ("a.txt", "text/plain", b"a\0b", "neither shown nor read"),
            (
                "a.pdf",
                "application/pdf",
                b"%PDF\xe2",
                "neither shown nor read",
            ),
        ] {
            let error = AttachedFile::parse(NewAttachment::new(name, media_type, content));
            let error = error.unwrap_err().to_string();
            assert!(error.contains(why), "{name} {media_type}: {error}");
        }
        let bad = NewAttachment {
            data: "not base64!".to_owned(),
            ..NewAttachment::new("a", "text/plain", b"")
        };
        assert!(matches!(
            AttachedFile::parse(bad),
            Err(AttachmentError::BadBase64 { .. })
        ));
    }
}
