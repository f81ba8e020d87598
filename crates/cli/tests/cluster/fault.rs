//! What goes wrong in a round, and what must stay true meanwhile.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use codelab_client::{Client, ClientError};
use rustix::process::Signal;

use crate::announcer::Announcer;
use crate::installation::Installation;
use crate::person::Person;
use crate::relay::Passage;
use crate::workload::rng::Rng;
use crate::workload::visit::Watched;

/// A dead server's users are served by others within this time.
pub const SERVED_WITHIN: Duration = Duration::from_secs(15);
/// Shorter and longer than the lease of 10 s, and shorter than two.
const MIN_FROZEN_MS: u64 = 5_000;
const MAX_FROZEN_MS: u64 = 16_000;
/// The most that a take-over from a stopped server may take.
const TAKEN_WITHIN: Duration = Duration::from_secs(25);
/// A server that was killed takes its own row back, and does not wait for its lease.
const BACK_WITHIN: Duration = Duration::from_secs(6);
/// How soon a stopped server that goes on must notice that it was taken over.
const REJOINS_WITHIN: Duration = Duration::from_secs(10);
const MIN_BLOCKED_MS: u64 = 1_000;
const MAX_BLOCKED_MS: u64 = 7_000;
/// More than the time between two renewals of a lease.
const WRONG_CLOCK: Duration = Duration::from_secs(4);
const POLL: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// SIGKILL of an owner, which is started again at once.
    Kill,
    /// SIGKILL of an owner, which stays away until others have taken over.
    KillForLonger,
    /// SIGSTOP of an owner until others have taken over, then SIGCONT.
    Suspend,
    /// SIGSTOP of PostgreSQL for 5 to 16 s.
    FreezePostgres,
    /// PostgreSQL ends as after a loss of power, and starts again.
    RestartPostgres,
    /// No server can reach another one.
    Unreachable,
    /// SIGTERM of each server in turn.
    RollingRestart,
    /// One server is started again with a clock that is a minute ahead or behind.
    WrongClock,
    /// SIGKILL of PostgreSQL; its synchronous standby is promoted.
    Failover,
}

/// Most rounds are quick: a take-over waits for a lease, so such faults come once in a block.
const BLOCK: [Fault; 15] = [
    Fault::Kill,
    Fault::Kill,
    Fault::Kill,
    Fault::Kill,
    Fault::Kill,
    Fault::RestartPostgres,
    Fault::RestartPostgres,
    Fault::RestartPostgres,
    Fault::Unreachable,
    Fault::Unreachable,
    Fault::RollingRestart,
    Fault::WrongClock,
    Fault::KillForLonger,
    Fault::Suspend,
    Fault::FreezePostgres,
];

/// Who uses the installation meanwhile.
pub struct Load {
    pub sessions: Vec<Arc<Watched>>,
    pub people: Vec<Arc<Person>>,
    /// Through all rounds.
    pub announcer: Arc<Announcer>,
}

