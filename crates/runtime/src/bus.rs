//! The Agent Bus of one project: which agents take tasks, how many at once, who waits, and which
//! agent is left alone after failing. A task enters, gets a [`Permit`] at once or in its turn, and
//! gives it back.
//!
//! In this process only. It runs nothing and knows neither sessions nor what a task is.

mod agent;
mod breaker;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use codelab_protocol::{AgentMetrics, AgentName, AgentStatus};
use tokio::sync::oneshot;

use agent::{AgentPresence, BusAgent, EntryTicket, Ticket};

/// Handles to one bus are clones of each other.
#[derive(Debug, Clone)]
pub struct Bus {
    limits: BusLimits,
    agents: Arc<Mutex<BTreeMap<AgentName, Arc<BusAgent>>>>,
    admission: Admission,
}

/// Held by whoever looks at the slots and then takes some. Tasks that end free slots meanwhile, but
/// nobody takes one, and no agent takes less work than before. Taken before all other locks of the
/// bus.
pub(crate) type Admission = Arc<Mutex<()>>;

/// An agent's slots at one moment, and whether it takes work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SlotUse {
    pub concurrency_limit: usize,
    pub active: usize,
    pub waiting: usize,
    pub for_new: Result<Entry, Unavailable>,
    pub for_begun: Result<Entry, Unavailable>,
    /// It failed again and again, and has not succeeded since.
    pub is_failing: bool,
}

/// How a task may enter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    Free,
    /// The one task that tries whether a failing agent works again. Once it has started, others are
    /// refused with `then`.
    Trial {
        then: Unavailable,
    },
}

#[derive(Debug, Clone, Copy)]
pub struct BusLimits {
    /// Tasks that wait for an agent before new ones are refused. The engine refuses them.
    pub queue_length: usize,
    /// What was accepted, such as the tasks of a plan, waits past that; this is where it ends.
    pub accepted_queue_length: usize,
    /// Failures in a row that take an agent out of service.
    pub breaker_failures: u32,
    /// How long it is left alone before one task may try it.
    pub breaker_pause: Duration,
}

impl Default for BusLimits {
    fn default() -> Self {
        Self {
            queue_length: 100,
            accepted_queue_length: 10_000,
            breaker_failures: 5,
            breaker_pause: Duration::from_secs(30),
        }
    }
}

/// All agents of the bus together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Load {
    pub active: usize,
    pub waiting: usize,
    pub processed: u64,
    /// For how long the oldest active task has held its permit.
    pub oldest_active: Option<Duration>,
    /// Agents whose queue takes no more.
    pub full_queues: usize,
}

impl Load {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            active: self.active + other.active,
            waiting: self.waiting + other.waiting,
            processed: self.processed + other.processed,
            oldest_active: self.oldest_active.max(other.oldest_active),
            full_queues: self.full_queues + other.full_queues,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskOutcome {
    Succeeded,
    Failed,
    /// A failure that says nothing about the agent.
    Hindered,
    Cancelled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("The agent takes no task: {reason}")]
pub struct Unavailable {
    pub reason: Reason,
    /// When asking again may make sense; a guess where only a person can change something.
    pub retry_after: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    #[error("it is not registered")]
    NotRegistered,
    #[error("it was deregistered")]
    Deregistered,
    #[error("it failed several times in a row")]
    Broken,
    #[error("its queue is full")]
    QueueFull,
}

impl Unavailable {
    const BY_HAND_RETRY_AFTER: Duration = Duration::from_secs(30);
    const QUEUE_FULL_RETRY_AFTER: Duration = Duration::from_secs(1);

    fn by_hand(reason: Reason) -> Self {
        Self {
            reason,
            retry_after: Self::BY_HAND_RETRY_AFTER,
        }
    }

    fn queue_full() -> Self {
        Self {
            reason: Reason::QueueFull,
            retry_after: Self::QUEUE_FULL_RETRY_AFTER,
        }
    }
}

impl Bus {
    pub fn new(limits: BusLimits) -> Self {
        Self {
            limits,
            agents: Arc::default(),
            admission: Admission::default(),
        }
    }

    /// Nobody else takes a slot, and no agent is taken out of service, while this is held.
    pub(crate) fn admission(&self) -> MutexGuard<'_, ()> {
        agent::locked(&self.admission)
    }

    /// All agents that are known. Under [`Self::admission`] a slot that is free stays free.
    pub(crate) fn slot_use(&self) -> Vec<(AgentName, SlotUse)> {
        let agents = self.agents();
        agents
            .iter()
            .map(|(name, agent)| (name.clone(), agent.slot_use()))
            .collect()
    }

    pub(crate) fn limits(&self) -> BusLimits {
        self.limits
    }

