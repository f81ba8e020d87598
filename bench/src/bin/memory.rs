//! `memory`: how long it takes to create, fill and search an agent's memory inside the process.

#![allow(clippy::print_stdout, reason = "a benchmark says what it measured")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Parser;
use codelab_bench::LabelledSet;
use codelab_memory::{
    CollectionName, EmbeddedOptions, Embedder, EmbedderOptions, Filter, Memory, MemoryEntry,
    MemoryEntryId, MemoryHealth, Query,
};
use codelab_protocol::{AgentName, ProjectId, Timestamp, UserId};

const STARTERS: [&str; 4] = [
    "agent_coder",
    "agent_analyzer",
    "agent_writer",
    "agent_researcher",
];
const BATCH: u64 = 250;
const SAMPLES: i64 = 200;
/// Labelled interactions per text: about 60 words, as much as a turn stores.
const PARTS: u64 = 3;
const TOP_K: usize = 10;

/// Creates a project's four memories, adds to one, searches it, opens it again, and measures what
/// an open one occupies.
#[derive(Parser)]
struct Options {
    /// Folder on the disk to measure; a temporary folder is created in it
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Sizes of the memories that are searched, one after the other
    #[arg(long, value_delimiter = ',', default_value = "1000,10000,100000")]
    interactions: Vec<u64>,
    /// Server with an OpenAI-compatible /v1/embeddings; searches are then by meaning as well, and
    /// wait for its answers
    #[arg(long, requires = "model")]
    embeddings: Option<String>,
    /// Embedding model
    #[arg(long, requires = "embeddings")]
    model: Option<String>,
    /// Open memories that an earlier part of the program filled, and print what they occupy
    #[arg(long, hide = true)]
    opened: Option<usize>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    if let Some(collections) = options.opened {
        return print_occupied(&options.dir, collections).await;
    }
    let texts = Texts::new(LabelledSet::read()?);
    measure_small(&options.dir, &texts).await?;
    for &interactions in &options.interactions {
        ensure!(
            interactions.is_multiple_of(BATCH),
            "--interactions must be multiples of {BATCH}"
        );
        measure_filled(&options, &texts, interactions).await?;
    }
    Ok(())
}

async fn measure_small(dir: &Path, texts: &Texts) -> anyhow::Result<()> {
    let folder = tempfile::tempdir_in(dir)?;
    let memory = Memory::embedded(EmbeddedOptions::new(folder.path()), None);
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
        memory
            .add(&name(project, STARTERS[0])?, vec![texts.interaction(0)])
            .await?;
        first.push(started.elapsed());
    }
    print("first addition", first);
    memory.close().await;
    occupied(folder.path(), EmbeddedOptions::new(dir).max_open)
}

async fn measure_filled(options: &Options, texts: &Texts, interactions: u64) -> anyhow::Result<()> {
    println!("{interactions} interactions");
    let folder = tempfile::tempdir_in(&options.dir)?;
    let model = options.embeddings.as_ref().zip(options.model.as_ref());
    let embedder = model
        .map(|(url, model)| Embedder::new(EmbedderOptions::new(url, model)))
        .transpose()?;
    let memory = Memory::embedded(EmbeddedOptions::new(folder.path()), embedder);
    let collection = name(1, STARTERS[0])?;
    memory.create(&collection).await?;
    let filled = Instant::now();
    for start in (0..interactions).step_by(BATCH as usize) {
        memory
            .add(
                &collection,
                (start..start + BATCH)
                    .map(|id| texts.interaction(id))
                    .collect(),
            )
            .await?;
    }
    println!(
        "  {:<24} {:>8.2} s in batches of {BATCH}",
        "fill",
        filled.elapsed().as_secs_f64()
    );

    print(
        "search",
        searches(&memory, &collection, texts, &Filter::default()).await?,
    );
    let filter = Filter {
        kind: Some("task".into()),
        success: Some(true),
        ..Filter::default()
    };
    print(
        "search with a filter",
        searches(&memory, &collection, texts, &filter).await?,
    );

    let mut additions = Vec::new();
    for id in 0..SAMPLES as u64 {
        let started = Instant::now();
        memory
            .add(&collection, vec![texts.interaction(interactions + id)])
            .await?;
        additions.push(started.elapsed());
    }
    print("add one", additions);

    let mut openings = Vec::new();
    for _ in 0..20 {
        memory.close().await;
        let started = Instant::now();
        memory.count(&collection).await?;
        openings.push(started.elapsed());
    }
    print("open", openings);
    print(
        "search once opened",
        searches(&memory, &collection, texts, &Filter::default()).await?,
    );
    // A search still works when the model fails. Without this check a result could be that of words
    // alone.
    ensure!(
        memory.health().await == MemoryHealth::Healthy,
        "the embedding model failed"
    );
    memory.close().await;
    occupied(folder.path(), 1)
}

