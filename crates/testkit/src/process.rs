//! The `codelab` program as a process of its own.

use tokio::io::{AsyncBufRead, Lines};

/// Where a server that was just started says it is; `None` when it ends without a word of that.
pub async fn announced_url(stdout: &mut Lines<impl AsyncBufRead + Unpin>) -> Option<String> {
    while let Ok(Some(line)) = stdout.next_line().await {
        if let Some((_, url)) = line.split_once(" is at ") {
            return Some(url.trim().to_owned());
        }
    }
    None
}
