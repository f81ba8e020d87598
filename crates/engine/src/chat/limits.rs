//! The bounds of the Chat, and the checks of what is said in it.

use codelab_protocol::ErrorCode;

use crate::Refusal;

#[derive(Debug, Clone, Copy)]
pub struct ChatLimits {
    /// Messages kept; the oldest leave first.
    pub history_messages: usize,
    /// Their size together.
    pub history_bytes: usize,
    /// Askers without an answer.
    pub askers: usize,
    /// Messages that wait until AdaptiveAgent has time.
    pub backlog: usize,
}

impl Default for ChatLimits {
    fn default() -> Self {
        Self {
            history_messages: 10_000,
            history_bytes: 64 * 1024 * 1024,
            askers: 64,
            backlog: 10,
        }
    }
}

/// Bytes of one message's text.
pub const MAX_CHAT_TEXT_BYTES: usize = 32 * 1024;
const MAX_AUTHOR_CHARS: usize = 64;
const MAX_TAGS: usize = 16;
const MAX_TAG_CHARS: usize = 64;

pub(super) fn checked_text(text: String) -> Result<String, Refusal> {
    if text.trim().is_empty() {
        return Err(Refusal::new(
            ErrorCode::MissingRequiredField,
            "The text is blank",
        ));
    }
    if text.len() > MAX_CHAT_TEXT_BYTES {
        let message = format!("The text is longer than {MAX_CHAT_TEXT_BYTES} bytes");
        return Err(Refusal::new(ErrorCode::ValidationError, message)
            .with("limit_bytes", MAX_CHAT_TEXT_BYTES));
    }
    Ok(text)
}

pub(super) fn checked_author(author: &str) -> Result<&str, Refusal> {
    let author = author.trim();
    if author.is_empty() {
        return Err(
            Refusal::new(ErrorCode::MissingRequiredField, "The author is blank")
                .with("field", "author"),
        );
    }
    one_line(author, MAX_AUTHOR_CHARS, "author").map(|()| author)
}

pub(super) fn checked_tags(tags: &[String]) -> Result<(), Refusal> {
    if tags.len() > MAX_TAGS {
        return Err(Refusal::new(
            ErrorCode::ValidationError,
            format!("There are more than {MAX_TAGS} tags"),
        ));
    }
    tags.iter().try_for_each(|tag| match tag.trim().is_empty() {
        true => Err(Refusal::new(ErrorCode::ValidationError, "A tag is blank")),
        false => one_line(tag, MAX_TAG_CHARS, "tag"),
    })
}

fn one_line(text: &str, max_chars: usize, what: &str) -> Result<(), Refusal> {
    if text.chars().count() > max_chars || text.chars().any(char::is_control) {
        let message = format!("The {what} must be at most {max_chars} characters on one line");
        return Err(Refusal::new(ErrorCode::ValidationError, message).with("field", what));
    }
    Ok(())
}
