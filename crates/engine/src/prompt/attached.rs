//! What a message's files count for in a prompt, and how a prompt only names them.

use codelab_protocol::Message;

use super::size::chars_of_tokens;

/// The most that a prompt holds of text files, of all together.
pub const MAX_FILE_TEXT_BYTES: usize = 262_144;
/// What an image counts for. Providers scale large images down, and none of them counts much more
/// for one.
const IMAGE_TOKENS: usize = 1600;
/// Earlier messages whose files take more of the history than one part in this many only name them.
const PART_FOR_FILES: usize = 2;

/// The size of a message's files as a number of characters, as all sizes of prompts are.
pub(super) fn file_chars(message: &Message) -> usize {
    let (images, texts): (Vec<_>, Vec<_>) =
        message.attachments.iter().partition(|file| file.is_image());
    let in_texts: u64 = texts.iter().map(|file| file.size).sum();
    let in_texts =
        usize::try_from(in_texts).map_or(MAX_FILE_TEXT_BYTES, |size| size.min(MAX_FILE_TEXT_BYTES));
    images.len() * chars_of_tokens(IMAGE_TOKENS) + in_texts
}

/// Whether the files of an earlier message leave no room for what was said.
pub(super) fn are_too_large(message: &Message, budget_chars: usize) -> bool {
    file_chars(message) > budget_chars / PART_FOR_FILES
}

/// The message with the names of its files in place of the files.
pub fn without_files(mut message: Message) -> Message {
    let files = std::mem::take(&mut message.attachments);
    if !files.is_empty() {
        let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
        message.content = format!("{}\n\n[Attached: {}]", message.content, names.join(", "));
    }
    message
}
