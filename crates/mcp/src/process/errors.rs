//! What a server writes to its standard error: the last of it is kept, for the person who asks why
//! it failed.

use std::sync::Arc;

use tokio::io::AsyncReadExt;
use tokio::process::ChildStderr;

use crate::failure::LastWords;

const READ_BYTES: usize = 4 * 1024;

pub async fn keep_last(mut errors: ChildStderr, last_words: Arc<LastWords>) {
    let mut piece = vec![0; READ_BYTES];
    while let Ok(read) = errors.read(&mut piece).await {
        if read == 0 {
            return;
        }
        last_words.hear(&piece[..read]);
    }
}
