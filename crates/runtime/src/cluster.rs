//! Several servers as one installation: what is live has one owner among them, and a request goes
//! to that owner.
//!
//! The database is the one truth. A server owns things by rows in it, and only while its own row
//! has not ended. A server that is alone owns everything, and none of this costs it anything.

mod chat;
mod held;
mod lease;
mod members;
mod moving;
mod placement;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use codelab_protocol::{ProjectId, SessionId, SessionKind};
use codelab_store::{Epoch, OwnedRow, OwnerRow, Search, StoreError};
use tokio::time::Instant;

use self::held::{Held, Use};
pub(crate) use self::lease::{ServerLease, ServerRun};
pub use self::members::JoinError;
pub(crate) use self::members::{joined, keep_lease, watch_servers};
pub(crate) use self::moving::balance;
use crate::clock::now;
use crate::metrics::Metrics;
use crate::registry::SessionName;
use crate::runtime::{Inner, Runtime};

/// How often the owner is looked up again where it changed meanwhile.
const MAX_LOOKS: usize = 3;
/// What nobody used for so long may move to another server.
const IDLE_SECONDS: u64 = 30;
/// Claims of different things that wait for each other: one in so many.
const CLAIM_LOCKS: usize = 64;

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
pub enum Destination {
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
    _used: Option<Use>,
}

impl Claim {
    /// For what needs no row: everything of a server that is alone, and sessions of the runtime
    /// kind, which are claimed when they are first worked on.
    pub fn free() -> Self {
        Self {
            epoch: 0,
            _used: None,
        }
    }
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

/// How a server takes part in an installation.
#[derive(Debug, Clone, Default)]
pub struct ClusterOptions {
    /// Where the other servers reach this one; none if it is alone.
    pub address: Option<String>,
    /// Of the secrets that all servers must share.
    pub fingerprint: Option<String>,
}

/// What the server knows of the installation.
#[derive(Debug, Clone)]
pub struct ClusterView {
    pub server_id: Arc<str>,
    pub servers: Vec<Peer>,
    pub projects: usize,
    pub sessions: usize,
    pub chat: bool,
}

/// This server as a part of the installation.
pub(crate) struct Cluster {
    options: ClusterOptions,
    run: Mutex<Arc<ServerRun>>,
    pub lease: Arc<ServerLease>,
    /// All servers that have not ended, this one included.
    members: Mutex<Vec<Member>>,
    /// When the members were last read.
    looked_at: Mutex<Instant>,
    held: Held,
    draining: AtomicBool,
    claiming: Vec<tokio::sync::Mutex<()>>,
}

/// A server of the installation, as it was last seen.
struct Member {
    peer: Peer,
    /// Its lease runs, and it is not about to leave.
    takes_work: bool,
}

/// What the database says of the owner.
enum Standing {
    Mine(OwnerRow),
    Theirs(Peer, Epoch),
    Nobodys(Epoch),
    /// It does not exist, so whoever is asked can say so.
    Nothing,
}

impl Cluster {
    pub fn new(
        options: ClusterOptions,
        run: Arc<ServerRun>,
        asked_at: Instant,
        is_shared: bool,
    ) -> Self {
        Self {
            options,
            run: Mutex::new(run),
            lease: Arc::new(ServerLease::new(asked_at, is_shared)),
            members: Mutex::default(),
            looked_at: Mutex::new(asked_at),
            held: Held::default(),
            draining: AtomicBool::new(false),
            claiming: (0..CLAIM_LOCKS).map(|_| Default::default()).collect(),
        }
    }

    /// Whether other servers can be part of the installation.
    pub fn is_among(&self) -> bool {
        self.options.address.is_some()
    }

    pub fn search(&self) -> Search {
        match self.is_among() {
            true => Search::Among,
            false => Search::Alone,
        }
    }

    pub fn run(&self) -> Arc<ServerRun> {
        Arc::clone(&lock(&self.run))
    }

