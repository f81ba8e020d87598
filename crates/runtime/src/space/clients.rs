//! The clients that are attached to a project: the hands that run its tools.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use codelab_protocol::{AttachedClient, ClientId, SessionId, Timestamp};
use tokio::time::Instant;

use super::{Space, lock};
use crate::clock::now;

/// A client that was not heard of for this long is gone.
pub const CLIENT_GONE_SECONDS: u64 = 60;
/// Clients of one project; the longest gone makes room.
const MAX_CLIENTS: usize = 64;
/// Clients that let go within the last minute and are remembered.
const MAX_LET_GO: usize = 256;

/// A project has as many clients as it can have, and all of them are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("A project has at most {MAX_CLIENTS} attached clients")]
pub struct ClientsFull;

#[derive(Default)]
pub(crate) struct Clients {
    attached: HashMap<ClientId, Client>,
    /// Who said that it goes, and when: sessions that an earlier server bound to it are free.
    let_go: HashMap<ClientId, Instant>,
}

struct Client {
    workspace: String,
    sandbox: String,
    attached_at: Timestamp,
    seen: Instant,
    sessions: HashSet<SessionId>,
}

impl Client {
    fn is_present(&self) -> bool {
        is_recent(self.seen)
    }
}

impl Space {
    /// Attaches a client, or hears of it again.
    pub fn attach_client(&self, id: &ClientId, workspace: &str, sandbox: &str) -> Result<AttachedClient, ClientsFull> {
        self.wake();
        let mut clients = lock(&self.clients);
        clients.make_room(id)?;
        clients.let_go.remove(id);
        let client = clients.attached.entry(id.clone()).or_insert_with(|| Client {
            workspace: String::new(),
            sandbox: String::new(),
            attached_at: now(),
            seen: Instant::now(),
            sessions: HashSet::new(),
        });
        client.workspace = workspace.to_owned();
        client.sandbox = sandbox.to_owned();
        client.seen = Instant::now();
        Ok(shown(id, client))
    }

    /// A client does something for a session; one that was not attached is now. Says whether that was so.
    pub(crate) fn client_seen(&self, id: &ClientId, session: &SessionId) -> Result<bool, ClientsFull> {
        let known = lock(&self.clients).attached.contains_key(id);
        if !known {
            self.attach_client(id, "", "")?;
        }
        self.wake();
        if let Some(client) = lock(&self.clients).attached.get_mut(id) {
            client.seen = Instant::now();
            client.sessions.insert(session.clone());
        }
        Ok(!known)
    }

    /// A stranger that was refused.
    pub(crate) fn forget_client(&self, id: &ClientId) {
        lock(&self.clients).attached.remove(id);
    }

    /// A client lets go; gives the sessions that it worked for, if it is known.
    pub(crate) fn detach_client(&self, id: &ClientId) -> Option<HashSet<SessionId>> {
        let mut clients = lock(&self.clients);
        clients.let_go.retain(|_, at| is_recent(*at));
        if clients.let_go.len() < MAX_LET_GO {
            clients.let_go.insert(id.clone(), Instant::now());
        }
        clients.attached.remove(id).map(|client| client.sessions)
    }

    /// One that was never heard of here may have been attached before a restart, and has as long to come back.
    pub(crate) fn client_is_gone(&self, id: &ClientId) -> bool {
        let clients = lock(&self.clients);
        match clients.attached.get(id) {
            Some(client) => !client.is_present(),
            None => clients.let_go.contains_key(id) || !is_recent(self.made_at),
        }
    }

    pub fn client_attached(&self) -> bool {
        lock(&self.clients).attached.values().any(Client::is_present)
    }

    pub fn attached_clients(&self) -> Vec<AttachedClient> {
        let clients = lock(&self.clients);
        let mut shown: Vec<_> = clients.attached.iter().map(|(id, client)| shown(id, client)).collect();
        shown.sort_by(|a, b| a.client_id.cmp(&b.client_id));
        shown
    }
}

impl Clients {
    fn make_room(&mut self, id: &ClientId) -> Result<(), ClientsFull> {
        if self.attached.contains_key(id) || self.attached.len() < MAX_CLIENTS {
            return Ok(());
        }
        let gone = self.attached.iter().filter(|(_, client)| !client.is_present()).min_by_key(|(_, client)| client.seen);
        let gone = gone.map(|(id, _)| id.clone()).ok_or(ClientsFull)?;
        self.attached.remove(&gone);
        Ok(())
    }
}

fn is_recent(at: Instant) -> bool {
    at.elapsed() < Duration::from_secs(CLIENT_GONE_SECONDS)
}

fn shown(id: &ClientId, client: &Client) -> AttachedClient {
    AttachedClient {
        client_id: id.clone(),
        workspace: client.workspace.clone(),
        sandbox: client.sandbox.clone(),
        attached_at: client.attached_at,
        present: client.is_present(),
    }
}
