//! The rounds of one installation: load, one fault, recovery, check. Every few rounds all sessions
//! are brought to their end, checked as a whole and replaced.

mod summary;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use codelab_client::{Backoff, repeated};
use codelab_protocol::{Digest, SessionId};
use tokio::task::JoinSet;

use crate::announcer::Announcer;
use crate::fault::{Fault, Load};
use crate::installation::Installation;
use crate::person::Person;
use crate::workload::check::check;
use crate::workload::found::Found;
use crate::workload::plan::{Plan, asked_step};
use crate::workload::report;
use crate::workload::requests::{self, Told};
use crate::workload::rng::Rng;
use crate::workload::visit::{Manner, Reach, Visit, Watched};

use summary::Summary;

const SERVERS: usize = 3;
/// Sessions of the runtime kind, and users with a session of a project, at the same time.
const SESSIONS: u64 = 4;
const PEOPLE: i64 = 2;
const ROUNDS_PER_GENERATION: u64 = 3;
/// The load before the fault, and after the recovery from it.
const MIN_LOAD_MS: u64 = 100;
const MAX_LOAD_MS: u64 = 500;
const CLIENTS_TIMEOUT: Duration = Duration::from_secs(60);
const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Reads that check something; nothing is wrong any more, so little patience is needed.
const READ_BACKOFF: Backoff = Backoff {
    first_delay_ms: 50,
    max_delay_ms: 500,
    attempts: 10,
    max_retry_after_ms: 1_000,
};

pub struct Trial {
    /// The seed, and the number of the installation.
    seed: [u64; 2],
    round: u64,
    fault: Option<Fault>,
    installation: Installation,
    load: Load,
    generation: u64,
    /// What the model was told of the calls of the present sessions.
    told: Told,
    /// Model requests of the present sessions that were checked.
    requests_checked: usize,
    /// Steps of the present sessions that the model was asked for in earlier rounds.
    asked: BTreeMap<(String, usize), u64>,
    /// Sessions that have ended, and must stay as they are.
    ended: Vec<(SessionId, Digest)>,
    summary: Summary,
}

impl Trial {
    /// The rounds of one installation of their own. Gives what was done.
    pub async fn run(seed: u64, number: u64, rounds: u64) -> Result<String, String> {
        let Some(installation) = Installation::start(SERVERS, &[]).await else {
            return Ok("skipped: the program haproxy is missing".to_owned());
        };
        let only = std::env::var("CODELAB_CLUSTER_FAULTS").unwrap_or_default();
        let only: Vec<&str> = only.split(',').filter(|part| !part.is_empty()).collect();
        let faults: Vec<Fault> = (0..rounds)
            .map(|round| Fault::of_round(&[seed, number], round, &only))
            .collect();
        Self::on(installation, [seed, number], &faults).await
    }

    /// One round for each of the faults.
    pub async fn on(
        installation: Installation,
        seed: [u64; 2],
        faults: &[Fault],
    ) -> Result<String, String> {
        let begun = Instant::now();
        let announcer = Announcer::new(installation.client.clone());
        let mut trial = Self {
            seed,
            round: 0,
            fault: None,
            installation,
            load: Load {
                sessions: Vec::new(),
                people: Vec::new(),
                announcer,
            },
            generation: 0,
            told: Told::new(),
            requests_checked: 0,
            asked: BTreeMap::new(),
            ended: Vec::new(),
            summary: Summary::default(),
        };
        let [seed, number] = seed;
        if let Err(what) = trial.rounds(faults).await {
            let fault = trial.fault.map_or("no fault yet", Fault::name);
            let folder = trial.installation.folder().display();
            return Err(format!(
                "installation {number} failed in round {} ({fault}) of seed {seed}\n{what}\n{}\n\
                 the data is in {folder}",
                trial.round, trial.summary
            ));
        }
        let text = format!(
            "installation {number}: {} rounds in {} s\n{}",
            faults.len(),
            begun.elapsed().as_secs(),
            trial.summary
        );
        trial.installation.remove();
        Ok(text)
    }

    async fn rounds(&mut self, faults: &[Fault]) -> Result<(), String> {
        let rounds = faults.len() as u64;
        self.new_generation().await?;
        for (round, fault) in (1..).zip(faults) {
            self.round = round;
            self.load_and_fault(*fault).await?;
            if round % ROUNDS_PER_GENERATION == 0 || round == rounds {
                self.settle_and_check().await?;
                if round < rounds {
                    self.new_generation().await?;
                }
            }
        }
        self.check_ended().await?;
        self.verify_audit().await
    }

