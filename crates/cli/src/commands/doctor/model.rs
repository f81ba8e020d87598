//! The model: a request for a few tokens. If it fails, a plain connection tells why.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use codelab_llm::{OpenAiConfig, OpenAiModel, ServerClock};
use codelab_protocol::{ErrorCode, ModelFailure, ModelMessage, ModelOutput, ModelRequest};
use codelab_server::{default_model, model_config};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Subject;
use super::clock::ClockComparison;
use super::report::DoctorFinding;

const CHECK: &str = "model";
const QUESTION: &str = "Say OK.";
const ANSWER_TOKENS: u32 = 16;
/// Variables by which other programs are told of a proxy.
const PROXY_VARIABLES: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

pub struct ModelCheck {
    pub finding: DoctorFinding,
    pub clock: Option<ClockComparison>,
}

impl ModelCheck {
    pub fn failed(finding: DoctorFinding) -> Self {
        Self {
            finding,
            clock: None,
        }
    }
}

pub async fn check(subject: Arc<Subject>) -> ModelCheck {
    let Some(config) = model_config(&subject.settings) else {
        return ModelCheck::failed(demonstration(&subject));
    };
    let config = OpenAiConfig {
        timeout: subject.limit,
        idle_timeout: subject.limit,
        // The rest is for finding out why.
        connect_timeout: config.connect_timeout.min(subject.limit / 2),
        // A person waits, and wants to know about the first failure.
        max_retries: 0,
        ..config
    };
    let model = match OpenAiModel::new(config) {
        Ok(model) => model,
        Err(error) => {
            let found = format!("The model cannot be called: {error}.");
            return ModelCheck::failed(DoctorFinding::problem(
                CHECK,
                found,
                "Correct it: a server does not start with it.",
            ));
        }
    };
    let asked = default_model(&subject.settings);
    let begun = Instant::now();
    let trial = model.trial(&question(&asked)).await;
    let finding = match trial.outcome {
        Ok(answer) => answered(&subject, &asked, &answer, begun.elapsed()),
        Err(failure) => failed(&subject, &asked, &failure).await,
    };
    ModelCheck {
        finding,
        clock: trial.clock.map(compared),
    }
}

fn question(model: &str) -> ModelRequest {
    ModelRequest {
        agent: "doctor".to_owned(),
        model: model.to_owned(),
        messages: vec![ModelMessage::User {
            content: QUESTION.to_owned(),
        }],
        tools: Vec::new(),
        temperature: None,
        max_tokens: Some(ANSWER_TOKENS),
        schema: None,
    }
}

fn compared(clock: ServerClock) -> ClockComparison {
    let ms = |time: SystemTime| codelab_protocol::Timestamp::from(time).as_millis();
    ClockComparison {
        whose: "the model server",
        ahead_ms: ms(clock.ours).saturating_sub(ms(clock.theirs)),
    }
}

fn demonstration(subject: &Subject) -> DoctorFinding {
    let said = "No model is configured, so the built-in demonstration answers.";
    match &subject.settings.llm.hint {
        Some(hint) => DoctorFinding::warning(
            CHECK,
            format!("{said} {}", hint.why),
            format!("Type `{} codelab serve`.", hint.variables),
        ),
        None => DoctorFinding::warning(
            CHECK,
            said,
            "To use a real one, set LLM_PROXY_URL to the address of anything that speaks the OpenAI chat format, with \
             LLM_MODEL and LLM_API_KEY.",
        ),
    }
}

fn answered(subject: &Subject, asked: &str, answer: &ModelOutput, took: Duration) -> DoctorFinding {
    let location = location(subject);
    // An answer of so few tokens is always cut.
    let other = answer
        .warnings
        .iter()
        .find(|warning| warning.contains("does not know"));
    match other {
        Some(warning) => DoctorFinding::warning(
            CHECK,
            format!("{location} answers. {warning}"),
            format!(
                "Set model_map.\"{asked}\" or the agents' own models to a name that the server knows."
            ),
        ),
        None => DoctorFinding::ok(
            CHECK,
            format!(
                "{} at {location} answered in {:.1} s.",
                named(subject, asked),
                took.as_secs_f64()
            ),
        ),
    }
}

/// The name that was called.
fn named(subject: &Subject, asked: &str) -> String {
    subject
        .settings
        .llm
        .model_override
        .clone()
        .unwrap_or_else(|| asked.to_owned())
}

fn location(subject: &Subject) -> String {
    format!(
        "{}{}",
        subject.shown("llm.proxy_url"),
        subject.origin_of("llm.proxy_url")
    )
}

