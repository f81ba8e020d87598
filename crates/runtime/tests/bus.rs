//! The Agent Bus as its callers see it: slots, queue, breaker, counts. Time is tokio's and stands
//! still.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use codelab_protocol::{AgentName, AgentStatus};
use codelab_runtime::{Bus, BusEntry, BusLimits, Permit, Reason, TaskOutcome, WaitingTask};
use futures_util::FutureExt;

const BUSY: Duration = Duration::from_secs(2);

fn agent(name: &str) -> AgentName {
    AgentName::parse(name).expect("a valid name")
}

fn bus_with(concurrency_limit: u32) -> (Bus, AgentName) {
    let bus = Bus::new(BusLimits {
        queue_length: 3,
        accepted_queue_length: 3,
        ..BusLimits::default()
    });
    bus.register(&agent("coder"), concurrency_limit);
    (bus, agent("coder"))
}

fn now(bus: &Bus, name: &AgentName) -> Permit {
    match bus.enter(name, false) {
        Ok(BusEntry::Now(permit)) => permit,
        other => panic!("expected a permit at once, got {other:?}"),
    }
}

fn later(bus: &Bus, name: &AgentName) -> WaitingTask {
    match bus.enter(name, false) {
        Ok(BusEntry::Later(waiting)) => waiting,
        other => panic!("expected to wait, got {other:?}"),
    }
}

fn refused(bus: &Bus, name: &AgentName) -> (Reason, Duration) {
    let why = bus.enter(name, false).expect_err("expected to be refused");
    (why.reason, why.retry_after)
}

fn fail(bus: &Bus, name: &AgentName, times: u32) {
    for _ in 0..times {
        now(bus, name).finished(TaskOutcome::Failed, BUSY);
    }
}

/// What a waiting task was told so far.
fn told(waiting: &mut WaitingTask) -> Option<Result<Permit, Reason>> {
    waiting
        .now_or_never()
        .map(|answer| answer.map_err(|why| why.reason))
}

#[test]
fn what_was_accepted_waits_up_to_its_own_limit() {
    let bus = Bus::new(BusLimits {
        queue_length: 1,
        accepted_queue_length: 2,
        ..BusLimits::default()
    });
    let coder = agent("coder");
    bus.register(&coder, 1);
    let _held = [now(&bus, &coder)];
    let _first = later(&bus, &coder);
    let _second = later(&bus, &coder);
    assert_eq!(refused(&bus, &coder).0, Reason::QueueFull);
}

#[test]
fn slots_are_given_in_order_and_come_back() {
    let (bus, coder) = bus_with(2);
    let (one, two) = (now(&bus, &coder), now(&bus, &coder));
    let (mut three, mut four, mut five) = (
        later(&bus, &coder),
        later(&bus, &coder),
        later(&bus, &coder),
    );
    assert_eq!(
        refused(&bus, &coder),
        (Reason::QueueFull, Duration::from_secs(1))
    );
    assert!(told(&mut three).is_none());

    drop(one);
    assert!(
        told(&mut four).is_none(),
        "the first in the queue is the first served"
    );
    let three = told(&mut three).unwrap().unwrap();
    assert_eq!(three.agent(), &coder);

    drop(four);
    two.finished(TaskOutcome::Succeeded, BUSY);
    let five = told(&mut five)
        .expect("who left the queue is passed over")
        .unwrap();
    let other = later(&bus, &coder);

    // Granted, but dropped before anybody looked: the slot is not lost.
    drop((three, other));
    drop(five);
    let _both = (now(&bus, &coder), now(&bus, &coder));
}

