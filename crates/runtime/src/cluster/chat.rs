//! The Chat's way between servers.

use codelab_store::StoreError;

use crate::runtime::Inner;

impl Inner {
    /// This server owns the Chat now.
    pub(super) async fn chat_arrives(&self) -> Result<(), StoreError> {
        self.chat.take_over(&self.store).await
    }

    /// Saves the Chat for its next owner.
    pub(super) async fn chat_leaves(&self) -> Result<(), StoreError> {
        self.chat.hand_over(&self.store).await
    }

    /// Another server has the Chat. What this one knows of it is lost.
    pub(super) fn chat_lost(&self) {
        drop(self.chat.release());
    }
}
