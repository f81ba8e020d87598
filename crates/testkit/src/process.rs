//! The `codelab` program as a separate process.

use tokio::io::{AsyncBufRead, Lines};

/// The address that a starting server prints. `None` when the process ends without printing one.
pub async fn announced_url(stdout: &mut Lines<impl AsyncBufRead + Unpin>) -> Option<String> {
    while let Ok(Some(line)) = stdout.next_line().await {
        if let Some((_, url)) = line.split_once(" is at ") {
            return Some(url.trim().to_owned());
        }
    }
    None
}