#[test]
fn another_limit_takes_effect_at_once() {
    let (bus, coder) = bus_with(1);
    let first = now(&bus, &coder);
    let (mut second, mut third) = (later(&bus, &coder), later(&bus, &coder));
    bus.register(&coder, 2);
    let second = told(&mut second).unwrap().unwrap();
    assert!(told(&mut third).is_none());

    bus.register(&coder, 1);
    drop(first);
    assert!(
        told(&mut third).is_none(),
        "one is still active, and one is the limit"
    );
    drop(second);
    assert!(told(&mut third).unwrap().is_ok());

    bus.register(&coder, 0);
    assert_eq!(
        bus.metrics(&coder).unwrap().concurrency_limit,
        1,
        "an agent without slots could never work"
    );
}

#[test]
fn agents_do_not_share_slots() {
    let (bus, coder) = bus_with(1);
    let writer = agent("writer");
    assert_eq!(refused(&bus, &writer).0, Reason::NotRegistered);
    bus.register(&writer, 1);
    let _both = (now(&bus, &coder), now(&bus.clone(), &writer));
    assert_eq!(bus.registered(), [coder, writer]);
}

#[tokio::test(start_paused = true)]
async fn a_deregistered_agent_finishes_what_it_has() {
    let (bus, coder) = bus_with(1);
    let active = now(&bus, &coder);
    let mut waiting = later(&bus, &coder);

    let draining = bus.deregister(&coder);
    assert!(
        told(&mut waiting).is_none(),
        "what waits stays in the queue"
    );
    assert_eq!(refused(&bus, &coder).0, Reason::Deregistered);
    let mut back = match bus.enter(&coder, true) {
        Ok(BusEntry::Later(waiting)) => waiting,
        other => panic!("what comes back after it waited for somebody goes on: {other:?}"),
    };
    assert!(bus.registered().is_empty() && !bus.is_registered(&coder));
    assert_eq!(bus.status(&coder), Some(AgentStatus::Busy));
    assert!(draining.finished().now_or_never().is_none());

    let heard = tokio::spawn({
        let draining = draining.clone();
        async move { draining.finished().await }
    });
    tokio::task::yield_now().await;
    active.finished(TaskOutcome::Succeeded, BUSY);
    told(&mut waiting)
        .unwrap()
        .unwrap()
        .finished(TaskOutcome::Succeeded, BUSY);
    heard.await.unwrap();
    told(&mut back)
        .unwrap()
        .unwrap()
        .finished(TaskOutcome::Succeeded, BUSY);

    bus.register(&coder, 1);
    let _next = now(&bus, &coder);
    assert!(
        draining.finished().now_or_never().is_some(),
        "tasks of the new registration are not waited for"
    );
    assert_eq!(
        bus.metrics(&coder).unwrap().tasks_processed,
        3,
        "counts survive a deregistration"
    );
}

#[test]
fn a_closed_agent_refuses_what_waits_and_what_comes_back() {
    let (bus, coder) = bus_with(1);
    let _active = now(&bus, &coder);
    let mut waiting = later(&bus, &coder);
    drop(bus.close_all());
    assert!(matches!(
        told(&mut waiting),
        Some(Err(Reason::Deregistered))
    ));
    assert!(bus.enter(&coder, true).is_err());
    // One that is out of service from its first moment on ends what began on another server.
    let writer = agent("writer");
    bus.deregister_with(&writer, 1);
    assert_eq!(refused(&bus, &writer).0, Reason::Deregistered);
    assert!(
        matches!(bus.enter(&writer, true), Ok(BusEntry::Now(_))) && bus.registered().is_empty()
    );
}

#[tokio::test(start_paused = true)]
async fn a_removed_agent_is_forgotten() {
    let (bus, coder) = bus_with(1);
    let active = now(&bus, &coder);
    let mut waiting = later(&bus, &coder);
    let draining = bus.remove(&coder);
    assert!(matches!(
        told(&mut waiting),
        Some(Err(Reason::NotRegistered))
    ));
    assert_eq!(refused(&bus, &coder).0, Reason::NotRegistered);
    assert_eq!((bus.status(&coder), bus.metrics(&coder)), (None, None));

    // A namesake is another agent: the old task neither takes its slot nor adds to its counts.
    bus.register(&coder, 1);
    let namesake = now(&bus, &coder);
    assert!(draining.finished().now_or_never().is_none());
    active.finished(TaskOutcome::Failed, BUSY);
    assert!(draining.finished().now_or_never().is_some());
    let _waits = later(&bus, &coder);
    assert_eq!(bus.metrics(&coder).unwrap().tasks_processed, 0);
    drop(namesake);
    bus.deregister(&agent("nobody")).finished().await;
}

