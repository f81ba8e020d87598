//! Everything that happens in a user's sessions, as it happens: one live stream for all of them.
//!
//! Events of this server are published here. Of other servers' events only references arrive, and
//! readers read those events from the store. What a reader misses is in the store as well, so no
//! source has to be complete: [`UserReader`] notices what is missing and reads it.

mod cursor;
mod reader;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use codelab_protocol::{Timestamp, UserId};
use codelab_store::{SessionKey, StoredEvent};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::mpsc;

pub use self::cursor::{InvalidCursor, UserCursor};
pub use self::reader::{UserItem, UserReader};

use crate::metrics::Metrics;
use crate::pieces::MAX_WHOLE_BYTES;

/// Events that wait for a slow reader. A reader that falls further behind is cut off and comes back
/// with its cursor.
const MAX_BEHIND_EVENTS: usize = 1024;
/// Bytes that wait for it. Large events do not wait: they are read from the store when it is their
/// turn.
const MAX_BEHIND_BYTES: usize = 512 * 1024;

/// Who listens to whose events.
pub struct UserEvents {
    listeners: Mutex<HashMap<UserId, Vec<Listener>>>,
    cut: Counter,
}

struct Listener {
    wants: Wants,
    told: mpsc::Sender<Told>,
    behind_bytes: Arc<AtomicUsize>,
    is_told_missed: Arc<AtomicBool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wants {
    /// The events of all servers.
    Events,
    /// References to the events of this server, for another server.
    References,
}

/// What a listener is told.
enum Told {
    Whole {
        key: SessionKey,
        event: Arc<StoredEvent>,
    },
    /// Where to find an event that is too large to wait for its reader.
    Large(LargeEvent),
    /// The session has events up to this number.
    UpTo(EventReference),
    /// A source was cut or has just begun. What is missing is in the store.
    Missed,
}

struct LargeEvent {
    key: SessionKey,
    seq: u64,
    kind: Cow<'static, str>,
    at: Timestamp,
}

/// The newest event of a session, without its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventReference {
    pub key: SessionKey,
    pub seq: u64,
}

/// What a listener waits at.
struct Listening {
    told: mpsc::Receiver<Told>,
    behind_bytes: Arc<AtomicUsize>,
    is_told_missed: Arc<AtomicBool>,
}

/// References to a user's events on this server, as they happen.
pub struct UserReferences(Listening);

impl UserEvents {
    pub fn new(metrics: &Metrics) -> Self {
        Self {
            listeners: Mutex::default(),
            cut: metrics.readers_cut.clone(),
        }
    }

    /// Events of the session with this key.
    pub fn publish(&self, user: UserId, key: SessionKey, events: &[Arc<StoredEvent>]) {
        self.tell(user, |listener| listener.hears(key, events));
    }

    /// Another server has published these.
    pub fn publish_elsewhere(&self, user: UserId, reference: EventReference) {
        self.tell(user, |listener| match listener.wants {
            Wants::Events => listener.hears_told(Told::UpTo(reference)),
            Wants::References => true,
        });
    }

    /// Events of another server may have been missed.
    pub fn missed(&self, user: UserId) {
        self.tell(user, |listener| match listener.wants {
            Wants::Events => listener.hears_missed(),
            Wants::References => true,
        });
    }

    /// For another server. It ends when that server falls too far behind or this one stops.
    pub fn references(&self, user: UserId) -> UserReferences {
        UserReferences(self.listen(user, Wants::References))
    }

    /// Readers end.
    pub fn stop(&self) {
        self.lock().clear();
    }

    fn listen(&self, user: UserId, wants: Wants) -> Listening {
        let (sender, receiver) = mpsc::channel(MAX_BEHIND_EVENTS);
        let behind_bytes = Arc::new(AtomicUsize::new(0));
        let is_told_missed = Arc::new(AtomicBool::new(false));
        let mut listeners = self.lock();
        let of_user = listeners.entry(user).or_default();
        of_user.retain(|listener| !listener.told.is_closed());
        of_user.push(Listener {
            wants,
            told: sender,
            behind_bytes: Arc::clone(&behind_bytes),
            is_told_missed: Arc::clone(&is_told_missed),
        });
        Listening {
            told: receiver,
            behind_bytes,
            is_told_missed,
        }
    }

    fn tell(&self, user: UserId, hears: impl Fn(&Listener) -> bool) {
        let mut listeners = self.lock();
        let Some(of_user) = listeners.get_mut(&user) else {
            return;
        };
        of_user.retain(|listener| {
            let hears = hears(listener);
            if !hears && !listener.told.is_closed() {
                self.cut.inc();
            }
            hears
        });
        if of_user.is_empty() {
            listeners.remove(&user);
        }
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
        match self.wants {
            Wants::Events => events.iter().all(|event| {
                self.hears_told(match event.body.len() > MAX_WHOLE_BYTES {
                    true => Told::Large(LargeEvent::of(key, event)),
                    false => Told::Whole {
                        key,
                        event: Arc::clone(event),
                    },
                })
            }),
            Wants::References => events.last().is_none_or(|last| {
                let seq = last.seq;
                self.hears_told(Told::UpTo(EventReference { key, seq }))
            }),
        }
    }

    fn hears_told(&self, told: Told) -> bool {
        let bytes = told.bytes();
        let behind_bytes = self.behind_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        behind_bytes <= MAX_BEHIND_BYTES && self.told.try_send(told).is_ok()
    }

    /// One that still waits counts for all.
    fn hears_missed(&self) -> bool {
        self.is_told_missed.swap(true, Ordering::AcqRel) || self.hears_told(Told::Missed)
    }
}

impl Told {
    /// What it holds while it waits.
    fn bytes(&self) -> usize {
        match self {
            Self::Whole { event, .. } => event.body.len(),
            Self::Large(_) | Self::UpTo(_) | Self::Missed => 0,
        }
    }
}

impl LargeEvent {
    fn of(key: SessionKey, event: &StoredEvent) -> Self {
        Self {
            key,
            seq: event.seq,
            kind: event.kind.clone(),
            at: event.timestamp,
        }
    }
}

impl Listening {
    /// `None` when the listener fell too far behind or the server stops. Cancel-safe.
    async fn next(&mut self) -> Option<Told> {
        let told = self.told.recv().await?;
        self.behind_bytes.fetch_sub(told.bytes(), Ordering::Relaxed);
        if matches!(told, Told::Missed) {
            // Before the store is read: what is missed from now on is told again.
            self.is_told_missed.store(false, Ordering::Release);
        }
        Some(told)
    }
}

impl UserReferences {
    /// `None` at the end. Waiting is cancel-safe.
    pub async fn next(&mut self) -> Option<EventReference> {
        loop {
            if let Told::UpTo(reference) = self.0.next().await? {
                return Some(reference);
            }
        }
    }
}
