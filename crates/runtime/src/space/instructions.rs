//! What the workspaces of attached clients bring: trusted instructions and skills, which sessions are
//! told, and contents that wait for a person. It is in memory only, and gone with its client.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use codelab_engine::{InstructionFile, Instructions, Skill};
use codelab_protocol::{
    BroughtKind, BroughtSkill, BroughtText, ClientId, ClientInstructions, Digest,
    InstructionsReport, MAX_BROUGHT_PATH_BYTES, MAX_INSTRUCTION_BYTES, MAX_INSTRUCTION_FILES,
    MAX_INSTRUCTION_NOTICES, MAX_INSTRUCTION_TEXTS_BYTES, MAX_INSTRUCTIONS_REPORT_BYTES,
    MAX_NAMED_PARTS, MAX_SKILL_BYTES, MAX_SKILL_DESCRIPTION_CHARS, MAX_SKILL_NAME_CHARS,
    MAX_SKILLS, MAX_WAITING_CONTENTS, TrustContent, WaitingContent,
};
use tokio::time::timeout;

use super::{Space, lock};

/// The reports and texts of all clients of a project together.
const MAX_BROUGHT_BYTES: usize = 32 * 1024 * 1024;
const MAX_NOTICE_CHARS: usize = 1000;
/// How long a model call waits for a client that was there before this server knew the project.
const REPORTED_WITHIN: Duration = Duration::from_secs(2);

/// Why a report, a text or a decision was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BroughtRefused {
    #[error("The client is not attached; attach it first")]
    Unknown,
    #[error("{what} is too large or too many; {most} at most")]
    TooLarge { what: &'static str, most: usize },
    #[error("{field} {why}")]
    Invalid {
        field: &'static str,
        why: &'static str,
    },
    #[error(
        "The workspaces of a project's clients bring at most {MAX_BROUGHT_BYTES} bytes together"
    )]
    Full,
    #[error("Nothing like that waits at this client")]
    NotWaiting,
    #[error("The content has changed since it was shown; look at it again")]
    Changed,
    #[error("The content is too large to be shown here; look at it with `codelab trust`")]
    NotShown,
}

/// What the workspace of one client brings.
#[derive(Clone)]
pub(super) struct Brought {
    /// Of the report; absent while texts are missing.
    pub known: Option<Digest>,
    pub bytes: usize,
    report: InstructionsReport,
    texts: BTreeMap<Digest, Arc<str>>,
    told: Arc<Instructions>,
    /// What a person trusted and the client has not taken up.
    decisions: Vec<TrustContent>,
}

impl Brought {
    /// `before`: what the client reported last. Its texts and decisions go on, as far as they are
    /// still about something.
    fn new(report: InstructionsReport, workspace: &str, before: Option<Self>) -> Self {
        let (mut texts, mut decisions) = before
            .map(|before| (before.texts, before.decisions))
            .unwrap_or_default();
        let wanted: BTreeSet<&Digest> = report.texts().collect();
        texts.retain(|digest, _| wanted.contains(digest));
        decisions.retain(|decision| report.waiting.iter().any(|w| w.id() == *decision));
        let mut brought = Self {
            known: None,
            bytes: 0,
            report,
            texts,
            told: Arc::default(),
            decisions,
        };
        brought.settle(workspace);
        brought
    }

    /// What follows from the report and the texts that are there.
    fn settle(&mut self, workspace: &str) {
        let texts = &self.texts;
        let file = |file: &BroughtText| {
            Some(InstructionFile {
                path: file.path.clone(),
                digest: file.digest.clone(),
                text: Arc::clone(texts.get(&file.digest)?),
            })
        };
        let skill = |skill: &BroughtSkill| {
            Some(Skill {
                name: skill.name.clone(),
                description: skill.description.clone(),
                folder: skill.folder.clone(),
                digest: skill.digest.clone(),
                text: Arc::clone(texts.get(&skill.text)?),
            })
        };
        let files = self.report.files.iter().filter_map(file);
        let skills = self.report.skills.iter().filter_map(skill);
        self.told = Arc::new(Instructions::new(workspace, files, skills));
        let json = serde_json::to_string(&self.report).map_or(0, |json| json.len());
        self.bytes = json + self.texts.values().map(|text| text.len()).sum::<usize>();
        let is_whole = self.missing().is_empty();
        self.known = is_whole.then(|| self.report.digest());
    }

