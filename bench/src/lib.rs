//! The labelled set of `data/retrieval`: what agents did and said, queries, and the interactions
//! that answer each query.

use std::fmt;
use std::path::Path;

use anyhow::Context;
use serde::Deserialize;
use serde::de::DeserializeOwned;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/retrieval");

pub struct LabelledSet {
    pub interactions: Vec<Labelled>,
    pub queries: Vec<LabelledQuery>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Labelled {
    pub id: u64,
    pub lang: QueryLanguage,
    #[serde(rename = "type")]
    pub kind: String,
    pub success: bool,
    pub text: String,
}

#[derive(Debug, Clone, Deserialize)]
pub struct LabelledQuery {
    pub lang: QueryLanguage,
    pub kind: QueryKind,
    pub text: String,
    /// The interactions that answer it, at least one.
    pub relevant: Vec<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueryLanguage {
    En,
    Ru,
    Uk,
}

/// How a query's words relate to the words of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueryKind {
    /// The query uses names and words of its answer in the same form.
    Exact,
    /// No word of the query that matters has the same form in the answer.
    WordForm,
    /// Some words have the same form, some have another.
    Mixed,
    /// The query uses other words for the same thing.
    Paraphrase,
}

impl LabelledSet {
    pub fn read() -> anyhow::Result<Self> {
        let folder = Path::new(FOLDER);
        Ok(Self {
            interactions: lines(&folder.join("interactions.jsonl"))?,
            queries: lines(&folder.join("queries.jsonl"))?,
        })
    }
}

impl fmt::Display for QueryLanguage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::En => "English",
            Self::Ru => "Russian",
            Self::Uk => "Ukrainian",
        })
    }
}

impl fmt::Display for QueryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Exact => "exact",
            Self::WordForm => "word form",
            Self::Mixed => "mixed",
            Self::Paraphrase => "paraphrase",
        })
    }
}

fn lines<T: DeserializeOwned>(file: &Path) -> anyhow::Result<Vec<T>> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let read = |(at, line)| {
        serde_json::from_str(line).with_context(|| format!("{}:{}", file.display(), at + 1))
    };
    text.lines().enumerate().map(read).collect()
}