    pub fn server_id(&self) -> Arc<str> {
        Arc::clone(&lock(&self.run).server_id)
    }

    /// Whether this server owns the worker space of a project.
    pub fn owns_project(&self, project: ProjectId) -> bool {
        !self.is_among() || self.held.has(&OwnedThing::Project(project))
    }

    /// Who is to take what nobody owns. None if this server knows nobody: then it takes it itself.
    fn chosen(&self, thing: &OwnedThing) -> Option<Peer> {
        let (me, members) = (self.server_id(), lock(&self.members));
        // What others see of a server that hands over comes a moment later.
        let leaves = |member: &Member| self.is_draining() && member.peer.server_id == me;
        let takers = || {
            members
                .iter()
                .filter(|member| member.takes_work && !leaves(member))
        };
        let ids = takers().map(|member| &member.peer.server_id);
        let chosen = placement::chosen(thing, ids)?;
        takers()
            .find(|member| member.peer.server_id == *chosen)
            .map(|member| member.peer.clone())
    }

    /// Whether this server is to take what nobody owns.
    pub fn is_chosen(&self, thing: &OwnedThing) -> bool {
        let me = self.server_id();
        self.chosen(thing).is_none_or(|peer| peer.server_id == me)
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    fn claim_lock(&self, thing: &OwnedThing) -> &tokio::sync::Mutex<()> {
        use std::hash::BuildHasher as _;
        let hash = std::hash::BuildHasherDefault::<std::hash::DefaultHasher>::default();
        let slot = hash.hash_one(thing) % self.claiming.len().max(1) as u64;
        &self.claiming[slot as usize]
    }
}

impl Inner {
    async fn standing(&self, thing: &OwnedThing) -> Result<Standing, StoreError> {
        let row = match thing {
            OwnedThing::Project(project) => {
                self.store.owner_of_row(OwnedRow::Project(*project)).await?
            }
            OwnedThing::Chat => self.store.owner_of_row(OwnedRow::Chat).await?,
            OwnedThing::Session(id) => self.store.owner_of_session(id).await?,
        };
        let Some(row) = row else {
            return Ok(match thing {
                OwnedThing::Project(project) if !self.store.has_project(*project).await? => {
                    Standing::Nothing
                }
                OwnedThing::Project(_) | OwnedThing::Session(_) | OwnedThing::Chat => {
                    Standing::Nobodys(Epoch(0))
                }
            });
        };
        let Some(owner) = &row.owner else {
            return Ok(Standing::Nobodys(row.epoch));
        };
        if owner.given_away {
            return Ok(Standing::Nobodys(row.epoch));
        }
        if *owner.server_id == *self.cluster.server_id() {
            return Ok(Standing::Mine(row));
        }
        let peer = Peer {
            server_id: owner.server_id.as_str().into(),
            address: owner.address.as_deref().unwrap_or_default().into(),
        };
        Ok(Standing::Theirs(peer, row.epoch))
    }

    /// What this server owns already, without asking the database.
    fn held_here(&self, thing: &OwnedThing) -> Option<Claim> {
        match thing {
            OwnedThing::Project(_) | OwnedThing::Chat => self.cluster.held.uses(thing),
            OwnedThing::Session(id) => {
                let name = SessionName {
                    kind: SessionKind::Runtime,
                    id: id.clone(),
                };
                self.registry.is_live(&name).then(Claim::free)
            }
        }
    }