impl Fault {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill -9",
            Self::KillForLonger => "kill -9 and take-over",
            Self::Suspend => "stopped past its lease",
            Self::FreezePostgres => "PostgreSQL frozen",
            Self::RestartPostgres => "PostgreSQL restarted",
            Self::Unreachable => "servers cannot reach each other",
            Self::RollingRestart => "rolling restart",
            Self::WrongClock => "clock off by a minute",
            Self::Failover => "primary killed, standby promoted",
        }
    }

    /// The fault of a round, from 0. Every block of rounds has each fault, in an order of its own.
    /// `only` are parts of names; if it is not empty, other faults do not happen.
    pub fn of_round(seed: &[u64], round: u64, only: &[&str]) -> Self {
        let is_wanted = |fault: &Self| only.iter().any(|part| fault.name().contains(part));
        let mut block: Vec<Self> = BLOCK
            .into_iter()
            .filter(|fault| only.is_empty() || is_wanted(fault))
            .collect();
        assert!(!block.is_empty(), "no fault has a name with {only:?}");
        let length = block.len() as u64;
        let mut rng = Rng::of(&[seed, &[round / length, 77]].concat());
        for last in (1..block.len()).rev() {
            block.swap(last, rng.below(last as u64 + 1) as usize);
        }
        block[(round % length) as usize]
    }

    /// Every server stays who it is: nobody takes anything over.
    pub fn keeps_owners(self) -> bool {
        matches!(
            self,
            Self::FreezePostgres | Self::RestartPostgres | Self::Unreachable
        )
    }

    /// The Chat is in memory, so its messages go with an owner that is killed or fenced.
    pub fn loses_chat(self) -> bool {
        matches!(self, Self::Kill | Self::KillForLonger | Self::Suspend)
    }

    /// No stream is cut.
    pub fn keeps_streams(self) -> bool {
        self == Self::FreezePostgres
    }

    /// How often a model call may be made again.
    pub fn repeated_calls(self) -> u64 {
        match self {
            Self::FreezePostgres | Self::RestartPostgres | Self::Failover | Self::Unreachable => 0,
            Self::Kill | Self::KillForLonger | Self::Suspend | Self::WrongClock => 1,
            Self::RollingRestart => 3,
        }
    }

    /// Lets it happen and pass. Gives the time after which everybody was served again, where that
    /// is bounded.
    pub async fn inflict(
        self,
        installation: &mut Installation,
        rng: &mut Rng,
        load: &Load,
    ) -> Result<Option<Duration>, String> {
        match self {
            Self::Kill => {
                let victim = owner(installation, rng).await;
                let settings = installation.settings.clone();
                let server = &mut installation.servers[victim];
                server.kill().await?;
                let killed_at = Instant::now();
                server.start(&settings).await?;
                let took = killed_at.elapsed();
                if took > BACK_WITHIN {
                    let number = server.number;
                    return Err(format!(
                        "server {number} took {took:?} to start again on its own folder"
                    ));
                }
            }
            Self::KillForLonger => {
                let victim = owner(installation, rng).await;
                return kill_for_longer(installation, victim, load).await.map(Some);
            }
            Self::Suspend => {
                let victim = owner(installation, rng).await;
                return suspend(installation, victim, load).await.map(Some);
            }
            Self::FreezePostgres => {
                let frozen_ms = MIN_FROZEN_MS + rng.below(MAX_FROZEN_MS - MIN_FROZEN_MS);
                installation.postgres.freeze();
                tokio::time::sleep(Duration::from_millis(frozen_ms)).await;
                installation.postgres.thaw();
            }
            Self::RestartPostgres => installation.postgres.restart().await,
            Self::Unreachable => {
                let passage = rng.pick(&[Passage::Refused, Passage::Silent]);
                let blocked_ms = MIN_BLOCKED_MS + rng.below(MAX_BLOCKED_MS - MIN_BLOCKED_MS);
                let servers = &installation.servers;
                servers.iter().for_each(|server| server.relay.set(passage));
                tokio::time::sleep(Duration::from_millis(blocked_ms)).await;
                let open = Passage::Open;
                servers.iter().for_each(|server| server.relay.set(open));
            }
            Self::RollingRestart => {
                let settings = installation.settings.clone();
                for server in &mut installation.servers {
                    server.terminate().await?;
                    server.start(&settings).await?;
                    server.ready().await?;
                }
            }
            Self::WrongClock => wrong_clock(installation, rng).await?,
            Self::Failover => {
                let Some(standby) = installation.standby.take() else {
                    return Err("there is no standby".to_owned());
                };
                installation.postgres.kill();
                standby.promote().await;
                installation.postgres = standby;
            }
        }
        Ok(None)
    }
}

/// A server that owns something, if any says so.
async fn owner(installation: &Installation, rng: &mut Rng) -> usize {
    let mut owners = Vec::new();
    for (index, server) in installation.servers.iter().enumerate() {
        if server.owned().await > 0 {
            owners.push(index);
        }
    }
    if owners.is_empty() {
        owners = (0..installation.servers.len()).collect();
    }
    rng.pick(&owners)
}

async fn kill_for_longer(
    installation: &mut Installation,
    victim: usize,
    load: &Load,
) -> Result<Duration, String> {
    let killed_at = Instant::now();
    installation.servers[victim].kill().await?;
    let served = served_again(load, killed_at).await;
    let settings = installation.settings.clone();
    installation.servers[victim].start(&settings).await?;
    served
}

/// Every session took something that was sent after this moment, and every worker space did.
async fn served_again(load: &Load, since: Instant) -> Result<Duration, String> {
    let mut slowest = Duration::ZERO;
    for watched in &load.sessions {
        loop {
            let served = watched.served().filter(|served| served.sent > since);
            if let Some(served) = served {
                slowest = slowest.max(served.answered - since);
                break;
            }
            if since.elapsed() > SERVED_WITHIN {
                let id = &watched.id;
                let trouble = watched.ledger().trouble.clone();
                return Err(format!(
                    "{id} was not served within {SERVED_WITHIN:?}; errors so far: {trouble:?}"
                ));
            }
            tokio::time::sleep(POLL).await;
        }
    }
    for person in &load.people {
        slowest = slowest.max(space_answers(person, since).await?);
    }
    match slowest <= SERVED_WITHIN {
        true => Ok(slowest),
        false => Err(format!("it took {slowest:?} until everybody was served")),
    }
}