#[tokio::test(start_paused = true)]
async fn five_failures_in_a_row_break_an_agent_for_thirty_seconds() {
    let (bus, coder) = bus_with(2);
    fail(&bus, &coder, 4);
    now(&bus, &coder).finished(TaskOutcome::Succeeded, BUSY);
    fail(&bus, &coder, 4);
    now(&bus, &coder).finished(TaskOutcome::Cancelled, BUSY);
    assert_eq!(
        bus.status(&coder),
        Some(AgentStatus::Idle),
        "a success starts the count anew"
    );

    let (fifth, long) = (now(&bus, &coder), now(&bus, &coder));
    let mut waiting = later(&bus, &coder);
    fifth.finished(TaskOutcome::Failed, BUSY);
    assert_eq!(bus.status(&coder), Some(AgentStatus::Error));
    assert!(matches!(told(&mut waiting), Some(Err(Reason::Broken))));
    assert_eq!(
        refused(&bus, &coder),
        (Reason::Broken, Duration::from_secs(30))
    );

    tokio::time::advance(Duration::from_secs(20)).await;
    assert_eq!(
        refused(&bus, &coder),
        (Reason::Broken, Duration::from_secs(10))
    );
    long.finished(TaskOutcome::Succeeded, BUSY);
    assert_eq!(
        refused(&bus, &coder).0,
        Reason::Broken,
        "a task from before is no trial"
    );
    assert_eq!(bus.registered(), [coder]);
}

#[tokio::test(start_paused = true)]
async fn one_trial_decides() {
    let (bus, coder) = bus_with(2);
    fail(&bus, &coder, 5);
    tokio::time::advance(Duration::from_secs(30)).await;

    for left in ["dropped", "cancelled"] {
        let trial = now(&bus, &coder);
        assert_eq!(
            refused(&bus, &coder).0,
            Reason::Broken,
            "one trial at a time"
        );
        assert_eq!(bus.status(&coder), Some(AgentStatus::Error));
        match left {
            "dropped" => drop(trial),
            _ => trial.finished(TaskOutcome::Cancelled, BUSY),
        }
    }
    now(&bus, &coder).finished(TaskOutcome::Failed, BUSY);
    assert_eq!(
        refused(&bus, &coder),
        (Reason::Broken, Duration::from_secs(30))
    );

    tokio::time::advance(Duration::from_secs(30)).await;
    now(&bus, &coder).finished(TaskOutcome::Succeeded, BUSY);
    assert_eq!(bus.status(&coder), Some(AgentStatus::Idle));
    fail(&bus, &coder, 4);
    let _both = (now(&bus, &coder), now(&bus, &coder));
}

#[tokio::test(start_paused = true)]
async fn a_trial_waits_for_a_slot_like_any_task() {
    let (bus, coder) = bus_with(2);
    let long = now(&bus, &coder);
    fail(&bus, &coder, 5);
    bus.register(&coder, 1);
    tokio::time::advance(Duration::from_secs(30)).await;

    drop(later(&bus, &coder));
    let mut trial = later(&bus, &coder);
    assert_eq!(refused(&bus, &coder).0, Reason::Broken);
    let _ = bus.close_all();
    assert!(matches!(told(&mut trial), Some(Err(Reason::Deregistered))));
    bus.register(&coder, 1);
    let mut trial = later(&bus, &coder);
    drop(long);
    told(&mut trial)
        .unwrap()
        .unwrap()
        .finished(TaskOutcome::Succeeded, BUSY);
    assert_eq!(bus.status(&coder), Some(AgentStatus::Idle));
}

