//! One agent's memory, filled and then searched through the API.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use codelab_bench::LabelledSet;
use hyper::Method;
use serde_json::{Value, json};

use super::{LoadReport, Times};
use crate::wire::{LoadTarget, Wire};

const FILLERS: usize = 32;
/// Texts of the labelled set in one interaction.
const TEXTS: usize = 3;
const TOP_K: usize = 10;
/// Only the last interaction contains this text. When a search finds it, everything before it is in
/// the index.
const LAST_WORD: &str = "zyzzyva";
const INDEX_LIMIT: Duration = Duration::from_secs(180);
const INDEX_LOOK: Duration = Duration::from_millis(200);

pub async fn run(
    target: &LoadTarget,
    interactions: usize,
    searches: usize,
) -> anyhow::Result<LoadReport> {
    let set = LabelledSet::read()?;
    let mut wire = Wire::open(target).await?;
    let agents = agents_path(&mut wire).await?;
    fill(target, &agents, &set, interactions).await?;
    // The first connection was idle for too long.
    let mut wire = Wire::open(target).await?;
    until_indexed(&mut wire, &agents).await?;
    let mut times = Vec::with_capacity(searches);
    let began = Instant::now();
    for query in set.queries.iter().cycle().take(searches) {
        let began = Instant::now();
        let found = search(&mut wire, &agents, &query.text).await?;
        times.push(began.elapsed());
        ensure!(
            found > 0 || query.kind == codelab_bench::QueryKind::Paraphrase,
            "the search found nothing: {}",
            query.text
        );
    }
    let seconds = began.elapsed().as_secs_f64();
    Ok(LoadReport {
        count: searches,
        seconds,
        whole_ms: Times::of(times),
        ..LoadReport::default()
    })
}

async fn agents_path(wire: &mut Wire) -> anyhow::Result<String> {
    let list: Value = wire
        .json(Method::GET, "/my/projects/", String::new())
        .await?;
    let project = list["projects"][0]["project_id"]
        .as_i64()
        .context("the answer has no default project")?;
    let agents = format!("/my/projects/{project}/agents/");
    let made: Value = wire
        .json(
            Method::POST,
            &agents,
            json!({ "name": "remembering" }).to_string(),
        )
        .await?;
    Ok(format!(
        "{agents}{}/context/",
        made["agent_id"]
            .as_str()
            .context("the new agent has no id")?
    ))
}

async fn fill(
    target: &LoadTarget,
    context: &str,
    set: &LabelledSet,
    interactions: usize,
) -> anyhow::Result<()> {
    let texts: Arc<Vec<String>> = Arc::new(
        set.interactions
            .iter()
            .map(|labelled| labelled.text.clone())
            .collect(),
    );
    let next = Arc::new(AtomicUsize::new(0));
    let mut fillers = tokio::task::JoinSet::new();
    for _ in 0..FILLERS {
        let (mut wire, context, texts, next) = (
            Wire::open(target).await?,
            context.to_owned(),
            texts.clone(),
            next.clone(),
        );
        fillers.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number + 1 >= interactions {
                    return anyhow::Ok(());
                }
                let _added: Value = wire
                    .json(Method::POST, &context, interaction(&texts, number))
                    .await?;
            }
        });
    }
    while let Some(filler) = fillers.join_next().await {
        filler??;
    }
    let mut wire = Wire::open(target).await?;
    let _added: Value = wire
        .json(
            Method::POST,
            context,
            json!({ "text": LAST_WORD }).to_string(),
        )
        .await?;
    Ok(())
}

fn interaction(texts: &[String], number: usize) -> String {
    // A step that shares no factor with the size of the set combines different texts for a long
    // time.
    let parts: Vec<&str> = (0..TEXTS)
        .map(|part| texts[(number * (part * 2 + 1) + part) % texts.len()].as_str())
        .collect();
    json!({ "text": format!("{} {number}", parts.join(" ")), "type": "task", "success": !number.is_multiple_of(7) })
        .to_string()
}

async fn until_indexed(wire: &mut Wire, context: &str) -> anyhow::Result<()> {
    let began = Instant::now();
    while search(wire, context, LAST_WORD).await? == 0 {
        ensure!(
            began.elapsed() < INDEX_LIMIT,
            "the index was not complete after {} s",
            INDEX_LIMIT.as_secs()
        );
        tokio::time::sleep(INDEX_LOOK).await;
    }
    Ok(())
}

async fn search(wire: &mut Wire, context: &str, query: &str) -> anyhow::Result<usize> {
    let body = json!({ "query": query, "top_k": TOP_K }).to_string();
    let found: Value = wire
        .json(Method::POST, &format!("{context}search/"), body)
        .await?;
    Ok(found["results"]
        .as_array()
        .context("the search has no results")?
        .len())
}
