//! Which connections are open, and which one goes when there is no room for another. Each is an
//! open file, so their number follows from how many of those the system allows.
//!
//! A few slots beyond the limit are reserved for those who watch and operate the server. Health
//! checks and short requests with the internal key are answered there, however many connections are
//! open. Some of these slots are for health alone, so that no slow request can block it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use codelab_runtime::{Metrics, OpenGauge};
use tokio::sync::Notify;

/// One process never needs more than this, whatever the system allows.
const MAX_CONNECTIONS: usize = 20_000;
/// Slots for health and operators.
const RESERVED: usize = 32;
/// How many of these operators can hold.
const MAX_OPERATORS: usize = RESERVED - 8;
/// Connections that lost their slot to another one and are not closed yet.
const MAX_LEAVING: usize = 32;
/// The server keeps a quarter of the open files for itself, within these limits: for the database,
/// models and memories.
const MIN_OWN_FILES: u64 = 64;
const MAX_OWN_FILES: u64 = 4096;

/// How many connections fit into so many open files.
pub(crate) fn max_connections(open_files: Option<u64>) -> usize {
    let Some(files) = open_files else {
        return MAX_CONNECTIONS;
    };
    let own = (files / 4).clamp(MIN_OWN_FILES, MAX_OWN_FILES) + (RESERVED + MAX_LEAVING) as u64;
    usize::try_from(files.saturating_sub(own))
        .unwrap_or(usize::MAX)
        .clamp(RESERVED, MAX_CONNECTIONS)
}

pub(crate) struct Connections {
    bound: usize,
    metrics: Arc<Metrics>,
    state: Mutex<State>,
    /// A connection ended.
    freed: Notify,
}

#[derive(Default)]
struct State {
    open: usize,
    reserved: usize,
    /// Connections in reserved slots that asked for something other than health.
    operators: usize,
    /// Those that are to close. Their files are open until they are dropped.
    leaving: usize,
    /// Grows with everything that happens, so that the oldest comes first.
    time: u64,
    /// Those that have not sent a whole request, by when they came.
    silent: BTreeMap<u64, Arc<Notify>>,
    /// The same, in reserved slots.
    silent_reserved: BTreeMap<u64, Arc<Notify>>,
    /// Those that wait for another request, by when the last was answered.
    idle: BTreeMap<u64, Arc<Notify>>,
}

/// Where a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Silent(u64),
    Busy,
    Idle(u64),
    /// In a reserved slot, with a request that is not about health.
    Operator,
    /// Another connection has its slot.
    Leaving,
}

/// An open connection. Dropping it frees its slot.
pub(crate) struct OpenConnection {
    table: Arc<Connections>,
    standing: Mutex<Standing>,
    has_spoken: AtomicBool,
    is_reserved: bool,
    /// It is to close.
    pub close: Arc<Notify>,
    _open: OpenGauge,
}

impl Connections {
    pub fn new(bound: usize, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            bound,
            metrics,
            state: Mutex::default(),
            freed: Notify::new(),
        })
    }

    /// A slot for a new connection. At the limit, the oldest connection without a request loses its
    /// slot, then the one that was idle for longest. If all are busy, or too many are still closing,
    /// a reserved slot is used. `None` if those are full too.
    pub fn admit(self: &Arc<Self>) -> Option<Arc<OpenConnection>> {
        let mut state = self.lock();
        let is_reserved = if state.open < self.bound {
            false
        } else if let Some(oldest) = state.oldest() {
            state.open -= 1;
            self.close(&mut state, &oldest);
            false
        } else if state.reserved < RESERVED {
            true
        } else {
            let oldest = state.oldest_reserved()?;
            state.reserved -= 1;
            self.close(&mut state, &oldest);
            true
        };
        let close = Arc::new(Notify::new());
        let slot = state.tick();
        match is_reserved {
            true => state.silent_reserved.insert(slot, Arc::clone(&close)),
            false => state.silent.insert(slot, Arc::clone(&close)),
        };
        *state.counted(is_reserved) += 1;
        drop(state);
        let _open = OpenGauge::connection(&self.metrics);
        let standing = Mutex::new(Standing::Silent(slot));
        let (table, has_spoken) = (Arc::clone(self), AtomicBool::new(false));
        Some(Arc::new(OpenConnection {
            table,
            standing,
            has_spoken,
            is_reserved,
            close,
            _open,
        }))
    }

    /// Until a connection ends.
    pub async fn freed(&self) {
        self.freed.notified().await;
    }

    /// Takes the slot away from a connection.
    fn close(&self, state: &mut State, close: &Notify) {
        state.leaving += 1;
        self.metrics.connections_closed.inc();
        close.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn tick(&mut self) -> u64 {
        self.time += 1;
        self.time
    }

    fn oldest(&mut self) -> Option<Arc<Notify>> {
        if self.leaving >= MAX_LEAVING {
            return None;
        }
        self.silent
            .pop_first()
            .or_else(|| self.idle.pop_first())
            .map(|(_, close)| close)
    }

    fn oldest_reserved(&mut self) -> Option<Arc<Notify>> {
        if self.leaving >= MAX_LEAVING {
            return None;
        }
        self.silent_reserved.pop_first().map(|(_, close)| close)
    }

    fn counted(&mut self, is_reserved: bool) -> &mut usize {
        if is_reserved {
            &mut self.reserved
        } else {
            &mut self.open
        }
    }
}

