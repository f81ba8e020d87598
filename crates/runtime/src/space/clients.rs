//! The clients that are attached to a project: the tool runners.

use std::collections::HashMap;
use std::time::Duration;

use codelab_protocol::{AttachedClient, ClientId, Digest, SandboxKind, SessionId, Timestamp};
use tokio::time::Instant;

use super::instructions::Brought;
use super::mcp::Reported;
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
    sandbox: SandboxKind,
    attached_at: Timestamp,
    seen: Instant,
    /// When it did something for each session, where that may still matter.
    sessions: HashMap<SessionId, Instant>,
    attachment: Attachment,
    /// The MCP servers that it runs, once it has said so.
    report: Option<Reported>,
    /// What its workspace brings, once it has said so.
    brought: Option<Brought>,
    /// It said that it will tell what its workspace brings.
    will_report: bool,
}

/// Whether any request of a client was accepted.
enum Attachment {
    Attached,
    /// It came with a request; these many of its requests are not answered yet.
    Stranger {
        requests: u32,
    },
}

impl Client {
    fn new() -> Self {
        Self {
            workspace: String::new(),
            sandbox: SandboxKind::None,
            attached_at: now(),
            seen: Instant::now(),
            sessions: HashMap::new(),
            attachment: Attachment::Stranger { requests: 0 },
            report: None,
            brought: None,
            will_report: false,
        }
    }

    fn is_present(&self) -> bool {
        is_recent(self.seen)
    }
}

impl Space {
    /// Attaches a client, or hears of it again. `mcp` and `brought` are the digests of the reports
    /// about MCP servers and about its workspace that the client believes to be known here.
    pub fn attach_client(
        &self,
        id: &ClientId,
        workspace: &str,
        sandbox: SandboxKind,
        (mcp, brought): (Option<&Digest>, Option<&Digest>),
    ) -> Result<AttachedClient, ClientsFull> {
        self.wake();
        let mut clients = lock(&self.clients);
        let client = clients.entry(id)?;
        client.workspace = workspace.to_owned();
        client.sandbox = sandbox;
        client.attachment = Attachment::Attached;
        let known = client.report.as_ref().map(|report| &report.digest);
        let known_brought = client.brought.as_ref().and_then(|b| b.known.as_ref());
        let is_brought_wanted = brought.is_some() && brought != known_brought;
        client.will_report = is_brought_wanted;
        Ok(AttachedClient {
            mcp_report_wanted: mcp.is_some() && mcp != known,
            instructions_report_wanted: is_brought_wanted,
            ..shown(id, client)
        })
    }

    /// A client asks something for a session; one that was not attached is, until it is known
    /// whether that is accepted.
    pub(crate) fn client_asks(
        &self,
        id: &ClientId,
        session: &SessionId,
    ) -> Result<(), ClientsFull> {
        self.wake();
        lock(&self.clients).asks(id, session)
    }

    pub(crate) fn client_answered(&self, id: &ClientId, taken: bool) {
        lock(&self.clients).answered(id, taken);
    }

    /// A client lets go; gives the sessions that it worked for of late, if it is known.
    pub(crate) fn detach_client(&self, id: &ClientId) -> Option<Vec<SessionId>> {
        let mut clients = lock(&self.clients);
        clients.let_go.retain(|_, at| is_recent(*at));
        if clients.let_go.len() < MAX_LET_GO {
            clients.let_go.insert(id.clone(), Instant::now());
        }
        clients
            .attached
            .remove(id)
            .map(|client| client.sessions.into_keys().collect())
    }

    /// One that was never heard of here may have been attached before a restart, and has as long to
    /// come back.
    pub(crate) fn client_is_gone(&self, id: &ClientId) -> bool {
        let clients = lock(&self.clients);
        match clients.attached.get(id) {
            Some(client) => !client.is_present(),
            None => clients.let_go.contains_key(id) || !is_recent(self.made_at),
        }
    }

    /// The folder that a session's calls run in, where that is certain: its client's, or the one
    /// that all clients share.
    pub(crate) fn workspace_of(&self, bound: Option<&ClientId>) -> Option<String> {
        lock(&self.clients).workspace_of(bound)
    }

    pub fn client_attached(&self) -> bool {
        lock(&self.clients)
            .attached
            .values()
            .any(Client::is_present)
    }

