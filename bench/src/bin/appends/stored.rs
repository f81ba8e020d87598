//! The store, with one writer and with many. Each writer has its own session, as in real use.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use codelab_protocol::{SessionId, SessionKind, Timestamp, TurnId};
use codelab_store::{
    Commit, DatabaseUrl, Epoch, NewSessionRow, SessionKey, SessionKeys, Store, StoreOptions,
    StoredEvent,
};
use tokio::task::JoinSet;

use crate::WRITERS;
use crate::figures::Figures;
use crate::payload;

const EPOCH: Epoch = Epoch(1);

pub struct Stored {
    store: Store,
}

impl Stored {
    pub async fn open(url: DatabaseUrl) -> anyhow::Result<Self> {
        Ok(Self {
            store: Store::open(StoreOptions::new(url)).await?,
        })
    }

    pub async fn close(&self) {
        self.store.close().await;
    }

    /// Measures one writer, then many.
    pub async fn round(&self, turn: Duration, figures: &mut Figures) -> anyhow::Result<()> {
        let (appends, took) = self.append_for(turn, 1).await?;
        figures.one.push(appends, took);
        let before = self.store.stats();
        let (appends, took) = self.append_for(turn, WRITERS).await?;
        let after = self.store.stats();
        figures.many.push(appends, took);
        figures.shared_by.push(
            (after.commits - before.commits) as f64
                / (after.transactions - before.transactions) as f64,
        );
        Ok(())
    }

    async fn append_for(&self, turn: Duration, writers: usize) -> anyhow::Result<(u64, Duration)> {
        let mut sessions = Vec::with_capacity(writers);
        for _ in 0..writers {
            sessions.push(self.new_session().await?);
        }
        let begun = Instant::now();
        let mut tasks = JoinSet::new();
        for key in sessions {
            let store = self.store.clone();
            tasks.spawn(async move {
                let mut appends = 0;
                while begun.elapsed() < turn {
                    store.commit(append(key, appends + 2)).await?;
                    appends += 1;
                }
                anyhow::Ok(appends)
            });
        }
        let mut appends = 0;
        for written in tasks.join_all().await {
            appends += written?;
        }
        Ok((appends, begun.elapsed()))
    }

    async fn new_session(&self) -> anyhow::Result<SessionKey> {
        let number = getrandom::u64()?;
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
        let key = SessionKeys::default().allocate(now_ms as i64, number as u32);
        let mut commit = append(key, 1);
        commit.create = Some(NewSessionRow {
            kind: SessionKind::Runtime,
            session_id: SessionId::parse(&format!("bench-{number:016x}"))?,
            user_id: None,
            project_id: None,
            system_prompt: None,
            created_at: Timestamp::from_millis(0),
            owner: None,
        });
        self.store.commit(commit).await?;
        Ok(key)
    }
}

fn append(key: SessionKey, seq: u64) -> Commit {
    let mut commit = Commit::new(key, EPOCH);
    commit.state = Some(payload::state(seq));
    commit.events.push(StoredEvent {
        seq,
        turn: TurnId(1),
        kind: "assistant_message".into(),
        body: payload::event_body(seq).into(),
        settled: None,
        timestamp: Timestamp::from_millis(0),
    });
    commit
}
