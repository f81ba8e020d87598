//! Budgets and concurrency limits hold for the installation, whichever servers the requests enter
//! by.

use std::time::Duration;

use codelab_client::{Client, SendOutcome};
use codelab_fakemodel::Reply;
use codelab_protocol::{
    CreateProject, CreateProjectSession, ProjectId, SendMessage, SessionId, TurnStatus,
};
use serde_json::json;
use tokio::task::JoinSet;

use crate::installation::Installation;
use crate::is_wanted;

const SERVERS: usize = 3;
const MESSAGES: usize = 12;
const CONCURRENCY: usize = 2;
const BUDGET_TOKENS: u64 = 2_000;
/// What one answer of the model is said to use.
const PROMPT_TOKENS: u64 = 150;
const ANSWER_TOKENS: u64 = 250;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_hold_through_all_servers() {
    if !is_wanted("limits_hold_through_all_servers") {
        return;
    }
    // A queue that holds everything, so that nothing is refused for being too much.
    let queue = [("CODELAB_LIMITS__QUEUE_LENGTH", "100")];
    let Some(installation) = Installation::start(SERVERS, &queue).await else {
        return;
    };
    let reply = Reply::text_with_usage("Done now, as you asked.", PROMPT_TOKENS, ANSWER_TOKENS);
    let slowly = reply.with_delay_per_delta(Duration::from_millis(40));
    installation.model.default_reply(slowly);
    let mut users = Vec::new();
    for server in 0..SERVERS {
        users.push(installation.user_at(server, 1).await);
    }

    let unlimited = project(&users[0], "unlimited", None).await;
    let completed = all_at_once(&users, unlimited).await;
    assert_eq!(completed, MESSAGES, "without a budget everything is done");
    assert_eq!(installation.model.request_count(), MESSAGES);

    let before = installation.model.request_count();
    let thrifty = project(&users[1], "thrifty", Some(BUDGET_TOKENS)).await;
    let completed = all_at_once(&users, thrifty).await;
    let made = (installation.model.request_count() - before) as u64;
    let spent = made * (PROMPT_TOKENS + ANSWER_TOKENS);
    println!("{completed} of {MESSAGES} were done with {spent} of {BUDGET_TOKENS} tokens");
    assert!((1..MESSAGES).contains(&completed), "{completed} were done");
    assert!(spent <= BUDGET_TOKENS, "{spent} tokens were spent");
    for user in &users {
        let usage = user.usage(Some(thrifty)).await.unwrap();
        let total = usage.total.total_tokens;
        assert_eq!(total, spent, "every server tells the same");
    }

    let peak = installation.model.peak_in_flight();
    assert!(
        peak <= CONCURRENCY,
        "{peak} calls of an agent with {CONCURRENCY} slots were made at once"
    );
    installation.remove();
}

/// A project whose one new agent has a short prompt, no tools and two slots.
async fn project(user: &Client, name: &str, budget_tokens: Option<u64>) -> ProjectId {
    let body = json!({"name": name, "budget_tokens": budget_tokens});
    let body: CreateProject = serde_json::from_value(body).unwrap();
    let project = user.create_project(&body).await.unwrap().project_id;
    let agent = json!({
        "name": "frugal", "system_prompt": "Be brief.", "max_tokens": 300, "allowed_tools": [],
        "concurrency_limit": CONCURRENCY,
    });
    let agent = serde_json::from_value(agent).unwrap();
    user.create_project_agent(project, &agent).await.unwrap();
    project
}

/// Every message goes to a session of its own, by the servers in turn. Gives how many were done;
/// the others wait for a person.
async fn all_at_once(users: &[Client], project: ProjectId) -> usize {
    let mut sending = JoinSet::new();
    for number in 0..MESSAGES {
        let (here, there) = (number % users.len(), (number + 1) % users.len());
        let session = session(&users[here], project).await;
        let user = users[there].clone();
        sending.spawn(async move { is_done(&user, &session).await });
    }
    let done = sending.join_all().await;
    done.into_iter().filter(|done| *done).count()
}

async fn session(user: &Client, project: ProjectId) -> SessionId {
    let body = CreateProjectSession {
        project_id: Some(project),
        ..CreateProjectSession::default()
    };
    user.create_project_session(&body).await.unwrap().session_id
}

async fn is_done(user: &Client, session: &SessionId) -> bool {
    let message = SendMessage {
        content: Some("Do it".to_owned()),
        target_agent: Some("frugal".to_owned()),
        ..SendMessage::default()
    };
    match user.send_project_message(session, &message).await.unwrap() {
        SendOutcome::Answered(answer) => answer.status == TurnStatus::Completed,
        SendOutcome::Accepted(accepted) => panic!("it still waits: {accepted:?}"),
    }
}
