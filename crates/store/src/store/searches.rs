//! Bounds the searches that run at once, so that they leave the database to all other reads.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use codelab_protocol::UserId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Backend, Store};
use crate::StoreError;
use crate::columns::Decode;
use crate::statement::Param;

/// Searches of one user that can wait while another one of theirs runs.
const MAX_WAITING: usize = 8;

/// One search of each user runs or waits for its start. So a user with many searches does not
/// delay those of others by more than one.
pub(super) struct Searches {
    running: Arc<Semaphore>,
    users: Mutex<HashMap<UserId, SearchesOfUser>>,
}

struct SearchesOfUser {
    first: Arc<Semaphore>,
    count: usize,
}

/// A search of a user that runs or waits.
struct Asked {
    searches: Arc<Searches>,
    user: UserId,
}

/// The right to run a search.
pub(super) struct SearchSlot {
    _running: OwnedSemaphorePermit,
    _first: OwnedSemaphorePermit,
    _asked: Asked,
}

impl Searches {
    pub fn new(at_once: usize) -> Arc<Self> {
        Arc::new(Self {
            running: Arc::new(Semaphore::new(at_once)),
            users: Mutex::default(),
        })
    }

    /// Waits for the user's other search, then for those of other users.
    pub async fn slot(self: &Arc<Self>, user: UserId) -> Result<SearchSlot, StoreError> {
        let (asked, first) = self.ask(user)?;
        let first = first.acquire_owned().await;
        let running = Arc::clone(&self.running).acquire_owned().await;
        Ok(SearchSlot {
            _running: running.map_err(|_| StoreError::stopped())?,
            _first: first.map_err(|_| StoreError::stopped())?,
            _asked: asked,
        })
    }

    fn ask(self: &Arc<Self>, user: UserId) -> Result<(Asked, Arc<Semaphore>), StoreError> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let own = users.entry(user).or_insert_with(|| SearchesOfUser {
            first: Arc::new(Semaphore::new(1)),
            count: 0,
        });
        if own.count > MAX_WAITING {
            return Err(StoreError::Overloaded(
                "Too many of your searches are waiting; try again",
            ));
        }
        own.count += 1;
        let asked = Asked {
            searches: Arc::clone(self),
            user,
        };
        Ok((asked, Arc::clone(&own.first)))
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let users = &self.searches.users;
        let mut users = users.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = users.get_mut(&self.user) {
            own.count -= 1;
            if own.count == 0 {
                users.remove(&self.user);
            }
        }
    }
}

impl Store {
    /// A read that can take long. It fails with `Overloaded` if it takes too long, and is not tried
    /// again. That tells nothing about the state of the database.
    pub(super) async fn search<T: Send + 'static>(
        &self,
        user: UserId,
        sql: &'static str,
        params: Vec<Param>,
        decode: Decode<T>,
    ) -> Result<Vec<T>, StoreError> {
        let slot = self.searches.slot(user).await?;
        let backend = Arc::clone(&self.backend);
        // The database goes on with a search whose caller has gone, so its slot stays in use.
        let search = tokio::spawn(async move {
            let _slot = slot;
            match backend.as_ref() {
                Backend::Sqlite(sqlite) => sqlite.search(sql, params, decode).await,
                Backend::Postgres(postgres) => postgres.search(sql, params, decode).await,
            }
        });
        search.await.unwrap_or_else(|_| Err(StoreError::stopped()))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn user(number: i64) -> UserId {
        UserId::new(number).unwrap()
    }

    #[tokio::test]
    async fn a_user_with_many_searches_delays_others_by_one() {
        let searches = Searches::new(1);
        let runs = searches.slot(user(1)).await.unwrap();
        let mut own = Box::pin(searches.slot(user(1)));
        assert!((&mut own).now_or_never().is_none());
        let mut other = Box::pin(searches.slot(user(2)));
        assert!((&mut other).now_or_never().is_none());
        // The user's own next search begins to wait for a slot now, behind that of the other user.
        drop(runs);
        assert!((&mut own).now_or_never().is_none());
        let runs = other.await.unwrap();
        assert!((&mut own).now_or_never().is_none());
        drop(runs);
        drop(own.await.unwrap());
        assert!(searches.users.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn few_searches_of_a_user_wait() {
        let searches = Searches::new(2);
        let _runs = searches.slot(user(1)).await.unwrap();
        let mut waiting: Vec<_> = (0..MAX_WAITING)
            .map(|_| Box::pin(searches.slot(user(1))))
            .collect();
        assert!(waiting.iter_mut().all(|one| one.now_or_never().is_none()));
        let refused = searches.slot(user(1)).await;
        assert!(matches!(refused, Err(StoreError::Overloaded(_))));
        assert!(searches.slot(user(2)).await.is_ok());
        // One whose caller has gone makes room.
        waiting.pop();
        assert!(searches.slot(user(1)).now_or_never().is_none());
    }
}