    async fn new_generation(&mut self) -> Result<(), String> {
        self.generation += 1;
        self.told.clear();
        self.asked.clear();
        self.requests_checked = 0;
        self.installation.model.reset();
        self.installation.model.route_to("coder");
        let id = |number: u64| SessionId::parse(&format!("g{}s{number}", self.generation)).unwrap();
        self.load.sessions = (1..=SESSIONS)
            .map(|number| Arc::new(Watched::new(id(number))))
            .collect();
        for watched in &self.load.sessions {
            watched.ledger().readers_lag = true;
        }
        self.load.people.clear();
        for user in 1..=PEOPLE {
            let client = self.installation.user(user).await;
            let model = Arc::clone(&self.installation.model);
            self.load
                .people
                .push(Arc::new(Person::new(user, client, model).await?));
        }
        Ok(())
    }

    async fn load_and_fault(&mut self, fault: Fault) -> Result<(), String> {
        self.fault = Some(fault);
        let begun = Instant::now();
        let mut rng = Rng::of(&[&self.seed[..], &[self.round]].concat());
        let ids = self.installation.server_ids().await;
        let visits = self.visits(Manner::Busy);
        let mut clients = JoinSet::new();
        for (number, visit) in visits.iter().enumerate() {
            let seed = [&self.seed[..], &[self.round, number as u64 + 1]].concat();
            clients.spawn(visit.clone().run(Rng::of(&seed)));
        }
        for person in &self.load.people {
            let seed = [&self.seed[..], &[self.round, 100 + person.user as u64]].concat();
            clients.spawn(Arc::clone(person).busy(Rng::of(&seed)));
        }
        let seed = [&self.seed[..], &[self.round, 200]].concat();
        clients.spawn(Arc::clone(&self.load.announcer).busy(Rng::of(&seed)));
        let mut load_ms = || MIN_LOAD_MS + rng.below(MAX_LOAD_MS - MIN_LOAD_MS);
        let (before, after) = (load_ms(), load_ms());
        tokio::time::sleep(Duration::from_millis(before)).await;
        let inflicted = fault
            .inflict(&mut self.installation, &mut rng, &self.load)
            .await;
        let recovered = self.installation.ready().await;
        tokio::time::sleep(Duration::from_millis(after)).await;
        visits.iter().for_each(Visit::end);
        self.load.people.iter().for_each(|person| person.end());
        self.load.announcer.end();
        let joined = self.join(clients, CLIENTS_TIMEOUT).await;
        // What the clients noted says more than what came of it.
        self.no_violations()?;
        let served_after = inflicted?;
        recovered?;
        joined?;
        self.check_requests(fault.repeated_calls())?;
        self.servers_live()?;
        self.promises_kept(fault, &ids, begun).await?;
        self.load.announcer.check(fault.loses_chat()).await?;
        self.summary.round(fault, begun.elapsed(), served_after);
        Ok(())
    }

    async fn promises_kept(
        &self,
        fault: Fault,
        ids: &[Option<String>],
        begun: Instant,
    ) -> Result<(), String> {
        let now = self.installation.server_ids().await;
        if fault.keeps_owners() && now != ids {
            return Err(format!("the servers were {ids:?} and are now {now:?}"));
        }
        let cuts = self.cuts_since(begun);
        if fault.keeps_streams() && !cuts.is_empty() {
            return Err(format!("streams were cut:\n{}", cuts.join("\n")));
        }
        Ok(())
    }

    fn cuts_since(&self, begun: Instant) -> Vec<String> {
        let mut cuts = Vec::new();
        for watched in &self.load.sessions {
            let ledger = watched.ledger();
            let since = ledger.cuts.iter().filter(|(at, _)| *at > begun);
            cuts.extend(since.map(|(at, why)| {
                let after_ms = at.duration_since(begun).as_millis();
                format!("{} after {after_ms} ms: {why}", watched.id)
            }));
        }
        cuts
    }

    fn visits(&self, manner: Manner) -> Vec<Visit> {
        let visit = |watched: &Arc<Watched>| {
            Visit::new(
                Arc::clone(watched),
                self.installation.client.clone(),
                Arc::clone(&self.installation.model),
                manner,
                Reach::Balanced,
            )
        };
        self.load.sessions.iter().map(visit).collect()
    }

