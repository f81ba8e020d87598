//! What a workspace brings: instructions and skills for models, commands for people, programs to
//! start. The bodies by which a client tells of it, and by which a person trusts it.

use serde::{Deserialize, Serialize};

use crate::{ClientId, Digest};

/// Files of instructions that one client tells of.
pub const MAX_INSTRUCTION_FILES: usize = 64;
/// One file of instructions, or one command.
pub const MAX_INSTRUCTION_BYTES: usize = 32 * 1024;
/// Skills that one client tells of, and commands.
pub const MAX_SKILLS: usize = 64;
/// The `SKILL.md` of a skill.
pub const MAX_SKILL_BYTES: usize = 64 * 1024;
pub const MAX_SKILL_NAME_CHARS: usize = 64;
pub const MAX_SKILL_DESCRIPTION_CHARS: usize = 1024;
/// Contents that wait for a person, of one client.
pub const MAX_WAITING_CONTENTS: usize = 64;
/// Files that are named of the folder of a skill that waits.
pub const MAX_NAMED_PARTS: usize = 256;
/// Sentences for people about what was passed over.
pub const MAX_INSTRUCTION_NOTICES: usize = 32;
pub const MAX_BROUGHT_PATH_BYTES: usize = 1024;
/// One report, as JSON.
pub const MAX_INSTRUCTIONS_REPORT_BYTES: usize = 1024 * 1024;
/// The texts of one client together.
pub const MAX_INSTRUCTION_TEXTS_BYTES: usize = 2 * 1024 * 1024;

/// A kind of content that a workspace can bring.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum BroughtKind {
    /// `.mcp.json`: programs that the tool runner starts.
    McpServers,
    /// `AGENTS.md` or `CLAUDE.md`.
    Instructions,
    /// A folder with a `SKILL.md`.
    Skill,
    /// A command for the terminal.
    Command,
}

/// A trusted file of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BroughtText {
    /// Within the workspace.
    #[schema(max_length = 1024)]
    pub path: String,
    /// SHA-256 of the content.
    pub digest: Digest,
    pub bytes: u64,
}

/// A trusted skill of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BroughtSkill {
    #[schema(max_length = 64)]
    pub name: String,
    #[schema(max_length = 1024)]
    pub description: String,
    /// Within the workspace. The files of the skill are here.
    #[schema(max_length = 1024)]
    pub folder: String,
    /// Covers every file of the folder.
    pub digest: Digest,
    /// SHA-256 of its `SKILL.md`.
    pub text: Digest,
    /// Of its `SKILL.md`.
    pub bytes: u64,
}

/// One file of a skill's folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BroughtPart {
    /// Within the folder.
    #[schema(max_length = 1024)]
    pub path: String,
    pub bytes: u64,
}

/// A content that does not count before a person trusts it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WaitingContent {
    pub kind: BroughtKind,
    /// Within the workspace; of a skill, its folder.
    #[schema(max_length = 1024)]
    pub path: String,
    pub digest: Digest,
    pub bytes: u64,
    /// Another content of this path was trusted before.
    #[serde(default)]
    pub changed: bool,
    /// The text as the file has it; of a skill, its `SKILL.md`.
    pub content: String,
    /// The content is left out because it is too long to be sent. It can be trusted where it is.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub truncated: bool,
    /// The files of a skill's folder.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub parts: Vec<BroughtPart>,
    /// A person trusted it in the page; the client has not taken that up yet.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub decided: bool,
}

/// Body of `PUT …/clients/{client_id}/instructions`: what the client's workspace brings now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct InstructionsReport {
    /// Trusted instructions. Models are told of them.
    #[serde(default)]
    pub files: Vec<BroughtText>,
    /// Trusted skills. Models can use them.
    #[serde(default)]
    pub skills: Vec<BroughtSkill>,
    /// Trusted commands, for people.
    #[serde(default)]
    pub commands: Vec<BroughtText>,
    #[serde(default)]
    pub waiting: Vec<WaitingContent>,
    /// What was passed over, and why.
    #[serde(default)]
    pub notices: Vec<String>,
}

impl InstructionsReport {
    /// Changes with everything in the report.
    pub fn digest(&self) -> Digest {
        Digest::of_json(&serde_json::to_value(self).unwrap_or_default())
    }

    /// The digests of the texts that models are told.
    pub fn texts(&self) -> impl Iterator<Item = &Digest> {
        let files = self.files.iter().map(|file| &file.digest);
        files.chain(self.skills.iter().map(|skill| &skill.text))
    }
}

/// The texts that the server does not have yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MissingTexts {
    pub missing: Vec<Digest>,
}

/// Body of `POST …/clients/{client_id}/instructions`: texts that the server asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SendTexts {
    pub texts: Vec<String>,
}

/// Body of `POST …/clients/{client_id}/trust`: a person trusts this very content.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TrustContent {
    pub kind: BroughtKind,
    #[schema(max_length = 1024)]
    pub path: String,
    pub digest: Digest,
}

impl WaitingContent {
    pub fn id(&self) -> TrustContent {
        TrustContent {
            kind: self.kind,
            path: self.path.clone(),
            digest: self.digest.clone(),
        }
    }
}

/// What a person trusted and the client has not taken up yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TrustDecisions {
    pub decisions: Vec<TrustContent>,
}

/// What the workspace of a client brings, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ClientInstructions {
    pub client_id: ClientId,
    pub workspace: String,
    /// Told to models: the one of the workspace's own folder always, another one once a file
    /// beneath its folder was touched.
    pub files: Vec<BroughtText>,
    pub skills: Vec<BroughtSkill>,
    pub commands: Vec<BroughtText>,
    /// Told to nobody before a person trusts it.
    pub waiting: Vec<WaitingContent>,
    pub notices: Vec<String>,
}
