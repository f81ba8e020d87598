//! A user's projects with their agents and sessions.
//!
//! Nothing here can be asked without an owner: a [`UserStore`] is bound to a user, and a
//! [`ProjectStore`] comes only from one and is bound to a project of that user. Another user's
//! project is simply not there. The one way around is [`Store::project_of_anyone`], for whoever
//! operates the server.

mod agents;
mod interactions;
mod projects;
mod sessions;
mod usage;

use codelab_protocol::UserId;

pub use self::agents::AgentLocation;
pub use self::sessions::OwnedSession;

use super::Store;
use crate::user::ProjectRow;

/// Everything of one user.
///
/// ```
/// # use codelab_protocol::{ProjectId, UserId};
/// # async fn look(store: codelab_store::Store, user: UserId, id: ProjectId) -> Result<(), codelab_store::StoreError> {
/// let project = store.of(user).project(id).await?;
/// # Ok(())
/// # }
/// ```
///
/// Without saying whose project it is, nothing compiles:
///
/// ```compile_fail
/// # use codelab_protocol::{ProjectId, UserId};
/// # async fn look(store: codelab_store::Store, user: UserId, id: ProjectId) -> Result<(), codelab_store::StoreError> {
/// let project = store.project(id).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct UserStore {
    store: Store,
    user: UserId,
}

/// One project of one user.
#[derive(Clone)]
pub struct ProjectStore {
    store: Store,
    user: UserId,
    row: ProjectRow,
}

impl Store {
    pub fn of(&self, user: UserId) -> UserStore {
        UserStore {
            store: self.clone(),
            user,
        }
    }
}