    /// What the model was asked since the last look. A call may be repeated only so often.
    fn check_requests(&mut self, repeats: u64) -> Result<(), String> {
        let mut plans: BTreeMap<String, Plan> = BTreeMap::new();
        for watched in &self.load.sessions {
            let ledger = watched.ledger();
            let sent = ledger.messages.iter();
            plans.extend(sent.map(|sent| (sent.plan.text(), sent.plan.clone())));
        }
        for person in &self.load.people {
            let own = person.plans().into_iter();
            plans.extend(own.map(|plan| (plan.text(), plan)));
        }
        let requests = self.installation.model.requests();
        let mut asked: BTreeMap<(String, usize), u64> = BTreeMap::new();
        for request in &requests[self.requests_checked..] {
            self.summary.tally.model_requests += 1;
            let problems = requests::check(&request.body, &plans, &mut self.told);
            if !problems.is_empty() {
                return Err(problems.join("\n"));
            }
            if let Some((text, step)) = asked_step(&request.body) {
                *asked.entry((text.to_owned(), step)).or_default() += 1;
            }
        }
        self.requests_checked = requests.len();
        for ((text, step), times) in asked {
            if times > 1 + repeats {
                return Err(format!(
                    "the model was asked {times} times for step {step} of {text:?}"
                ));
            }
            let before = self.asked.entry((text, step)).or_default();
            self.summary.tally.repeated_model_calls += times - u64::from(*before == 0);
            *before += times;
        }
        Ok(())
    }

    async fn join(&self, mut clients: JoinSet<()>, within: Duration) -> Result<(), String> {
        let all = async {
            while let Some(ended) = clients.join_next().await {
                ended.map_err(|error| format!("a client broke: {error}"))?;
            }
            Ok(())
        };
        if let Ok(ended) = tokio::time::timeout(within, all).await {
            return ended;
        }
        let mut said = vec![format!("not everything came to its end within {within:?}")];
        for person in &self.load.people {
            said.push(format!(
                "user {}: messages {:?} are unknown, {:?}",
                person.user,
                person.unknown(),
                person.found().await
            ));
        }
        let sessions = self.load.sessions.iter();
        said.extend(sessions.map(|watched| report::session(watched, None)));
        Err(said.join("\n"))
    }

    fn no_violations(&self) -> Result<(), String> {
        for watched in &self.load.sessions {
            let violations = watched.ledger().violations.clone();
            if !violations.is_empty() {
                let session = report::session(watched, None);
                return Err(format!("{}\n{session}", violations.join("\n")));
            }
        }
        for person in &self.load.people {
            let violations = person.violations();
            if !violations.is_empty() {
                let what = violations.join("\n");
                return Err(format!(
                    "user {} in {}: {what}",
                    person.user, person.session
                ));
            }
        }
        Ok(())
    }

    fn servers_live(&mut self) -> Result<(), String> {
        for server in &mut self.installation.servers {
            server.check_alive()?;
        }
        Ok(())
    }

    async fn settle_and_check(&mut self) -> Result<(), String> {
        let visits = self.visits(Manner::Settling);
        let mut clients = JoinSet::new();
        for (number, visit) in visits.iter().enumerate() {
            let seed = [&self.seed[..], &[self.round, number as u64 + 1, 2]].concat();
            clients.spawn(visit.clone().run(Rng::of(&seed)));
        }
        for person in &self.load.people {
            clients.spawn(Arc::clone(person).settle());
        }
        let joined = self.join(clients, SETTLE_TIMEOUT).await;
        visits.iter().for_each(Visit::end);
        self.load.people.iter().for_each(|person| person.end());
        self.no_violations()?;
        joined?;
        self.check_requests(0)?;
        for watched in &self.load.sessions {
            let digest = self.check_session(watched).await?;
            self.ended.push((watched.id.clone(), digest));
        }
        for person in &self.load.people {
            let problems = person.found().await.map_err(|error| error.to_string())?;
            if !problems.is_empty() {
                return Err(problems.join("\n"));
            }
        }
        self.summary.add(&self.load);
        Ok(())
    }

    async fn found(&self, id: &SessionId) -> Result<Found, String> {
        let client = &self.installation.client;
        let found = repeated(READ_BACKOFF, || Found::fetch(client, id)).await;
        found.map_err(|error| format!("{id}: {error}"))
    }

    async fn check_session(&self, watched: &Watched) -> Result<Digest, String> {
        let found = self.found(&watched.id).await?;
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

    /// Sessions that had ended did not change by all the faults since.
    async fn check_ended(&self) -> Result<(), String> {
        for (id, digest) in &self.ended {
            let found = self.found(id).await?;
            if found.digest() != *digest {
                let shown = report::found(&found);
                return Err(format!("{id} had ended and has changed since\n{shown}"));
            }
        }
        Ok(())
    }

    async fn verify_audit(&self) -> Result<(), String> {
        let output = self.installation.codelab(&["audit", "verify"]).await;
        let said = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        match output.status.success() && said.contains("audit log whole") {
            true => Ok(()),
            false => Err(format!("codelab audit verify: {said}")),
        }
    }
}
