//! SQL for CodeLab: SQLite or PostgreSQL behind one `Store`, with a writer that shares one fsync
//! among waiting commits.
//!
//! It stores and reads rows. It decides nothing: callers decide what a row means and when to write
//! one.

pub mod audit_chain;
mod columns;
mod commit;
mod error;
mod inspect;
mod key;
mod mcp;
mod migrate;
mod options;
mod postgres;
mod project_session;
mod row;
mod sealed;
mod search;
mod sqlite;
mod statement;
mod store;
mod user;
mod vitals;

pub use commit::{
    ApprovalClosed, ApprovalExtended, ApprovalPreviewed, AuditAppended, Commit, NewContext,
    NewInput, NewSessionRow, ToolCallEnd, ToolCallOpened,
};
pub use error::StoreError;
pub use inspect::{DatabaseAccess, DatabaseClock, Inspection, SchemaState, inspect};
pub use key::{Epoch, SessionKey, SessionKeys};
pub use mcp::{
    Acceptance, AcceptedDefinition, McpAuthorizationRow, McpPermissionRow, McpServerChange,
    McpServerRow, NewDefinition, NewMcpServer,
};
pub use options::{DatabaseUrl, StoreOptions};
pub use project_session::{
    AgentUsageRow, ErasedInteraction, InteractionId, InteractionRow, NewInteraction, NewSpending,
    OpenApprovalRow, PlanRow, PlanSaved, ProjectBudget, ProjectPlanRow, ProjectSessionRow,
    ProjectUsageRow, SessionEdit, SessionUsageRow, UnfinishedSession, UnindexedInteraction,
    UsageRows, UsageSum, WaitingSession,
};
pub use row::{
    ApprovalRow, ApprovalStatus, AuditHead, AuditRecord, AuditRow, AuditSession, ContextRow,
    InputRow, Schedule, SessionLogRow, SessionMarks, SessionRef, SessionRow, StoredEvent,
    StoredMessage, StoredSwitch, ToolCallRow, ToolCallStatus,
};
pub use sealed::{Opened, SealingKey, SecretHeaders, SecretText};
pub use search::SearchWords;
pub use sqlite::backup::{Restored, restore_sqlite};
pub use store::{
    AgentLocation, AuditSealed, FoundSession, MAX_CHAT_HANDOVER_BYTES, MAX_DEFINITIONS_OF_TOOL,
    MessageRange, NewServer, OwnedRow, OwnedSession, OwnerRow, Ownership, ProjectStore, Search,
    ServerRow, Store, StoreStats, UserStore,
};
pub use user::{AgentChange, AgentRow, NewAgent, NewProject, ProjectChange, ProjectRow};
pub use vitals::Pulse;
