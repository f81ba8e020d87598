//! Requests that run while the screen is drawn. Requests that change something are
//! repeated when the connection is lost: a message carries an id and a decision can win only once,
//! so neither counts twice.

use std::collections::HashMap;

use codelab_client::{Client, ClientError, PlanView, RESTART_BACKOFF, repeated};
use codelab_protocol::{
    AgentName, ApproveMode, CallId, ChangeProjectSession, ClientMessageId, CreateProjectSession,
    Delivery, ErrorCode, HitlDecision, MessageId, ModelList, NewAttachment, Patch, PlanDecision,
    PlanId, ProjectId, RememberedId, RewoundFiles, SendMessage, SessionId, Timestamp, UsageTotal,
};

use crate::texts::CommandText;
use crate::{Language, Text};

use super::approve;
use super::block::Block;
use super::picker::ListedSession;
use super::plan::{dollars, short};
use super::rewind::SaidMessage;

const LISTED_MODELS: usize = 100;
/// What is typed instead of a model's name to go back to each agent's own.
const AGENTS_OWN: &str = "-";
/// Behind the name of a model that is chosen although no provider lists it.
const UNLISTED: char = '!';
const MESSAGE_ID_BYTES: usize = 12;

/// What came of a request.
#[derive(Debug)]
pub enum RequestOutcome {
    /// The first message's session.
    Created(SessionId, OutgoingMessage),
    Sent,
    /// What was written goes back to the person.
    NotSent {
        written: String,
        error: ClientError,
    },
    Accepted,
    /// The question is open again, in its session.
    NotAccepted {
        session: SessionId,
        call: CallId,
        error: ClientError,
    },
    Shown(Vec<Block>),
    /// The sessions to choose from, in the order of their numbers.
    Listed(Vec<SessionId>, Vec<String>),
    /// What the picker offers, and that there is more.
    Choices(Vec<ListedSession>, Option<String>),
    /// A command of the person's has ended.
    Ran(Vec<Block>),
    Target(Option<String>),
    /// What passes without a question now.
    Approve(ApproveMode),
    /// The session's own model; `None`: each agent's.
    Model(Option<String>),
    Open(SessionId),
    /// What was allowed, in the order of its numbers.
    Allowed(Vec<RememberedId>, Vec<String>),
    /// The messages to go back to, in the order of their numbers.
    Rewindable(Vec<SaidMessage>),
    /// What a rewind to this message would do to files, where that is known.
    Foreseen(MessageId, Option<RewoundFiles>),
    /// The new session, none if nothing was said before; this may be sent there.
    Forked(Option<SessionId>, Option<String>),
    /// It was asked for; this may be sent again.
    Rewound(Option<String>),
    /// No summary is being written, and what the person is told of it.
    NotCompacting(Option<Box<Block>>),
    /// The windows of the models, in tokens.
    Windows(HashMap<String, u64>),
    Usage(UsageTotal),
    Failed(ClientError),
}

/// A message on its way to the server.
#[derive(Debug, Clone)]
pub struct OutgoingMessage {
    /// As the person wrote it.
    pub written: String,
    /// With the files that it names.
    pub text: String,
    pub images: Vec<NewAttachment>,
    /// What happens to it while a turn runs.
    pub delivery: Delivery,
}

/// A decision in the words of its route.
#[derive(Debug, Clone)]
pub enum DecisionRequest {
    Approval(CallId, HitlDecision),
    Plan(PlanId, PlanDecision),
    Answer(CallId, String),
}