    pub fn attached_clients(&self) -> Vec<AttachedClient> {
        let clients = lock(&self.clients);
        let mut shown: Vec<_> = clients
            .attached
            .iter()
            .map(|(id, client)| shown(id, client))
            .collect();
        shown.sort_by(|a, b| a.client_id.cmp(&b.client_id));
        shown
    }
}

impl Clients {
    fn asks(&mut self, id: &ClientId, session: &SessionId) -> Result<(), ClientsFull> {
        let client = self.entry(id)?;
        // What it held in the others is free by now.
        client.sessions.retain(|_, seen| is_recent(*seen));
        client.sessions.insert(session.clone(), Instant::now());
        if let Attachment::Stranger { requests } = &mut client.attachment {
            *requests += 1;
        }
        Ok(())
    }

    /// A stranger none of whose requests was accepted is forgotten; another request may still be open.
    fn answered(&mut self, id: &ClientId, taken: bool) {
        let Some(client) = self.attached.get_mut(id) else {
            return;
        };
        match &mut client.attachment {
            Attachment::Stranger { .. } if taken => client.attachment = Attachment::Attached,
            Attachment::Stranger { requests } => {
                *requests = requests.saturating_sub(1);
                if *requests == 0 {
                    self.attached.remove(id);
                }
            }
            Attachment::Attached => {}
        }
    }

    fn workspace_of(&self, bound: Option<&ClientId>) -> Option<String> {
        let mut candidates = self
            .attached
            .iter()
            .filter(|(id, client)| bound.map_or(client.is_present(), |bound| bound == *id))
            .map(|(_, client)| client.workspace.as_str());
        let first = candidates
            .next()
            .filter(|workspace| !workspace.is_empty())?;
        candidates
            .all(|other| other == first)
            .then(|| first.to_owned())
    }

    /// The client whose MCP servers a session sees: its own, or the newest one that reported any.
    pub fn mcp_client(&self, bound: Option<&ClientId>) -> Option<ClientId> {
        match bound {
            Some(bound) => self.mcp_report(bound).map(|_| bound.clone()),
            None => self.mcp_clients().into_iter().next(),
        }
    }

    /// The present clients that reported MCP servers, newest first.
    pub fn mcp_clients(&self) -> Vec<ClientId> {
        let reporting = self
            .attached
            .iter()
            .filter(|(_, client)| client.report.is_some() && client.is_present());
        let mut ids: Vec<_> = reporting.collect();
        ids.sort_by(|(a, one), (b, other)| (other.attached_at, a).cmp(&(one.attached_at, b)));
        ids.into_iter().map(|(id, _)| id.clone()).collect()
    }

    /// What a present client reported.
    pub fn mcp_report(&self, id: &ClientId) -> Option<&Reported> {
        let client = self.attached.get(id).filter(|client| client.is_present())?;
        client.report.as_ref()
    }

    pub fn bytes_reported_by_others(&self, id: &ClientId) -> usize {
        let others = self.attached.iter().filter(|(other, _)| *other != id);
        others
            .filter_map(|(_, client)| client.report.as_ref())
            .map(|report| report.bytes)
            .sum()
    }

    /// Says whether the client is attached; else nothing is kept.
    pub fn keep_report(&mut self, id: &ClientId, report: Reported) -> bool {
        let Some(client) = self.attached.get_mut(id) else {
            return false;
        };
        client.seen = Instant::now();
        client.report = Some(report);
        true
    }

    /// What is told to a session: what its client's workspace brings; before it has one, what the
    /// newest client does, if all that are there work in the same folder.
    pub(super) fn instructing(&self, bound: Option<&ClientId>) -> Option<&Brought> {
        if let Some(bound) = bound {
            let client = self.attached.get(bound).filter(|c| c.is_present())?;
            return client.brought.as_ref();
        }
        self.workspace_of(None)?;
        let present = self
            .attached
            .iter()
            .filter(|(_, client)| client.is_present() && client.brought.is_some());
        let newest = present.max_by_key(|(id, client)| (client.attached_at, *id));
        newest.and_then(|(_, client)| client.brought.as_ref())
    }

