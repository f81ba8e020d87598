//! The Chat's way between servers.

use codelab_store::StoreError;

use crate::runtime::Inner;

impl Inner {
    /// This server owns the Chat now.
    pub(super) async fn chat_arrives(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Saves the Chat for its next owner.
    pub(super) async fn chat_leaves(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Another server has the Chat.
    pub(super) fn chat_lost(&self) {}
}
