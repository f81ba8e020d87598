//! A user's projects with their agents and sessions.
//!
//! Every query is bound to a user: a [`UserStore`] belongs to one user, and a [`ProjectStore`]
//! comes only from a `UserStore` and belongs to a project of that user. Projects of other users are
//! not found. The only exception is [`Store::project_of_anyone`], for operators of the server.

mod agents;
mod events;
mod interactions;
mod mcp_servers;
mod mcp_trust;
mod plans;
mod projects;
mod search;
mod sessions;
mod usage;

use codelab_protocol::UserId;

pub use self::agents::AgentLocation;
pub use self::mcp_trust::MAX_DEFINITIONS_OF_TOOL;
pub(super) use self::projects::missing;
pub use self::search::FoundSession;
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
