//! `codelab doctor`: whether this machine can run CodeLab as it is configured, part by part.
//!
//! Every part is really tried, at the same time as the others and within a time limit. Nothing is
//! made, changed or locked, so it can run beside a server; nothing secret is printed.

mod cache;
mod clock;
mod database;
mod folder;
mod machine;
mod memory;
mod model;
mod report;
mod running;
mod sandbox;
mod secrets;
mod served_model;
mod settings;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use codelab_server::{Explained, Settings, ShownSetting, Source};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use super::ServerPaths;
use report::{DoctorFinding, DoctorReport};

/// What the checks may take beyond the limit that they keep themselves.
const GRACE: Duration = Duration::from_secs(1);

/// For the end of its help.
pub const EXIT_CODES: &str =
    "Exit codes: 0 when CodeLab can be used, also with warnings; 1 when there is a problem.";

#[derive(Args)]
pub struct DoctorCommand {
    /// How long each check may take
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=300))]
    timeout: u64,
    /// Print one JSON object instead of lines
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    paths: ServerPaths,
}

/// What the checks are about.
struct Subject {
    settings: Settings,
    shown: Vec<ShownSetting>,
    limit: Duration,
}

impl DoctorCommand {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        let report = runtime.block_on(self.look());
        // What hangs is left behind.
        runtime.shutdown_background();
        Ok(report.end())
    }

    async fn look(&self) -> DoctorReport {
        let limit = Duration::from_secs(self.timeout);
        let mut report = DoctorReport::begin(self.json);
        report.tell(machine::version());
        let paths = self.paths.clone();
        let read = tokio::task::spawn_blocking(move || paths.explain());
        let explained = match timeout(limit, read).await {
            Ok(Ok(explained)) => explained,
            _ => {
                report.tell(settings::unreadable(self.timeout));
                return report;
            }
        };
        report.tell(settings::check(&explained));
        let Explained {
            settings,
            shown,
            data_dir,
        } = explained;
        if let Some(data_dir) = data_dir {
            let from = source_of(&shown, "data_dir");
            let work = tokio::task::spawn_blocking(move || folder::check(&data_dir, &from));
            let late = || vec![late("data folder", limit)];
            for finding in timeout(limit, work)
                .await
                .ok()
                .and_then(Result::ok)
                .unwrap_or_else(late)
            {
                report.tell(finding);
            }
        }
        report.tell(machine::open_files());
        match settings {
            Ok(settings) => {
                parts(
                    Arc::new(Subject {
                        settings,
                        shown,
                        limit,
                    }),
                    &mut report,
                )
                .await
            }
            // Without settings nobody knows which parts to try, but for the one that has none.
            Err(_) => {
                let sandbox = tokio::spawn(sandbox::check());
                report.tell(
                    Deadline::after(limit)
                        .of(sandbox, || late("sandbox", limit))
                        .await,
                );
            }
        }
        report
    }
}

/// All parts at once, told in their order.
async fn parts(subject: Arc<Subject>, report: &mut DoctorReport) {
    let limit = subject.limit;
    let deadline = Deadline::after(limit);
    let sandbox = tokio::spawn(sandbox::check());
    let database = tokio::spawn(database::check(Arc::clone(&subject)));
    let running = tokio::spawn(running::check(Arc::clone(&subject)));
    let cache = tokio::spawn(cache::check(Arc::clone(&subject)));
    let memory = tokio::spawn(memory::check(Arc::clone(&subject)));
    let model = tokio::spawn(model::check(Arc::clone(&subject)));

    report.tell(deadline.of(sandbox, || late("sandbox", limit)).await);
    let database = deadline
        .of(database, || {
            database::DatabaseCheck::failed(late("database", limit))
        })
        .await;
    report.tell(database.finding);
    let running = deadline
        .of(running, || {
            running::RunningServerCheck::failed(late("server", limit))
        })
        .await;
    report.tell(secrets::check(
        &subject,
        database.audit_key_fits,
        running.takes_our_key,
    ));
    report.tell(deadline.of(cache, || late("cache", limit)).await);
    report.tell(deadline.of(memory, || late("memory", limit)).await);
    let model = deadline
        .of(model, || model::ModelCheck::failed(late("model", limit)))
        .await;
    report.tell(model.finding);
    report.tell(clock::check(database.clock.into_iter().chain(model.clock)));
    report.tell(running.finding);
}

/// One for all, because they run at the same time.
struct Deadline(Instant);

impl Deadline {
    fn after(limit: Duration) -> Self {
        Self(Instant::now() + limit + GRACE)
    }

    async fn of<T>(&self, mut work: JoinHandle<T>, late: impl FnOnce() -> T) -> T {
        match timeout_at(self.0, &mut work).await {
            Ok(Ok(done)) => done,
            _ => {
                work.abort();
                late()
            }
        }
    }
}

impl Subject {
    /// Where a setting comes from, in brackets: `(LLM_PROXY_URL)`; nothing where nobody set it.
    fn origin_of(&self, setting: &str) -> String {
        match source_of(&self.shown, setting) {
            Source::Default => String::new(),
            source => format!(" ({})", name_of(&source)),
        }
    }

    /// What a person changes to change the setting: a variable, a file, or the usual variable.
    fn place_of(&self, setting: &str, usual: &str) -> String {
        match source_of(&self.shown, setting) {
            Source::Default => usual.to_owned(),
            Source::File(path) => format!("{setting} in {}", path.display()),
            source => name_of(&source),
        }
    }

    /// The setting as it may be shown.
    fn shown(&self, setting: &str) -> String {
        let found = self.shown.iter().find(|shown| shown.name == setting);
        found
            .and_then(|shown| shown.value.as_str())
            .unwrap_or_default()
            .to_owned()
    }
}

fn source_of(shown: &[ShownSetting], setting: &str) -> Source {
    let found = shown.iter().find(|shown| shown.name == setting);
    found.map_or(Source::Default, |shown| shown.source.clone())
}

fn name_of(source: &Source) -> String {
    match source {
        Source::Default => "default".to_owned(),
        Source::File(path) => path.display().to_string(),
        Source::Environment(name) => name.clone(),
        Source::Flag(name) => (*name).to_owned(),
    }
}

fn late(check: &'static str, limit: Duration) -> DoctorFinding {
    let found = format!("No answer within {} s.", limit.as_secs());
    DoctorFinding::problem(
        check,
        found,
        "Try again with a longer --timeout, and look at what hangs.",
    )
}
