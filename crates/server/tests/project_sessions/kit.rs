//! A server, the people who talk to it, and what they see.

mod model;
mod stream;

use std::ops::Deref;

use codelab_testkit::{FakeModel, Method, Reply, TestServer};
use serde_json::{Value, json};

pub use self::model::{is_joining, is_planning, says, task, tasks};
pub use self::stream::{Event, Seen, Stream};

/// A server whose model says `Done.` unless it is told otherwise.
pub async fn server() -> TestServer {
    server_with(&[]).await
}

pub async fn server_with(settings: &[(&str, &str)]) -> TestServer {
    let server = TestServer::with(settings).await;
    server.model.default_reply(Reply::text("Done."));
    server
}

/// A server whose default model speaks Anthropic's wire, and that model.
pub async fn server_of_anthropic() -> (TestServer, FakeModel) {
    let claude = FakeModel::start().await;
    let server = server_with(&[
        ("CODELAB_PROVIDERS__claude__KIND", "anthropic"),
        ("CODELAB_PROVIDERS__claude__URL", &claude.url()),
        ("CODELAB_PROVIDERS__claude__KEY_ENV", "CLAUDE_KEY"),
        ("CLAUDE_KEY", "sk-ant-0123456789"),
        ("LLM_MODEL", "claude/claude-sonnet-4-5"),
    ])
    .await;
    (server, claude)
}

/// An answer, read as JSON.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub retry_after: Option<u64>,
    pub body: Value,
}

impl Answer {
    async fn of(response: reqwest::Response) -> Self {
        let status = response.status().as_u16();
        let retry_after = response
            .headers()
            .get("retry-after")
            .map(|value| value.to_str().unwrap().parse().unwrap());
        let body = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap_or(Value::Null);
        Self {
            status,
            retry_after,
            body,
        }
    }

    /// The body of an answer that must have this status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{:#}", self.body);
        self.body
    }

    /// Refused with this status and code, and with all the fields that an error has.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str) {
        let found = self.body["error_code"].as_str().unwrap_or_default();
        assert_eq!((self.status, found), (status, code), "{:#}", self.body);
        assert!(
            self.body["detail"].is_string() && self.body["details"].is_object(),
            "{:#}",
            self.body
        );
    }
}

#[derive(Clone)]
pub struct Person {
    http: reqwest::Client,
    url: String,
    token: String,
}

impl Person {
    pub fn new(server: &TestServer, user: i64) -> Self {
        Self {
            http: reqwest::Client::new(),
            url: server.url.clone(),
            token: server.token(user),
        }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, None).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.ask("POST", path, Some(body)).await
    }

    pub async fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Answer {
        Answer::of(self.request(method, path, body).send().await.unwrap()).await
    }

    /// An answer that is no JSON.
    pub async fn file(&self, path: &str) -> reqwest::Response {
        self.request("GET", path, None).send().await.unwrap()
    }

    /// An event stream that must be given.
    pub async fn open(
        &self,
        method: &str,
        path: &str,
        body: Option<Value>,
        last_event: Option<u64>,
    ) -> Stream {
        let mut request = self
            .request(method, path, body)
            .header("accept", "text/event-stream");
        if let Some(last) = last_event {
            request = request.header("last-event-id", last);
        }
        Stream::of(request.send().await.unwrap()).await
    }

    /// Everything that happens in this person's sessions, after an event or from now on.
    pub async fn everything(&self, after: Option<&str>) -> Stream {
        let mut request = self.request("GET", "/my/events/", None);
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        Stream::of(request.send().await.unwrap()).await
    }

    fn request(&self, method: &str, path: &str, body: Option<Value>) -> reqwest::RequestBuilder {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let request = self
            .http
            .request(method, format!("{}{path}", self.url))
            .bearer_auth(&self.token);
        match body {
            Some(body) => request
                .header("content-type", "application/json")
                .body(body.to_string()),
            None => request,
        }
    }

    /// A new session in the default project.
    pub async fn session(&self) -> Session {
        self.session_with(json!({})).await
    }

    pub async fn session_with(&self, body: Value) -> Session {
        let made = self.post("/my/chat/sessions/", body).await.expect(201);
        let project = made["project_id"].as_i64().unwrap();
        Session {
            person: self.clone(),
            id: made["session_id"].as_str().unwrap().to_owned(),
            project,
        }
    }

    /// A new project's number.
    pub async fn project(&self, body: Value) -> i64 {
        self.post("/my/projects/", body).await.expect(201)["project_id"]
            .as_i64()
            .unwrap()
    }
}