    fn missing(&self) -> Vec<Digest> {
        let missing = self.report.texts();
        let missing: BTreeSet<&Digest> = missing
            .filter(|digest| !self.texts.contains_key(*digest))
            .collect();
        missing.into_iter().cloned().collect()
    }

    pub fn told(&self) -> Arc<Instructions> {
        Arc::clone(&self.told)
    }

    pub fn waiting(&self) -> u64 {
        self.report.waiting.len() as u64
    }

    fn shown(&self, client_id: &ClientId, workspace: &str) -> ClientInstructions {
        let report = self.report.clone();
        let decided = |mut waiting: WaitingContent| {
            waiting.decided = self.decisions.contains(&waiting.id());
            waiting
        };
        ClientInstructions {
            client_id: client_id.clone(),
            workspace: workspace.to_owned(),
            files: report.files,
            skills: report.skills,
            commands: report.commands,
            waiting: report.waiting.into_iter().map(decided).collect(),
            notices: report.notices,
        }
    }
}

impl Space {
    /// What a session is told of its workspace: that of its client, or while it has none, of the
    /// client that alone could become it.
    pub(crate) fn instructions(&self, bound: Option<&ClientId>) -> Arc<Instructions> {
        let clients = lock(&self.clients);
        let brought = clients.instructing(bound);
        brought.map(Brought::told).unwrap_or_default()
    }

    /// Whether a client that this session belongs to will say soon what its workspace brings.
    pub(crate) fn awaits_instructions(&self, bound: Option<&ClientId>) -> bool {
        let is_new = self.made_at.elapsed() < REPORTED_WITHIN;
        let clients = lock(&self.clients);
        bound.is_some_and(|bound| clients.will_report(bound, is_new))
    }

    /// Waits for that, but not long: after a restart a turn goes on with its instructions.
    pub(crate) async fn instructions_ready(&self, bound: Option<&ClientId>) {
        let mut changed = self.brought.subscribe();
        let ready =
            async { while self.awaits_instructions(bound) && changed.changed().await.is_ok() {} };
        if timeout(REPORTED_WITHIN, ready).await.is_err() {
            tracing::debug!(project = %self.key.project, "a model call is made without the instructions of a client that did not come back");
        }
    }

    /// Takes what a client says its workspace brings. Answers with the texts that are missing here.
    pub fn report_instructions(
        &self,
        client: &ClientId,
        mut report: InstructionsReport,
    ) -> Result<Vec<Digest>, BroughtRefused> {
        check(&report)?;
        report.notices.iter_mut().for_each(tidy);
        for waiting in &mut report.waiting {
            waiting.decided = false;
        }
        let mut clients = lock(&self.clients);
        let others = clients.brought_bytes_of_others(client);
        let (workspace, before) = clients
            .take_brought(client)
            .ok_or(BroughtRefused::Unknown)?;
        let brought = Brought::new(report, &workspace, before.clone());
        if others + brought.bytes > MAX_BROUGHT_BYTES {
            // What it reported before still counts.
            if let Some(before) = before {
                clients.keep_brought(client, before);
            }
            return Err(BroughtRefused::Full);
        }
        let missing = brought.missing();
        clients.keep_brought(client, brought);
        drop(clients);
        self.brought.send_modify(|version| *version += 1);
        Ok(missing)
    }