pub async fn create(
    client: Client,
    project: ProjectId,
    message: OutgoingMessage,
    (target, mode): (Option<String>, ApproveMode),
) -> RequestOutcome {
    let body = CreateProjectSession {
        project_id: Some(project),
        ..CreateProjectSession::default()
    };
    match client.create_project_session(&body).await {
        Ok(session) => {
            let session = session.session_id;
            // The message names its agent itself, so only a later chat would miss the choice.
            if let Some(agent) = &target
                && let Err(error) = choose_agent(&client, &session, Some(agent)).await
            {
                tracing::warn!(%session, %error, "storing the agent of a session failed");
            }
            // Without it, writes ask.
            if !mode.is_ask()
                && let Err(error) = approve::set(&client, &session, mode).await
            {
                tracing::warn!(%session, %error, "storing what passes in a session failed");
            }
            RequestOutcome::Created(session, message)
        }
        Err(error) => RequestOutcome::NotSent {
            written: message.written,
            error,
        },
    }
}

pub async fn send(
    client: Client,
    session: SessionId,
    outgoing: OutgoingMessage,
    target: Option<String>,
) -> RequestOutcome {
    let OutgoingMessage {
        written,
        text,
        images,
        delivery,
    } = outgoing;
    let message = SendMessage {
        content: Some(text),
        target_agent: target,
        client_message_id: message_id(),
        attachments: images,
        delivery,
    };
    // The stream is for whoever has no other; its start says that the message is kept.
    let sent = repeated(RESTART_BACKOFF, || async {
        client
            .stream_project_message(&session, &message)
            .await
            .map(drop)
    })
    .await;
    match sent {
        Ok(()) => RequestOutcome::Sent,
        Err(error) => RequestOutcome::NotSent { written, error },
    }
}

pub async fn decide(
    client: Client,
    session: SessionId,
    decision: DecisionRequest,
    asked: CallId,
) -> RequestOutcome {
    let accepted = repeated(RESTART_BACKOFF, || async {
        match &decision {
            DecisionRequest::Approval(call, body) => {
                client.decide(&session, call, body).await.map(drop)
            }
            DecisionRequest::Plan(plan, body) => {
                client.decide_plan(&session, plan, body).await.map(drop)
            }
            DecisionRequest::Answer(call, text) => {
                client.answer_question(&session, call, text).await.map(drop)
            }
        }
    });
    match accepted.await {
        Ok(()) => RequestOutcome::Accepted,
        // Decided by this very request before the connection broke, or by somebody else: the events
        // tell which.
        Err(error) if matches!(error.status(), Some(404 | 409)) && !still_waits(&error) => {
            RequestOutcome::Accepted
        }
        Err(error) => RequestOutcome::NotAccepted {
            session,
            call: asked,
            error,
        },
    }
}

/// What becomes of the messages that wait when a turn is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueFate {
    Kept,
    Dropped,
}

/// Whether a decision was refused because the file is not the one that was shown.
fn still_waits(error: &ClientError) -> bool {
    match error {
        ClientError::Status {
            body: Some(body), ..
        } => body.details.contains_key("base"),
        _ => false,
    }
}

pub async fn cancel(client: Client, session: SessionId, queue: QueueFate) -> RequestOutcome {
    let drops = queue == QueueFate::Dropped;
    match repeated(RESTART_BACKOFF, || {
        client.cancel_project_session(&session, drops)
    })
    .await
    {
        Ok(_) => RequestOutcome::Accepted,
        Err(error) => RequestOutcome::Failed(error),
    }
}

/// Runs the last turn again. If that ended with a part of its answer, the rest of its plan.
pub async fn retry(
    client: Client,
    session: SessionId,
    plan: Option<PlanId>,
    language: Language,
) -> RequestOutcome {
    // Its events come with those of the session.
    let error = match client.retry_turn(&session, None).await {
        Ok(_) => return RequestOutcome::Accepted,
        Err(error) => error,
    };
    let is_refused = |error: &ClientError| matches!(error.error_code(), Some(ErrorCode::Conflict));
    let error = match plan {
        Some(plan) if is_refused(&error) => match client.retry_plan(&session, &plan).await {
            Ok(_) => return RequestOutcome::Accepted,
            Err(error) => error,
        },
        Some(_) | None => error,
    };
    match is_refused(&error) {
        true => {
            let why = match &error {
                ClientError::Status {
                    body: Some(body), ..
                } => body.detail.clone(),
                error => error.to_string(),
            };
            let notice = language.with(CommandText::NothingToRetry, &[&why]);
            RequestOutcome::Shown(vec![Block::Notice(notice)])
        }
        false => RequestOutcome::Failed(error),
    }
}

