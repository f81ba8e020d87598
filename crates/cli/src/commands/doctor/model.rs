//! The model: asked for a few tokens. Where it cannot be reached, a plain connection tells why.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use codelab_llm::{CallLimits, Models, ModelsConfig, ServerClock};
use codelab_protocol::{
    ErrorCode, ModelFailure, ModelFailureKind, ModelMessage, ModelOutput, ModelRequest,
};
use codelab_server::{default_model, model_config};
use codelab_transport::{ConnectError, HttpClient, HttpLimits, TransportError};
use http::{Request, Uri};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Subject;
use super::clock::ClockComparison;
use super::report::DoctorFinding;
use super::served_model;

const CHECK: &str = "model";
const QUESTION: &str = "Say OK.";
const ANSWER_TOKENS: u32 = 16;
/// Of the request that finds out why the model cannot be reached.
const IDLE_CONNECTIONS: usize = 0;
const MAX_ANSWER_BYTES: usize = 64 * 1024;

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
        let served = served_model::check(&subject).await;
        return ModelCheck::failed(served.unwrap_or_else(|| demonstration(&subject)));
    };
    let limits = CallLimits {
        timeout: subject.limit,
        idle_timeout: subject.limit,
        // The rest is for finding out why.
        connect_timeout: config.limits.connect_timeout.min(subject.limit / 2),
        // A person waits, and wants to know about the first failure.
        max_retries: 0,
        ..config.limits
    };
    let config = ModelsConfig { limits, ..config };
    let model = match Models::new(config) {
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
        // Another model must not hide that this one does not work.
        fallback_models: vec![model.to_owned()],
        messages: vec![ModelMessage::user(QUESTION)],
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
    let place = place(subject);
    // An answer of so few tokens is always cut.
    let other = answer
        .warnings
        .iter()
        .find(|warning| warning.contains("does not know"));
    match other {
        Some(warning) => DoctorFinding::warning(
            CHECK,
            format!("{place} answers. {warning}"),
            format!(
                "Set model_map.\"{asked}\" or the agents' own models to a name that the server knows."
            ),
        ),
        None => DoctorFinding::ok(
            CHECK,
            format!(
                "{} at {place} answered in {:.1} s{}.",
                named(subject, asked),
                took.as_secs_f64(),
                route(subject)
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

fn place(subject: &Subject) -> String {
    format!(
        "{}{}",
        subject.shown("llm.proxy_url"),
        subject.origin_of("llm.proxy_url")
    )
}

async fn failed(subject: &Subject, asked: &str, failure: &ModelFailure) -> DoctorFinding {
    let place = place(subject);
    let address = subject.place_of("llm.proxy_url", "LLM_PROXY_URL");
    let model = named(subject, asked);
    let status = failure
        .details
        .get("status")
        .and_then(serde_json::Value::as_u64);
    let http = status.map_or_else(String::new, |code| format!(" (HTTP {code})"));
    // The server's own words say more than its status.
    let said = match &failure.provider_message {
        Some(said) => format!(" It says: \"{said}\""),
        None => String::new(),
    };
    match (failure.code, status) {
        (ErrorCode::LlmProxyUnavailable, _) => unreachable(subject, &place, &address).await,
        _ if failure.kind == Some(ModelFailureKind::WrongKey) => {
            wrong_key(subject, &place, &(http + "." + &said))
        }
        _ if failure.kind == Some(ModelFailureKind::UnknownModel) => DoctorFinding::problem(
            CHECK,
            format!("{place} does not know the model {model}, or has another address{http}.{said}"),
            format!(
                "Correct {} or {address}.",
                subject.place_of("llm.model", "LLM_MODEL")
            ),
        ),
        (ErrorCode::LlmTimeout, _) => DoctorFinding::problem(
            CHECK,
            format!(
                "{model} at {place} did not answer within {} s.",
                subject.limit.as_secs()
            ),
            "A local model may still be loading: try again, or give it longer with --timeout 60. Else look at the log of \
             the model server.",
        ),
        (_, Some(code @ (301 | 302 | 303 | 307 | 308))) => DoctorFinding::problem(
            CHECK,
            format!("{place} redirects to another address (HTTP {code})."),
            format!(
                "Write the new address into {address}. Redirects are not followed, because they \
                 would carry the key along."
            ),
        ),
        (_, Some(429)) => DoctorFinding::warning(
            CHECK,
            format!(
                "{place} answers, but takes no more calls now. {}",
                failure.message
            ),
            "Wait, or raise the limit at the provider; check that the account has credit.",
        ),
        (_, Some(_)) => DoctorFinding::problem(
            CHECK,
            format!("{place} refused a call of {model}{http}.{said}"),
            format!(
                "The log of the model server says why. Check {}, {} and {address}.",
                subject.place_of("llm.model", "LLM_MODEL"),
                key_setting(subject)
            ),
        ),
        (_, None) => DoctorFinding::problem(
            CHECK,
            format!(
                "{place} did not answer as a model does. {}",
                failure.message
            ),
            format!("Check that {address} names a server that speaks the OpenAI chat format."),
        ),
    }
}

/// `said` is the end of the sentence: the status, and what the server says.
fn wrong_key(subject: &Subject, place: &str, said: &str) -> DoctorFinding {
    let setting = key_setting(subject);
    match subject.settings.llm.api_key {
        Some(_) => DoctorFinding::problem(
            CHECK,
            format!("{place} refuses the key in {setting}{said}"),
            format!("Put a valid key into {setting}."),
        ),
        None => DoctorFinding::problem(
            CHECK,
            format!("{place} wants a key, and none is set{said}"),
            "Set LLM_API_KEY to a key of that server.",
        ),
    }
}

fn key_setting(subject: &Subject) -> String {
    subject.place_of("llm.api_key", "LLM_API_KEY")
}

async fn unreachable(subject: &Subject, place: &str, address: &str) -> DoctorFinding {
    let url = subject.settings.llm.proxy_url.as_deref();
    let why = why_unreachable(subject, url.unwrap_or_default()).await;
    let advice = format!("Start the model server, or correct {address}.");
    let found = format!("{place} cannot be reached{}: {why}.", route(subject));
    DoctorFinding::problem(CHECK, found, advice)
}

/// The proxy and the CA file of connections to the model, as the end of a sentence.
fn route(subject: &Subject) -> String {
    let network = &subject.settings.network;
    let url = subject
        .settings
        .llm
        .proxy_url
        .as_deref()
        .unwrap_or_default();
    let Ok(uri) = url.trim().parse::<Uri>() else {
        return String::new();
    };
    let mut route = match network.proxies.choose(&uri) {
        Ok(Some(proxy)) => format!(" through the proxy {proxy}"),
        Ok(None) | Err(_) => String::new(),
    };
    if let Some(path) = network
        .ca_file
        .as_ref()
        .filter(|_| uri.scheme_str() == Some("https"))
    {
        route.push_str(&format!(", trusting {} too", path.display()));
    }
    route
}

/// Connects once more, to learn what the failure of a model call does not tell.
async fn why_unreachable(subject: &Subject, url: &str) -> String {
    let limit = subject.limit / 4;
    let limits = HttpLimits {
        connect_timeout: limit,
        idle_connections: IDLE_CONNECTIONS,
        idle_connection_timeout: limit,
    };
    let Ok(uri) = url.trim().parse::<Uri>() else {
        return "no connection".to_owned();
    };
    let client = match HttpClient::new(&uri, &subject.settings.network, limits) {
        Ok(client) => client,
        Err(error) => return error.to_string(),
    };
    let mut request = Request::default();
    *request.uri_mut() = uri;
    match client.fetch(request, limit * 2, MAX_ANSWER_BYTES).await {
        Err(TransportError::Connect(
            ConnectError::Unreachable { .. } | ConnectError::Timeout { .. },
        )) => match host_and_port(url) {
            Some((host, port)) => obstacle(&host, port, limit).await,
            None => "no connection".to_owned(),
        },
        Err(error) => error.to_string(),
        Ok(_) => "it answers now; try again".to_owned(),
    }
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
        Ok(Ok(_)) => "it accepts connections now; try again".to_owned(),
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
