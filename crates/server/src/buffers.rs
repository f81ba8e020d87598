//! Limits the memory that slow clients use: request bodies that are still arriving, and answers that
//! the client has not read yet.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::HttpBody;
use axum::response::{IntoResponse, Response};
use codelab_protocol::{ErrorCode, UserId};

use crate::error::ApiError;
use crate::guarded::Guarded;

/// Maximum bytes that one user can make the server hold, unless a single body may be larger.
const MAX_USER_BYTES: usize = 64 << 20;
/// The same for all requests together.
const MAX_BYTES: usize = 512 << 20;
/// A smaller answer goes to the system's own buffers at once and is not counted.
const MIN_ANSWER_BYTES: u64 = 64 << 10;

pub(crate) struct Buffers {
    max_user_bytes: usize,
    max_bytes: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    bytes: usize,
    users: HashMap<UserId, usize>,
}

impl Buffers {
    /// With room for at least two bodies of the largest size.
    pub fn new(body_bytes: usize) -> Arc<Self> {
        let max_user_bytes = MAX_USER_BYTES.max(body_bytes.saturating_mul(2));
        let max_bytes = MAX_BYTES.max(max_user_bytes);
        Arc::new(Self {
            max_user_bytes,
            max_bytes,
            state: Mutex::default(),
        })
    }

    /// Nothing yet. Requests without a user count for the server only.
    pub fn hold(self: &Arc<Self>, user: Option<UserId>) -> HeldBytes {
        HeldBytes {
            buffers: Arc::clone(self),
            user,
            bytes: 0,
        }
    }

    /// The answer, which counts until its reader has received it. A refusal if the user already
    /// holds too much.
    pub fn answer(self: &Arc<Self>, user: UserId, response: Response) -> Response {
        let Some(bytes) = response
            .body()
            .size_hint()
            .exact()
            .filter(|bytes| *bytes >= MIN_ANSWER_BYTES)
        else {
            return response;
        };
        let mut held = self.hold(Some(user));
        match held.grow(usize::try_from(bytes).unwrap_or(usize::MAX)) {
            Ok(()) => response.map(|body| Guarded::body(body, held)),
            Err(refusal) => refusal.into_response(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes of one request. Dropping this frees them.
pub(crate) struct HeldBytes {
    buffers: Arc<Buffers>,
    user: Option<UserId>,
    bytes: usize,
}

impl HeldBytes {
    pub fn grow(&mut self, bytes: usize) -> Result<(), ApiError> {
        let Buffers {
            max_user_bytes,
            max_bytes,
            ..
        } = *self.buffers;
        let mut state = self.buffers.lock();
        if state.bytes.saturating_add(bytes) > max_bytes {
            return Err(full(
                "The server holds too many unfinished requests; come back later",
            ));
        }
        if let Some(user) = self.user {
            let of_user = state.users.entry(user).or_default();
            if of_user.saturating_add(bytes) > max_user_bytes {
                return Err(full(
                    "Too many of your requests are unfinished; read their answers or come back later",
                ));
            }
            *of_user += bytes;
        }
        state.bytes += bytes;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        let mut state = self.buffers.lock();
        state.bytes -= self.bytes;
        let Some(user) = self.user else { return };
        if let Some(of_user) = state.users.get_mut(&user) {
            *of_user -= self.bytes;
            if *of_user == 0 {
                state.users.remove(&user);
            }
        }
    }
}

fn full(message: &str) -> ApiError {
    ApiError::new(ErrorCode::RateLimited, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_a_bound_and_all_together_have_one() {
        let buffers = Buffers::new(1 << 20);
        let user = |id| UserId::new(id).expect("positive");
        let mut first = buffers.hold(Some(user(1)));
        assert!(first.grow(MAX_USER_BYTES).is_ok());
        assert!(first.grow(1).is_err());
        assert!(
            buffers.hold(Some(user(1))).grow(1).is_err(),
            "another request of the same user"
        );
        let others: Vec<HeldBytes> = (2..9)
            .map(|id| {
                let mut held = buffers.hold(Some(user(id)));
                assert!(held.grow(MAX_USER_BYTES).is_ok());
                held
            })
            .collect();
        assert!(
            buffers.hold(Some(user(9))).grow(1).is_err(),
            "the server's bound"
        );
        assert!(buffers.hold(None).grow(1).is_err());
        drop(first);
        assert!(buffers.hold(None).grow(1).is_ok());
        drop(others);
        let state = buffers.lock();
        assert_eq!((state.bytes, state.users.len()), (0, 0));
    }
}
