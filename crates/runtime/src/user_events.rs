//! Everything that happens in a user's sessions, as it happens: one live stream for all of them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use codelab_protocol::UserId;
use codelab_store::{SessionKey, Store, StoreError, StoredEvent};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::mpsc;

use crate::metrics::OpenGauge;
use crate::pieces::{EventPieces, MAX_WHOLE_BYTES};
use crate::reader::ReaderItem;

/// Events that wait for a slow reader. A reader that falls further behind is cut off and has to
/// read the sessions' own logs.
const MAX_BEHIND_EVENTS: usize = 1024;
/// Bytes that wait for it. Large events do not wait: they are read from the store when it is their
/// turn.
const MAX_BEHIND_BYTES: usize = 512 * 1024;

/// Who listens to whose events.
pub(crate) struct UserEvents {
    listeners: Mutex<HashMap<UserId, Vec<Listener>>>,
    cut: Counter,
}

struct Listener {
    events: mpsc::Sender<Told>,
    behind_bytes: Arc<AtomicUsize>,
}

/// What a listener is told of an event.
enum Told {
    Whole(Arc<StoredEvent>),
    /// Where to find one that is too large to wait for its reader.
    Large {
        key: SessionKey,
        seq: u64,
        kind: Cow<'static, str>,
    },
}

/// One reader of a user's events.
pub struct UserReader {
    store: Store,
    events: mpsc::Receiver<Told>,
    behind_bytes: Arc<AtomicUsize>,
    /// The large event that is being handed over.
    large: Option<EventPieces>,
    _open: OpenGauge,
}

impl UserEvents {
    /// Counts in `cut` the readers that fell too far behind.
    pub fn new(cut: Counter) -> Self {
        Self {
            listeners: Mutex::default(),
            cut,
        }
    }

    /// Events of the session with this key.
    pub fn publish(&self, user: UserId, key: SessionKey, events: &[Arc<StoredEvent>]) {
        let mut listeners = self.lock();
        let Some(of_user) = listeners.get_mut(&user) else {
            return;
        };
        of_user.retain(|listener| {
            let hears = listener.hears(key, events);
            if !hears && !listener.events.is_closed() {
                self.cut.inc();
            }
            hears
        });
        if of_user.is_empty() {
            listeners.remove(&user);
        }
    }

    pub fn listen(&self, user: UserId, store: Store, open: OpenGauge) -> UserReader {
        let (sender, receiver) = mpsc::channel(MAX_BEHIND_EVENTS);
        let behind_bytes = Arc::new(AtomicUsize::new(0));
        let mut listeners = self.lock();
        let of_user = listeners.entry(user).or_default();
        of_user.retain(|listener| !listener.events.is_closed());
        of_user.push(Listener {
            events: sender,
            behind_bytes: Arc::clone(&behind_bytes),
        });
        UserReader {
            store,
            events: receiver,
            behind_bytes,
            large: None,
            _open: open,
        }
    }

