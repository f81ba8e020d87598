//! What a tool runner works with: file tools beneath one root, search, commands in a sandbox, and a journal
//! that keeps a call from running twice.
//!
//! Nothing here talks to a server or asks a person. A tool that fails is data for the model, so
//! [`Workspace::run`] has no error; only opening a workspace or a journal does. Unix only; the
//! sandbox is for Linux.

mod before;
mod brought;
mod difference;
mod error;
mod failpoint;
mod journal;
mod options;
mod output;
mod root;
mod sandbox;
mod seen;
mod swap;
mod text;
mod tools;
mod walk;
mod workspace;

pub use before::BeforeLimits;
pub use brought::{
    BroughtFiles, FoundContents, FoundSkill, FoundText, InstructionFolders, SkillFile, SkillHead,
    read_mcp_file, skill_head,
};
pub use error::OpenError;
pub use failpoint::ClientFailpoint;
pub use journal::{CallKey, Journal, JournalClaim, JournalError, UnfinishedCall};
pub use options::{Bounds, Network, WorkspaceLimits, WorkspaceOptions};
pub use sandbox::{Detection, Launcher, Sandbox, sandbox_exec};
pub use seen::ReadingAgent;
pub use tools::{FileNow, WriteQuestion};
pub use workspace::{Call, RunOutcome, Workspace};
