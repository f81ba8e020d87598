//! The rounds: start, look, load, kill; every few rounds bring all sessions to their end and check
//! everything.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use codelab_client::{Client, ClientError};
use codelab_fakemodel::FakeModel;
use codelab_protocol::{Digest, SessionId};
use tokio::task::JoinSet;

use crate::database::Place;
use crate::process::{Death, Launch, ServerProcess, Started};
use crate::workload::check::check;
use crate::workload::found::{Found, recovered};
use crate::workload::plan::{Pace, Plan, asked_step};
use crate::workload::report;
use crate::workload::requests::{self, Told};
use crate::workload::rng::Rng;
use crate::workload::tally::Tally;
use crate::workload::visit::{Manner, Reach, Visit, Watched};

/// Sessions that are used at the same time.
const SESSIONS: u64 = 4;
/// After so many rounds all sessions are brought to their end, checked and replaced.
const ROUNDS_PER_GENERATION: u64 = 8;
/// The longest load of a round; an armed server usually dies earlier.
const MAX_LOAD_MS: u64 = 160;
const MAX_ARMED_LOAD_MS: u64 = 300;
/// How many of a hundred messages have an answer that stalls in this run of the server.
const STALLING: u64 = 8;
/// How many of a hundred rounds end at an armed place rather than by SIGKILL.
const ARMED: u64 = 45;
const FAILPOINTS: [(&str, u64); 4] = [
    ("before_commit", 30),
    ("after_commit", 30),
    ("after_show", 30),
    ("model_finished", 10),
];
/// A server that is armed can die while it recovers; then it is started again, unarmed.
const MAX_STARTS: u64 = 4;
const CLIENTS_TIMEOUT: Duration = Duration::from_secs(20);
const SETTLE_TIMEOUT: Duration = Duration::from_secs(30);

pub async fn run(test: &str, place: Place, seed: u64, rounds: u64) {
    println!("{test}: seed {seed}, {rounds} rounds");
    let begun = Instant::now();
    let mut trial = Trial::new(place, seed);
    let ended = trial.rounds(rounds).await;
    if let Err(what) = ended {
        let place = trial.place.description();
        let tally = &trial.tally;
        panic!(
            "{test} failed in round {} of seed {seed}\n{what}\n{tally}\nthe data is in {place}\n\
             replay: CODELAB_CRASH_SEED={seed} CODELAB_CRASH_ROUNDS={rounds} cargo test --test crash {test}",
            trial.round
        );
    }
    println!(
        "{test}: {rounds} rounds in {} s, 0 failures\n{}",
        begun.elapsed().as_secs(),
        trial.tally
    );
    trial.place.remove().await;
}

struct Trial {
    seed: u64,
    round: u64,
    place: Place,
    sessions: Vec<Arc<Watched>>,
    generation: u64,
    /// What the model was told of the calls of the present sessions.
    told: Told,
    /// The steps of the present sessions that the model was asked for, in any run of the server.
    asked: BTreeSet<(String, usize)>,
    /// Sessions that have ended, and must stay as they are.
    ended: Vec<(SessionId, Digest)>,
    tally: Tally,
}

/// A server with its model, ready and looked at.
struct Live {
    process: Box<ServerProcess>,
    model: Arc<FakeModel>,
    failpoint: Option<String>,
}

impl Trial {
    fn new(place: Place, seed: u64) -> Self {
        let mut trial = Self {
            seed,
            round: 0,
            place,
            sessions: Vec::new(),
            generation: 0,
            told: Told::new(),
            asked: BTreeSet::new(),
            ended: Vec::new(),
            tally: Tally::default(),
        };
        trial.new_generation();
        trial
    }

    fn new_generation(&mut self) {
        self.generation += 1;
        let id = |number: u64| SessionId::parse(&format!("g{}s{number}", self.generation)).unwrap();
        self.sessions = (1..=SESSIONS)
            .map(|number| Arc::new(Watched::new(id(number))))
            .collect();
        self.told.clear();
        self.asked.clear();
    }

    async fn rounds(&mut self, rounds: u64) -> Result<(), String> {
        for round in 1..=rounds {
            self.round = round;
            self.load_and_kill().await?;
            if round % ROUNDS_PER_GENERATION == 0 || round == rounds {
                self.settle_and_check().await?;
                self.new_generation();
            }
        }
        self.check_ended().await?;
        self.verify_audit()
    }

