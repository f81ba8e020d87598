//! The one place that asks what time it is.

use std::time::{SystemTime, UNIX_EPOCH};

use codelab_protocol::Timestamp;

pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
