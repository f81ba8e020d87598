//! How much of time and memory a server gets.

use std::time::Duration;

/// Bounds of one server. The default is what people get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct McpLimits {
    /// Starting a server and agreeing on a protocol version.
    pub handshake_timeout: Duration,
    /// Listing all tools.
    pub list_timeout: Duration,
    /// One call, with the time in which a person answers the server's questions.
    pub call_timeout: Duration,
    /// A server that nobody calls for so long is stopped. The next call starts it again.
    pub idle_timeout: Duration,
    /// The pause before a server that failed is started again; it doubles with every failure.
    pub first_restart_pause: Duration,
    pub longest_restart_pause: Duration,
    /// A server that failed so often in a row is started again only by a call.
    pub max_restarts: u32,
    /// One message of a server: a line, an HTTP body or an event.
    pub max_message_bytes: usize,
    pub max_tools: usize,
    pub max_tool_pages: usize,
    /// One definition as JSON.
    pub max_definition_bytes: usize,
    /// All definitions of a server together.
    pub max_definitions_bytes: usize,
    /// The text of one result, and what it has of structured content.
    pub max_result_bytes: usize,
    /// The images of one result together, in base64.
    pub max_image_bytes: usize,
    pub max_images: usize,
    /// Questions to the person during one call. Later ones are declined unseen.
    pub max_elicitations: usize,
    /// Calls of one server that run at the same time. Others are refused.
    pub max_calls: usize,
}

impl Default for McpLimits {
    fn default() -> Self {
        Self {
            // The first start of a program often installs it.
            handshake_timeout: Duration::from_secs(60),
            list_timeout: Duration::from_secs(10),
            call_timeout: Duration::from_secs(600),
            idle_timeout: Duration::from_secs(600),
            first_restart_pause: Duration::from_secs(1),
            longest_restart_pause: Duration::from_secs(60),
            max_restarts: 5,
            max_message_bytes: 16 * 1024 * 1024,
            max_tools: 512,
            max_tool_pages: 64,
            max_definition_bytes: 64 * 1024,
            max_definitions_bytes: 2 * 1024 * 1024,
            max_result_bytes: 1024 * 1024,
            max_image_bytes: 8 * 1024 * 1024,
            max_images: 8,
            max_elicitations: 10,
            max_calls: 64,
        }
    }
}
