//! Messages for failed model calls. Users see every text here, so it holds no address and no key.

use std::time::{Duration, SystemTime};

use codelab_protocol::{ErrorCode, ModelFailure, ModelFailureKind, Timestamp};
use serde_json::{Map, Value, json};

use super::deadline::Expired;
use crate::answer::Defect;
use crate::config::DEFAULT_PROVIDER;

/// Whom a call asked, for messages.
#[derive(Debug, Clone, Copy)]
pub struct Callee<'a> {
    pub provider: &'a str,
    /// The name that the provider knows.
    pub model: &'a str,
    pub key_setting: &'a str,
    pub url_setting: &'a str,
}

impl Callee<'_> {
    /// The model as a setting names it.
    pub fn full_name(&self) -> String {
        if self.provider == DEFAULT_PROVIDER {
            self.model.to_owned()
        } else {
            format!("{}/{}", self.provider, self.model)
        }
    }

    fn named(&self) -> String {
        if self.provider == DEFAULT_PROVIDER {
            "The model server".to_owned()
        } else {
            format!("The provider \"{}\"", self.provider)
        }
    }

    pub fn unavailable(&self) -> ModelFailure {
        let message = format!("{} cannot be reached.", self.named());
        self.failure(ModelFailureKind::Unreachable, message)
    }

    /// The connection broke before an answer began.
    pub fn dropped(&self) -> ModelFailure {
        let message = format!("{} closed the connection without an answer.", self.named());
        ModelFailure {
            code: ErrorCode::LlmError,
            ..self.failure(ModelFailureKind::Unreachable, message)
        }
    }

    pub fn timed_out(&self, expired: Expired, limit: Duration) -> ModelFailure {
        let seconds = seconds(limit);
        let message = match expired {
            Expired::Total => {
                format!("The model did not finish its answer within {seconds} seconds.")
            }
            Expired::Idle => format!("The model sent nothing for {seconds} seconds."),
        };
        let mut failure = self.failure(ModelFailureKind::Timeout, message);
        failure
            .details
            .insert("timeout_seconds".to_owned(), seconds);
        failure
    }

    /// The server redirects. The request is not repeated elsewhere, because it carries the key.
    pub fn redirected(&self, status: u16) -> ModelFailure {
        let message = format!(
            "{} redirects to another address (HTTP {status}). Redirects are not followed, because \
             they would carry the key along. Set {} to the new address; the server's log names \
             its host.",
            self.named(),
            self.url_setting
        );
        let mut failure = self.failure(ModelFailureKind::Nonsense, message);
        failure.details.insert("status".to_owned(), status.into());
        failure
    }

    pub fn defective(&self, defect: &Defect) -> ModelFailure {
        use ModelFailureKind::{Nonsense, ServerError};
        let (kind, message) = match defect {
            Defect::Cut => (ServerError, "The model's answer was cut off."),
            Defect::NotAnAnswer => (
                Nonsense,
                "The model server sent something that is not an answer.",
            ),
            Defect::TooLarge => (Nonsense, "The model's answer is too large."),
            Defect::Reported(_) => (
                ServerError,
                "The model server reported an error while answering.",
            ),
        };
        self.failure(kind, message.to_owned())
    }

    /// The provider refused the call, or reported an error in its answer. `wait` is the time that
    /// it announced.
    pub fn refused(
        &self,
        kind: ModelFailureKind,
        status: Option<u16>,
        said: Option<String>,
        wait: Option<Duration>,
    ) -> ModelFailure {
        let http = status.map_or_else(String::new, |status| format!(" (HTTP {status})"));
        let (who, model) = (self.named(), self.model);
        let message = match kind {
            ModelFailureKind::WrongKey => {
                format!("{who} refused the key{http}. Check {}.", self.key_setting)
            }
            ModelFailureKind::UnknownModel if said.is_none() => {
                format!("{who} does not know the model \"{model}\" or its own address{http}.")
            }
            ModelFailureKind::UnknownModel => {
                format!("{who} does not know the model \"{model}\"{http}.")
            }
            ModelFailureKind::ContextTooLong => {
                format!("The request is too long for the model \"{model}\"{http}.")
            }
            ModelFailureKind::ContentFilter => {
                format!("{who} refused the request by its content filter{http}.")
            }
            ModelFailureKind::RateLimit => rate_limited(&who, &http, wait),
            ModelFailureKind::Quota => {
                format!("{who} says that the account has no quota or credit left{http}.")
            }
            ModelFailureKind::Overloaded => format!("{who} is overloaded{http}. Try again later."),
            ModelFailureKind::ServerError => format!("{who} failed{http}."),
            ModelFailureKind::Timeout => {
                format!("{who} did not get an answer from the model in time{http}.")
            }
            ModelFailureKind::Unreachable => format!("{who} cannot be reached."),
            ModelFailureKind::Nonsense => format!("{who} refused the request{http}."),
        };
        let message = match &said {
            Some(said) => format!("{message} It says: \"{said}\""),
            None => message,
        };
        let mut failure = self.failure(kind, message);
        failure.provider_message = said;
        if let Some(status) = status {
            failure.details.insert("status".to_owned(), status.into());
        }
        if let Some((wait, until)) = wait.and_then(|wait| Some((wait, until(wait)?))) {
            let details = &mut failure.details;
            details.insert("until".to_owned(), until.to_string().into());
            details.insert("retry_after_seconds".to_owned(), whole_seconds(wait).into());
        }
        failure
    }

    fn failure(&self, kind: ModelFailureKind, message: String) -> ModelFailure {
        let code = match kind {
            ModelFailureKind::Unreachable => ErrorCode::LlmProxyUnavailable,
            ModelFailureKind::Timeout => ErrorCode::LlmTimeout,
            ModelFailureKind::WrongKey
            | ModelFailureKind::UnknownModel
            | ModelFailureKind::ContextTooLong
            | ModelFailureKind::ContentFilter
            | ModelFailureKind::RateLimit
            | ModelFailureKind::Quota
            | ModelFailureKind::Overloaded
            | ModelFailureKind::ServerError
            | ModelFailureKind::Nonsense => ErrorCode::LlmError,
        };
        ModelFailure {
            code,
            message,
            kind: Some(kind),
            provider_message: None,
            details: Map::from_iter([("model".to_owned(), self.full_name().into())]),
        }
    }
}

fn rate_limited(who: &str, http: &str, wait: Option<Duration>) -> String {
    match wait.and_then(until) {
        Some(until) => format!("{who} is rate limited until {until}."),
        None => format!("{who} is rate limited{http}. Try again later."),
    }
}

fn until(wait: Duration) -> Option<Timestamp> {
    SystemTime::now().checked_add(wait).map(Timestamp::from)
}

/// Rounded up, as in `Retry-After`.
fn whole_seconds(duration: Duration) -> u64 {
    duration
        .as_secs()
        .saturating_add(u64::from(duration.subsec_nanos() > 0))
}

fn seconds(duration: Duration) -> Value {
    if duration.subsec_nanos() == 0 {
        json!(duration.as_secs())
    } else {
        json!(duration.as_secs_f64())
    }
}