/// Gives what waits its full time again, or asks again about the plan that expired.
pub async fn renew(client: Client, session: SessionId, call: CallId) -> RequestOutcome {
    match client.renew_approval(&session, &call).await {
        Ok(_) => RequestOutcome::Accepted,
        Err(error) => RequestOutcome::Failed(error),
    }
}

pub async fn usage(client: Client, session: SessionId) -> RequestOutcome {
    match client.project_session(&session).await {
        Ok(detail) => RequestOutcome::Usage(detail.usage),
        Err(error) => RequestOutcome::Failed(error),
    }
}

/// Only what the status line can do without: one that fails is not worth a line.
pub async fn windows(client: Client) -> RequestOutcome {
    let offered = client.models().await.map(|list| list.models);
    let window = |one: codelab_protocol::OfferedModel| Some((one.model, one.window?));
    let windows = offered.unwrap_or_default().into_iter().filter_map(window);
    RequestOutcome::Windows(windows.collect())
}

pub async fn agents(client: Client, project: ProjectId) -> RequestOutcome {
    match client.project_agents(project).await {
        Ok(agents) => {
            let width = agents
                .iter()
                .map(|agent| short(&agent.name).len())
                .max()
                .unwrap_or_default();
            let row = |agent: &codelab_protocol::ProjectAgent| {
                format!(
                    "{:width$}  {}  ({})",
                    short(&agent.name),
                    agent.description,
                    agent.model,
                )
            };
            RequestOutcome::Shown(vec![Block::Listing(agents.iter().map(row).collect())])
        }
        Err(error) => RequestOutcome::Failed(error),
    }
}

/// Chooses whom messages go to; nobody by name: they are planned. The session keeps the choice.
pub async fn switch(
    client: Client,
    project: ProjectId,
    session: Option<SessionId>,
    wanted: Option<String>,
    language: Language,
) -> RequestOutcome {
    let agent = match &wanted {
        None => None,
        Some(wanted) => match client.project_agents(project).await {
            Ok(agents) => {
                let is_wanted = |name: &AgentName| name.as_str() == wanted || short(name) == wanted;
                let names: Vec<&AgentName> = agents.iter().map(|agent| &agent.name).collect();
                match names.iter().find(|name| is_wanted(name)) {
                    Some(name) => Some((*name).clone()),
                    None => {
                        let names: Vec<&str> = names.into_iter().map(short).collect();
                        let notice = language.with(Text::NoSuchAgent, &[wanted, &names.join(", ")]);
                        return RequestOutcome::Shown(vec![Block::Notice(notice)]);
                    }
                }
            }
            Err(error) => return RequestOutcome::Failed(error),
        },
    };
    let agent = agent.as_ref().map(short);
    if let Some(session) = session
        && let Err(error) = choose_agent(&client, &session, agent).await
    {
        return RequestOutcome::Failed(error);
    }
    RequestOutcome::Target(agent.map(str::to_owned))
}

async fn choose_agent(
    client: &Client,
    session: &SessionId,
    agent: Option<&str>,
) -> Result<(), ClientError> {
    let body = ChangeProjectSession {
        agent: agent.map_or(Patch::Null, |agent| Patch::Value(agent.to_owned())),
        ..ChangeProjectSession::default()
    };
    client
        .change_project_session(session, &body)
        .await
        .map(drop)
}

