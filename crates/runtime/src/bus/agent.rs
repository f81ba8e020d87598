//! One agent's slots and queue. Every change happens under its lock, and the queue never waits
//! while a slot is free.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use codelab_protocol::{AgentMetrics, AgentName, AgentStatus, Timestamp};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::breaker::{Breaker, BreakerVerdict, TRIAL_RETRY_AFTER};
use super::{Admission, BusLimits, Entry, Load, Reason, SlotUse, TaskOutcome, Unavailable};
use crate::clock;

/// One stay at an agent, waiting or active. Numbers grow and are never used twice at one agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

#[derive(Debug)]
pub(super) struct BusAgent {
    pub(super) name: AgentName,
    limits: BusLimits,
    /// The bus's: what takes an agent out of service does not come between a look and a step.
    admission: Admission,
    state: Mutex<State>,
    /// Told whenever an active task ends.
    ended: Notify,
}

#[derive(Debug)]
struct State {
    presence: AgentPresence,
    concurrency_limit: usize,
    next_ticket: u64,
    active: BTreeMap<Ticket, Instant>,
    waiting: VecDeque<(Ticket, Grant)>,
    breaker: Breaker,
    processed: u64,
    failed: u64,
    busy: Duration,
    last_activity: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AgentPresence {
    Registered,
    /// Takes what has begun only.
    Deregistered,
    Closed,
    Removed,
}

type Grant = oneshot::Sender<Result<(), Unavailable>>;

pub(super) enum EntryTicket {
    Active(Ticket),
    Queued(Ticket, oneshot::Receiver<Result<(), Unavailable>>),
}

impl BusAgent {
    pub(super) fn new(
        name: AgentName,
        limits: BusLimits,
        concurrency_limit: u32,
        presence: AgentPresence,
        admission: Admission,
    ) -> Self {
        let state = State {
            presence,
            concurrency_limit: slots(concurrency_limit),
            next_ticket: 0,
            active: BTreeMap::new(),
            waiting: VecDeque::new(),
            breaker: Breaker::Closed {
                failures_in_a_row: 0,
            },
            processed: 0,
            failed: 0,
            busy: Duration::ZERO,
            last_activity: None,
        };
        Self {
            name,
            limits,
            admission,
            state: Mutex::new(state),
            ended: Notify::new(),
        }
    }

    pub(super) fn become_known(&self, concurrency_limit: u32, presence: AgentPresence) {
        let mut state = self.state();
        state.presence = presence;
        state.concurrency_limit = slots(concurrency_limit);
        state.admit_waiting();
    }

    /// Refuses what is new. The ticket returned is later than every task that is active or waits
    /// now.
    pub(super) fn deregister(&self) -> Ticket {
        let mut state = self.state();
        state.presence = AgentPresence::Deregistered;
        Ticket(state.next_ticket)
    }

    /// Refuses waiting and new tasks. The returned ticket is later than those of all active tasks.
    pub(super) fn close(&self) -> Ticket {
        self.shut(AgentPresence::Closed, Reason::Deregistered)
    }

    pub(super) fn remove(&self) -> Ticket {
        self.shut(AgentPresence::Removed, Reason::NotRegistered)
    }

    fn shut(&self, presence: AgentPresence, reason: Reason) -> Ticket {
        let mut state = self.state();
        state.presence = presence;
        state.refuse_waiting(Unavailable::by_hand(reason));
        Ticket(state.next_ticket)
    }

    pub(super) fn is_registered(&self) -> bool {
        self.state().presence == AgentPresence::Registered
    }

    /// Takes work that was accepted. `begun` says that this agent worked on it before.
    pub(super) fn enter(&self, begun: bool) -> Result<EntryTicket, Unavailable> {
        let mut state = self.state();
        let gate = gate(&state, self.limits.accepted_queue_length, begun)?;
        let has_slot = state.has_slot();
        let ticket = state.new_ticket();
        if gate == BreakerVerdict::TrialOnly {
            state.breaker = Breaker::Trial { ticket };
        }
        if has_slot {
            state.start(ticket);
            return Ok(EntryTicket::Active(ticket));
        }
        let (grant, granted) = oneshot::channel();
        state.waiting.push_back((ticket, grant));
        Ok(EntryTicket::Queued(ticket, granted))
    }

    pub(super) fn finish(&self, ticket: Ticket, outcome: TaskOutcome, busy: Duration) {
        let now = Instant::now();
        let _admission = locked(&self.admission);
        let mut state = self.state();
        // A task ends once.
        if state.active.remove(&ticket).is_none() {
            return;
        }
        state.last_activity = Some(clock::now());
        match outcome {
            TaskOutcome::Succeeded => {
                state.count(busy);
                state.breaker.succeeded(ticket);
            }
            TaskOutcome::Failed => {
                state.count(busy);
                state.failed += 1;
                let (failures, pause) = (self.limits.breaker_failures, self.limits.breaker_pause);
                if state.breaker.failed(ticket, failures, pause, now) {
                    state.refuse_waiting(Unavailable {
                        reason: Reason::Broken,
                        retry_after: pause,
                    });
                }
            }
            TaskOutcome::Hindered => {
                state.count(busy);
                state.failed += 1;
                state.breaker.left(ticket, now);
            }
            TaskOutcome::Cancelled => state.breaker.left(ticket, now),
        }
        state.admit_waiting();
        drop(state);
        self.ended.notify_waiters();
    }

