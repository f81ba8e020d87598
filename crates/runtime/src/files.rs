//! The files of messages on their way to models, and images on their way from tool runners.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use codelab_engine::{MAX_FILE_TEXT_BYTES, Refusal, fair_bound, without_middle};
use codelab_protocol::{
    AgentName, AttachedFile, ErrorCode, FileContent, MAX_ATTACHMENTS, ModelFile, ModelMessage,
    ModelRequest, NewAttachment,
};
use codelab_store::{OwnedSession, SessionKey, Store, StoreError};
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::RuntimeError;
use crate::runtime::Runtime;
use crate::space::Space;

/// The most bytes of files in one request to a model. Older files are only named then.
const MAX_REQUEST_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// What text files may take of a model's window. A token has about four bytes, so it is half.
const FILE_BYTES_PER_TOKEN: u64 = 2;

impl Runtime {
    /// Refuses an image where the model that will read it takes none. A message that is planned is
    /// not refused: each task's model gets the image, or its name.
    pub(crate) async fn check_takes_images(
        &self,
        session: &OwnedSession,
        space: &Space,
        addressee: Option<&AgentName>,
    ) -> Result<(), RuntimeError> {
        let state = crate::state_of(session)?;
        let Some(agent) = addressee.or_else(|| state.asking_agent()) else {
            return Ok(());
        };
        let team = space.team_snapshot().await;
        let team = team.map_err(RuntimeError::of_project_session)?;
        let own = team
            .team
            .get(agent)
            .and_then(|agent| agent.model.as_deref());
        let model = state.model().or(own).unwrap_or(&self.inner.default_model);
        if self.inner.model.takes_images(model) {
            return Ok(());
        }
        let why = format!(
            "The model {model} of {agent} does not take images. Choose another model or agent, or \
             send the message without images."
        );
        let refusal = Refusal::new(ErrorCode::ValidationError, why);
        Err(refusal
            .with("field", "attachments")
            .with("model", model)
            .with("agent", agent.as_str())
            .into())
    }
}

/// Loads what the files of a request hold, the newest first. `window` is the model's, where it is
/// known.
pub(crate) async fn load_files(
    store: &Store,
    key: SessionKey,
    request: &mut ModelRequest,
    window: Option<u64>,
) -> Result<(), StoreError> {
    let text_bytes = text_bound(request, window);
    let mut left = MAX_REQUEST_FILE_BYTES;
    for message in request.messages.iter_mut().rev() {
        for file in message.files_mut() {
            let Some(rest) = left.checked_sub(file.about.size) else {
                continue;
            };
            if let Some(stored) = store.attachment(key, &file.about.digest).await? {
                file.content = content(file, &stored.content, text_bytes);
                left = rest;
            }
        }
    }
    Ok(())
}

/// How much each text file may have, so that all of them fit. Only the longest are cut.
fn text_bound(request: &ModelRequest, window: Option<u64>) -> usize {
    let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let room = window.map_or(MAX_FILE_TEXT_BYTES, |tokens| {
        bytes(tokens.saturating_mul(FILE_BYTES_PER_TOKEN)).min(MAX_FILE_TEXT_BYTES)
    });
    let files = request.messages.iter().flat_map(ModelMessage::files);
    let texts = files.filter(|file| !file.about.is_image());
    fair_bound(texts.map(|file| bytes(file.about.size)), room).min(room)
}

fn content(file: &ModelFile, bytes: &[u8], text_bytes: usize) -> FileContent {
    if file.about.is_image() {
        return FileContent::Image(STANDARD.encode(bytes).into());
    }
    let text = String::from_utf8_lossy(bytes);
    FileContent::Text(Arc::from(without_middle(&text, text_bytes)))
}