/// What the providers offer, and what was chosen for the session.
pub async fn models(
    client: Client,
    session: Option<SessionId>,
    language: Language,
) -> RequestOutcome {
    let chosen = match session {
        Some(session) => match client.project_session(&session).await {
            Ok(detail) => detail.session.model,
            Err(error) => return RequestOutcome::Failed(error),
        },
        None => None,
    };
    match client.models().await {
        Ok(list) => {
            let mut rows: Vec<String> = list
                .models
                .iter()
                .take(LISTED_MODELS)
                .map(|offered| offered.model.clone())
                .collect();
            let missing = |one: &codelab_protocol::UnlistedProvider| {
                format!("{}: {}", one.provider, language.failure(one.kind))
            };
            rows.extend(list.unavailable.iter().map(missing));
            rows.push(match &chosen {
                Some(model) => language.with(Text::ModelChosen, &[model]),
                None => language.text(Text::ModelOfAgents).to_owned(),
            });
            RequestOutcome::Shown(vec![Block::Listing(rows)])
        }
        Err(error) => RequestOutcome::Failed(error),
    }
}

/// Chooses a model of those that the providers offer. If one of them does not list its models, any
/// name is accepted.
pub async fn choose_model(
    client: Client,
    session: SessionId,
    wanted: String,
    language: Language,
) -> RequestOutcome {
    let model = match (wanted.as_str(), wanted.strip_suffix(UNLISTED)) {
        (AGENTS_OWN, _) => Patch::Null,
        (_, Some(unlisted)) => Patch::Value(unlisted.to_owned()),
        (_, None) => match client.models().await {
            Ok(list) if !may_be_offered(&list, &wanted) => {
                let names = list.models.iter().take(LISTED_MODELS);
                let names: Vec<&str> = names.map(|offered| offered.model.as_str()).collect();
                let values = [wanted.as_str(), &names.join(", ")];
                let notice = language.with(CommandText::NoSuchModel, &values);
                return RequestOutcome::Shown(vec![Block::Notice(notice)]);
            }
            // Without a list nobody knows better than the person.
            Ok(_) | Err(_) => Patch::Value(wanted),
        },
    };
    let body = ChangeProjectSession {
        model,
        ..ChangeProjectSession::default()
    };
    match client.change_project_session(&session, &body).await {
        Ok(session) => RequestOutcome::Model(session.model),
        Err(error) => RequestOutcome::Failed(error),
    }
}

/// Whether a provider offers the model, or one of them does not say what it offers.
fn may_be_offered(list: &ModelList, wanted: &str) -> bool {
    let is_listed = list.models.iter().any(|offered| offered.model == wanted);
    is_listed || list.models.is_empty() || !list.unavailable.is_empty()
}

/// A time as lists show it.
pub fn minute(time: Timestamp) -> String {
    let text = time.to_string();
    text.get(..16).unwrap_or(&text).replace('T', " ")
}

pub async fn plan(
    client: Client,
    session: SessionId,
    task: Option<String>,
    language: Language,
) -> RequestOutcome {
    let plan = match client.newest_plan(&session).await {
        Ok(plan) => plan,
        Err(error) => return RequestOutcome::Failed(error),
    };
    let Some(plan) = plan else {
        let notice = language.text(Text::NoPlanYet).to_owned();
        return RequestOutcome::Shown(vec![Block::Notice(notice)]);
    };
    let Some(wanted) = task else {
        return RequestOutcome::Shown(vec![Block::Plan(PlanView::new(plan))]);
    };
    let Some(task) = plan.tasks.iter().find(|task| task.id.as_str() == wanted) else {
        let notice = language.with(Text::NoSuchTask, &[&wanted]);
        return RequestOutcome::Shown(vec![Block::Notice(notice)]);
    };
    let told = task
        .result
        .clone()
        .or_else(|| task.error.as_ref().map(|error| error.message.clone()));
    let source = told.unwrap_or_else(|| language.text(Text::NoResultYet).to_owned());
    let piece = super::markdown::MarkdownPiece {
        source,
        continues: false,
    };
    RequestOutcome::Shown(vec![Block::Answer {
        agent: Some(task.agent.clone()),
        piece,
    }])
}

