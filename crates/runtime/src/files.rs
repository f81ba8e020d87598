//! The files of messages on their way to models, and images on their way from tool runners.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use codelab_engine::{MAX_FILE_TEXT_BYTES, Refusal, without_middle};
use codelab_protocol::{
    AgentName, AttachedFile, ErrorCode, FileContent, ModelFile, ModelRequest, NewAttachment,
};
use codelab_store::{OwnedSession, SessionKey, Store, StoreError};
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::RuntimeError;
use crate::runtime::Runtime;
use crate::space::Space;

/// The most bytes of files in one request to a model. Older files are only named then.
const MAX_REQUEST_FILE_BYTES: u64 = 16 * 1024 * 1024;

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

/// Loads what the files of a request hold, the newest first.
pub(crate) async fn load_files(
    store: &Store,
    key: SessionKey,
    request: &mut ModelRequest,
) -> Result<(), StoreError> {
    let mut left = MAX_REQUEST_FILE_BYTES;
    for message in request.messages.iter_mut().rev() {
        for file in message.files_mut() {
            let Some(rest) = left.checked_sub(file.about.size) else {
                continue;
            };
            if let Some(stored) = store.attachment(key, &file.about.digest).await? {
                file.content = content(file, &stored.content);
                left = rest;
            }
        }
    }
    Ok(())
}

fn content(file: &ModelFile, bytes: &[u8]) -> FileContent {
    if file.about.is_image() {
        return FileContent::Image(STANDARD.encode(bytes).into());
    }
    let text = String::from_utf8_lossy(bytes);
    FileContent::Text(Arc::from(without_middle(&text, MAX_FILE_TEXT_BYTES)))
}

/// A result that holds an image as `read_file` gives it becomes one that names it, and the image.
/// Tools are free to use the word for something else, which stays as it is.
pub(crate) fn without_image(mut result: Value) -> (Value, Option<AttachedFile>) {
    let Some(image) = result.get_mut("image") else {
        return (result, None);
    };
    let Ok(given) = NewAttachment::deserialize(&*image) else {
        return (result, None);
    };
    let why = match AttachedFile::parse(given) {
        Ok(file) if file.about.is_image() => {
            *image = json!(file.about);
            return (result, Some(file));
        }
        Ok(_) => "It is no PNG, JPEG, GIF or WebP image".to_owned(),
        Err(error) => error.to_string(),
    };
    *image = json!({"error": format!("The image cannot be shown: {why}")});
    (result, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_in_a_result_becomes_its_name() {
        let png = b"\x89PNG\r\n\x1a\n";
        let image = NewAttachment::new("a.png", "image/png", png);
        let (result, file) = without_image(json!({"success": true, "image": image}));
        let file = file.expect("an image");
        assert_eq!(&*file.content, png);
        assert_eq!(result, json!({"success": true, "image": file.about}));
        for (given, error) in [
            (
                NewAttachment::new("a.png", "image/png", b"no"),
                "not the image/png image",
            ),
            (NewAttachment::new("a.txt", "text/plain", b"no"), "no PNG"),
        ] {
            let (result, file) = without_image(json!({"content": "kept", "image": given}));
            assert!(file.is_none());
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
            assert_eq!(without_image(other.clone()), (other, None));
        }
    }
}