/// A result that holds images, as `read_file` (`image`) and tools of MCP servers (`images`) give them,
/// becomes one that names them, and the images. Tools are free to use the words for something else,
/// which stays as it is.
pub(crate) fn without_images(mut result: Value) -> (Value, Vec<AttachedFile>) {
    let mut files = Vec::new();
    if let Some(image) = result.get_mut("image") {
        files.extend(named(image));
    }
    if let Some(Value::Array(images)) = result.get_mut("images") {
        for image in images.iter_mut().take(MAX_ATTACHMENTS) {
            files.extend(named(image));
        }
        for image in images.iter_mut().skip(MAX_ATTACHMENTS) {
            let why = format!("A result has at most {MAX_ATTACHMENTS} images");
            *image = json!({ "error": why });
        }
    }
    (result, files)
}

/// Puts the image's name in its place, if it is one.
fn named(image: &mut Value) -> Option<AttachedFile> {
    let given = NewAttachment::deserialize(&*image).ok()?;
    let why = match AttachedFile::parse(given) {
        Ok(file) if file.about.is_image() => {
            *image = json!(file.about);
            return Some(file);
        }
        Ok(_) => "It is no PNG, JPEG, GIF or WebP image".to_owned(),
        Err(error) => error.to_string(),
    };
    *image = json!({"error": format!("The image cannot be shown: {why}")});
    None
}

#[cfg(test)]
mod tests {
    use codelab_protocol::{Attachment, Digest};

    use super::*;

    #[test]
    fn all_texts_of_a_request_share_one_bound() {
        let file = |media_type: &str, size: usize| {
            ModelFile::from(Attachment {
                name: "a".to_owned(),
                media_type: media_type.to_owned(),
                size: size as u64,
                digest: Digest::of_bytes(b""),
            })
        };
        let text = |size: usize| file("text/plain", size);
        let most = MAX_FILE_TEXT_BYTES;
        for (files, window, bound) in [
            (vec![text(most)], None, most),
            (vec![text(most), text(most)], None, most / 2),
            (vec![text(most), text(100)], None, most - 100),
            (vec![text(most), file("image/png", most)], None, most),
            (vec![text(most)], Some(1_000_000), most),
            (vec![text(most)], Some(8_000), 16_000),
        ] {
            let content = String::new();
            let request = ModelRequest {
                agent: "coder".to_owned(),
                model: "a".to_owned(),
                fallback_models: Vec::new(),
                messages: vec![ModelMessage::User { content, files }],
                tools: Vec::new(),
                temperature: None,
                max_tokens: None,
                schema: None,
            };
            assert_eq!(text_bound(&request, window), bound, "{window:?}");
        }
    }

    #[test]
    fn an_image_in_a_result_becomes_its_name() {
        let png = b"\x89PNG\r\n\x1a\n";
        let image = NewAttachment::new("a.png", "image/png", png);
        let (result, files) = without_images(json!({"success": true, "image": image}));
        let [file] = files.as_slice() else {
            panic!("one image: {files:?}");
        };
        assert_eq!(&*file.content, png);
        assert_eq!(result, json!({"success": true, "image": file.about}));
        let many = vec![json!(image); MAX_ATTACHMENTS + 1];
        let (result, files) = without_images(json!({"images": many}));
        assert_eq!(files.len(), MAX_ATTACHMENTS);
        assert_eq!(result["images"][0], json!(files[0].about));
        assert!(result["images"][MAX_ATTACHMENTS]["error"].is_string());
        for (given, error) in [
            (
                NewAttachment::new("a.png", "image/png", b"no"),
                "not the image/png image",
            ),
            (NewAttachment::new("a.txt", "text/plain", b"no"), "no PNG"),
        ] {
            let (result, files) = without_images(json!({"content": "kept", "image": given}));
            assert!(files.is_empty());
            assert_eq!(result["content"], "kept");
            let told = result["image"]["error"].as_str().unwrap();
            assert!(told.contains(error), "{result}");
        }
        for other in [
            json!("text"),
            json!({"image": "data"}),
            json!({"image": {"name": "a"}}),
            json!({"success": true, "image": {"data": "abc", "mimeType": "image/png"}}),
        ] {
            assert_eq!(without_images(other.clone()), (other, Vec::new()));
        }
    }
}
