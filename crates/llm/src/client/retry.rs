//! When to try again: what servers announce in their headers, and pauses that grow.

use std::time::{Duration, SystemTime};

use codelab_protocol::{ModelFailureKind, Timestamp};
use http::HeaderMap;

use crate::config::CallLimits;

const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);
/// LiteLLM passes on the headers of the provider behind it under names of its own.
const PREFIXES: [&str; 2] = ["", "llm_provider-"];
/// A reset beyond this many seconds is a time of day and not a duration.
const MIN_EPOCH_SECONDS: f64 = 1_000_000_000.0;
const MIN_EPOCH_MS: f64 = 1_000_000_000_000.0;

/// A wait before the next attempt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pause {
    pub delay: Duration,
    /// Whether the server said how long to wait.
    pub announced: bool,
}

/// The retries of one model within one call.
#[derive(Debug, Default)]
pub struct Retries {
    count: u32,
    waited: Duration,
}

impl Retries {
    /// How long to wait before the next attempt; `None` if there is none. An announced wait beyond
    /// the limit fails the call at once, because a person waits for the answer.
    pub fn next(&mut self, announced: Option<Duration>, limits: &CallLimits) -> Option<Pause> {
        if self.count >= limits.max_retries {
            return None;
        }
        let backoff = limits
            .retry_delay
            .saturating_mul(2_u32.saturating_pow(self.count))
            .min(MAX_RETRY_DELAY);
        // Jitter spreads the retries of callers that were refused at the same time.
        let backoff = backoff.mul_f64(0.5 + fastrand::f64() / 2.0);
        let pause = match announced {
            None => Pause {
                delay: backoff,
                announced: false,
            },
            Some(asked) if self.waited.saturating_add(asked) > limits.rate_limit_wait => {
                return None;
            }
            Some(asked) => Pause {
                delay: asked.max(backoff),
                announced: true,
            },
        };
        self.count += 1;
        if pause.announced {
            self.waited += pause.delay;
        }
        Some(pause)
    }

    pub fn count(&self) -> u32 {
        self.count
    }
}

/// Whether the same model may answer if it is asked again.
pub fn is_temporary(kind: ModelFailureKind) -> bool {
    match kind {
        ModelFailureKind::RateLimit
        | ModelFailureKind::Overloaded
        | ModelFailureKind::ServerError
        | ModelFailureKind::Timeout
        | ModelFailureKind::Unreachable => true,
        ModelFailureKind::WrongKey
        | ModelFailureKind::UnknownModel
        | ModelFailureKind::ContextTooLong
        | ModelFailureKind::ContentFilter
        | ModelFailureKind::Quota
        | ModelFailureKind::Nonsense => false,
    }
}

/// How long the server asks to wait. `Retry-After` comes first. Where a limit was reached and there is
/// nothing better, the time at which it is reset counts.
pub fn announced_wait(headers: &HeaderMap, is_limited: bool, now: SystemTime) -> Option<Duration> {
    let prefixed = |name: &str| {
        PREFIXES.iter().find_map(|prefix| {
            let value = headers.get(format!("{prefix}{name}").as_str())?;
            value.to_str().ok().map(str::trim)
        })
    };
    let ms = prefixed("retry-after-ms").and_then(number);
    let seconds = ms.map(|ms| ms / 1000.0).or_else(|| {
        let text = prefixed("retry-after")?;
        number(text).or_else(|| seconds_until(httpdate::parse_http_date(text).ok()?, now))
    });
    seconds
        .or_else(|| reset(&prefixed, now).filter(|_| is_limited))
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

/// The wait in a message such as `Please try again in 20s`, for servers that announce none in their
/// headers. `message` is in lower case.
pub fn wait_in_text(message: &str) -> Option<Duration> {
    let (_, rest) = message.split_once("try again in ")?;
    let mut words = rest.split_whitespace();
    let amount = words.next()?.trim_end_matches(['.', ',']);
    let unit = words.next().unwrap_or_default();
    let seconds = match number(amount) {
        Some(amount) if unit.starts_with("second") => amount,
        Some(amount) if unit.starts_with("minute") => amount * 60.0,
        Some(_) => return None,
        None => go_duration(amount)?,
    };
    Duration::try_from_secs_f64(seconds).ok()
}

/// The reset of the limit that is used up. Where the server does not say which one that is, the
/// earliest counts: a second refusal costs less than a long wait for the wrong limit.
fn reset<'a>(header: &impl Fn(&str) -> Option<&'a str>, now: SystemTime) -> Option<f64> {
    const LIMITS: [(&str, &str); 6] = [
        (
            "x-ratelimit-reset-requests",
            "x-ratelimit-remaining-requests",
        ),
        ("x-ratelimit-reset-tokens", "x-ratelimit-remaining-tokens"),
        ("x-ratelimit-reset", "x-ratelimit-remaining"),
        (
            "anthropic-ratelimit-requests-reset",
            "anthropic-ratelimit-requests-remaining",
        ),
        (
            "anthropic-ratelimit-tokens-reset",
            "anthropic-ratelimit-tokens-remaining",
        ),
        (
            "anthropic-ratelimit-input-tokens-reset",
            "anthropic-ratelimit-input-tokens-remaining",
        ),
    ];
    let resets = LIMITS.iter().filter_map(|(reset, remaining)| {
        let wait = reset_seconds(header(reset)?, now)?;
        let is_used_up = header(remaining).and_then(number).map(|left| left <= 0.0);
        Some((wait, is_used_up))
    });
    let (used_up, unsaid): (Vec<_>, Vec<_>) = resets
        .filter(|(_, is_used_up)| *is_used_up != Some(false))
        .partition(|(_, is_used_up)| *is_used_up == Some(true));
    let waits = |resets: Vec<(f64, Option<bool>)>| resets.into_iter().map(|(wait, _)| wait);
    waits(used_up)
        .reduce(f64::max)
        .or_else(|| waits(unsaid).reduce(f64::min))
}