    /// Gives back a slot, or leaves the queue, without a verdict; nothing to do after
    /// [`Self::finish`].
    pub(super) fn leave(&self, ticket: Ticket) {
        let mut state = self.state();
        state.breaker.left(ticket, Instant::now());
        if state.active.remove(&ticket).is_some() {
            state.admit_waiting();
            drop(state);
            self.ended.notify_waiters();
        } else if let Ok(slot) = state
            .waiting
            .binary_search_by_key(&ticket, |(waiting, _)| *waiting)
        {
            state.waiting.remove(slot);
        }
    }

    /// Waits until no task older than `bound` is active.
    pub(super) async fn drained(&self, bound: Ticket) {
        loop {
            let mut ended = std::pin::pin!(self.ended.notified());
            // Listening starts before looking, or an end in between would go unheard.
            ended.as_mut().enable();
            if self.state().active.range(..bound).next().is_none() {
                return;
            }
            ended.await;
        }
    }

    pub(super) fn slot_use(&self) -> SlotUse {
        let state = self.state();
        let entry = |begun| {
            Ok(match service(&state, begun)? {
                BreakerVerdict::TrialOnly => Entry::Trial {
                    then: Unavailable {
                        reason: Reason::Broken,
                        retry_after: TRIAL_RETRY_AFTER,
                    },
                },
                BreakerVerdict::Free | BreakerVerdict::Shut { .. } => Entry::Free,
            })
        };
        SlotUse {
            concurrency_limit: state.concurrency_limit,
            active: state.active.len(),
            waiting: state.waiting.len(),
            for_new: entry(false),
            for_begun: entry(true),
            is_failing: !state.breaker.is_closed(),
        }
    }

    pub(super) fn status(&self) -> AgentStatus {
        let state = self.state();
        match state.active.len() {
            _ if !state.breaker.is_closed() => AgentStatus::Error,
            0 => AgentStatus::Idle,
            active if active >= state.concurrency_limit => AgentStatus::Busy,
            _ => AgentStatus::Processing,
        }
    }

    #[allow(clippy::cast_precision_loss)]
    pub(super) fn metrics(&self) -> AgentMetrics {
        let state = self.state();
        let per_task = |amount: f64| {
            if state.processed == 0 {
                0.0
            } else {
                amount / state.processed as f64
            }
        };
        AgentMetrics {
            tasks_processed: state.processed,
            tasks_failed: state.failed,
            avg_processing_time: per_task(state.busy.as_secs_f64()),
            last_activity: state.last_activity,
            error_rate: per_task(state.failed as f64),
            active: state.active.len() as u64,
            queue_length: state.waiting.len() as u64,
            concurrency_limit: state.concurrency_limit as u64,
        }
    }

    pub(super) fn add_to(&self, load: &mut Load) {
        let now = Instant::now();
        let state = self.state();
        load.active += state.active.len();
        load.waiting += state.waiting.len();
        load.processed += state.processed;
        load.full_queues += usize::from(state.waiting.len() >= self.limits.queue_length);
        let oldest = state
            .active
            .values()
            .map(|since| now.duration_since(*since))
            .max();
        load.oldest_active = load.oldest_active.max(oldest);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn has_slot(&self) -> bool {
        self.active.len() < self.concurrency_limit
    }

    fn new_ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        Ticket(self.next_ticket - 1)
    }

    fn start(&mut self, ticket: Ticket) {
        self.active.insert(ticket, Instant::now());
        self.last_activity = Some(clock::now());
    }

    fn admit_waiting(&mut self) {
        while self.active.len() < self.concurrency_limit {
            let Some((ticket, grant)) = self.waiting.pop_front() else {
                return;
            };
            self.start(ticket);
            // A receiver that is gone is being dropped this moment, and gives the slot back by its
            // ticket.
            let _ = grant.send(Ok(()));
        }
    }

    fn refuse_waiting(&mut self, why: Unavailable) {
        for (ticket, grant) in std::mem::take(&mut self.waiting) {
            self.breaker.left(ticket, Instant::now());
            let _ = grant.send(Err(why));
        }
    }

    fn count(&mut self, busy: Duration) {
        self.processed += 1;
        self.busy = self.busy.saturating_add(busy);
    }
}

/// An agent without a slot would keep its tasks for ever.
fn slots(concurrency_limit: u32) -> usize {
    usize::try_from(concurrency_limit.max(1)).unwrap_or(usize::MAX)
}

/// Whether the agent takes such work, however many tasks it has.
fn service(state: &State, begun: bool) -> Result<BreakerVerdict, Unavailable> {
    match state.presence {
        AgentPresence::Registered => {}
        AgentPresence::Deregistered if begun => {}
        AgentPresence::Deregistered | AgentPresence::Closed => {
            return Err(Unavailable::by_hand(Reason::Deregistered));
        }
        AgentPresence::Removed => return Err(Unavailable::by_hand(Reason::NotRegistered)),
    }
    let gate = state.breaker.gate(Instant::now());
    if let BreakerVerdict::Shut { retry_after } = gate {
        return Err(Unavailable {
            reason: Reason::Broken,
            retry_after,
        });
    }
    Ok(gate)
}

fn gate(state: &State, queue_length: usize, begun: bool) -> Result<BreakerVerdict, Unavailable> {
    let gate = service(state, begun)?;
    if !state.has_slot() && state.waiting.len() >= queue_length {
        return Err(Unavailable::queue_full());
    }
    Ok(gate)
}
