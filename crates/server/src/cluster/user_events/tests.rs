//! The internal streams, between servers that share a store and have nothing else.

use axum::Router;
use codelab_llm::Secret;
use codelab_protocol::{SessionId, SessionKind, TurnId};
use codelab_runtime::{Metrics, UserItem, UserReader, now};
use codelab_store::{
    Commit, DatabaseUrl, Epoch, NewProject, NewSessionRow, Store, StoreOptions, StoredEvent,
};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::*;

const SESSION: SessionKey = SessionKey::from_raw(7);
const WITHIN: Duration = Duration::from_secs(20);

/// A server without anything but its events.
struct Other {
    peer: Peer,
    events: Arc<UserEvents>,
    listening: JoinHandle<()>,
}

fn user() -> UserId {
    UserId::new(1).expect("a user")
}

fn key() -> Arc<ClusterKey> {
    Arc::new(ClusterKey::derive(&Secret::new("the internal key")))
}

fn streams(events: &Arc<UserEvents>, peers: Arc<Mutex<Vec<Peer>>>) -> PeerEvents {
    let peers = move || peers.lock().expect("no panic").clone();
    PeerEvents::new(key(), NetworkOptions::default(), Arc::clone(events), peers)
}

impl Other {
    async fn start(server_id: &str) -> Self {
        let events = Arc::new(UserEvents::new(&Metrics::new()));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let answering = streams(&events, Arc::default());
        let routes = Router::new().fallback(move |request: axum::extract::Request| {
            let answer = answering.answer(&request);
            async move { answer.unwrap_or_else(|| StatusCode::NOT_FOUND.into_response()) }
        });
        let listening = tokio::spawn(async move {
            axum::serve(listener, routes).await.expect("it serves");
        });
        let peer = Peer {
            server_id: server_id.into(),
            address: address.into(),
        };
        Self {
            peer,
            events,
            listening,
        }
    }

    /// Its connections are cut, and nobody answers any more.
    fn dies(self) {
        self.events.stop();
        self.listening.abort();
    }

    fn publish(&self, seq: u64) {
        self.events
            .publish(user(), SESSION, &[Arc::new(event(seq))]);
    }
}

fn event(seq: u64) -> StoredEvent {
    StoredEvent {
        seq,
        turn: TurnId(1),
        kind: "tool_result".into(),
        body: seq.to_string().into(),
        settled: None,
        timestamp: now(),
    }
}

/// The database that the servers share, with one session.
async fn shared_store() -> Store {
    let store = Store::open(StoreOptions::new(DatabaseUrl::SqliteMemory))
        .await
        .expect("a store");
    let project = NewProject {
        name: "p".to_owned(),
        description: None,
        budget_micro_usd: None,
        budget_tokens: None,
        nonce: "n".to_owned(),
        agents: Vec::new(),
    };
    let project = store.of(user()).create_project(project, now()).await;
    let mut commit = Commit::new(SESSION, Epoch(1));
    commit.state = Some("{}".to_owned());
    commit.create = Some(NewSessionRow {
        kind: SessionKind::parse("project").expect("a kind"),
        session_id: SessionId::parse("s").expect("an id"),
        user_id: Some(user()),
        project_id: Some(project.expect("a project").id()),
        system_prompt: None,
        created_at: now(),
        owner: None,
    });
    commit.events.push(event(1));
    store.commit(commit).await.expect("it is stored");
    store
}

async fn stored(store: &Store, seq: u64) {
    let mut commit = Commit::new(SESSION, Epoch(1));
    commit.events.push(event(seq));
    store.commit(commit).await.expect("it is stored");
}

async fn shows(reader: &mut UserReader, seq: u64) {
    let next = tokio::time::timeout(WITHIN, reader.next()).await;
    match next.expect("in time").expect("it can be read") {
        Some(UserItem::Event { event, .. }) => assert_eq!(event.seq, seq),
        other => panic!("{other:?} instead of {seq}"),
    }
}

#[tokio::test]
async fn events_of_other_servers_come_whatever_becomes_of_them() {
    let store = shared_store().await;
    let metrics = Metrics::new();
    let here = Arc::new(UserEvents::new(&metrics));
    let peers = Arc::new(Mutex::new(Vec::new()));
    let living = |now: &[&Other]| {
        let now = now.iter().map(|other| other.peer.clone()).collect();
        *peers.lock().expect("no panic") = now;
    };
    let (one, two) = (Other::start("one").await, Other::start("two").await);
    living(&[&one]);
    let streams = streams(&here, Arc::clone(&peers));
    let joined = streams.join(user());
    let mut reader = UserReader::open(&here, &store, &metrics, (user(), None), true)
        .await
        .expect("it can be read");
    // Stored elsewhere before the stream there is open: it is found when it opens.
    stored(&store, 2).await;
    shows(&mut reader, 2).await;
    // It is only read after it was told of, because nothing was missed.
    stored(&store, 3).await;
    one.publish(3);
    shows(&mut reader, 3).await;
    // A server that joins later is found.
    living(&[&one, &two]);
    stored(&store, 4).await;
    shows(&mut reader, 4).await;
    stored(&store, 5).await;
    two.publish(5);
    shows(&mut reader, 5).await;
    // One dies after it stored an event, and before it told of it.
    stored(&store, 6).await;
    two.dies();
    shows(&mut reader, 6).await;
    // It cannot be reached, but it lives and goes on: the store is asked again and again.
    stored(&store, 7).await;
    shows(&mut reader, 7).await;
    living(&[&one]);
    stored(&store, 8).await;
    one.publish(8);
    shows(&mut reader, 8).await;
    drop(joined);
    assert!(streams.0.lock().is_empty());
}

#[tokio::test]
async fn readers_of_one_user_share_the_streams() {
    let here = Arc::new(UserEvents::new(&Metrics::new()));
    let streams = streams(&here, Arc::default());
    let (one, two) = (streams.join(user()), streams.join(user()));
    assert!(Arc::ptr_eq(&one, &two));
    drop(one);
    assert!(Arc::ptr_eq(&two, &streams.join(user())));
    let other = streams.join(UserId::new(2).expect("a user"));
    assert!(!Arc::ptr_eq(&two, &other));
    drop((two, other));
    assert!(streams.0.lock().is_empty());
}

#[tokio::test]
async fn nobody_else_is_told_of_events() {
    let other = Other::start("one").await;
    let client = reqwest::Client::new();
    let url = format!("{}/cluster/user-events/1", other.peer.address);
    let ask = async |keys: &[&str]| {
        let mut request = client.get(&url);
        for key in keys {
            request = request.header(wire::KEY, *key);
        }
        request.send().await.expect("an answer").status().as_u16()
    };
    let right = key().header();
    let right = right.to_str().expect("text");
    assert_eq!(ask(&[]).await, 404);
    assert_eq!(ask(&["the key between server"]).await, 404);
    assert_eq!(ask(&[right, right]).await, 404);
    assert_eq!(ask(&[right]).await, 200);
}
