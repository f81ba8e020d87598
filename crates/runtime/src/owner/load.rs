//! Brings a session into memory: read, take ownership, recover what a stopped owner left.

use codelab_engine::{Downtime, Input, Session};
use codelab_protocol::{SessionKind, Timestamp};
use codelab_store::audit_chain::{self, ChainOwner};
use codelab_store::{Epoch, Schedule, SessionRow, StoreError};
use tokio::time::Instant;

use super::{LoadedSession, NewSession, Owner, RETRY_DELAY};
use crate::RuntimeError;
use crate::clock::now;
use crate::history::Recent;
use crate::ids::random_u32;
use crate::space::SpaceKey;

const FIRST_EPOCH: Epoch = Epoch(1);

impl Owner {
    /// Makes the session available; a missing one only where the input may make it.
    pub(super) async fn load(&mut self, creates: bool) -> Result<(), RuntimeError> {
        if self
            .loaded
            .as_ref()
            .is_some_and(|loaded| creates || !loaded.new)
        {
            return Ok(());
        }
        let row = self
            .runtime
            .store
            .session(self.name.kind, &self.name.id)
            .await?;
        match row {
            Some(row) if row.deleted_at.is_some() => Err(RuntimeError::SessionNotFound),
            Some(row) => {
                let taken = self.take_over(row).await;
                if matches!(taken, Err(RuntimeError::Elsewhere)) {
                    self.feed = self.runtime.registry.moved_away(&self.name);
                }
                taken
            }
            None if creates => {
                self.loaded = Some(self.new_session(&NewSession::default()));
                Ok(())
            }
            None => Err(RuntimeError::SessionNotFound),
        }
    }

    pub(super) fn new_session(&self, new_session: &NewSession) -> LoadedSession {
        let kind = self.name.kind;
        LoadedSession {
            key: self
                .runtime
                .session_keys
                .allocate(now().as_millis(), random_u32()),
            epoch: FIRST_EPOCH,
            session: Session::new(
                self.name.id.clone(),
                kind,
                new_session.budget,
                FIRST_EPOCH.0,
            ),
            space: new_session
                .space
                .map(|space| self.runtime.spaces.get(space)),
            system_prompt: None,
            audit_head: audit_chain::genesis(),
            schedule: Schedule::default(),
            recent: Some(Recent::empty(self.runtime.prompt.messages)),
            new: true,
        }
    }

    async fn take_over(&mut self, row: SessionRow) -> Result<(), RuntimeError> {
        let among = self.runtime.cluster.is_among();
        let in_project = row.project_id.filter(|_| among);
        if in_project.is_some_and(|project| !self.runtime.cluster.owns_project(project)) {
            return Err(RuntimeError::Elsewhere);
        }
        let mine = row.owner.as_deref() == Some(&*self.run.server_id);
        let loaded = match mine {
            true => self.bring_in(row).await,
            false => {
                let epoch = self.claim(&row).await?;
                self.bring_in_claimed(epoch).await
            }
        };
        if let Err(error) = &loaded {
            self.forget();
            // The session is claimed, so only this owner knows how long nobody had it: it stays
            // until that is stored.
            self.down = self.down.filter(|_| may_pass(error));
            if self.down.is_some() {
                self.retry
                    .get_or_insert_with(|| (vec![Input::Tick], Instant::now() + RETRY_DELAY));
            }
        }
        loaded
    }

    /// Makes the session this server's, and notes how long nobody had it.
    async fn claim(&mut self, row: &SessionRow) -> Result<Epoch, RuntimeError> {
        let store = &self.runtime.store;
        let lease = match &row.owner {
            Some(owner) => store.server_lease(owner).await?,
            None => None,
        };
        let down = match lease {
            Some(until) => Some(downtime(until, &store.leases_after(until).await?)),
            None => None,
        };
        let server_id = &self.run.server_id;
        let among = self.runtime.cluster.is_among();
        let epoch = match row.project_id.filter(|_| among) {
            Some(_) => store.claim_session_in_project(row.key, server_id).await?,
            None => store.claim_session(row.key, server_id).await?,
        };
        let epoch = epoch.ok_or(RuntimeError::Elsewhere)?;
        self.down = down;
        Ok(epoch)
    }