    /// Whether this client is expected to say what its workspace brings. `is_new`: whoever was there
    /// before may still come back.
    pub(super) fn will_report(&self, id: &ClientId, is_new: bool) -> bool {
        match self.attached.get(id) {
            Some(client) => client.is_present() && client.will_report,
            None => is_new && !self.let_go.contains_key(id),
        }
    }

    pub(super) fn brought(&self, id: &ClientId) -> Option<&Brought> {
        self.attached.get(id)?.brought.as_ref()
    }

    pub(super) fn brought_mut(&mut self, id: &ClientId) -> Option<&mut Brought> {
        self.attached.get_mut(id)?.brought.as_mut()
    }

    /// The folder of an attached client, as it says.
    pub(super) fn folder_of(&self, id: &ClientId) -> Option<&str> {
        let client = self.attached.get(id);
        client.map(|client| client.workspace.as_str())
    }

    pub(super) fn brought_bytes_of_others(&self, id: &ClientId) -> usize {
        let others = self.attached.iter().filter(|(other, _)| *other != id);
        let brought = others.filter_map(|(_, client)| client.brought.as_ref());
        brought.map(|brought| brought.bytes).sum()
    }

    /// The client's folder, and what it brought until now, to be replaced.
    pub(super) fn take_brought(&mut self, id: &ClientId) -> Option<(String, Option<Brought>)> {
        let client = self.attached.get_mut(id)?;
        client.seen = Instant::now();
        Some((client.workspace.clone(), client.brought.take()))
    }

    pub(super) fn keep_brought(&mut self, id: &ClientId, brought: Brought) {
        if let Some(client) = self.attached.get_mut(id) {
            client.will_report = brought.known.is_none();
            client.brought = Some(brought);
        }
    }

    /// The client, heard of just now.
    fn entry(&mut self, id: &ClientId) -> Result<&mut Client, ClientsFull> {
        self.make_room(id)?;
        self.let_go.remove(id);
        let client = self.attached.entry(id.clone()).or_insert_with(Client::new);
        client.seen = Instant::now();
        Ok(client)
    }

    fn make_room(&mut self, id: &ClientId) -> Result<(), ClientsFull> {
        if self.attached.contains_key(id) || self.attached.len() < MAX_CLIENTS {
            return Ok(());
        }
        let gone = self
            .attached
            .iter()
            .filter(|(_, client)| !client.is_present())
            .min_by_key(|(_, client)| client.seen);
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
        sandbox: client.sandbox,
        attached_at: client.attached_at,
        present: client.is_present(),
        mcp_report_wanted: false,
        instructions_report_wanted: false,
        waiting_contents: client.brought.as_ref().map_or(0, Brought::waiting),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_request_does_not_detach_a_client_whose_other_request_is_taken() {
        let (client, session) = (
            "laptop".parse().expect("an id"),
            "s".parse().expect("an id"),
        );
        for (answers, stays) in [
            ([false, true], true),
            ([true, false], true),
            ([false, false], false),
        ] {
            let mut clients = Clients::default();
            clients.asks(&client, &session).expect("there is room");
            clients.asks(&client, &session).expect("there is room");
            answers
                .into_iter()
                .for_each(|taken| clients.answered(&client, taken));
            assert_eq!(clients.attached.contains_key(&client), stays, "{answers:?}");
        }
    }

    #[test]
    fn a_workspace_is_known_where_every_client_names_the_same() {
        let [laptop, desktop]: [ClientId; 2] =
            ["laptop", "desktop"].map(|id| id.parse().expect("an id"));
        let mut clients = Clients::default();
        assert_eq!(clients.workspace_of(None), None);
        clients.entry(&laptop).expect("there is room").workspace = "/srv/shop".to_owned();
        assert_eq!(clients.workspace_of(None).as_deref(), Some("/srv/shop"));
        clients.entry(&desktop).expect("there is room").workspace = "/srv/other".to_owned();
        assert_eq!(clients.workspace_of(None), None);
        assert_eq!(
            clients.workspace_of(Some(&desktop)).as_deref(),
            Some("/srv/other")
        );
        clients.entry(&desktop).expect("there is room").workspace = String::new();
        assert_eq!(clients.workspace_of(Some(&desktop)), None);
        assert_eq!(
            clients.workspace_of(Some(&"phone".parse().expect("an id"))),
            None
        );
    }
}
