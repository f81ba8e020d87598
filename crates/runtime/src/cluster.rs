//! Several servers as one installation: what is live has one owner among them, and a request goes
//! to that owner.

use std::sync::Arc;

use codelab_protocol::{ProjectId, SessionId};
use codelab_store::StoreError;

use crate::runtime::Runtime;

/// What is live and has one owner at a time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum OwnedThing {
    /// The worker space of a project, with its sessions, bus, clients and budgets.
    Project(ProjectId),
    /// A session of the runtime kind.
    Session(SessionId),
    /// The one global Chat.
    Chat,
}

/// Another server of the installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    pub server_id: Arc<str>,
    /// `http://` or `https://`, without a path.
    pub address: Arc<str>,
}

/// Where a request is to be handled.
#[derive(Debug)]
pub enum Route {
    /// By this server.
    Here(Claim),
    /// By that one. `epoch` is the owner's, as far as this server knows; 0 where nobody owns it
    /// and the peer shall take it.
    There { peer: Peer, epoch: u64 },
}

/// This server owns what a request is about. It is not handed over while this is held, so hold it
/// while the request is being accepted, but not while its answer streams.
#[derive(Debug)]
pub struct Claim {
    pub epoch: u64,
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum RouteError {
    /// This server's lease has lapsed; it answers nothing until it has renewed it.
    #[error("This server has lost contact with the database; try again")]
    Paused,
    #[error("The server is stopping")]
    Stopping,
    /// Somebody else owns it. The epoch is that of the other owner.
    #[error("Another server owns it")]
    Moved { epoch: u64 },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Runtime {
    /// Who handles requests about this. Claims it for this server where nobody owns it and this
    /// server is the one to take it.
    pub async fn route(&self, _thing: &OwnedThing) -> Result<Route, RouteError> {
        Ok(Route::Here(Claim { epoch: 1 }))
    }

    /// A peer forwarded a request here. `Moved` if another living server owns it.
    pub async fn accept_forwarded(&self, _thing: &OwnedThing) -> Result<Claim, RouteError> {
        Ok(Claim { epoch: 1 })
    }

    /// The peer refused the request or did not answer, so what is known of the owner is asked
    /// again.
    pub fn forget_route(&self, _thing: &OwnedThing) {}

    /// Whether this server handles every request itself, because it shares its database with no
    /// other one.
    pub fn is_alone(&self) -> bool {
        true
    }

    /// Whether the lease of this server has lapsed.
    pub fn is_paused(&self) -> bool {
        false
    }

    /// The other living servers. Empty where this server is alone.
    pub fn peers(&self) -> Vec<Peer> {
        Vec::new()
    }

    /// Of the project that a session belongs to; asked once per session.
    pub async fn project_of_session(
        &self,
        _session: &SessionId,
    ) -> Result<Option<ProjectId>, StoreError> {
        Ok(None)
    }
}
