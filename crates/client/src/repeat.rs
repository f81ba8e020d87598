//! Retries of idempotent requests while the server cannot be reached.

use crate::{Backoff, ClientError};

/// Retries for more than a minute. A server that restarts is back by then.
pub const RESTART_BACKOFF: Backoff = Backoff {
    first_delay_ms: 50,
    max_delay_ms: 5_000,
    attempts: 20,
    max_retry_after_ms: 60_000,
};

/// Sends an idempotent request again while its error may pass, at most `backoff.attempts` times.
/// The exception is 429: the caller decides whether to wait.
pub async fn repeated<T, F: Future<Output = Result<T, ClientError>>>(
    backoff: Backoff,
    request: impl Fn() -> F,
) -> Result<T, ClientError> {
    let mut attempt = 0;
    loop {
        match request().await {
            Err(error)
                if error.is_passing()
                    && error.status() != Some(429)
                    && attempt < backoff.attempts =>
            {
                attempt += 1;
                tokio::time::sleep(backoff.delay(attempt)).await;
            }
            answer => return answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn only_errors_that_may_pass_are_retried_and_only_so_often() {
        let lost = || ClientError::Connect("refused".to_owned());
        let status = |status| ClientError::Status {
            status,
            body: None,
            text: String::new(),
            retry_after_seconds: None,
        };
        let at_once = Backoff {
            first_delay_ms: 0,
            max_delay_ms: 0,
            attempts: 3,
            ..Backoff::default()
        };
        let cases: [(usize, &dyn Fn() -> ClientError, usize, bool); 5] = [
            (0, &lost, 1, true),
            (3, &lost, 4, true),
            (4, &lost, 4, false),
            (1, &|| status(409), 1, false),
            (1, &|| status(429), 1, false),
        ];
        for (failures, error, requests, succeeds) in cases {
            let made = Cell::new(0);
            let answer = repeated(at_once, || {
                made.set(made.get() + 1);
                let answer = if made.get() > failures {
                    Ok(())
                } else {
                    Err(error())
                };
                async { answer }
            });
            assert_eq!(answer.await.is_ok(), succeeds, "{failures} failures");
            assert_eq!(made.get(), requests, "{failures} failures");
        }
    }
}
