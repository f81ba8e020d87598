//! A user's session, through whichever server runs now.

use codelab_client::{Client, Credentials, EventData, FollowUntil, Method, ResumingEvents};
use codelab_protocol::{SessionEvent, SessionEventBody, SessionId};
use codelab_testkit::eventually;
use serde_json::{Value, json};

use crate::lab::{Lab, assert_contiguous};
use crate::process::ran;

pub struct Chat {
    token: String,
    pub id: String,
    pub project: u64,
}

impl Chat {
    pub async fn new(lab: &Lab) -> Self {
        let data_dir = lab.data_dir().to_str().unwrap();
        let token = ran(
            &["token", "--user", "1", "--data-dir", data_dir],
            &lab.settings,
        )
        .await
        .trim()
        .to_owned();
        let mut chat = Self {
            token,
            id: String::new(),
            project: 0,
        };
        let (status, made) = chat
            .ask(lab, Method::POST, "/my/chat/sessions/", Some(json!({})))
            .await;
        assert_eq!(status, 201, "{made}");
        chat.id = made["session_id"].as_str().unwrap().to_owned();
        chat.project = made["project_id"].as_u64().unwrap();
        chat
    }

    pub fn token(&self) -> &str {
        &self.token
    }

    pub async fn ask(
        &self,
        lab: &Lab,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> (u16, Value) {
        let client =
            Client::new(&lab.server().url, Credentials::Bearer(self.token.clone())).unwrap();
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let answer = client
            .raw(method, path, &[("content-type", "application/json")], body)
            .await
            .unwrap();
        (
            answer.status,
            serde_json::from_slice(&answer.body).unwrap_or_default(),
        )
    }

    pub async fn get(&self, lab: &Lab, path: &str) -> Value {
        let (status, answer) = self.ask(lab, Method::GET, path, None).await;
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    /// To a path below the session's.
    pub async fn post(&self, lab: &Lab, path: &str, body: Value) -> Value {
        let (status, answer) = self
            .ask(
                lab,
                Method::POST,
                &format!("/my/chat/{}/{path}", self.id),
                Some(body),
            )
            .await;
        assert!((200..300).contains(&status), "{path}: {status} {answer}");
        answer
    }

    pub async fn plan(&self, lab: &Lab) -> Value {
        self.get(lab, &format!("/my/chat/{}/plans/", self.id)).await["plans"][0].clone()
    }

    /// The plan, once it stands like this.
    pub async fn plan_that_is(&self, lab: &Lab, wanted: &[&str]) -> Value {
        let mut found = Value::Null;
        eventually("the plan stands as wanted", async || {
            found = self.plan(lab).await;
            let status = found["status"].as_str().unwrap_or_default();
            if wanted.contains(&status) {
                Ok(())
            } else {
                Err(found.clone())
            }
        })
        .await;
        found
    }

    /// What was said last in the session.
    pub async fn last_said(&self, lab: &Lab) -> String {
        let detail = self
            .get(lab, &format!("/my/chat/sessions/{}", self.id))
            .await;
        detail["messages"].as_array().unwrap().last().unwrap()["content"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Waits until readers see the beginning of an answer.
    pub async fn answer_begins(&self, lab: &Lab) {
        let client =
            Client::new(&lab.server().url, Credentials::Bearer(self.token.clone())).unwrap();
        let session = SessionId::parse(&self.id).unwrap();
        let mut events: ResumingEvents<SessionEvent> =
            ResumingEvents::new(client, session, None, FollowUntil::Dropped);
        while let Some(event) = events.next().await {
            if let EventData::Chunk(event) = event.unwrap().data
                && matches!(event.body, SessionEventBody::MessageDelta(_))
            {
                return;
            }
        }
        panic!("the stream ends before the answer begins");
    }

    /// All stored events, which must be numbered 1, 2, 3, …
    pub async fn log(&self, lab: &Lab) -> Vec<Value> {
        let client =
            Client::new(&lab.server().url, Credentials::Bearer(self.token.clone())).unwrap();
        let path = format!("/my/chat/{}/events/?follow=false", self.id);
        let answer = client
            .raw(Method::GET, &path, &[], String::new())
            .await
            .unwrap();
        let text = String::from_utf8(answer.body.to_vec()).unwrap();
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        let events: Vec<Value> = data
            .map(|data| serde_json::from_str(data).unwrap())
            .collect();
        let numbers: Vec<u64> = events
            .iter()
            .filter_map(|event| event["seq"].as_u64())
            .collect();
        assert_contiguous(&numbers, 1);
        events
    }
}

/// A task as the planner writes it.
pub fn task(id: &str, agent: &str, description: &str, needs: &[&str]) -> Value {
    json!({ "id": id, "agent": agent, "description": description, "depends_on": needs, "estimated_tokens": 10 })
}

/// The statuses of a plan's tasks, in their order.
pub fn statuses(plan: &Value) -> Vec<&str> {
    plan["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["status"].as_str().unwrap())
        .collect()
}

pub fn is_planning(body: &Value) -> bool {
    body["response_format"]["json_schema"]["name"] == "plan"
}

/// What a model request says last.
pub fn last_message(body: &Value) -> &str {
    body["messages"]
        .as_array()
        .and_then(|messages| messages.last()?["content"].as_str())
        .unwrap_or_default()
}
