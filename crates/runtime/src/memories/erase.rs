//! What was deleted leaves the memory engine's files too. SQL notes each interaction that was deleted; here the notes are
//! worked off: the index forgets them, its files are made anew, and only then is the note gone.

use std::collections::BTreeMap;
use std::time::Duration;

use codelab_memory::{InteractionId, MemoryError};
use codelab_store::StoreError;
use tokio::time::Instant;

use super::due::Place;
use super::{Memories, RebuildError, collection};
use crate::space::SpaceKey;

/// Notes worked off at once.
const BATCH: u64 = 1_000;
/// Deletions gather this long, so that files are made anew once for all of them.
const GATHER: Duration = Duration::from_secs(5);
/// Making files anew takes at most one part in so many of the time, however often somebody deletes.
const PAUSE_PER_WORK: u32 = 5;

/// When the notes are looked at again.
#[derive(Default)]
pub(super) struct Pace {
    not_before: Option<Instant>,
}

impl Memories {
    /// One collection's trouble does not hold up the others; its notes stay.
    pub(super) async fn erase(&self, pace: &mut Pace) {
        if pace.not_before.is_some_and(|at| Instant::now() < at) {
            return;
        }
        let began = Instant::now();
        if let Err(error) = self.erase_noted().await {
            tracing::warn!(%error, "what agents no longer remember may still be in the memory's files");
        }
        pace.not_before = Some(Instant::now() + GATHER + began.elapsed() * PAUSE_PER_WORK);
    }

    async fn erase_noted(&self) -> Result<(), StoreError> {
        let mut places: BTreeMap<Place, Vec<codelab_store::InteractionId>> = BTreeMap::new();
        for erased in self.store.erased_interactions(BATCH).await? {
            let key = SpaceKey { user: erased.user_id, project: erased.project_id };
            places.entry((key, erased.agent)).or_default().push(erased.id);
        }
        for (place, ids) in places {
            match self.erase_from(&place, &ids).await {
                Ok(()) => self.store.forget_erased(&ids).await?,
                Err(RebuildError::Store(error)) => return Err(error),
                Err(RebuildError::Memory(error)) => {
                    let (project, agent) = (place.0.project, &place.1);
                    tracing::warn!(%project, %agent, %error, "deleted text is still in the memory's files");
                }
            }
        }
        Ok(())
    }

    async fn erase_from(&self, place: &Place, ids: &[codelab_store::InteractionId]) -> Result<(), RebuildError> {
        let name = collection(place)?;
        if self.project_with(place).await?.is_none() {
            return Ok(self.memory.remove(&name).await?);
        }
        let ids = ids.iter().map(|id| InteractionId(id.0)).collect();
        let erased = match self.memory.delete(&name, ids).await {
            Ok(()) => self.memory.rewrite(&name).await,
            failed => failed,
        };
        match erased {
            // What is not there holds nothing.
            Ok(()) | Err(MemoryError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
