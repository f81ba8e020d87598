//! The files of messages. They are stored with the commit of their message.

use std::sync::Arc;

use codelab_protocol::{AttachedFile, Attachment, Digest};

use super::Store;
use crate::{SessionKey, StoreError};

const ATTACHMENT: &str = "SELECT session_attachments.name, session_attachments.media_type, attachments.size, \
     attachments.digest, attachments.content FROM session_attachments \
     JOIN attachments ON attachments.digest = session_attachments.digest \
     WHERE session_attachments.session_key = $1 AND session_attachments.digest = $2";

impl Store {
    /// A file that the session refers to, as it was first named there.
    pub async fn attachment(
        &self,
        key: SessionKey,
        digest: &Digest,
    ) -> Result<Option<AttachedFile>, StoreError> {
        self.read_one(ATTACHMENT, vec![key.into(), digest.into()], |row| {
            Ok(AttachedFile {
                about: Attachment {
                    name: row.string()?,
                    media_type: row.string()?,
                    size: row.count()?,
                    digest: row.digest()?,
                },
                content: Arc::from(row.bytes()?),
            })
        })
        .await
    }
}