pub async fn cost(
    client: Client,
    session: Option<SessionId>,
    project: ProjectId,
    language: Language,
) -> RequestOutcome {
    let mut totals: Vec<(String, UsageTotal)> = Vec::new();
    if let Some(session) = session {
        match client.project_session(&session).await {
            Ok(detail) => totals.push((language.text(Text::ThisSession).to_owned(), detail.usage)),
            Err(error) => return RequestOutcome::Failed(error),
        }
    }
    match client.usage(Some(project)).await {
        Ok(report) => {
            let own = report
                .projects
                .iter()
                .find(|usage| usage.project_id == project);
            let this = language.text(Text::ThisProject);
            totals.extend(own.map(|usage| (this.to_owned(), usage.usage)));
            let agents = report.agents.iter();
            totals.extend(agents.map(|agent| (format!("  {}", short(&agent.agent)), agent.usage)));
            RequestOutcome::Shown(vec![Block::Listing(table(&totals, language))])
        }
        Err(error) => RequestOutcome::Failed(error),
    }
}

/// Totals below each other, with two spaces behind the longest name.
fn table(totals: &[(String, UsageTotal)], language: Language) -> Vec<String> {
    let width = totals.iter().map(|(name, _)| name.chars().count()).max();
    let width = width.unwrap_or_default();
    let row =
        |(name, usage): &(String, UsageTotal)| format!("{name:width$}  {}", total(usage, language));
    totals.iter().map(row).collect()
}

fn total(usage: &UsageTotal, language: Language) -> String {
    let cost = match usage.cost_known {
        true => dollars(usage.cost_usd),
        false if usage.cost_usd > 0.0 => {
            language.with(Text::CostAtLeast, &[&dollars(usage.cost_usd)])
        }
        false => language.text(Text::CostUnknown).to_owned(),
    };
    let calls = language.with(Text::ModelCalls, &[&usage.calls.to_string()]);
    let tokens = language.with(Text::Tokens, &[&language.grouped(usage.total_tokens)]);
    format!("{calls} · {tokens} · {cost}")
}

fn message_id() -> Option<ClientMessageId> {
    let mut random = [0; MESSAGE_ID_BYTES];
    getrandom::fill(&mut random).ok()?;
    ClientMessageId::parse(&hex::encode(random)).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_model_is_refused_only_where_all_offers_are_known() {
        let list = |models: &[&str], unavailable: usize| {
            let models: Vec<_> = models
                .iter()
                .map(|model| json!({ "model": model, "provider": "p" }))
                .collect();
            let missing = json!({ "provider": "q", "kind": "wrong_key", "message": "m" });
            let list = json!({ "models": models, "unavailable": vec![missing; unavailable] });
            serde_json::from_value::<ModelList>(list).unwrap()
        };
        for (list, is_offered) in [
            (list(&["a", "b"], 0), true),
            (list(&["b"], 0), false),
            (list(&["b"], 1), true),
            (list(&[], 0), true),
        ] {
            assert_eq!(may_be_offered(&list, "a"), is_offered, "{list:?}");
        }
    }

    #[test]
    fn a_decision_about_another_file_than_was_shown_leaves_it_open() {
        let refused = |details: serde_json::Value| ClientError::Status {
            status: 409,
            body: serde_json::from_value(
                json!({ "detail": "no", "error_code": "CONFLICT", "details": details }),
            )
            .unwrap(),
            text: String::new(),
            retry_after_seconds: None,
        };
        assert!(still_waits(&refused(json!({ "base": null }))));
        assert!(still_waits(&refused(json!({ "base": "ab" }))));
        assert!(!still_waits(&refused(json!({ "call_id": "c" }))));
        assert!(!still_waits(&ClientError::Cut("cut".to_owned())));
    }

    #[test]
    fn every_total_stands_apart_from_its_name() {
        let name = |name: &str| (name.to_owned(), UsageTotal::default());
        let rows = table(
            &[
                name("this session"),
                name("  orchestrator"),
                name("  coder"),
            ],
            Language::En,
        );
        let columns = rows.iter().map(|row| row.find("model calls"));
        assert_eq!(columns.collect::<Vec<_>>(), [Some(16); 3], "{rows:?}");
    }
}
