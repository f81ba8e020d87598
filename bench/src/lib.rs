//! The labelled set of `data/retrieval`: what agents did and said, what is asked, and which of the
//! former answers it.

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
    /// The interactions that answer it: one or more.
    pub relevant: Vec<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueryLanguage {
    En,
    Ru,
    Uk,
}

/// How a query's words relate to those of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueryKind {
    /// Names and words as they stand there.
    Exact,
    /// None of its telling words stands there in the same form.
    WordForm,
    /// Some words in the same form, some in another.
    Mixed,
    /// Other words for the same thing.
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
