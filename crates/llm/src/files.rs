//! How the files of a message are told to a model: images as images where it takes them, texts as
//! named blocks, and everything else by name.

use std::borrow::Cow;

use codelab_protocol::{FileContent, ModelFile, ModelRequest, fence};

/// The text of a message, with all that its files say in words.
pub fn text_with_files<'a>(content: &'a str, files: &[ModelFile], images: bool) -> Cow<'a, str> {
    if files.is_empty() {
        return Cow::Borrowed(content);
    }
    let mut text = content.to_owned();
    for file in files {
        let about = &file.about;
        // The name stands in quotes.
        let name = about.name.replace('"', "'");
        let told = match &file.content {
            FileContent::Text(content) => {
                let fence = fence(content);
                let end = if content.ends_with('\n') { "" } else { "\n" };
                format!("\n\nFile \"{name}\":\n\n{fence}\n{content}{end}{fence}")
            }
            FileContent::Image(_) if images => format!("\n\n[Image \"{name}\"]"),
            FileContent::Image(_) => format!(
                "\n\n[Image \"{name}\" ({}, {} bytes). It cannot be shown to you, so only its name \
                 is here.]",
                about.media_type, about.size
            ),
            FileContent::NotLoaded => format!(
                "\n\n[File \"{name}\" ({}, {} bytes). Its content is not part of this request.]",
                about.media_type, about.size
            ),
        };
        text.push_str(&told);
    }
    Cow::Owned(text)
}

/// An image as both wires want it.
#[derive(Clone, Copy)]
pub struct Image<'a> {
    pub media_type: &'a str,
    pub base64: &'a str,
}

/// The images that the model gets; none if it takes none.
pub fn images(files: &[ModelFile], images: bool) -> impl Iterator<Item = Image<'_>> {
    let files = files.iter().filter(move |_| images);
    files.filter_map(|file| match &file.content {
        FileContent::Image(base64) => Some(Image {
            media_type: &file.about.media_type,
            base64,
        }),
        FileContent::Text(_) | FileContent::NotLoaded => None,
    })
}

/// Whether the request has an image for a model that takes images.
pub fn has_images(request: &ModelRequest) -> bool {
    let mut messages = request.messages.iter();
    messages.any(|message| images(message.files(), true).next().is_some())
}
