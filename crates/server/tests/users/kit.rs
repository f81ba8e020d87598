//! A server and users who talk to it.

use codelab_testkit::{Client, Credentials, Method, RawResponse, TestServer, eventually};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

pub const SECRET: &str = "a-secret-of-the-tests-that-is-long-enough";

pub async fn server() -> TestServer {
    server_with(&[]).await
}

pub async fn server_with(settings: &[(&str, &str)]) -> TestServer {
    let mut all = vec![("JWT_SECRET", SECRET)];
    all.extend(settings);
    TestServer::with(&all).await
}

pub fn seconds_from_now(seconds: i64) -> i64 {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    now.as_secs() as i64 + seconds
}

/// Claims that are in order; a test changes what it is about.
pub fn claims(user: i64) -> Value {
    json!({ "sub": user.to_string(), "aud": "codelab", "exp": seconds_from_now(3600) })
}

pub fn sign(claims: &Value) -> String {
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    jsonwebtoken::encode(&Header::new(Algorithm::HS256), claims, &key).unwrap()
}

/// An answer, read as JSON.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Value,
    pub raw: RawResponse,
}

impl Answer {
    pub fn code(&self) -> &str {
        self.body["error_code"].as_str().unwrap_or_default()
    }

    /// The body of an answer that must have this status.
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        self.body
    }

    /// Refused with this status and code, and with all the fields an error has.
    pub fn refused(&self, status: u16, code: &str) {
        assert_eq!((self.status, self.code()), (status, code), "{}", self.body);
        assert!(
            self.body["detail"].is_string() && self.body["details"].is_object(),
            "{}",
            self.body
        );
    }
}

#[derive(Clone)]
pub struct Person {
    client: Client,
    header: Option<(&'static str, String)>,
}

impl Person {
    pub fn user(server: &TestServer, user: i64) -> Self {
        Self::bearer(server, &sign(&claims(user)))
    }

    pub fn bearer(server: &TestServer, token: &str) -> Self {
        Self::with(server, Some(("authorization", format!("Bearer {token}"))))
    }

    pub fn cookie(server: &TestServer, cookie: &str) -> Self {
        Self::with(server, Some(("cookie", cookie.to_owned())))
    }

    pub fn stranger(server: &TestServer) -> Self {
        Self::with(server, None)
    }

    pub fn with(server: &TestServer, header: Option<(&'static str, String)>) -> Self {
        Self {
            client: Client::new(&server.url, Credentials::None).unwrap(),
            header,
        }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, None).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.ask("POST", path, Some(body)).await
    }

    pub async fn patch(&self, path: &str, body: Value) -> Answer {
        self.ask("PATCH", path, Some(body)).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.ask("DELETE", path, None).await
    }

    pub async fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Answer {
        self.ask_with(method, path, body, &[]).await
    }

    pub async fn ask_with(
        &self,
        method: &str,
        path: &str,
        body: Option<Value>,
        more: &[(&str, &str)],
    ) -> Answer {
        let mut more = more.to_vec();
        if body.is_some() {
            more.push(("content-type", "application/json"));
        }
        self.exchange(
            method,
            path,
            &more,
            body.map(|body| body.to_string()).unwrap_or_default(),
        )
        .await
    }

    /// A body of any kind.
    pub async fn send(&self, method: &str, path: &str, content_type: &str, text: String) -> Answer {
        self.exchange(method, path, &[("content-type", content_type)], text)
            .await
    }

    pub async fn exchange(
        &self,
        method: &str,
        path: &str,
        more: &[(&str, &str)],
        text: String,
    ) -> Answer {
        let mut headers: Vec<(&str, &str)> = self
            .header
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        headers.extend(more);
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let raw = self.client.raw(method, path, &headers, text).await.unwrap();
        let body = serde_json::from_slice(&raw.body).unwrap_or(Value::Null);
        Answer {
            status: raw.status,
            body,
            raw,
        }
    }

    /// A new project's number.
    pub async fn project(&self, name: &str) -> i64 {
        self.post("/my/projects/", json!({ "name": name }))
            .await
            .expect(201)["project_id"]
            .as_i64()
            .unwrap()
    }

    /// The agents of a project, whole.
    pub async fn agents(&self, project: i64) -> Vec<Value> {
        self.get(&format!("/my/projects/{project}/agents/"))
            .await
            .expect(200)["agents"]
            .as_array()
            .unwrap()
            .clone()
    }

    /// The id of an agent, by its name.
    pub async fn agent(&self, project: i64, name: &str) -> String {
        let agents = self.agents(project).await;
        let agent = agents
            .iter()
            .find(|agent| agent["name"] == name)
            .unwrap_or_else(|| panic!("no agent {name}"));
        agent["agent_id"].as_str().unwrap().to_owned()
    }

    /// A new session's id.
    pub async fn session(&self, project: i64) -> String {
        let made = self
            .post("/my/chat/sessions/", json!({ "project_id": project }))
            .await
            .expect(201);
        made["session_id"].as_str().unwrap().to_owned()
    }

    /// Says something to an agent and waits for what comes of it.
    pub async fn say(&self, session: &str, agent: &str, text: &str) -> Answer {
        let body = json!({ "content": text, "target_agent": agent });
        self.post(&format!("/my/chat/{session}/message/"), body)
            .await
    }

    /// The same, while the test does something else.
    pub fn saying(&self, session: &str, agent: &str) -> JoinHandle<Answer> {
        let (person, session, agent) = (self.clone(), session.to_owned(), agent.to_owned());
        tokio::spawn(async move { person.say(&session, &agent, "do it").await })
    }

    pub async fn space(&self, project: i64) -> Value {
        self.get(&format!("/my/projects/{project}/worker-space/"))
            .await
            .expect(200)
    }

    /// `GET` of something about an agent: its status, its metrics.
    pub async fn about(&self, project: i64, agent: &str, what: &str) -> Value {
        let id = self.agent(project, agent).await;
        self.get(&format!("/my/projects/{project}/agents/{id}/{what}/"))
            .await
            .expect(200)
    }

    /// `POST` of something to an agent.
    pub async fn tell(&self, project: i64, agent: &str, what: &str) -> Answer {
        let id = self.agent(project, agent).await;
        self.ask(
            "POST",
            &format!("/my/projects/{project}/agents/{id}/{what}/"),
            None,
        )
        .await
    }
}

/// Until these fields of the answer have these values.
pub async fn until(what: &str, expected: Value, mut look: impl AsyncFnMut() -> Value) {
    eventually(what, async || {
        let seen = look().await;
        let so = expected
            .as_object()
            .unwrap()
            .iter()
            .all(|(name, value)| seen[name] == *value);
        if so { Ok(()) } else { Err(seen) }
    })
    .await;
}

/// A number of `/metrics`; a family that has none yet counts as 0.
pub async fn metric(server: &TestServer, name: &str) -> f64 {
    let headers = [("x-internal-auth", codelab_testkit::INTERNAL_KEY)];
    let answer = server
        .owner()
        .raw(Method::GET, "/metrics", &headers, String::new())
        .await
        .unwrap();
    assert_eq!(answer.status, 200);
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    let line = text.lines().find_map(|line| {
        line.strip_prefix(name)
            .and_then(|rest| rest.strip_prefix(' '))
    });
    line.map_or(0.0, |number| number.parse().unwrap())
}
