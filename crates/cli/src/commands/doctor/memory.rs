//! Agents' memories: something is kept and found again by the engine inside the process, in a
//! folder of its own; a Qdrant server is asked what it has.

use std::path::Path;
use std::sync::Arc;

use codelab_memory::{
    CollectionName, Filter, Memory, MemoryEntry, MemoryEntryId, MemoryError, MemoryHealth, Query,
};
use codelab_protocol::{AgentName, ProjectId, UserId};
use codelab_server::Settings;
use tokio::time::timeout;

use super::Subject;
use super::report::DoctorFinding;
use crate::commands::now;

const CHECK: &str = "memory";
const TEXT: &str = "The doctor was here.";

pub async fn check(subject: Arc<Subject>) -> DoctorFinding {
    match subject.settings.spaces.qdrant_url.is_some() {
        true => qdrant(&subject).await,
        false => embedded(&subject).await,
    }
}

async fn qdrant(subject: &Subject) -> DoctorFinding {
    let (location, setting) = (
        subject.shown("qdrant.url"),
        subject.place_of("qdrant.url", "QDRANT_URL"),
    );
    let memory = match codelab_server::memory(&subject.settings) {
        Ok(memory) => memory,
        Err(error) => return wrong(&error.to_string()),
    };
    let asked = timeout(subject.limit / 2, memory.collections()).await;
    match asked.unwrap_or_else(|_| {
        Err(MemoryError::Unavailable {
            reason: "it does not answer".to_owned(),
        })
    }) {
        Ok(found) => {
            let found = format!(
                "The Qdrant server at {location}{} has {} memories",
                subject.origin_of("qdrant.url"),
                found.len()
            );
            meaning(subject, found).await
        }
        Err(error) => DoctorFinding::warning(
            CHECK,
            format!(
                "The Qdrant server at {location} cannot be used: {}. Agents work without their memories.",
                reason(error)
            ),
            format!("Start Qdrant, or correct {setting} and QDRANT_API_KEY."),
        ),
    }
}

async fn embedded(subject: &Subject) -> DoctorFinding {
    let folder = subject.settings.data_dir.join("memory");
    let kept = match codelab_server::embedded_memory(&subject.settings, &folder) {
        // The first memory makes it.
        Ok(_) if !folder.is_dir() => Ok(Vec::new()),
        Ok(memory) => memory.collections().await,
        Err(error) => return wrong(&error.to_string()),
    };
    match kept {
        Ok(kept) => {
            let found = format!(
                "The engine inside the process works, with {} memories in {}",
                kept.len(),
                folder.display()
            );
            meaning(subject, found).await
        }
        Err(error) => DoctorFinding::warning(
            CHECK,
            format!(
                "{} cannot be read: {}. Agents work without their memories.",
                folder.display(),
                reason(error)
            ),
            "Correct its permissions, or remove it and run `codelab memory rebuild`.",
        ),
    }
}

/// Tries the engine and, through it, the embedding model, on a folder that is gone afterwards.
async fn meaning(subject: &Subject, found: String) -> DoctorFinding {
    let model = subject.settings.spaces.embedding_model.clone();
    if subject.settings.spaces.qdrant_url.is_some() && model.is_none() {
        return DoctorFinding::ok(CHECK, format!("{found}."));
    }
    let folder = match tempfile::tempdir() {
        Ok(folder) => folder,
        Err(error) => return no_trial(&error.to_string()),
    };
    let tried = timeout(subject.limit / 2, trial(&subject.settings, folder.path())).await;
    match (
        tried.unwrap_or_else(|_| Err("it did not end in time".to_owned())),
        model,
    ) {
        (Err(error), _) => no_trial(&error),
        (Ok(MemoryHealth::WordsOnly), Some(model)) => DoctorFinding::warning(
            CHECK,
            format!(
                "{found}, but the embedding model {model} does not answer, so only words are searched."
            ),
            format!(
                "Check {}: the model server must know it under /v1/embeddings.",
                subject.place_of("embedding.model", "EMBEDDING_MODEL")
            ),
        ),
        (Ok(MemoryHealth::Healthy), Some(model)) => DoctorFinding::ok(
            CHECK,
            format!("{found}; the embedding model {model} answers."),
        ),
        (Ok(MemoryHealth::Healthy | MemoryHealth::WordsOnly), None) => {
            DoctorFinding::ok(CHECK, format!("{found}."))
        }
        (Ok(MemoryHealth::Broken { .. }), _) => no_trial("what was kept cannot be opened"),
        (Ok(MemoryHealth::Unavailable { reason }), _) => no_trial(&reason),
    }
}

/// Keeps one text and finds it again.
async fn trial(settings: &Settings, folder: &Path) -> Result<MemoryHealth, String> {
    let memory =
        codelab_server::embedded_memory(settings, folder).map_err(|error| error.to_string())?;
    let found = keep_and_find(&memory).await;
    let health = memory.health().await;
    memory.close().await;
    match found.map_err(reason)? {
        true => Ok(health),
        false => Err("what was kept was not found again".to_owned()),
    }
}

async fn keep_and_find(memory: &Memory) -> Result<bool, MemoryError> {
    let invalid = || MemoryError::Invalid {
        reason: "the trial has no name".to_owned(),
    };
    let (user, project) = (
        UserId::new(1).ok_or_else(invalid)?,
        ProjectId::parse("1").ok_or_else(invalid)?,
    );
    let collection = CollectionName::new(
        user,
        project,
        &AgentName::parse("doctor").map_err(|_| invalid())?,
    )?;
    memory.create(&collection).await?;
    let interaction = MemoryEntry {
        id: MemoryEntryId(1),
        text: TEXT.to_owned(),
        kind: "trial".to_owned(),
        success: true,
        task_id: None,
        session_id: None,
        timestamp: now(),
        metadata: serde_json::Map::new(),
    };
    memory.add(&collection, vec![interaction]).await?;
    let query = Query {
        text: TEXT.to_owned(),
        top_k: 1,
        filter: Filter::default(),
    };
    Ok(memory
        .search(&collection, &query)
        .await?
        .iter()
        .any(|hit| hit.id == MemoryEntryId(1)))
}

fn reason(error: MemoryError) -> String {
    match error {
        MemoryError::Unavailable { reason } | MemoryError::Invalid { reason } => reason,
        missing @ MemoryError::NotFound { .. } => missing.to_string(),
    }
}

fn wrong(error: &str) -> DoctorFinding {
    DoctorFinding::problem(
        CHECK,
        format!("A setting cannot be used: {error}."),
        "Correct it: a server does not start with it.",
    )
}

fn no_trial(why: &str) -> DoctorFinding {
    let location = std::env::temp_dir();
    DoctorFinding::warning(
        CHECK,
        format!(
            "A trial of the memory engine in {} failed: {why}.",
            location.display()
        ),
        "Make room and permission to write there, or set TMPDIR to another folder.",
    )
}