    async fn load_and_kill(&mut self) -> Result<(), String> {
        let mut rng = Rng::of(&[self.seed, self.round]);
        let armed = rng.percent(ARMED);
        let (place, passes) = rng.pick(&FAILPOINTS);
        let failpoint = armed.then(|| format!("{place}:{}", 1 + rng.below(passes)));
        let load_ms = if armed {
            MAX_ARMED_LOAD_MS
        } else {
            1 + rng.below(MAX_LOAD_MS)
        };
        let live = self.start(failpoint, Manner::Busy).await?;
        let visits = self.visits(&live, Manner::Busy);
        let mut clients = JoinSet::new();
        for (number, visit) in visits.iter().enumerate() {
            clients.spawn(
                visit
                    .clone()
                    .run(Rng::of(&[self.seed, self.round, number as u64 + 1])),
            );
        }
        self.end(live, Duration::from_millis(load_ms), &visits)
            .await?;
        self.join(clients, CLIENTS_TIMEOUT).await?;
        self.no_violations()
    }

    fn visits(&self, live: &Live, manner: Manner) -> Vec<Visit> {
        let visit = |watched: &Arc<Watched>| {
            Visit::new(
                Arc::clone(watched),
                live.process.client.clone(),
                Arc::clone(&live.model),
                manner,
                Reach::OneServer,
            )
        };
        self.sessions.iter().map(visit).collect()
    }

    /// Starts the server and looks at every session; one that dies at its armed place meanwhile is
    /// started again.
    async fn start(&mut self, failpoint: Option<String>, manner: Manner) -> Result<Live, String> {
        let mut failpoint = failpoint;
        for attempt in 1..=MAX_STARTS {
            let model = Arc::new(FakeModel::start().await);
            self.teach(&model, manner, attempt);
            let launch = Launch {
                data_dir: self.place.folder(),
                database_url: self.place.database_url(),
                model_url: &model.url(),
                failpoint: failpoint.as_deref(),
            };
            match ServerProcess::start(&launch).await? {
                Started::Ready(process) => {
                    let live = Live {
                        process,
                        model,
                        failpoint: failpoint.clone(),
                    };
                    match self.look(&live).await {
                        Ok(()) => return Ok(live),
                        Err(ClientError::Connect(_) | ClientError::Cut(_))
                            if failpoint.is_some() =>
                        {
                            self.end(live, CLIENTS_TIMEOUT, &[]).await?;
                        }
                        Err(error) => {
                            return Err(format!(
                                "a session cannot be read after the restart: {error}"
                            ));
                        }
                    }
                }
                Started::Died => {
                    self.tally.killed(place_of(failpoint.as_deref()));
                    self.check_requests(&model)?;
                }
            }
            failpoint = None;
        }
        Err("the server keeps dying".to_owned())
    }

    /// The model follows every plan of the present sessions.
    fn teach(&self, model: &FakeModel, manner: Manner, attempt: u64) {
        let mut rng = Rng::of(&[self.seed, self.round, attempt, 1000]);
        model.route_to(rng.pick(&["coder", "coder", "coder", "debug"]));
        for watched in &self.sessions {
            for sent in &watched.ledger().messages {
                let stalls = rng.percent(STALLING) && manner == Manner::Busy;
                let step = rng.below(sent.plan.steps.len() as u64) as usize;
                let pace = match stalls {
                    true => Pace::StallsAt(step),
                    false => Pace::Quick,
                };
                sent.plan.teach(model, pace);
            }
        }
    }

    async fn look(&mut self, live: &Live) -> Result<(), ClientError> {
        for watched in &self.sessions {
            if let Some(after) =
                recovered(&live.process.client, live.process.started_at, watched).await?
            {
                self.tally.approval_back(after);
            }
        }
        Ok(())
    }

    /// Lets the server die, and checks what it asked the model until then.
    async fn end(&mut self, live: Live, after: Duration, visits: &[Visit]) -> Result<(), String> {
        let death = live.process.end_after(after).await;
        visits.iter().for_each(Visit::end);
        match death? {
            Death::Killed if after.is_zero() => self.tally.killed("SIGKILL when idle"),
            Death::Killed => self.tally.killed("SIGKILL"),
            Death::Aborted => self.tally.killed(place_of(live.failpoint.as_deref())),
        }
        self.check_requests(&live.model)
    }