#[tokio::test(start_paused = true)]
async fn status_metrics_and_load_say_what_happens() {
    let (bus, coder) = bus_with(2);
    bus.register(&agent("writer"), 1);
    let fresh = bus.metrics(&coder).unwrap();
    assert_eq!(
        (
            fresh.avg_processing_time,
            fresh.error_rate,
            fresh.last_activity
        ),
        (0.0, 0.0, None)
    );
    assert_eq!(bus.load(), codelab_runtime::Load::default());

    for (outcome, seconds) in [
        (TaskOutcome::Succeeded, 1),
        (TaskOutcome::Failed, 3),
        (TaskOutcome::Cancelled, 90),
    ] {
        now(&bus, &coder).finished(outcome, Duration::from_secs(seconds));
    }
    drop(now(&bus, &coder));
    now(&bus, &agent("writer")).finished(TaskOutcome::Succeeded, BUSY);
    let first = now(&bus, &coder);
    assert_eq!(bus.status(&coder), Some(AgentStatus::Processing));
    tokio::time::advance(Duration::from_secs(7)).await;
    let _second = now(&bus, &coder);
    assert_eq!(bus.status(&coder), Some(AgentStatus::Busy));
    let waiting = [
        later(&bus, &coder),
        later(&bus, &coder),
        later(&bus, &coder),
    ];

    let metrics = bus.metrics(&coder).unwrap();
    assert_eq!((metrics.tasks_processed, metrics.tasks_failed), (2, 1));
    assert_eq!(
        (metrics.avg_processing_time, metrics.error_rate),
        (2.0, 0.5)
    );
    assert_eq!(
        (
            metrics.active,
            metrics.queue_length,
            metrics.concurrency_limit
        ),
        (2, 3, 2)
    );
    assert!(metrics.last_activity.is_some());

    let load = bus.load();
    assert_eq!(
        (load.active, load.waiting, load.processed, load.full_queues),
        (2, 3, 3, 1)
    );
    assert_eq!(load.oldest_active, Some(Duration::from_secs(7)));
    drop((first, waiting));
    assert_eq!(bus.load().full_queues, 0);
    assert_eq!(
        serde_json::to_value(AgentStatus::Processing).unwrap(),
        "processing"
    );
}

/// Small and repeatable; the sequence depends on the seed alone.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % bound
    }
}

/// What one random walk holds of the bus, to compare with what the bus says.
#[derive(Default)]
struct Walk {
    held: Vec<Permit>,
    waiting: Vec<WaitingTask>,
    processed: u64,
    failed: u64,
    refused: usize,
}

impl Walk {
    /// Grants must come from the front of the queue, without a hole.
    fn collect_answers(&mut self) {
        let mut still_waiting = false;
        let mut rest = Vec::new();
        for mut waiting in std::mem::take(&mut self.waiting) {
            match told(&mut waiting) {
                Some(Ok(permit)) => {
                    assert!(
                        !still_waiting,
                        "a later task was served before an earlier one"
                    );
                    self.held.push(permit);
                }
                Some(Err(_)) => self.refused += 1,
                None => {
                    still_waiting = true;
                    rest.push(waiting);
                }
            }
        }
        self.waiting = rest;
    }

    fn end_one(&mut self, outcome: Option<TaskOutcome>, random: &mut Random) {
        if self.held.is_empty() {
            return;
        }
        let permit = self.held.swap_remove(random.below(self.held.len()));
        let Some(outcome) = outcome else {
            return drop(permit);
        };
        self.processed += u64::from(outcome != TaskOutcome::Cancelled);
        self.failed += u64::from(outcome == TaskOutcome::Failed);
        permit.finished(outcome, BUSY);
    }

