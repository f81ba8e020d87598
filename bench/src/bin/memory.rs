//! `memory`: how long an agent's memory takes to create, to fill and to search, in the process.

#![allow(clippy::print_stdout, reason = "a benchmark says what it measured")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Parser;
use codelab_memory::{CollectionName, EdgeOptions, Filter, Interaction, InteractionId, Memory, Query};
use codelab_protocol::{AgentName, ProjectId, Timestamp, UserId};

const STARTERS: [&str; 4] = ["agent_coder", "agent_analyzer", "agent_writer", "agent_researcher"];
const BATCH: u64 = 250;
const SAMPLES: i64 = 200;
const VERBS: [&str; 8] = ["fixed", "reviewed", "исправил", "проверил", "виправив", "додав", "deployed", "tested"];
const THINGS: [&str; 8] = ["parser", "server", "ошибку", "файлы", "запити", "налаштування", "cache", "migration"];

/// Creating a project's four memories, adding to one, searching it, opening it again.
#[derive(Parser)]
struct Options {
    /// Folder on the disk to measure; a temporary one is made in it
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Interactions in the memory that is searched
    #[arg(long, default_value_t = 10_000)]
    interactions: u64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    ensure!(options.interactions >= BATCH, "--interactions must be at least {BATCH}");
    let folder = tempfile::tempdir_in(&options.dir)?;
    let memory = Memory::embedded(EdgeOptions::new(folder.path()), None);

    let mut creations = Vec::new();
    for project in 1..=SAMPLES {
        let started = Instant::now();
        for agent in STARTERS {
            memory.create(&name(project, agent)?).await?;
        }
        creations.push(started.elapsed());
    }
    print("create four", creations);

    let mut first = Vec::new();
    for project in 1..=SAMPLES {
        let started = Instant::now();
        memory.add(&name(project, STARTERS[1])?, vec![interaction(0)]).await?;
        first.push(started.elapsed());
    }
    print("first addition", first);

    let collection = name(1, STARTERS[0])?;
    let filled = Instant::now();
    for start in (0..options.interactions).step_by(BATCH as usize) {
        memory.add(&collection, (start..start + BATCH).map(interaction).collect()).await?;
    }
    println!("{:<24} {:>8.1} ms in batches of {BATCH}", "fill", millis(filled.elapsed()));

    let mut additions = Vec::new();
    for id in 0..SAMPLES as u64 {
        let started = Instant::now();
        memory.add(&collection, vec![interaction(options.interactions * 2 + id)]).await?;
        additions.push(started.elapsed());
    }
    print("add one", additions);
    print("search", searches(&memory, &collection, &Filter::default()).await?);
    let filter = Filter { kind: Some("task".into()), success: Some(true), ..Filter::default() };
    print("search with a filter", searches(&memory, &collection, &filter).await?);

    let mut openings = Vec::new();
    for _ in 0..20 {
        memory.close().await;
        let started = Instant::now();
        memory.count(&collection).await?;
        openings.push(started.elapsed());
    }
    print("open", openings);
    Ok(())
}

async fn searches(memory: &Memory, collection: &CollectionName, filter: &Filter) -> anyhow::Result<Vec<Duration>> {
    let mut times = Vec::new();
    for n in 0..SAMPLES as u64 {
        let text = format!("who {} the {} of module{}", pick(&VERBS, n), pick(&THINGS, n / 3), n % 97);
        let query = Query { text, top_k: 10, filter: filter.clone() };
        let started = Instant::now();
        let hits = memory.search(collection, &query).await?;
        times.push(started.elapsed());
        ensure!(!hits.is_empty(), "a search found nothing");
    }
    Ok(times)
}

fn name(project: i64, agent: &str) -> anyhow::Result<CollectionName> {
    let user = UserId::new(1).context("a positive id")?;
    let project = ProjectId::new(project).context("a positive id")?;
    Ok(CollectionName::new(user, project, &AgentName::parse(agent)?)?)
}

/// About 60 words, as a turn leaves them behind.
fn interaction(id: u64) -> Interaction {
    let sentence = |n: u64| {
        format!(
            "{} the {} of module{} because test{} failed. ",
            pick(&VERBS, n),
            pick(&THINGS, n / 8),
            n % 97,
            n % 1009
        )
    };
    Interaction {
        id: InteractionId(id),
        text: (0..7).map(|n| sentence(id * 7 + n)).collect(),
        kind: if id.is_multiple_of(2) { "task" } else { "chat" }.into(),
        success: !id.is_multiple_of(5),
        task_id: None,
        session_id: None,
        timestamp: Timestamp::from_millis(1_790_000_000_000 + id as i64),
        metadata: serde_json::Map::new(),
    }
}

fn pick<'a>(words: &[&'a str; 8], n: u64) -> &'a str {
    words[(n % 8) as usize]
}

fn print(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: usize| millis(times[(times.len() - 1) * share / 100]);
    println!("{what:<24} {:>8.2} ms median, {:>8.2} ms P95", at(50), at(95));
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
