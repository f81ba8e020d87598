//! Brings a session into memory: read, take ownership, recover what a stopped owner left.

use codelab_engine::{Input, Kind, Session};
use codelab_store::{Epoch, Realm, Schedule, SessionKey, SessionRow, StoreError, audit_chain};

use super::{Birth, Loaded, Owner};
use crate::RuntimeError;
use crate::clock::now;
use crate::history::Recent;
use crate::ids::random_u32;
use crate::space::SpaceKey;

const FIRST_EPOCH: Epoch = Epoch(1);

impl Owner {
    /// Makes the session available; a missing one only where the input may make it.
    pub(super) async fn load(&mut self, creates: bool) -> Result<(), RuntimeError> {
        if self.loaded.as_ref().is_some_and(|loaded| creates || !loaded.new) {
            return Ok(());
        }
        let row = self.runtime.store.session(self.name.realm, &self.name.id).await?;
        match row {
            Some(row) if row.deleted_at.is_some() => Err(RuntimeError::SessionNotFound),
            Some(row) => self.take_over(row).await,
            None if creates => {
                self.loaded = Some(self.unborn(&Birth::default()));
                Ok(())
            }
            None => Err(RuntimeError::SessionNotFound),
        }
    }

    pub(super) fn unborn(&self, birth: &Birth) -> Loaded {
        let kind = match self.name.realm {
            Realm::Runtime => Kind::Runtime,
            Realm::Project => Kind::Project,
        };
        Loaded {
            key: SessionKey::allocate(now().as_millis(), random_u32()),
            epoch: FIRST_EPOCH,
            session: Session::new(self.name.id.clone(), kind, birth.budget, FIRST_EPOCH.0),
            space: birth.space.map(|space| self.runtime.spaces.get(space)),
            system_prompt: None,
            audit_head: audit_chain::genesis(),
            schedule: Schedule::default(),
            recent: Some(Recent::empty(self.runtime.prompt.messages)),
            new: true,
        }
    }

    async fn take_over(&mut self, mut row: SessionRow) -> Result<(), RuntimeError> {
        let runtime = &self.runtime;
        let mine = row.owner.as_deref() == Some(runtime.server_id.as_str());
        let mut down_ms = 0;
        if !mine {
            let lease = match &row.owner {
                Some(owner) => runtime.store.server_lease(owner).await?,
                None => None,
            };
            down_ms = lease.map_or(0, |until| now().millis_since(until));
            let claimed = runtime.store.claim_session(row.key, &runtime.server_id, now()).await?;
            let epoch = claimed.ok_or(RuntimeError::Elsewhere)?;
            // Read again: until the claim, a commit of the owner before could still land.
            let after = runtime.store.session(self.name.realm, &self.name.id).await?;
            row = after.filter(|row| row.epoch == epoch && row.deleted_at.is_none()).ok_or(RuntimeError::Elsewhere)?;
        }
        let epoch = row.epoch;
        let session: Session = serde_json::from_str(&row.state)
            .map_err(|error| StoreError::Corrupt(format!("the state of a session cannot be read: {error}")))?;
        let audit_head = runtime.store.audit_head(row.key).await?.unwrap_or_else(audit_chain::genesis);
        self.feed.opened(session.last_seq(), session.turn().is_none());
        // Told by what is stored, so that a recovery that failed half-way is due again. Within one server run nothing is
        // lost but a model call whose owner died.
        let recover = session.epoch() != epoch.0 || session.is_running() || !session.model_calls().is_empty();
        let space = row.user_id.zip(row.project_id).filter(|_| self.name.realm == Realm::Project);
        let space = space.map(|(user, project)| runtime.spaces.get(SpaceKey { user, project }));
        self.loaded = Some(Loaded {
            key: row.key,
            space,
            epoch,
            session,
            system_prompt: row.system_prompt,
            audit_head,
            schedule: row.schedule,
            recent: None,
            new: false,
        });
        if recover && let Err(error) = self.take(vec![Input::Recovered { down_ms, epoch: epoch.0 }]).await {
            self.forget();
            return Err(error);
        }
        Ok(())
    }

    /// Recovers the session if that is due, then expires what is.
    pub(super) async fn touch(&mut self) -> Result<(), RuntimeError> {
        match self.load(false).await {
            // Deleted since it was found due.
            Err(RuntimeError::SessionNotFound) => return Ok(()),
            other => other?,
        }
        self.take(vec![Input::Tick]).await.map(drop)
    }
}