impl OpenConnection {
    /// Whether it may only ask for health, or for something short with the internal key.
    pub fn is_reserved(&self) -> bool {
        self.is_reserved
    }

    /// Whether it has sent a whole request.
    pub fn has_spoken(&self) -> bool {
        self.has_spoken.load(Ordering::Relaxed)
    }

    /// A request begins. Until all of it has arrived, the connection can lose its slot like one that
    /// has sent nothing. Otherwise half a request could hold a slot for as long as a body may take.
    pub fn request(self: &Arc<Self>) -> BusyConnection {
        BusyConnection(Arc::clone(self))
    }

    /// A request has arrived in full. The connection is busy until the request's guard is dropped.
    pub fn busy(&self) {
        self.has_spoken.store(true, Ordering::Relaxed);
        if *self.standing() != Standing::Operator {
            self.stand(|_, _| Standing::Busy);
        }
    }

    /// Counts the connection as an operator for as long as it is open. False if the operators hold
    /// all slots that they may.
    pub fn serves_operator(&self) -> bool {
        let mut state = self.table.lock();
        let mut standing = self.standing();
        let asks = matches!(*standing, Standing::Busy | Standing::Silent(_))
            && state.operators < MAX_OPERATORS;
        if asks && self.forget(&mut state, *standing) {
            state.operators += 1;
            *standing = Standing::Operator;
        }
        *standing == Standing::Operator
    }

    fn stand(&self, next: impl FnOnce(&mut State, &Arc<Notify>) -> Standing) {
        let mut state = self.table.lock();
        let mut standing = self.standing();
        if self.forget(&mut state, *standing) {
            *standing = next(&mut state, &self.close);
        } else {
            *standing = Standing::Leaving;
        }
    }

    /// False if another connection has its slot by now.
    fn forget(&self, state: &mut State, standing: Standing) -> bool {
        match standing {
            Standing::Silent(slot) if self.is_reserved => {
                state.silent_reserved.remove(&slot).is_some()
            }
            Standing::Silent(slot) => state.silent.remove(&slot).is_some(),
            Standing::Idle(slot) => state.idle.remove(&slot).is_some(),
            Standing::Busy | Standing::Operator => true,
            Standing::Leaving => false,
        }
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let mut state = self.table.lock();
        let standing = *self.standing();
        if self.forget(&mut state, standing) {
            *state.counted(self.is_reserved) -= 1;
        } else {
            state.leaving -= 1;
        }
        if standing == Standing::Operator {
            state.operators -= 1;
        }
        drop(state);
        self.table.freed.notify_one();
    }
}

/// A request that comes or is being answered.
pub(crate) struct BusyConnection(Arc<OpenConnection>);

