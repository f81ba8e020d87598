//! Calls that an agent makes again and again.

use codelab_protocol::{Digest, ErrorCode, ErrorData, arguments_digest};

use super::{PlannedCall, Thread, error_data};

impl Thread {
    /// Counts identical calls in a row; too many end the thread.
    pub(super) fn repeats_itself(&mut self, call: &PlannedCall, limit: u32) -> Option<ErrorData> {
        let digest = match &call.arguments {
            Ok(arguments) => arguments_digest(&call.name, arguments),
            Err(error) => Digest::of_bytes(format!("{} {error}", call.name).as_bytes()),
        };
        self.repeats = if self.last_call.as_ref() == Some(&digest) {
            self.repeats + 1
        } else {
            1
        };
        self.last_call = Some(digest);
        if self.repeats <= limit {
            return None;
        }
        let message = format!(
            "{} was called {limit} times in a row with the same arguments",
            call.name
        );
        let mut error = error_data(ErrorCode::StepLimit, &message);
        error
            .details
            .insert("tool_name".to_owned(), call.name.clone().into());
        error.details.insert("repeats".to_owned(), limit.into());
        Some(error)
    }
}