    /// Readers end.
    pub fn stop(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<UserId, Vec<Listener>>> {
        self.listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener {
    /// Whether the reader is there and close enough behind to be told.
    fn hears(&self, key: SessionKey, events: &[Arc<StoredEvent>]) -> bool {
        events.iter().all(|event| {
            let told = match event.body.len() > MAX_WHOLE_BYTES {
                true => Told::Large {
                    key,
                    seq: event.seq,
                    kind: event.kind.clone(),
                },
                false => Told::Whole(Arc::clone(event)),
            };
            let bytes = told.bytes();
            let behind_bytes = self.behind_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
            behind_bytes <= MAX_BEHIND_BYTES && self.events.try_send(told).is_ok()
        })
    }
}

impl Told {
    /// What it holds while it waits.
    fn bytes(&self) -> usize {
        match self {
            Self::Whole(event) => event.body.len(),
            Self::Large { .. } => 0,
        }
    }
}

impl UserReader {
    /// The next event, or the next piece of a large one; `None` when the reader fell too far behind
    /// or the server stops. Waiting is cancel-safe.
    pub async fn next(&mut self) -> Result<Option<ReaderItem>, StoreError> {
        if let Some(large) = &mut self.large {
            let piece = large.next().await?;
            if piece.is_none() {
                self.large = None;
            }
            return Ok(Some(
                piece.map_or(ReaderItem::LargeEnds, ReaderItem::LargePiece),
            ));
        }
        let Some(told) = self.events.recv().await else {
            return Ok(None);
        };
        self.behind_bytes.fetch_sub(told.bytes(), Ordering::Relaxed);
        Ok(Some(match told {
            Told::Whole(event) => ReaderItem::Event(event),
            Told::Large { key, seq, kind } => {
                self.large = Some(EventPieces::new(self.store.clone(), key, seq));
                ReaderItem::LargeBegins { seq, kind }
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use codelab_protocol::{Timestamp, TurnId};
    use codelab_store::{DatabaseUrl, StoreOptions};

    use super::*;
    use crate::Metrics;

    fn event(seq: u64, bytes: usize) -> Arc<StoredEvent> {
        let body = "x".repeat(bytes).into();
        let timestamp = Timestamp::from_millis(0);
        Arc::new(StoredEvent {
            seq,
            turn: TurnId(1),
            kind: "tool_result".into(),
            body,
            settled: None,
            timestamp,
        })
    }

    #[tokio::test]
    async fn a_reader_that_stalls_holds_a_bounded_number_of_bytes_and_others_read_on() {
        let store = Store::open(StoreOptions::new(DatabaseUrl::SqliteMemory))
            .await
            .expect("a store");
        let metrics = Metrics::new();
        let events = UserEvents::new(metrics.readers_cut.clone());
        let user = UserId::new(1).expect("a user");
        let mut stalled = events.listen(user, store.clone(), OpenGauge::stream(&metrics));
        let mut reading = events.listen(user, store, OpenGauge::stream(&metrics));
        let seq_of = |item: Option<ReaderItem>| match item {
            Some(ReaderItem::Event(event)) => Some(event.seq),
            Some(other) => panic!("{other:?}"),
            None => None,
        };
        for seq in 1..=24 {
            events.publish(user, SessionKey::from_raw(1), &[event(seq, 100_000)]);
            assert_eq!(
                seq_of(reading.next().await.expect("it can read")),
                Some(seq)
            );
        }
        let mut seen = 0;
        while let Some(seq) = seq_of(stalled.next().await.expect("it can read")) {
            seen += 1;
            assert_eq!(seq, seen, "nothing is left out before the cut");
        }
        assert_eq!(
            seen as usize,
            MAX_BEHIND_BYTES / 100_000,
            "it was cut when so much waited for it"
        );
        assert_eq!(metrics.readers_cut.get(), 1);
    }

    #[tokio::test]
    async fn an_event_of_any_size_takes_no_room_while_it_waits() {
        let store = Store::open(StoreOptions::new(DatabaseUrl::SqliteMemory))
            .await
            .expect("a store");
        let metrics = Metrics::new();
        let events = UserEvents::new(metrics.readers_cut.clone());
        let user = UserId::new(1).expect("a user");
        let mut stalled = events.listen(user, store, OpenGauge::stream(&metrics));
        for seq in 1..=24 {
            events.publish(user, SessionKey::from_raw(1), &[event(seq, 8 << 20)]);
        }
        assert_eq!(stalled.behind_bytes.load(Ordering::Relaxed), 0);
        assert!(matches!(
            stalled.next().await,
            Ok(Some(ReaderItem::LargeBegins { seq: 1, .. }))
        ));
        // This test stored no such event. A reader that has half an event is cut off.
        assert_eq!(
            stalled.next().await.expect_err("there is no such event"),
            StoreError::NotFound
        );
        assert_eq!(metrics.readers_cut.get(), 0);
    }
}