    /// Takes texts that were missing. Answers with those that still are.
    pub fn take_texts(
        &self,
        client: &ClientId,
        texts: Vec<String>,
    ) -> Result<Vec<Digest>, BroughtRefused> {
        let mut clients = lock(&self.clients);
        let others = clients.brought_bytes_of_others(client);
        let known = clients.brought(client).ok_or(BroughtRefused::Unknown)?;
        let mut room = MAX_INSTRUCTION_TEXTS_BYTES;
        room = room.saturating_sub(known.texts.values().map(|text| text.len()).sum());
        let mut taken = Vec::new();
        for text in texts {
            let digest = Digest::of_bytes(text.as_bytes());
            let most = known.most_bytes(&digest).ok_or(BroughtRefused::Invalid {
                field: "texts",
                why: "must be texts that the client reported",
            })?;
            if text.len() > most {
                let what = "A text";
                return Err(BroughtRefused::TooLarge { what, most });
            }
            room = match known.texts.contains_key(&digest) {
                true => room,
                false => room
                    .checked_sub(text.len())
                    .ok_or(BroughtRefused::TooLarge {
                        what: "All texts together",
                        most: MAX_INSTRUCTION_TEXTS_BYTES,
                    })?,
            };
            taken.push((digest, Arc::from(text)));
        }
        let bytes: usize = taken
            .iter()
            .map(|(_, text): &(_, Arc<str>)| text.len())
            .sum();
        if others + known.bytes + bytes > MAX_BROUGHT_BYTES {
            return Err(BroughtRefused::Full);
        }
        let (workspace, before) = clients
            .take_brought(client)
            .ok_or(BroughtRefused::Unknown)?;
        let Some(mut brought) = before else {
            return Err(BroughtRefused::Unknown);
        };
        brought.texts.extend(taken);
        brought.settle(&workspace);
        let missing = brought.missing();
        clients.keep_brought(client, brought);
        drop(clients);
        self.brought.send_modify(|version| *version += 1);
        Ok(missing)
    }

    /// What the workspace of a client brings, for people. A client that told nothing brings nothing.
    pub fn client_instructions(&self, client: &ClientId) -> Option<ClientInstructions> {
        let clients = lock(&self.clients);
        let workspace = clients.folder_of(client)?;
        let nothing = || ClientInstructions {
            client_id: client.clone(),
            workspace: workspace.to_owned(),
            files: Vec::new(),
            skills: Vec::new(),
            commands: Vec::new(),
            waiting: Vec::new(),
            notices: Vec::new(),
        };
        let brought = clients.brought(client);
        Some(brought.map_or_else(nothing, |brought| brought.shown(client, workspace)))
    }

    /// A person trusts a content that waits. The client takes that up when it asks.
    pub fn trust_content(
        &self,
        client: &ClientId,
        trusted: TrustContent,
    ) -> Result<WaitingContent, BroughtRefused> {
        let mut clients = lock(&self.clients);
        let brought = clients
            .brought_mut(client)
            .ok_or(BroughtRefused::NotWaiting)?;
        let same = |waiting: &&WaitingContent| {
            waiting.kind == trusted.kind && waiting.path == trusted.path
        };
        let waiting = brought.report.waiting.iter().find(same);
        let waiting = waiting.ok_or(BroughtRefused::NotWaiting)?;
        if waiting.digest != trusted.digest {
            return Err(BroughtRefused::Changed);
        }
        if waiting.truncated {
            return Err(BroughtRefused::NotShown);
        }
        let waiting = WaitingContent {
            decided: true,
            ..waiting.clone()
        };
        if !brought.decisions.contains(&trusted) {
            tracing::info!(project = %self.key.project, %client, path = trusted.path, digest = %trusted.digest, "a person trusted a content of a workspace");
            // No more than there are contents that wait.
            brought.decisions.push(trusted);
        }
        Ok(waiting)
    }

    /// What people trusted and the client has not taken up yet.
    pub fn trust_decisions(&self, client: &ClientId) -> Option<Vec<TrustContent>> {
        let clients = lock(&self.clients);
        clients.folder_of(client)?;
        let brought = clients.brought(client);
        Some(brought.map_or_else(Vec::new, |brought| brought.decisions.clone()))
    }
}

impl Brought {
    /// How long a text that was reported may be.
    fn most_bytes(&self, digest: &Digest) -> Option<usize> {
        let report = &self.report;
        if report.skills.iter().any(|skill| skill.text == *digest) {
            return Some(MAX_SKILL_BYTES);
        }
        let is_file = report.files.iter().any(|file| file.digest == *digest);
        is_file.then_some(MAX_INSTRUCTION_BYTES)
    }
}