async fn failed(subject: &Subject, asked: &str, failure: &ModelFailure) -> DoctorFinding {
    let location = location(subject);
    let address = subject.place_of("llm.proxy_url", "LLM_PROXY_URL");
    let model = named(subject, asked);
    let status = failure
        .details
        .get("status")
        .and_then(serde_json::Value::as_u64);
    match (failure.code, status) {
        (ErrorCode::LlmProxyUnavailable, _) => unreachable(subject, &location, &address).await,
        (ErrorCode::LlmTimeout, _) => DoctorFinding::problem(
            CHECK,
            format!(
                "{model} at {location} did not answer within {} s.",
                subject.limit.as_secs()
            ),
            "A local model may still be loading: try again, or give it longer with --timeout 60. Else look at the log of \
             the model server.",
        ),
        (_, Some(code @ (401 | 403))) => wrong_key(subject, &location, code),
        (_, Some(404)) => DoctorFinding::problem(
            CHECK,
            format!(
                "{location} does not know the model {model}, or has another address (HTTP 404)."
            ),
            format!(
                "Correct {} or {address}.",
                subject.place_of("llm.model", "LLM_MODEL")
            ),
        ),
        (_, Some(429)) => DoctorFinding::warning(
            CHECK,
            format!(
                "{location} answers, but takes no more calls now. {}",
                failure.message
            ),
            "Wait, or raise the limit at the provider; check that the account has credit.",
        ),
        (_, Some(code)) => DoctorFinding::problem(
            CHECK,
            format!("{location} refused a call of {model} (HTTP {code})."),
            format!(
                "The log of the model server says why. Check {}, {} and {address}.",
                subject.place_of("llm.model", "LLM_MODEL"),
                key_setting(subject)
            ),
        ),
        (_, None) => DoctorFinding::problem(
            CHECK,
            format!(
                "{location} did not answer as a model does. {}",
                failure.message
            ),
            format!("Check that {address} names a server that speaks the OpenAI chat format."),
        ),
    }
}

fn wrong_key(subject: &Subject, location: &str, code: u64) -> DoctorFinding {
    let setting = key_setting(subject);
    match subject.settings.llm.api_key {
        Some(_) => DoctorFinding::problem(
            CHECK,
            format!("{location} refuses the key in {setting} (HTTP {code})."),
            format!("Put a valid key into {setting}."),
        ),
        None => DoctorFinding::problem(
            CHECK,
            format!("{location} wants a key (HTTP {code}), and none is set."),
            "Set LLM_API_KEY to a key of that server.",
        ),
    }
}

fn key_setting(subject: &Subject) -> String {
    subject.place_of("llm.api_key", "LLM_API_KEY")
}

async fn unreachable(subject: &Subject, location: &str, address: &str) -> DoctorFinding {
    let why = match host_and_port(
        subject
            .settings
            .llm
            .proxy_url
            .as_deref()
            .unwrap_or_default(),
    ) {
        Some((host, port)) => obstacle(&host, port, subject.limit / 4).await,
        None => "no connection".to_owned(),
    };
    let mut advice = format!("Start the model server, or correct {address}.");
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if let Some(name) = PROXY_VARIABLES.iter().find(|name| is_set(name)) {
        advice.push_str(&format!(
            " CodeLab does not use {name}: it must reach that address directly."
        ));
    }
    DoctorFinding::problem(
        CHECK,
        format!("{location} cannot be reached: {why}."),
        advice,
    )
}

/// What the system says of a connection to it. `limit` is for the name and for the connection,
/// each.
async fn obstacle(host: &str, port: u16, limit: Duration) -> String {
    let lookup = tokio::net::lookup_host((host, port));
    let addresses: Vec<_> = match timeout(limit, lookup).await {
        Ok(Ok(addresses)) => addresses.collect(),
        Ok(Err(_)) => return format!("the name {host} is not known"),
        Err(_) => return format!("the name {host} could not be looked up in time"),
    };
    match timeout(limit, TcpStream::connect(addresses.as_slice())).await {
        Ok(Ok(_)) => {
            "it takes connections but no secure ones, or not this system's certificates".to_owned()
        }
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            format!("nothing listens on port {port} of {host}")
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => "it does not answer".to_owned(),
    }
}

fn host_and_port(url: &str) -> Option<(String, u16)> {
    let (scheme, rest) = url.trim().split_once("://")?;
    let usual = if scheme == "https" { 443 } else { 80 };
    let authority = rest.split(['/', '?', '#']).next()?;
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().ok()?),
        _ => (authority, usual),
    };
    Some((host.trim_matches(['[', ']']).to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_host_and_port() {
        for (url, host, port) in [
            ("http://127.0.0.1:4000/v1", "127.0.0.1", 4000),
            ("https://api.openai.com/v1", "api.openai.com", 443),
            ("http://[::1]:8080", "::1", 8080),
            ("http://[::1]", "::1", 80),
        ] {
            assert_eq!(host_and_port(url), Some((host.to_owned(), port)), "{url}");
        }
        assert_eq!(host_and_port("nonsense"), None);
    }
}
