//! What moves between servers that live: by hand, when a server stops, and when one joins. And what
//! a server that lost the database does not do.

use std::time::Duration;

use codelab_client::{Client, Method};
use codelab_protocol::{
    AgentId, CreateProject, CreateSession, ProjectId, SearchContext, SessionId,
};
use codelab_testkit::eventually;
use serde_json::{Value, json};

use crate::installation::Installation;
use crate::is_wanted;
use crate::server::Server;

const CUT_WITHIN: Duration = Duration::from_secs(60);
/// So many that each of two servers is to have some of them.
const PROJECTS: usize = 12;
const REMEMBERED: &str = "The harbour crane is painted green";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_server_owns_nothing_any_more() {
    if !is_wanted("a_drained_server_owns_nothing_any_more") {
        return;
    }
    let Some(installation) = Installation::start(2, &[]).await else {
        return;
    };
    let user = installation.user_at(0, 1).await;
    let mut remembering = Vec::new();
    for number in 0..PROJECTS {
        remembering.push(remember(&user, number).await);
    }
    assert!(installation.servers[0].owned().await > 0);
    until("the first server knows the other one", async || {
        let cluster = installation.servers[0].cluster().await.unwrap();
        cluster["servers"].as_array().map(Vec::len) == Some(2)
    })
    .await;
    let read = sleeping_session_of(&installation, 0).await;
    let mut events = installation.servers[0]
        .client()
        .events(&read, None, true)
        .await
        .unwrap();

    let status = installation.codelab(&["cluster", "status"]).await;
    let table = String::from_utf8(status.stdout).unwrap();
    assert!(status.status.success(), "{table}");
    for server in &installation.servers {
        assert!(table.contains(&server.cluster_address()), "{table}");
    }
    let drained = installation.codelab(&["cluster", "drain"]).await;
    assert!(drained.status.success(), "{drained:?}");

    let first = &installation.servers[0];
    let owned = first.cluster().await.unwrap()["owned"].clone();
    let nothing = json!({"projects": 0, "sessions": 0, "chat": false});
    assert_eq!(owned, nothing);
    // Its reader is cut, because it would hear nothing more here.
    let cut = tokio::time::timeout(CUT_WITHIN, async {
        while let Some(Ok(_)) = events.next().await {}
    });
    cut.await.expect("the reader of a session ends");
    for (project, agent) in remembering {
        found_again(&user, project, &agent).await;
    }
    assert_eq!(first.owned().await, 0, "it only forwards");
    installation.remove();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_chat_goes_along_when_its_server_stops() {
    if !is_wanted("the_chat_goes_along_when_its_server_stops") {
        return;
    }
    let Some(mut installation) = Installation::start(2, &[]).await else {
        return;
    };
    let operator = installation.client.clone();
    let said = json!({"author": "ci", "text": "The build is green"});
    assert_eq!(
        post(&operator, "/chat/agent_message", &said).await.status,
        201
    );
    let question =
        json!({"author": "ci", "question": "Deploy the harbour now?", "timeout_seconds": 120});
    let asking = tokio::spawn({
        let (operator, question) = (operator.clone(), question.clone());
        async move { post(&operator, "/chat/ask_user", &question).await.status }
    });
    let texts = async || chat_texts(&operator).await;
    until("the question is asked", async || {
        texts()
            .await
            .contains(&"Deploy the harbour now?".to_owned())
    })
    .await;

    let owner = chat_owner(&installation).await;
    installation.servers[owner].terminate().await.unwrap();
    assert_eq!(asking.await.unwrap(), 503, "whoever asks hears of the move");
    until("the Chat is elsewhere with all that was said", async || {
        texts().await == ["The build is green", "Deploy the harbour now?"]
    })
    .await;
    let asked_again = tokio::spawn({
        let operator = operator.clone();
        async move { post(&operator, "/chat/ask_user", &question).await }
    });
    let user = installation.user(1).await;
    let answer = json!({"text": "Yes, deploy"});
    assert_eq!(post(&user, "/chat/user_message", &answer).await.status, 201);
    let answered = asked_again.await.unwrap();
    let answered: Value = serde_json::from_slice(&answered.body).unwrap();
    assert_eq!(answered["answer"], "Yes, deploy");
    let asked = texts().await;
    let times = asked
        .iter()
        .filter(|text| *text == "Deploy the harbour now?");
    assert_eq!(times.count(), 1, "it is not asked twice: {asked:?}");
    installation.remove();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_joins_gets_its_share_of_what_is_idle() {
    if !is_wanted("a_server_that_joins_gets_its_share_of_what_is_idle") {
        return;
    }
    let Some(mut installation) = Installation::start(1, &[]).await else {
        return;
    };
    let user = installation.user_at(0, 1).await;
    let mut projects = Vec::new();
    for number in 0..PROJECTS {
        projects.push(remember(&user, number).await);
    }
    let mut joining = Server::new(2, installation.folder()).await;
    joining.start(&installation.settings).await.unwrap();
    joining.ready().await.unwrap();
    installation.servers.push(joining);
    until(
        "nobody owns what is idle and the new server's share",
        async || installation.servers[0].owned().await < PROJECTS as u64,
    )
    .await;
    for (project, agent) in projects {
        found_again(&user, project, &agent).await;
    }
    assert!(installation.servers[1].owned().await > 0);
    installation.remove();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_its_lease_answers_nothing() {
    if !is_wanted("a_server_without_its_lease_answers_nothing") {
        return;
    }
    let Some(installation) = Installation::start(2, &[]).await else {
        return;
    };
    let (user, project) = (installation.user_at(0, 1).await, json!({"name": "later"}));
    installation.postgres.freeze();
    // Needs nothing of the database, so that only the pause can make it fail.
    let path = "/my/no-such-route";
    until("the server is paused", async || {
        let answer = user.raw(Method::GET, path, &[], "").await.unwrap();
        let has_retry_after = answer.headers.contains_key("retry-after");
        answer.status == 503 && has_retry_after
    })
    .await;
    for server in &installation.servers {
        let live = server
            .client()
            .raw(Method::GET, "/health/live", &[], "")
            .await;
        assert_eq!(live.unwrap().status, 200, "health is always told");
    }
    installation.postgres.thaw();
    until("it goes on", async || {
        post(&user, "/my/projects", &project).await.status == 201
    })
    .await;
    installation.remove();
}

/// A new project whose agent remembers something.
async fn remember(user: &Client, number: usize) -> (ProjectId, AgentId) {
    let body = json!({"name": format!("project {number}")});
    let body: CreateProject = serde_json::from_value(body).unwrap();
    let project = user.create_project(&body).await.unwrap().project_id;
    let agent = json!({"name": "keeper", "system_prompt": "Remember.", "allowed_tools": []});
    let agent = serde_json::from_value(agent).unwrap();
    let saved = user.create_project_agent(project, &agent).await.unwrap();
    let agent = saved.agent.agent_id;
    let text = serde_json::from_value(json!({"text": REMEMBERED})).unwrap();
    user.add_context(project, &agent, &text).await.unwrap();
    (project, agent)
}

/// What was remembered is found, or it is said that there may be more soon.
async fn found_again(user: &Client, project: ProjectId, agent: &AgentId) {
    let query = json!({"query": "harbour crane"});
    let query: SearchContext = serde_json::from_value(query).unwrap();
    until("what was remembered is found", async || {
        let found = user.search_context(project, agent, &query).await.unwrap();
        let is_found = found.results.iter().any(|hit| hit.text == REMEMBERED);
        assert!(is_found || found.rebuilding, "{found:?}");
        is_found
    })
    .await;
}

/// A session of the runtime kind that this server owns and that nobody works on.
async fn sleeping_session_of(installation: &Installation, server: usize) -> SessionId {
    for number in 0.. {
        let before = installation.servers[server].owned().await;
        let session_id = SessionId::parse(&format!("sleeping-{number}")).unwrap();
        let body = CreateSession {
            session_id: session_id.clone(),
            system_prompt: None,
        };
        installation.client.create_session(&body).await.unwrap();
        if installation.servers[server].owned().await > before {
            return session_id;
        }
    }
    unreachable!("it counts without an end")
}

async fn chat_owner(installation: &Installation) -> usize {
    for (number, server) in installation.servers.iter().enumerate() {
        if server.cluster().await.unwrap()["owned"]["chat"] == true {
            return number;
        }
    }
    panic!("nobody owns the Chat")
}

async fn chat_texts(operator: &Client) -> Vec<String> {
    let history = operator
        .raw(Method::GET, "/chat/history?limit=100", &[], "")
        .await
        .unwrap();
    let history: Vec<Value> = serde_json::from_slice(&history.body).unwrap_or_default();
    let texts = history
        .iter()
        .filter_map(|message| message["text"].as_str());
    texts.map(str::to_owned).collect()
}

async fn post(client: &Client, path: &str, body: &Value) -> codelab_client::RawResponse {
    let json = [("content-type", "application/json")];
    client
        .raw(Method::POST, path, &json, body.to_string())
        .await
        .unwrap()
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    eventually(what, async || is_so().await.then_some(()).ok_or("not so")).await;
}