fn check(report: &InstructionsReport) -> Result<(), BroughtRefused> {
    let json = serde_json::to_string(report).map_or(usize::MAX, |json| json.len());
    let most = [
        ("The report", json, MAX_INSTRUCTIONS_REPORT_BYTES),
        ("files", report.files.len(), MAX_INSTRUCTION_FILES),
        ("skills", report.skills.len(), MAX_SKILLS),
        ("commands", report.commands.len(), MAX_SKILLS),
        ("waiting", report.waiting.len(), MAX_WAITING_CONTENTS),
        ("notices", report.notices.len(), MAX_INSTRUCTION_NOTICES),
    ];
    for (what, count, most) in most {
        if count > most {
            return Err(BroughtRefused::TooLarge { what, most });
        }
    }
    let invalid = |field, why| Err(BroughtRefused::Invalid { field, why });
    let mut folders = BTreeSet::new();
    for file in &report.files {
        let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
        if !matches!(name, "AGENTS.md" | "CLAUDE.md") || !is_path(&file.path) {
            return invalid("files", "must be AGENTS.md or CLAUDE.md in the workspace");
        }
        if !folders.insert(folder) {
            return invalid("files", "must be one of each folder");
        }
        if file.bytes as usize > MAX_INSTRUCTION_BYTES || !is_digest(&file.digest) {
            return invalid("files", "must have a SHA-256 and at most 32 KiB");
        }
    }
    let mut names = BTreeSet::new();
    for skill in &report.skills {
        let description = skill.description.chars().count();
        if !is_skill_name(&skill.name) || !names.insert(&skill.name) {
            return invalid("skills", "must have different names of a-z, 0-9 and -");
        }
        if skill.description.trim().is_empty() || description > MAX_SKILL_DESCRIPTION_CHARS {
            return invalid("skills", "must have a description of 1 to 1024 characters");
        }
        let has_digests = is_digest(&skill.digest) && is_digest(&skill.text);
        if !is_path(&skill.folder) || !has_digests || skill.bytes as usize > MAX_SKILL_BYTES {
            return invalid("skills", "must have a folder, digests and at most 64 KiB");
        }
    }
    let is_known = |command: &BroughtText| is_path(&command.path) && is_digest(&command.digest);
    if !report.commands.iter().all(is_known) {
        return invalid(
            "commands",
            "must have a path in the workspace and a SHA-256",
        );
    }
    let mut ids = BTreeSet::new();
    for waiting in &report.waiting {
        let parts = waiting.parts.len() <= MAX_NAMED_PARTS
            && waiting.parts.iter().all(|part| is_path(&part.path));
        let kind = waiting.kind;
        if !is_path(&waiting.path) || !is_digest(&waiting.digest) || !parts {
            return invalid("waiting", "must have a path in the workspace and a SHA-256");
        }
        if !ids.insert((kind, &waiting.path))
            || (kind != BroughtKind::Skill && !waiting.parts.is_empty())
        {
            return invalid("waiting", "must name each content once");
        }
    }
    Ok(())
}

/// A path within a workspace, on one line.
fn is_path(path: &str) -> bool {
    let is_name = |name: &str| !matches!(name, "" | "." | "..");
    path.len() <= MAX_BROUGHT_PATH_BYTES
        && !path.chars().any(char::is_control)
        && path.split('/').all(is_name)
}

fn is_digest(digest: &Digest) -> bool {
    let is_hex = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
    digest.as_str().len() == 64 && digest.as_str().bytes().all(is_hex)
}

fn is_skill_name(name: &str) -> bool {
    let is_letter = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    (1..=MAX_SKILL_NAME_CHARS).contains(&name.len()) && name.bytes().all(is_letter)
}

/// What a client says is for people, and can be anything.
fn tidy(notice: &mut String) {
    let shown = notice.chars().take(MAX_NOTICE_CHARS);
    *notice = shown
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
}