async fn searches(
    memory: &Memory,
    collection: &CollectionName,
    texts: &Texts,
    filter: &Filter,
) -> anyhow::Result<Vec<Duration>> {
    let mut times = Vec::new();
    let mut found = 0;
    for query in &texts.set.queries {
        let query = Query {
            text: query.text.clone(),
            top_k: TOP_K,
            filter: filter.clone(),
        };
        let started = Instant::now();
        let hits = memory.search(collection, &query).await?;
        times.push(started.elapsed());
        found += usize::from(!hits.is_empty());
    }
    ensure!(found > 0, "no search found anything");
    Ok(times)
}

/// Another process opens them, so that only their memory is counted.
fn occupied(root: &Path, collections: usize) -> anyhow::Result<()> {
    let mut process = Command::new(std::env::current_exe()?);
    let status = process
        .arg("--dir")
        .arg(root)
        .arg("--opened")
        .arg(collections.to_string())
        .status()?;
    ensure!(status.success(), "the process that opens memories failed");
    Ok(())
}

async fn print_occupied(root: &Path, collections: usize) -> anyhow::Result<()> {
    let texts = Texts::new(LabelledSet::read()?);
    let memory = Memory::embedded(
        EmbeddedOptions {
            max_open: collections,
            ..EmbeddedOptions::new(root)
        },
        None,
    );
    let before = Resident::now()?;
    for project in 1..=collections as i64 {
        memory.count(&name(project, STARTERS[0])?).await?;
    }
    Resident::now()?.print_since(&before, "memory, opened", collections);
    for project in 1..=collections as i64 {
        searches(
            &memory,
            &name(project, STARTERS[0])?,
            &texts,
            &Filter::default(),
        )
        .await?;
    }
    Resident::now()?.print_since(&before, "memory, searched", collections);
    Ok(())
}

/// What a process occupies, in KiB: its own memory, and file pages, which the system can reclaim.
struct Resident {
    own: u64,
    files: u64,
}

impl Resident {
    fn now() -> anyhow::Result<Self> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        let value = |field: &str| {
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
            line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok())
                .with_context(|| field.to_owned())
        };
        Ok(Self {
            own: value("RssAnon")?,
            files: value("RssFile")? + value("RssShmem")?,
        })
    }

    fn print_since(&self, before: &Self, what: &str, collections: usize) {
        let each =
            |now: u64, before: u64| now.saturating_sub(before) as f64 / collections as f64 / 1024.0;
        let (own, files) = (each(self.own, before.own), each(self.files, before.files));
        println!(
            "  {what:<24} {own:>8.2} MiB and {files:.2} MiB of files in each of {collections}"
        );
    }
}

fn name(project: i64, agent: &str) -> anyhow::Result<CollectionName> {
    let user = UserId::new(1).context("an id must be positive")?;
    let project = ProjectId::new(project).context("an id must be positive")?;
    Ok(CollectionName::new(
        user,
        project,
        &AgentName::parse(agent)?,
    )?)
}

/// Any number of interactions, composed from the labelled ones, so that words have natural
/// frequencies.
struct Texts {
    set: LabelledSet,
}

impl Texts {
    fn new(set: LabelledSet) -> Self {
        Self { set }
    }

    fn interaction(&self, id: u64) -> MemoryEntry {
        let text = |part| {
            self.set.interactions[scattered(id * PARTS + part) % self.set.interactions.len()]
                .text
                .as_str()
        };
        let parts: Vec<&str> = (0..PARTS).map(text).collect();
        MemoryEntry {
            id: MemoryEntryId(id),
            text: format!("{} (change {})", parts.join(" "), id * 7919 % 1_000_003),
            kind: if id.is_multiple_of(2) { "task" } else { "chat" }.into(),
            success: !id.is_multiple_of(5),
            task_id: None,
            session_id: None,
            timestamp: Timestamp::from_millis(1_790_000_000_000 + id as i64),
            metadata: serde_json::Map::new(),
        }
    }
}

/// The same number for the same `n`. A sequence of them shows no pattern.
fn scattered(n: u64) -> usize {
    let mixed = (n ^ (n >> 31))
        .wrapping_add(0x9e37_79b9)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 33) as usize
}

fn print(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: usize| millis(times[(times.len() - 1) * share / 100]);
    println!(
        "  {what:<24} {:>8.2} ms P50, {:>8.2} ms P95, {:>8.2} ms worst",
        at(50),
        at(95),
        at(100)
    );
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