impl Drop for BusyConnection {
    fn drop(&mut self) {
        // A reserved slot is used once.
        if !self.0.is_reserved {
            self.0.has_spoken.store(true, Ordering::Relaxed);
            self.0.stand(|state, close| {
                let slot = state.tick();
                state.idle.insert(slot, Arc::clone(close));
                Standing::Idle(slot)
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn whole_request(connection: &Arc<OpenConnection>) -> BusyConnection {
        let request = connection.request();
        connection.busy();
        request
    }

    fn is_closed(connection: &OpenConnection) -> bool {
        connection.close.notified().now_or_never().is_some()
    }

    #[test]
    fn the_bound_follows_from_the_open_files() {
        for (files, connections) in [
            (Some(256), 128),
            (Some(1024), 704),
            (Some(20_000), 15_840),
            (Some(1 << 20), 20_000),
            (None, 20_000),
            (Some(10), 32),
        ] {
            assert_eq!(max_connections(files), connections, "{files:?}");
        }
    }

    #[test]
    fn the_oldest_that_has_said_nothing_makes_room_then_the_idle_then_nobody() {
        let table = Connections::new(3, Metrics::new());
        let [first, second, third] = std::array::from_fn(|_| table.admit().expect("room"));
        let busy = whole_request(&first);
        let fourth = table.admit().expect("the second one has said nothing");
        assert!(is_closed(&second) && !is_closed(&first) && !is_closed(&third));
        drop(second);
        let (third_busy, fourth_busy) = (whole_request(&third), whole_request(&fourth));
        drop(busy);
        assert!(first.has_spoken());
        let fifth = table.admit().expect("the first one is idle");
        assert!(is_closed(&first) && !is_closed(&third) && !is_closed(&fourth));
        let fifth_busy = whole_request(&fifth);
        assert!(!fifth.is_reserved());

        // All three places are busy: only health and operators are answered, on places that are
        // used once.
        let reserved: Vec<_> = (0..RESERVED)
            .map(|_| table.admit().expect("a reserved slot"))
            .collect();
        assert!(reserved.iter().all(|connection| connection.is_reserved()));
        let another = table
            .admit()
            .expect("the oldest reserved one has said nothing");
        assert!(another.is_reserved() && is_closed(&reserved[0]));
        let working: Vec<_> = reserved
            .iter()
            .skip(1)
            .chain([&another])
            .map(whole_request)
            .collect();
        assert!(table.admit().is_none());
        drop((working, reserved, another));
        drop(first);
        drop((third_busy, fourth_busy, fifth_busy));
        drop((third, fourth, fifth));
        assert_empty(&table);
    }

    #[test]
    fn half_a_request_holds_no_place() {
        let table = Connections::new(1, Metrics::new());
        let first = table.admit().expect("room");
        let half = first.request();
        let second = table
            .admit()
            .expect("the first one has sent half a request");
        assert!(is_closed(&first) && !first.has_spoken());
        drop((half, first));
        let whole = whole_request(&second);
        assert!(table.admit().expect("a reserved slot").is_reserved());
        drop((whole, second));
        assert_empty(&table);
    }

    #[test]
    fn operators_leave_places_for_health() {
        let table = Connections::new(0, Metrics::new());
        let reserved: Vec<_> = (0..RESERVED)
            .map(|_| table.admit().expect("a reserved slot"))
            .collect();
        let busy: Vec<_> = reserved.iter().map(whole_request).collect();
        let served = reserved
            .iter()
            .filter(|connection| connection.serves_operator())
            .count();
        assert_eq!(served, MAX_OPERATORS);
        assert!(reserved[0].serves_operator(), "it has its slot already");
        drop(busy);
        drop(reserved);
        assert_empty(&table);
    }

    #[test]
    fn one_that_is_to_close_counts_until_it_is_closed() {
        let table = Connections::new(1, Metrics::new());
        let mut leaving = vec![table.admit().expect("room")];
        for _ in 0..MAX_LEAVING {
            let next = table.admit().expect("the one before has said nothing");
            assert!(!next.is_reserved());
            leaving.push(next);
        }
        assert_eq!(table.lock().leaving, MAX_LEAVING);
        let newest = leaving.pop().expect("the one that has the slot");
        assert!(!is_closed(&newest) && leaving.iter().all(|connection| is_closed(connection)));
        let kept: Vec<_> = (0..RESERVED)
            .map(|_| table.admit().expect("a reserved slot"))
            .collect();
        assert!(kept.iter().all(|connection| connection.is_reserved()));
        assert!(
            table.admit().is_none(),
            "all files that there are may still be open"
        );
        leaving.pop();
        assert!(
            table
                .admit()
                .is_some_and(|connection| !connection.is_reserved())
        );
        drop((leaving, newest, kept));
        assert_empty(&table);
    }

    fn assert_empty(table: &Connections) {
        let state = table.lock();
        assert_eq!(
            (state.open, state.reserved, state.operators, state.leaving),
            (0, 0, 0, 0)
        );
        assert!(
            state.silent.is_empty() && state.silent_reserved.is_empty() && state.idle.is_empty()
        );
    }
}