    /// Makes the agent available, with room for at least one task. Registering again sets the new
    /// limit, lets waiting tasks into new room and ends a deregistration; counts and the breaker
    /// stay. Active tasks past a smaller limit go on.
    pub fn register(&self, name: &AgentName, concurrency_limit: u32) {
        self.known(name, concurrency_limit, AgentPresence::Registered);
    }

    /// Refuses new tasks until the agent is registered again; what has begun ends as usual: active
    /// tasks, those that wait for a slot, and those that come back after they waited for somebody.
    /// Counts stay.
    pub fn deregister(&self, name: &AgentName) -> Draining {
        let _admission = self.admission();
        let agent = self.agents().get(name).cloned();
        Draining {
            rest: agent.map(|agent| (agent.deregister(), agent)),
        }
    }

    /// The same, with this limit, for an agent that may not be known here yet: what has begun
    /// elsewhere ends here.
    pub fn deregister_with(&self, name: &AgentName, concurrency_limit: u32) {
        self.known(name, concurrency_limit, AgentPresence::Deregistered);
    }

    /// All agents that there are, each with its limit and whether it is in service. The others are
    /// removed. A step may hold the admission for a while, so it is waited for once.
    pub(crate) fn update(&self, agents: &[(&AgentName, u32, bool)]) {
        let _admission = self.admission();
        for (name, concurrency_limit, is_in_service) in agents {
            let presence = match is_in_service {
                true => AgentPresence::Registered,
                false => AgentPresence::Deregistered,
            };
            self.make_known(name, *concurrency_limit, presence);
        }
        self.agents().retain(|name, agent| {
            let is_there = agents.iter().any(|(there, ..)| *there == name);
            if !is_there {
                agent.remove();
            }
            is_there
        });
    }

    fn known(&self, name: &AgentName, concurrency_limit: u32, presence: AgentPresence) {
        let _admission = self.admission();
        self.make_known(name, concurrency_limit, presence);
    }

    /// Only with the admission.
    fn make_known(&self, name: &AgentName, concurrency_limit: u32, presence: AgentPresence) {
        let mut agents = self.agents();
        match agents.get(name) {
            Some(agent) => agent.become_known(concurrency_limit, presence),
            None => {
                let agent = BusAgent::new(
                    name.clone(),
                    self.limits,
                    concurrency_limit,
                    presence,
                    Arc::clone(&self.admission),
                );
                agents.insert(name.clone(), Arc::new(agent));
            }
        }
    }

    /// Refuses whatever waits or comes until the agents are registered again; active tasks go on.
    /// Counts stay.
    pub fn close_all(&self) -> Vec<Draining> {
        let _admission = self.admission();
        let agents: Vec<_> = self.agents().values().cloned().collect();
        agents
            .into_iter()
            .map(|agent| Draining {
                rest: Some((agent.close(), agent)),
            })
            .collect()
    }

    /// Forgets the agent with its counts. Its waiting tasks are refused; active ones go on,
    /// uncounted.
    pub fn remove(&self, name: &AgentName) -> Draining {
        let _admission = self.admission();
        let agent = self.agents().remove(name);
        Draining {
            rest: agent.map(|agent| (agent.remove(), agent)),
        }
    }

    /// Forgets all agents.
    pub fn clear(&self) {
        let _admission = self.admission();
        for agent in std::mem::take(&mut *self.agents()).into_values() {
            agent.remove();
        }
    }

