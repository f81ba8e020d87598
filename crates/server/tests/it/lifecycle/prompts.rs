//! A project's agent with a template: its values come from the user's token, then from the
//! settings.

use std::time::{SystemTime, UNIX_EPOCH};

use codelab_llm::Secret;
use codelab_protocol::{Timestamp, UserId};
use codelab_server::{Identity, sign_token};
use codelab_testkit::{Asked, Client, Credentials, Method, Reply, TestServer};
use serde_json::{Value, json};

const JWT: &str = "a secret that only this test signs with";
const TEMPLATE: &str =
    "{{userId}}|{{timezone}}|{{currentTime}}|{{householdId}}|{{weather}}|{{messageHistory}}|";

fn token(identity: Identity) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    sign_token(
        &identity,
        &Secret::new(JWT),
        Timestamp::from_millis(now.as_millis() as i64),
        3600,
    )
    .unwrap()
}

async fn post(client: &Client, path: &str, body: Value) -> Value {
    let headers = [("content-type", "application/json")];
    let answer = client
        .raw(Method::POST, path, &headers, body.to_string())
        .await
        .unwrap();
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(answer.status < 300, "{path}: {} {text}", answer.status);
    serde_json::from_str(&text).unwrap()
}

/// Says two things to the agent; what the prompt became for the second.
async fn prompt_of(server: &TestServer, identity: Identity) -> Vec<String> {
    let client = Client::new(&server.url, Credentials::Bearer(token(identity))).unwrap();
    let project =
        post(&client, "/my/projects", json!({"name": "home"})).await["project_id"].clone();
    let agent = json!({"name": "helper", "system_prompt": TEMPLATE});
    let saved = post(&client, &format!("/my/projects/{project}/agents"), agent).await;
    assert!(saved["warnings"].to_string().contains("weather"), "{saved}");
    let session = post(&client, "/my/chat/sessions", json!({"project_id": project})).await;
    let path = format!(
        "/my/chat/{}/message",
        session["session_id"].as_str().unwrap()
    );
    for (said, answered) in [("{{userId}}?", "Тут."), ("again", "Yes.")] {
        server.model.reply(Reply::text(answered));
        post(
            &client,
            &path,
            json!({"content": said, "target_agent": "helper"}),
        )
        .await;
    }
    let last = server.steps().pop().unwrap();
    assert_eq!(
        last.roles(),
        ["system", "user"],
        "the history is not sent as messages as well"
    );
    assert_eq!(last.wire_message(1)["content"], "again");
    let prompt = last.wire_message(0)["content"].as_str().unwrap();
    prompt.split('|').map(str::to_owned).collect()
}

#[tokio::test]
async fn a_template_gets_the_users_values_else_the_servers() {
    let settings = [
        ("JWT_SECRET", JWT),
        ("CODELAB_LOCALE", "ru"),
        ("CODELAB_CONTEXT__TIMEZONE", "Asia/Tokyo"),
    ];
    let server = TestServer::with(&settings).await;
    let nobody = Identity::of(UserId::new(1).unwrap());
    let values = prompt_of(&server, nobody.clone()).await;
    assert_eq!(
        [&values[0], &values[1], &values[3], &values[4]],
        ["1", "Asia/Tokyo", "", ""]
    );
    assert!(values[2].ends_with("+09:00"), "{}", values[2]);
    assert!(
        values[5].contains("] Пользователь: {{userId}}?\n["),
        "{}",
        values[5]
    );
    assert!(values[5].contains("] Ассистент: Тут."), "{}", values[5]);

    let somebody = Identity {
        user_id: UserId::new(2).unwrap(),
        timezone: Some("Asia/Kolkata".to_owned()),
        household_id: Some("h-2".to_owned()),
        locale: Some("uk-UA".to_owned()),
        ..nobody
    };
    let values = prompt_of(&server, somebody).await;
    assert_eq!(
        [&values[0], &values[1], &values[3], &values[4]],
        ["2", "Asia/Kolkata", "h-2", ""]
    );
    assert!(values[2].ends_with("+05:30"), "{}", values[2]);
    assert!(
        values[5].contains("] Користувач: {{userId}}?\n["),
        "{}",
        values[5]
    );
}
