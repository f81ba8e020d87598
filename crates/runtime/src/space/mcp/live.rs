//! What is in memory about the MCP servers of one project: their rows, the running servers, what is
//! trusted, and a copy of that which steps read without waiting.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as SyncMutex};

use codelab_engine::NamedTools;
use codelab_protocol::{ClientId, McpServerName};
use codelab_store::{Acceptance, McpServerRow, ProjectStore, Store, StoreError};
use tokio::sync::{Mutex, MutexGuard, watch};

use super::McpOptions;
use super::remote::{RemoteServer, RemoteView};
use super::trust::{SeenServer, Trust};
use crate::clock::now;
use crate::space::{SpaceKey, lock};

/// The part of a worker space that is about MCP servers.
pub(in crate::space) struct SpaceMcp {
    store: Store,
    key: SpaceKey,
    pub(super) options: McpOptions,
    /// Nothing until the first use.
    loaded: Mutex<Option<Loaded>>,
    is_loading: AtomicBool,
    /// Grows with every change of what servers offer or people decided.
    changed: watch::Sender<u64>,
    published: SyncMutex<Published>,
    memo: SyncMutex<Memo>,
}

/// What only one task at a time changes.
pub(super) struct Loaded {
    pub rows: ProjectStore,
    pub remotes: BTreeMap<McpServerName, RemoteServer>,
    pub trust: Arc<Trust>,
    /// Of the server that was started last.
    generation: u64,
}

/// The same for steps, which cannot wait.
#[derive(Default, Clone)]
pub(super) struct Published {
    is_read: bool,
    pub remotes: Arc<[RemoteView]>,
    pub trust: Arc<Trust>,
}

/// What was computed last for each client, and at which version.
#[derive(Default)]
struct Memo {
    version: u64,
    tools: HashMap<Option<ClientId>, Arc<NamedTools>>,
}

impl Loaded {
    pub fn views(&self) -> Arc<[RemoteView]> {
        let views = self.remotes.values().map(|remote| remote.view.clone());
        views.collect()
    }
}

impl SpaceMcp {
    pub fn new(store: Store, key: SpaceKey, options: McpOptions) -> Arc<Self> {
        Arc::new(Self {
            store,
            key,
            options,
            loaded: Mutex::default(),
            is_loading: AtomicBool::new(false),
            changed: watch::Sender::new(0),
            published: SyncMutex::default(),
            memo: SyncMutex::default(),
        })
    }

    pub(super) fn version(&self) -> u64 {
        *self.changed.borrow()
    }

    /// Whether the servers were read. Nothing else says whether there are none.
    pub(super) fn is_published(&self) -> bool {
        lock(&self.published).is_read
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Something is different now.
    pub fn touch(&self) {
        self.changed.send_modify(|version| *version += 1);
    }

    /// Ends the servers. The next use reads and starts them again.
    pub async fn let_go(&self) {
        let loaded = self.loaded.lock().await.take();
        *lock(&self.published) = Published::default();
        self.is_loading.store(false, Ordering::SeqCst);
        self.touch();
        for (_, remote) in loaded.into_iter().flat_map(|loaded| loaded.remotes) {
            remote.stop().await;
        }
    }

    /// Reads and starts the servers where nobody did so yet.
    pub(super) fn load_soon(self: &Arc<Self>) {
        if self.is_loading.swap(true, Ordering::SeqCst) {
            return;
        }
        let mcp = Arc::clone(self);
        tokio::spawn(async move {
            if let Err(error) = mcp.loaded().await.map(drop) {
                tracing::warn!(project = %mcp.key.project, %error, "MCP servers of the project could not be read");
                mcp.is_loading.store(false, Ordering::SeqCst);
            }
        });
    }

    /// The rows and servers, read and started where this is their first use. Nothing when the
    /// project is gone.
    pub(super) async fn loaded(
        self: &Arc<Self>,
    ) -> Result<MutexGuard<'_, Option<Loaded>>, StoreError> {
        let mut loaded = self.loaded.lock().await;
        if loaded.is_none()
            && let Some(rows) = self
                .store
                .of(self.key.user)
                .project(self.key.project)
                .await?
        {
            let trust = read_trust(&rows).await?;
            let servers = rows.mcp_servers().await?;
            let loaded = loaded.insert(Loaded {
                rows,
                remotes: BTreeMap::new(),
                trust,
                generation: 0,
            });
            for row in servers {
                drop(self.start(loaded, row));
            }
            self.is_loading.store(true, Ordering::SeqCst);
            self.publish(loaded);
        }
        Ok(loaded)
    }

    /// The rows and servers, if they are in memory.
    pub(super) async fn if_loaded(&self) -> MutexGuard<'_, Option<Loaded>> {
        self.loaded.lock().await
    }

    /// Starts a server. Gives the one that ran under its name.
    pub(super) fn start(
        self: &Arc<Self>,
        loaded: &mut Loaded,
        row: McpServerRow,
    ) -> Option<RemoteServer> {
        loaded.generation += 1;
        let remote = RemoteServer::start(row, loaded.generation, self);
        loaded.remotes.insert(remote.row.name.clone(), remote)
    }

    /// Lets steps see what is loaded.
    pub(super) fn publish(&self, loaded: &Loaded) {
        *lock(&self.published) = Published {
            is_read: true,
            remotes: loaded.views(),
            trust: Arc::clone(&loaded.trust),
        };
        self.touch();
    }

    /// The first definition of each tool is accepted by itself, and is so before anybody is offered
    /// it.
    pub(super) async fn settle(
        &self,
        loaded: &mut Loaded,
        servers: &[SeenServer],
    ) -> Result<(), StoreError> {
        let new = loaded.trust.first_seen(servers);
        if new.is_empty() {
            return Ok(());
        }
        let accepted = loaded
            .rows
            .accept_definitions(new, Acceptance::FirstSeen, now());
        accepted.await?;
        loaded.trust = read_trust(&loaded.rows).await?;
        self.publish(loaded);
        Ok(())
    }

    /// What was computed for this client at this version, or else is now.
    pub(super) fn remembered(
        &self,
        version: u64,
        client: Option<ClientId>,
        compute: impl FnOnce(Option<&ClientId>, &Published) -> NamedTools,
    ) -> Arc<NamedTools> {
        let known = {
            let memo = lock(&self.memo);
            let tools = memo.tools.get(&client);
            tools.filter(|_| memo.version == version).cloned()
        };
        if let Some(known) = known {
            return known;
        }
        let published = lock(&self.published).clone();
        let tools = Arc::new(compute(client.as_ref(), &published));
        let mut memo = lock(&self.memo);
        if memo.version != version {
            *memo = Memo {
                version,
                ..Memo::default()
            };
        }
        memo.tools.insert(client, Arc::clone(&tools));
        tools
    }
}

pub(super) async fn read_trust(rows: &ProjectStore) -> Result<Arc<Trust>, StoreError> {
    let accepted = rows.accepted_definitions().await?;
    let permissions = rows.mcp_permissions().await?;
    Ok(Arc::new(Trust::new(accepted, permissions)))
}