/// `6m0s`, `1.5s`, `20ms`, seconds, a time in seconds or milliseconds since 1970, or a date.
fn reset_seconds(text: &str, now: SystemTime) -> Option<f64> {
    let since_1970 = |seconds: f64| {
        let time = SystemTime::UNIX_EPOCH + Duration::try_from_secs_f64(seconds).ok()?;
        seconds_until(time, now)
    };
    match number(text) {
        Some(number) if number >= MIN_EPOCH_MS => since_1970(number / 1000.0),
        Some(number) if number >= MIN_EPOCH_SECONDS => since_1970(number),
        Some(number) => Some(number),
        None => go_duration(text).or_else(|| {
            let time: Timestamp = serde_json::from_value(text.into()).ok()?;
            let ms = u64::try_from(time.as_millis()).ok()?;
            seconds_until(SystemTime::UNIX_EPOCH + Duration::from_millis(ms), now)
        }),
    }
}

/// A duration as OpenAI writes it: numbers with units, one after another.
fn go_duration(text: &str) -> Option<f64> {
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let amount: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit_end = rest
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(rest.len());
        let factor = match &rest[..unit_end] {
            "d" => 86_400.0,
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 0.001,
            "us" | "µs" | "ns" => 0.0,
            _ => return None,
        };
        seconds += amount * factor;
        rest = &rest[unit_end..];
    }
    (!text.is_empty()).then_some(seconds)
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

fn seconds_until(time: SystemTime, now: SystemTime) -> Option<f64> {
    Some(time.duration_since(now).unwrap_or_default().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn waits_in_messages_are_read() {
        for (message, wanted) in [
            (
                "rate limit reached. please try again in 6m0s. visit",
                Some(360.0),
            ),
            ("please try again in 345ms.", Some(0.345)),
            (
                "no deployments available, try again in 5 seconds. passed",
                Some(5.0),
            ),
            ("try again in a while", None),
            ("slow down", None),
        ] {
            let wait = wait_in_text(message).map(|wait| wait.as_secs_f64());
            assert_eq!(wait, wanted, "{message}");
        }
    }

    #[test]
    fn servers_announce_waits_in_many_ways() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let cases: &[(&[(&str, &str)], Option<f64>)] = &[
            (&[], None),
            (&[("retry-after", "7")], Some(7.0)),
            (&[("retry-after", "soon")], None),
            (
                &[("retry-after-ms", "250"), ("retry-after", "7")],
                Some(0.25),
            ),
            (&[("llm_provider-retry-after", "3")], Some(3.0)),
            (&[("llm_provider-retry-after-ms", "1500")], Some(1.5)),
            (
                &[("retry-after", "Tue, 14 Nov 2023 22:13:25 GMT")],
                Some(5.0),
            ),
            (&[("x-ratelimit-reset-requests", "6m0s")], Some(360.0)),
            (&[("x-ratelimit-reset-tokens", "20ms")], Some(0.02)),
            (&[("x-ratelimit-reset", "1700000009")], Some(9.0)),
            (&[("x-ratelimit-reset", "1700000009500")], Some(9.5)),
            (&[("llm_provider-x-ratelimit-reset", "12")], Some(12.0)),
            (
                &[("anthropic-ratelimit-tokens-reset", "2023-11-14T22:13:30Z")],
                Some(10.0),
            ),
            (
                &[
                    ("x-ratelimit-reset-requests", "1s"),
                    ("x-ratelimit-remaining-requests", "9"),
                    ("x-ratelimit-reset-tokens", "8s"),
                    ("x-ratelimit-remaining-tokens", "0"),
                ],
                Some(8.0),
            ),
            (
                &[
                    ("x-ratelimit-reset-requests", "1s"),
                    ("x-ratelimit-reset-tokens", "8s"),
                ],
                Some(1.0),
            ),
            (&[("retry-after", "-5")], None),
        ];
        for (fields, wanted) in cases {
            let mut headers = HeaderMap::new();
            for (name, value) in *fields {
                headers.insert(
                    HeaderName::try_from(*name).unwrap(),
                    HeaderValue::try_from(*value).unwrap(),
                );
            }
            let wait = announced_wait(&headers, true, now).map(|wait| wait.as_secs_f64());
            assert_eq!(wait, *wanted, "{fields:?}");
        }
    }
}