    async fn step(&mut self, bus: &Bus, coder: &AgentName, limit: &mut usize, random: &mut Random) {
        match random.below(100) {
            0..45 => match bus.enter(coder, false) {
                Ok(BusEntry::Now(permit)) => self.held.push(permit),
                Ok(BusEntry::Later(waiting)) => self.waiting.push(waiting),
                Err(_) => self.refused += 1,
            },
            45..65 => self.end_one(Some(TaskOutcome::Succeeded), random),
            65..74 => self.end_one(Some(TaskOutcome::Failed), random),
            74..78 => self.end_one(Some(TaskOutcome::Cancelled), random),
            78..84 => self.end_one(None, random),
            84..90 if !self.waiting.is_empty() => {
                let place = random.below(self.waiting.len());
                drop(self.waiting.remove(place));
            }
            84..92 => tokio::time::advance(Duration::from_secs(10)).await,
            92..94 => drop(bus.deregister(coder)),
            94..96 => drop(bus.close_all()),
            _ => {
                *limit = 1 + random.below(4);
                bus.register(coder, u32::try_from(*limit).expect("a small number"));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn random_walks_keep_the_bus_right() {
    for seed in 0..40 {
        let mut random = Random(seed);
        let (bus, coder) = bus_with(2);
        let (mut walk, mut limit, mut active_before) = (Walk::default(), 2, 0);
        for step in 0..1000 {
            walk.step(&bus, &coder, &mut limit, &mut random).await;
            let metrics = bus.metrics(&coder).unwrap();
            let at = format!("seed {seed}, step {step}: {metrics:?}, limit {limit}");
            let [active, waiting] =
                [metrics.active, metrics.queue_length].map(|count| count as usize);
            assert!(active <= limit.max(active_before), "too many active; {at}");
            assert!(
                waiting == 0 || active >= limit,
                "a task waits beside a free slot; {at}"
            );
            walk.collect_answers();
            assert_eq!(
                (active, waiting),
                (walk.held.len(), walk.waiting.len()),
                "{at}"
            );
            assert_eq!(
                (metrics.tasks_processed, metrics.tasks_failed),
                (walk.processed, walk.failed),
                "{at}"
            );
            active_before = active;
        }
        assert!(
            walk.processed > 50 && walk.failed > 10 && walk.refused > 10,
            "seed {seed} tried too little"
        );
        let draining = bus.close_all().pop().unwrap();
        walk.held.clear();
        draining.finished().await;
        assert_eq!(
            (bus.load().active, bus.load().waiting),
            (0, 0),
            "seed {seed}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tasks_on_many_threads_all_get_their_turn() {
    const TASKS: usize = 3000;
    let bus = Bus::new(BusLimits {
        queue_length: TASKS,
        ..BusLimits::default()
    });
    let coder = agent("coder");
    bus.register(&coder, 3);
    let (inside, peak) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..TASKS {
        let (bus, coder, inside, peak) = (bus.clone(), coder.clone(), inside.clone(), peak.clone());
        tasks.spawn(async move {
            let entry = bus.enter(&coder, false).unwrap();
            if number % 5 == 0 {
                // Gives up at some moment, perhaps just when its turn came.
                tokio::select! {
                    biased;
                    () = tokio::task::yield_now() => {}
                    permit = entry.permit() => drop(permit),
                }
                return;
            }
            let permit = entry.permit().await.unwrap();
            peak.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
            tokio::task::yield_now().await;
            inside.fetch_sub(1, SeqCst);
            match number % 7 {
                0 => drop(permit),
                _ => permit.finished(TaskOutcome::Succeeded, BUSY),
            }
        });
    }
    tokio::time::timeout(Duration::from_secs(60), tasks.join_all())
        .await
        .expect("some task never got its turn");
    assert!(peak.load(SeqCst) <= 3, "{} at once", peak.load(SeqCst));
    let expected = (0..TASKS)
        .filter(|number| number % 5 != 0 && number % 7 != 0)
        .count();
    assert_eq!(bus.load().processed, u64::try_from(expected).unwrap());
    assert_eq!((bus.load().active, bus.load().waiting), (0, 0));
}