    /// Makes it this server's, unless a living server has it.
    pub(crate) async fn claim(&self, thing: &OwnedThing) -> Result<Option<Claim>, StoreError> {
        let row = match thing {
            OwnedThing::Project(project) => OwnedRow::Project(*project),
            OwnedThing::Chat => OwnedRow::Chat,
            OwnedThing::Session(_) => return Ok(Some(Claim::free())),
        };
        let _one_at_a_time = self.cluster.claim_lock(thing).lock().await;
        if let Some(claim) = self.cluster.held.uses(thing) {
            return Ok(Some(claim));
        }
        let run = self.cluster.run();
        let Some(epoch) = self.store.claim_row(row, &run.server_id).await? else {
            return Ok(None);
        };
        if run.ended.is_cancelled() {
            return Ok(None);
        }
        Metrics::count(&self.metrics.cluster_claims, row_name(row));
        self.moved_here(row).await?;
        // Others may have taken over meanwhile; then this server has begun anew and holds nothing.
        if run.ended.is_cancelled() {
            self.chat_lost();
            return Ok(None);
        }
        Ok(Some(self.cluster.held.add(thing, epoch.0)))
    }

    async fn route(&self, thing: &OwnedThing) -> Result<Destination, RouteError> {
        if let Some(claim) = self.held_here(thing) {
            return Ok(Destination::Here(claim));
        }
        if let Some((peer, epoch)) = self.cluster.held.elsewhere(thing) {
            return Ok(Destination::There { peer, epoch });
        }
        let mut epoch = 0;
        for _ in 0..MAX_LOOKS {
            let (peer, known) = match self.standing(thing).await? {
                Standing::Nothing => return Ok(Destination::Here(Claim::free())),
                Standing::Theirs(peer, known) => (peer, known.0),
                Standing::Mine(row) => match self.moved_to(thing, &row).await? {
                    None => match self.claim(thing).await? {
                        Some(claim) => return Ok(Destination::Here(claim)),
                        None => continue,
                    },
                    Some(peer) => (peer, 0),
                },
                Standing::Nobodys(known) if self.cluster.is_chosen(thing) => {
                    epoch = known.0;
                    match self.claim(thing).await? {
                        Some(claim) => return Ok(Destination::Here(claim)),
                        None => continue,
                    }
                }
                Standing::Nobodys(known) => match self.cluster.chosen(thing) {
                    Some(peer) => (peer, 0),
                    None => return Err(RouteError::Moved { epoch: known.0 }),
                },
            };
            if known > 0 {
                self.cluster.held.believe(thing, &peer, known);
            }
            return Ok(Destination::There { peer, epoch: known });
        }
        Err(RouteError::Moved { epoch })
    }

    /// Where a session of this server goes that nobody used for a while: its share may be another
    /// server's since that one joined.
    async fn moved_to(
        &self,
        thing: &OwnedThing,
        row: &OwnerRow,
    ) -> Result<Option<Peer>, StoreError> {
        let (OwnedThing::Session(id), Some((key, used_at))) = (thing, row.session) else {
            return Ok(None);
        };
        let is_idle = used_at.plus_seconds(IDLE_SECONDS) < now();
        if !is_idle || self.cluster.is_chosen(thing) {
            return Ok(None);
        }
        let Some(peer) = self.cluster.chosen(thing) else {
            return Ok(None);
        };
        let name = SessionName {
            kind: SessionKind::Runtime,
            id: id.clone(),
        };
        if !self.registry.end_readers_of_sleeping(&name) {
            return Ok(None);
        }
        let server_id = self.cluster.server_id();
        self.store.release_session(key, &server_id).await?;
        Metrics::count(&self.metrics.cluster_handovers, "session");
        Ok(Some(peer))
    }

    async fn accept_forwarded(&self, thing: &OwnedThing) -> Result<Claim, RouteError> {
        if let Some(claim) = self.held_here(thing) {
            return Ok(claim);
        }
        for _ in 0..MAX_LOOKS {
            match self.standing(thing).await? {
                Standing::Nothing => return Ok(Claim::free()),
                Standing::Theirs(_, epoch) => return Err(RouteError::Moved { epoch: epoch.0 }),
                // It knows somebody else who takes it.
                Standing::Nobodys(_)
                    if self.cluster.is_draining() && !self.cluster.is_chosen(thing) =>
                {
                    return Err(RouteError::Stopping);
                }
                Standing::Mine(_) | Standing::Nobodys(_) => {
                    if let Some(claim) = self.claim(thing).await? {
                        return Ok(claim);
                    }
                }
            }
        }
        Err(RouteError::Moved { epoch: 0 })
    }

