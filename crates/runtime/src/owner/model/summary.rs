//! The request for a summary of the session's older part.

use codelab_engine::{MAX_SUMMARIZED_MESSAGES, summary_request};
use codelab_protocol::ModelRequest;
use codelab_store::{MessageRange, StoreError};

use super::{Unprepared, default_model, unreadable};
use crate::owner::Owner;

impl Owner {
    pub(super) async fn summary(
        &self,
        from: u64,
        before: u64,
    ) -> Result<(ModelRequest, Vec<String>), Unprepared> {
        let runtime = &self.runtime;
        let loaded = self
            .loaded
            .as_ref()
            .ok_or_else(|| unreadable(&StoreError::NotFound))?;
        // The store counts from 1.
        let range = MessageRange::Last {
            before: Some(before + 1),
            limit: MAX_SUMMARIZED_MESSAGES,
        };
        let stored = runtime
            .store
            .messages(loaded.key, range)
            .await
            .map_err(|error| unreadable(&error))?;
        let messages: Vec<_> = stored
            .into_iter()
            .filter(|stored| stored.ord > from)
            .map(|stored| stored.message)
            .collect();
        let (region, limits) = (&runtime.region, &runtime.prompt);
        Ok(summary_request(
            &loaded.session,
            default_model(runtime),
            &messages,
            region,
            limits,
        ))
    }
}