    /// Agents that take tasks, by name. A broken one is among them, a deregistered one is not.
    pub fn registered(&self) -> Vec<AgentName> {
        let agents = self.agents();
        agents
            .iter()
            .filter(|(_, agent)| agent.is_registered())
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Agents that are known, in service or not.
    pub fn names(&self) -> Vec<AgentName> {
        self.agents().keys().cloned().collect()
    }

    pub fn is_registered(&self, name: &AgentName) -> bool {
        self.agent(name).is_some_and(|agent| agent.is_registered())
    }

    /// Asks for one of the agent's slots. Tasks of one agent are admitted in the order in which
    /// they entered. `begun`: the agent accepted the task before.
    pub fn enter(&self, name: &AgentName, begun: bool) -> Result<BusEntry, Unavailable> {
        let agent = self
            .agent(name)
            .ok_or_else(|| Unavailable::by_hand(Reason::NotRegistered))?;
        Ok(match agent.enter(begun)? {
            EntryTicket::Active(ticket) => BusEntry::Now(Permit { agent, ticket }),
            EntryTicket::Queued(ticket, granted) => BusEntry::Later(WaitingTask {
                slot: Some((agent, ticket)),
                granted,
            }),
        })
    }

    /// `None` for a name that was never registered, or removed.
    pub fn status(&self, name: &AgentName) -> Option<AgentStatus> {
        self.agent(name).map(|agent| agent.status())
    }

    /// Cancelled tasks, and tasks that left without a verdict, are in none of the counts.
    pub fn metrics(&self, name: &AgentName) -> Option<AgentMetrics> {
        self.agent(name).map(|agent| agent.metrics())
    }

    pub fn load(&self) -> Load {
        let mut load = Load::default();
        for agent in self.agents().values() {
            agent.add_to(&mut load);
        }
        load
    }

    fn agent(&self, name: &AgentName) -> Option<Arc<BusAgent>> {
        self.agents().get(name).cloned()
    }

    fn agents(&self) -> MutexGuard<'_, BTreeMap<AgentName, Arc<BusAgent>>> {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
#[must_use = "a task that drops its entry leaves the bus"]
pub enum BusEntry {
    Now(Permit),
    Later(WaitingTask),
}

impl BusEntry {
    /// The permit, however long it takes.
    pub async fn permit(self) -> Result<Permit, Unavailable> {
        match self {
            Self::Now(permit) => Ok(permit),
            Self::Later(waiting) => waiting.await,
        }
    }
}

/// A task in an agent's queue. Dropping it leaves the queue, also when the slot was granted
/// but not yet taken.
#[derive(Debug)]
pub struct WaitingTask {
    /// Taken out once the permit is handed over, or the task is refused.
    slot: Option<(Arc<BusAgent>, Ticket)>,
    granted: oneshot::Receiver<Result<(), Unavailable>>,
}

impl WaitingTask {
    pub fn agent(&self) -> Option<&AgentName> {
        self.slot.as_ref().map(|(agent, _)| &agent.name)
    }
}

impl Future for WaitingTask {
    type Output = Result<Permit, Unavailable>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(Pin::new(&mut self.granted).poll(context));
        let refused = Unavailable::by_hand(Reason::NotRegistered);
        Poll::Ready(match (answer, self.slot.take()) {
            (Ok(Ok(())), Some((agent, ticket))) => Ok(Permit { agent, ticket }),
            (Ok(Err(why)), _) => Err(why),
            // The agent keeps the other end for as long as this end holds the agent.
            (Ok(Ok(())), None) | (Err(_), _) => Err(refused),
        })
    }
}

impl Drop for WaitingTask {
    fn drop(&mut self) {
        if let Some((agent, ticket)) = self.slot.take() {
            agent.leave(ticket);
        }
    }
}

/// One of an agent's slots. Dropping it frees the slot and counts nothing: a task that waits for a
/// person gives its slot back this way, enters again later, and is still one task.
#[derive(Debug)]
#[must_use = "a dropped permit frees the slot"]
pub struct Permit {
    agent: Arc<BusAgent>,
    ticket: Ticket,
}

impl Permit {
    pub fn agent(&self) -> &AgentName {
        &self.agent.name
    }

    /// Ends the task and frees the slot. `busy` is the task's working time over all its stays.
    pub fn finished(self, outcome: TaskOutcome, busy: Duration) {
        self.agent.finish(self.ticket, outcome, busy);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.agent.leave(self.ticket);
    }
}

/// The active tasks that a deregistered agent still had.
#[derive(Debug, Clone)]
pub struct Draining {
    rest: Option<(Ticket, Arc<BusAgent>)>,
}

impl Draining {
    /// Returns once none of them is active. Tasks admitted after a new registration are not waited
    /// for.
    pub async fn finished(&self) {
        if let Some((bound, agent)) = &self.rest {
            agent.drained(*bound).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps of four sessions, each a look and then an entry.
    const STEPS: usize = 300;

    #[test]
    fn a_slot_that_was_seen_free_under_admission_is_free() {
        let (bus, coder) = (
            Bus::new(BusLimits::default()),
            AgentName::parse("coder").unwrap(),
        );
        bus.register(&coder, 2);
        let session = || {
            for _ in 0..STEPS {
                let admission = bus.admission();
                let slots = bus.slot_use();
                let (_, seen) = slots.first().unwrap();
                let is_free = seen.active < seen.concurrency_limit;
                let entry = is_free.then(|| bus.enter(&coder, false));
                drop(admission);
                match entry {
                    Some(Ok(BusEntry::Now(permit))) => {
                        permit.finished(TaskOutcome::Succeeded, Duration::ZERO);
                    }
                    Some(other) => panic!("a free slot was not given: {other:?}"),
                    None => std::thread::yield_now(),
                }
            }
        };
        // The limit changes meanwhile, but not between a look and its entry.
        let limits = || (0..STEPS as u32).for_each(|step| bus.register(&coder, 1 + step % 3));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(session);
            }
            scope.spawn(limits);
        });
    }
}