    fn check_requests(&mut self, model: &FakeModel) -> Result<(), String> {
        let mut plans: BTreeMap<String, Plan> = BTreeMap::new();
        for watched in &self.sessions {
            plans.extend(
                watched
                    .ledger()
                    .messages
                    .iter()
                    .map(|sent| (sent.plan.text(), sent.plan.clone())),
            );
        }
        let mut asked = BTreeSet::new();
        for request in model.requests() {
            self.tally.model_requests += 1;
            let mut problems = requests::check(&request.body, &plans, &mut self.told);
            if let Some((text, step)) = asked_step(&request.body)
                && !asked.insert((text.to_owned(), step))
            {
                problems.push(format!(
                    "one server asked twice for step {step} of {text:?}"
                ));
            }
            if !problems.is_empty() {
                return Err(problems.join("\n"));
            }
        }
        self.tally.repeated_model_calls += asked.intersection(&self.asked).count() as u64;
        self.asked.append(&mut asked);
        Ok(())
    }

    async fn join(&self, mut clients: JoinSet<()>, within: Duration) -> Result<(), String> {
        let all = async {
            while let Some(ended) = clients.join_next().await {
                ended.map_err(|error| format!("a client broke: {error}"))?;
            }
            Ok(())
        };
        match tokio::time::timeout(within, all).await {
            Ok(ended) => ended,
            Err(_) => {
                let sessions: Vec<String> = self
                    .sessions
                    .iter()
                    .map(|watched| report::session(watched, None))
                    .collect();
                Err(format!(
                    "not everything came to its end within {within:?}\n{}",
                    sessions.join("\n")
                ))
            }
        }
    }

    fn no_violations(&self) -> Result<(), String> {
        for watched in &self.sessions {
            let violations = watched.ledger().violations.clone();
            if !violations.is_empty() {
                return Err(format!(
                    "{}\n{}",
                    violations.join("\n"),
                    report::session(watched, None)
                ));
            }
        }
        Ok(())
    }

    async fn settle_and_check(&mut self) -> Result<(), String> {
        let live = self.start(None, Manner::Settling).await?;
        let visits = self.visits(&live, Manner::Settling);
        let mut clients = JoinSet::new();
        for (number, visit) in visits.iter().enumerate() {
            clients.spawn(visit.clone().run(Rng::of(&[
                self.seed,
                self.round,
                number as u64 + 1,
                2,
            ])));
        }
        self.join(clients, SETTLE_TIMEOUT).await?;
        self.no_violations()?;
        self.end(live, Duration::ZERO, &visits).await?;
        // What the model was told is known now; a last start shows that nothing of the end is lost
        // either.
        let live = self.start(None, Manner::Settling).await?;
        for watched in self.sessions.clone() {
            let digest = self.check_session(&live.process.client, &watched).await?;
            self.tally.add(&watched.ledger());
            self.ended.push((watched.id.clone(), digest));
        }
        self.end(live, Duration::ZERO, &[]).await
    }

    async fn check_session(&self, client: &Client, watched: &Watched) -> Result<Digest, String> {
        let found = Found::fetch(client, &watched.id)
            .await
            .map_err(|error| format!("{}: {error}", watched.id))?;
        let problems = check(&watched.ledger(), &found, &self.told);
        match problems.is_empty() {
            true => Ok(found.digest()),
            false => Err(format!(
                "{}\n{}",
                problems.join("\n"),
                report::session(watched, Some(&found))
            )),
        }
    }

    /// Sessions that had ended did not change by all the kills since.
    async fn check_ended(&mut self) -> Result<(), String> {
        let live = self.start(None, Manner::Settling).await?;
        for (id, digest) in &self.ended {
            let found = Found::fetch(&live.process.client, id)
                .await
                .map_err(|error| format!("{id}: {error}"))?;
            if found.digest() != *digest {
                return Err(format!(
                    "{id} had ended and has changed since\n{}",
                    report::found(&found)
                ));
            }
        }
        self.end(live, Duration::ZERO, &[]).await
    }

    fn verify_audit(&self) -> Result<(), String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_codelab"));
        command
            .args(["audit", "verify", "--data-dir"])
            .arg(self.place.folder())
            .env_clear();
        if let Some(url) = self.place.database_url() {
            command.env("DATABASE_URL", url);
        }
        let output = command.output().map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        match output.status.success() && said.contains("audit log whole") {
            true => Ok(()),
            false => Err(format!("codelab audit verify: {said}")),
        }
    }
}

fn place_of(failpoint: Option<&str>) -> &str {
    failpoint
        .and_then(|text| text.split(':').next())
        .unwrap_or("nowhere")
}