/// One person's session.
#[derive(Clone)]
pub struct Session {
    person: Person,
    pub id: String,
    pub project: i64,
}

impl Deref for Session {
    type Target = Person;

    fn deref(&self) -> &Person {
        &self.person
    }
}

impl Session {
    pub fn path(&self, rest: &str) -> String {
        format!("/my/chat/{}/{rest}", self.id)
    }

    /// Another session of the same project.
    pub fn other(&self, id: &str) -> Self {
        Self {
            id: id.to_owned(),
            ..self.clone()
        }
    }

    /// The same session, seen with another person's token or through another server.
    pub fn seen_by(&self, person: &Person) -> Self {
        Self {
            person: person.clone(),
            ..self.clone()
        }
    }

    /// A direct call, answered as JSON.
    pub async fn call(&self, agent: &str, text: &str) -> Answer {
        self.send(json!({ "content": text, "target_agent": agent }))
            .await
    }

    pub async fn send(&self, body: Value) -> Answer {
        self.post(&self.path("message/"), body).await
    }

    /// A direct call, answered with its events.
    pub async fn stream_call(&self, agent: &str, text: &str) -> Stream {
        self.stream(json!({ "content": text, "target_agent": agent }))
            .await
    }

    /// A planned request, answered with its events.
    pub async fn stream_plan(&self, text: &str) -> Stream {
        self.stream(json!({ "content": text })).await
    }

    pub async fn stream(&self, body: Value) -> Stream {
        self.open("POST", &self.path("message/"), Some(body), None)
            .await
    }

    /// The answer to a message that asks for events and gets none.
    pub async fn refused_stream(&self, body: Value) -> Answer {
        let request = self.request("POST", &self.path("message/"), Some(body));
        Answer::of(
            request
                .header("accept", "text/event-stream")
                .send()
                .await
                .unwrap(),
        )
        .await
    }

    /// The events after a number, and those to come.
    pub async fn follow(&self, after: u64) -> Stream {
        self.open("GET", &self.path("events/"), None, Some(after))
            .await
    }

    /// Every stored event.
    pub async fn log(&self) -> Seen {
        self.open("GET", &self.path("events/?follow=false"), None, None)
            .await
            .all()
            .await
    }

    /// Follows until an event of this type comes that fits.
    pub async fn wait_for(&self, kind: &str, fits: impl Fn(&Value) -> bool) -> Event {
        let mut stream = self.follow(0).await;
        stream.until(kind, fits).await
    }

    pub async fn messages(&self, query: &str) -> Vec<Value> {
        let list = self
            .get(&self.path(&format!("messages/{query}")))
            .await
            .expect(200);
        list["messages"].as_array().unwrap().clone()
    }

    pub async fn detail(&self) -> Value {
        self.get(&format!("/my/chat/sessions/{}", self.id))
            .await
            .expect(200)
    }

    /// The session's newest plan.
    pub async fn plan(&self) -> Value {
        let list = self.get(&self.path("plans/")).await.expect(200);
        list["plans"]
            .as_array()
            .unwrap()
            .last()
            .expect("there is a plan")
            .clone()
    }

    pub async fn decide_plan(&self, plan: &Value, body: Value) -> Answer {
        let id = plan["plan_id"].as_str().unwrap();
        self.post(&self.path(&format!("plans/{id}/decision/")), body)
            .await
    }

    pub async fn decide(&self, call: &str, body: Value) -> Answer {
        self.post(&self.path(&format!("approvals/{call}/decision/")), body)
            .await
    }

    pub async fn claim(&self, call: &str, client: &str) -> Answer {
        self.post(
            &self.path(&format!("tool_calls/{call}/claim/")),
            json!({ "client_id": client }),
        )
        .await
    }

    pub async fn result(&self, call: &str, client: &str, result: Value) -> Answer {
        let body = json!({ "client_id": client, "result": result });
        self.post(&self.path(&format!("tool_calls/{call}/result/")), body)
            .await
    }

    pub async fn cancel(&self) -> Answer {
        self.ask("POST", &self.path("cancel/"), None).await
    }
}

/// A number of `/metrics`; what has none yet counts as 0.
pub async fn metric(server: &TestServer, name: &str) -> f64 {
    let answer = server
        .owner()
        .raw(Method::GET, "/metrics", &[], String::new())
        .await
        .unwrap();
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    let line = text
        .lines()
        .find(|line| line.split(' ').next() == Some(name));
    line.map_or(0.0, |line| {
        line.rsplit(' ').next().unwrap().parse().unwrap()
    })
}