    async fn bring_in_claimed(&mut self, epoch: Epoch) -> Result<(), RuntimeError> {
        // Read again: until the claim, a commit of the owner before could still land.
        let after = self
            .runtime
            .store
            .session(self.name.kind, &self.name.id)
            .await?;
        let row = after
            .filter(|row| row.epoch == epoch && row.deleted_at.is_none())
            .ok_or(RuntimeError::Elsewhere)?;
        self.bring_in(row).await
    }

    async fn bring_in(&mut self, row: SessionRow) -> Result<(), RuntimeError> {
        let runtime = &self.runtime;
        let epoch = row.epoch;
        let session = crate::state_of(&row)?;
        let of = ChainOwner {
            key: row.key,
            kind: row.kind,
            session_id: &row.session_id,
        };
        let audit_head = runtime
            .store
            .audit_head(of)
            .await?
            .unwrap_or_else(audit_chain::genesis);
        self.feed
            .opened(row.key, session.last_seq(), session.is_idle());
        self.feed.belongs_to(row.project_id);
        // Told by what is stored, so that a recovery that failed half-way is due again. Within one
        // server run nothing is lost but a model call whose owner died.
        let recover =
            session.epoch() != epoch.0 || session.is_running() || !session.model_calls().is_empty();
        let space = row
            .user_id
            .zip(row.project_id)
            .filter(|_| self.name.kind == SessionKind::Project);
        let space = space.map(|(user, project)| runtime.spaces.get(SpaceKey { user, project }));
        self.loaded = Some(LoadedSession {
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
        if recover {
            self.recover(epoch).await
        } else {
            Ok(())
        }
    }

    async fn recover(&mut self, epoch: Epoch) -> Result<(), RuntimeError> {
        let down = self.down.unwrap_or(Downtime {
            ms: 0,
            back_at: now(),
        });
        self.take(vec![Input::Recovered {
            down,
            epoch: epoch.0,
        }])
        .await?;
        self.down = None;
        Ok(())
    }

    /// Recovers the session if that is due, then expires what is.
    pub(super) async fn touch(&mut self) -> Result<(), RuntimeError> {
        match self.load(false).await {
            // Deleted since it was found due.
            Err(RuntimeError::SessionNotFound) => return Ok(()),
            other => other?,
        }
        // Whoever was heard meanwhile is not silent.
        let mut inputs = self.models.heard();
        inputs.push(Input::Tick);
        self.take(inputs).await.map(drop)
    }
}

/// Whether it can go well later, with the session still this owner's.
fn may_pass(error: &RuntimeError) -> bool {
    match error {
        RuntimeError::Store(error) => !matches!(error, StoreError::Corrupt(_)),
        RuntimeError::NotStored(error) => *error != StoreError::Conflict,
        RuntimeError::Refused(_)
        | RuntimeError::SessionNotFound
        | RuntimeError::SessionExists
        | RuntimeError::Busy
        | RuntimeError::Elsewhere
        | RuntimeError::Stopping => false,
    }
}

/// What of the time since a lease ended no server had one. Without such a time somebody was there
/// all along.
fn downtime(since: Timestamp, leases: &[(Timestamp, Timestamp)]) -> Downtime {
    let (mut down, mut covered) = (
        Downtime {
            ms: 0,
            back_at: since,
        },
        since,
    );
    for &(started_at, until) in leases {
        if started_at > covered {
            down = Downtime {
                ms: down.ms + started_at.millis_since(covered),
                back_at: started_at,
            };
        }
        covered = covered.max(until);
    }
    down
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn downtime_is_what_no_server_covers() {
        let at = Timestamp::from_millis;
        for (leases, ms, back_at) in [
            (&[][..], 0, 100),
            (&[(150, 900)], 50, 150),
            // Another server was there, before and after.
            (&[(20, 900)], 0, 100),
            (&[(20, 130), (160, 900)], 30, 160),
            // Nobody looked at the session while the second one ran.
            (&[(150, 400), (420, 900)], 70, 420),
            (&[(150, 600), (200, 300), (590, 900)], 50, 150),
        ] {
            let leases: Vec<_> = leases
                .iter()
                .map(|&(from, until)| (at(from), at(until)))
                .collect();
            assert_eq!(
                downtime(at(100), &leases),
                Downtime {
                    ms,
                    back_at: at(back_at)
                },
                "{leases:?}"
            );
        }
    }
}