    fn may_answer(&self) -> Result<(), RouteError> {
        if self.cluster.lease.is_paused() {
            return Err(RouteError::Paused);
        }
        if self.stopping.is_cancelled() {
            return Err(RouteError::Stopping);
        }
        Ok(())
    }
}

impl Runtime {
    /// Who handles requests about this. Claims it for this server where nobody owns it and this
    /// server is the one to take it.
    pub async fn route(&self, thing: &OwnedThing) -> Result<Destination, RouteError> {
        if !self.inner.cluster.is_among() {
            return Ok(Destination::Here(Claim::free()));
        }
        self.inner.may_answer()?;
        self.inner.route(thing).await
    }

    /// A peer forwarded a request here. `Moved` if another living server owns it.
    pub async fn accept_forwarded(&self, thing: &OwnedThing) -> Result<Claim, RouteError> {
        self.inner.may_answer()?;
        self.inner.accept_forwarded(thing).await
    }

    /// The peer refused the request or did not answer, so what is known of the owner is asked
    /// again.
    pub fn forget_route(&self, thing: &OwnedThing) {
        self.inner.cluster.held.forget(thing);
    }

    /// Whether this server handles every request itself, because it shares its database with no
    /// other one.
    pub fn is_alone(&self) -> bool {
        !self.inner.cluster.is_among()
    }

    /// Whether the lease of this server has lapsed.
    pub fn is_paused(&self) -> bool {
        self.inner.cluster.lease.is_paused()
    }

    /// Whether that server has not ended, as far as this one knows. While the database does not
    /// answer, nobody is known to be gone, also a server that joined just before.
    pub fn is_living(&self, server_id: &str) -> bool {
        let cluster = &self.inner.cluster;
        if lock(&cluster.looked_at).elapsed() > members::MAX_LOOK_AGE {
            return true;
        }
        let members = lock(&cluster.members);
        members
            .iter()
            .any(|member| *member.peer.server_id == *server_id)
    }

    /// The other servers that have not ended. Empty where this server is alone.
    pub fn peers(&self) -> Vec<Peer> {
        let me = self.inner.cluster.server_id();
        let members = lock(&self.inner.cluster.members);
        let others = members.iter().filter(|member| member.peer.server_id != me);
        others.map(|member| member.peer.clone()).collect()
    }

    /// None where this server is alone.
    pub fn cluster(&self) -> Option<ClusterView> {
        let cluster = &self.inner.cluster;
        if !cluster.is_among() {
            return None;
        }
        let owned = cluster.held.owned();
        let is_project = |thing: &&OwnedThing| matches!(thing, OwnedThing::Project(_));
        Some(ClusterView {
            server_id: cluster.server_id(),
            servers: lock(&cluster.members)
                .iter()
                .filter(|member| member.takes_work)
                .map(|member| member.peer.clone())
                .collect(),
            projects: owned.iter().filter(is_project).count(),
            sessions: self.inner.registry.live_of(SessionKind::Runtime),
            chat: owned.contains(&OwnedThing::Chat),
        })
    }

    /// The project that a session belongs to.
    pub async fn project_of_session(
        &self,
        session: &SessionId,
    ) -> Result<Option<ProjectId>, StoreError> {
        let held = &self.inner.cluster.held;
        if let Some(project) = held.project_of(session) {
            return Ok(Some(project));
        }
        let project = self.inner.store.project_of_session(session).await?;
        if let Some(project) = project {
            held.remember_project(session, project);
        }
        Ok(project)
    }
}

fn row_name(row: OwnedRow) -> &'static str {
    match row {
        OwnedRow::Project(_) => "project",
        OwnedRow::Chat => "chat",
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code that holds one of these locks can leave its value half-changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
