//! The terminal user interface of `codelab chat`.
//!
//! It talks to a server through `codelab-client` only. It does not know whether that server runs in
//! the same process.

mod texts;
pub mod ui;

pub use texts::{
    CallText, CommandText, FolderText, Language, McpText, MemoryText, Text, Translated,
};