async fn space_answers(person: &Person, since: Instant) -> Result<Duration, String> {
    loop {
        let answer = person.attach().await;
        let elapsed = since.elapsed();
        match answer {
            Ok(()) => return Ok(elapsed),
            Err(error) if elapsed > SERVED_WITHIN => {
                return Err(format!(
                    "user {} was not served within {SERVED_WITHIN:?}: {error}",
                    person.user
                ));
            }
            Err(_) => tokio::time::sleep(POLL).await,
        }
    }
}

/// Others have taken over when they have ended the server's row, and each of them answers for
/// every session and every project. Clients through the load balancer may still wait for the
/// stopped server. When it goes on, it must find out and join again under another name.
async fn suspend(
    installation: &mut Installation,
    victim: usize,
    load: &Load,
) -> Result<Duration, String> {
    let stopped = &installation.servers[victim];
    let before = stopped.server_id().await.unwrap_or_default();
    let stopped_at = Instant::now();
    stopped.signal(Signal::STOP);
    let taken = taken_over(installation, victim, (&before, stopped_at), load).await;
    stopped.signal(Signal::CONT);
    let taken = taken?;
    let goes_on_at = Instant::now();
    while stopped.server_id().await.is_none_or(|now| now == before) {
        if goes_on_at.elapsed() > REJOINS_WITHIN {
            return Err(format!("server {} did not join again", stopped.number));
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(taken)
}

async fn taken_over(
    installation: &Installation,
    victim: usize,
    (server_id, since): (&str, Instant),
    load: &Load,
) -> Result<Duration, String> {
    let ended = format!("SELECT ended FROM servers WHERE server_id = '{server_id}'");
    while installation.postgres.ask(&ended).await != "1" {
        if since.elapsed() > TAKEN_WITHIN {
            return Err(format!(
                "nobody ended the stopped server within {TAKEN_WITHIN:?}"
            ));
        }
        tokio::time::sleep(POLL).await;
    }
    let others = installation.servers.iter().enumerate();
    for (_, server) in others.filter(|(index, _)| *index != victim) {
        for watched in &load.sessions {
            answers_for(&server.client(), watched, since).await?;
        }
    }
    Ok(since.elapsed())
}

async fn answers_for(
    client: &Client,
    watched: &Watched,
    since: Instant,
) -> Result<Duration, String> {
    loop {
        match client.pending_approvals(&watched.id).await {
            // One that nobody has made yet is nobody's.
            Ok(_) | Err(ClientError::Status { status: 404, .. }) => return Ok(since.elapsed()),
            Err(error) if since.elapsed() > TAKEN_WITHIN => {
                let id = &watched.id;
                return Err(format!(
                    "{id} was not taken over within {TAKEN_WITHIN:?}: {error}"
                ));
            }
            Err(_) => tokio::time::sleep(POLL).await,
        }
    }
}

/// The monotonic clock stays true.
async fn wrong_clock(installation: &mut Installation, rng: &mut Rng) -> Result<(), String> {
    let Some(library) = fake_clock() else {
        println!("skipped: the package faketime is missing");
        return Ok(());
    };
    let victim = rng.below(installation.servers.len() as u64) as usize;
    let offset = rng.pick(&["+60s", "-60s"]);
    let mut settings = installation.settings.clone();
    let path = library.display().to_string();
    for (name, value) in [
        ("LD_PRELOAD", path.as_str()),
        ("FAKETIME", offset),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ("DONT_FAKE_MONOTONIC", "1"),
    ] {
        settings.more.push((name.to_owned(), value.to_owned()));
    }
    let server = &mut installation.servers[victim];
    server.terminate().await?;
    server.start(&settings).await?;
    server.ready().await?;
    let before = installation.server_ids().await;
    tokio::time::sleep(WRONG_CLOCK).await;
    let after = installation.server_ids().await;
    match before == after {
        true => Ok(()),
        false => Err(format!(
            "a clock off by {offset} made servers {before:?} into {after:?}"
        )),
    }
}

fn fake_clock() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.flatten();
    let libraries = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
    libraries.into_iter().find(|library| library.exists())
}
