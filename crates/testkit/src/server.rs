//! `TestServer`: the product itself, inside this process, on port 0 and a temporary data folder.

use std::path::Path;
use std::time::SystemTime;

use codelab_client::{Client, ClientError, Credentials, EventStream, Method};
use codelab_fakemodel::{FakeModel, RecordedRequest};
use codelab_protocol::{
    AgentStreamRequest, ApprovalInfo, AuditList, CallId, HitlDecision, Message, SessionId,
    SwitchEntry, UserId,
};
use codelab_server::{Flags, Identity, Server, Settings, StartError, sign_token};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Handle;

use crate::through_another::{self, ThroughAnother};
use crate::{Asked, SeenEvents};

pub const INTERNAL_KEY: &str = "test-internal-key";
/// What the servers of an installation share.
const SHARED_SECRET: &str = "a secret that all servers of the installation have";

pub struct TestServer {
    pub model: FakeModel,
    pub client: Client,
    pub url: String,
    serving: Serving,
}

/// What answers the requests of a test.
enum Serving {
    One(Box<OneServer>),
    /// All requests enter at a server that owns nothing.
    ThroughAnother(Box<ThroughAnother>),
}

/// A server with its data folder. It can be started again.
pub(crate) struct OneServer {
    server: Option<Server>,
    environment: Vec<(String, String)>,
    data: TempDir,
    /// Where it lives; none is the test's own runtime.
    home: Option<Handle>,
}

impl TestServer {
    pub async fn start() -> Self {
        Self::with(&[]).await
    }

    /// With settings, given as environment variables.
    pub async fn with(settings: &[(&str, &str)]) -> Self {
        Self::try_with(settings).await.expect("the server starts")
    }

    pub async fn try_with(settings: &[(&str, &str)]) -> Result<Self, StartError> {
        let model = FakeModel::start().await;
        let mut environment: Vec<(String, String)> = vec![
            ("INTERNAL_API_KEY".to_owned(), INTERNAL_KEY.to_owned()),
            ("LLM_PROXY_URL".to_owned(), model.url()),
            ("CODELAB_ADDR".to_owned(), "127.0.0.1:0".to_owned()),
            // A test sends requests faster than a person. A test of the limit sets its own value.
            (
                "CODELAB_LIMITS__USER_REQUESTS_PER_SECOND".to_owned(),
                "0".to_owned(),
            ),
            (
                "CODELAB_LIMITS__USER_SESSIONS_PER_MINUTE".to_owned(),
                "0".to_owned(),
            ),
        ];
        let serving = if through_another::applies_to(settings) {
            let through = ThroughAnother::start(environment, settings).await?;
            Serving::ThroughAnother(Box::new(through))
        } else {
            environment.extend(owned(settings));
            let mut one = OneServer::new(environment);
            one.boot().await?;
            Serving::One(Box::new(one))
        };
        let url = serving.entered().url();
        Ok(Self {
            model,
            client: client(&url),
            url,
            serving,
        })
    }

    /// One of several servers of an installation, which share a PostgreSQL.
    pub async fn member(database_url: &str, settings: &[(&str, &str)]) -> Self {
        let (shared, address) = (shared_settings(database_url), free_address().await);
        let own: Vec<(&str, &str)> = shared
            .iter()
            .chain(&address)
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        Self::with(&[&own, settings].concat()).await
    }

    /// Stops and starts again on the same data; the address changes.
    pub async fn restart(&mut self) {
        match &mut self.serving {
            Serving::One(one) => {
                one.stop().await;
                one.boot().await.expect("the server starts again");
            }
            Serving::ThroughAnother(through) => through.restart().await,
        }
        self.url = self.serving.entered().url();
        self.client = client(&self.url);
    }

    pub async fn stop(&mut self) {
        match &mut self.serving {
            Serving::One(one) => one.stop().await,
            Serving::ThroughAnother(through) => through.stop().await,
        }
    }

    /// The server that does the work, whose metrics tell of it. Requests can enter at another one.
    pub fn owner(&self) -> Client {
        match &self.serving {
            Serving::One(_) => self.client.clone(),
            Serving::ThroughAnother(through) => client(&through.owner.url()),
        }
    }

    /// A user's token, valid for an hour.
    pub fn token(&self, user: i64) -> String {
        let server = self.serving.entered().server();
        let identity = Identity::of(UserId::new(user).expect("a positive number"));
        sign_token(
            &identity,
            &server.secrets.jwt_secret,
            SystemTime::now().into(),
            3600,
        )
        .expect("a token can be signed")
    }

    pub fn data_dir(&self) -> &Path {
        self.serving.entered().data.path()
    }

    /// Sends a user message and reads its stream to the end.
    pub async fn say(&self, session: &str, text: &str) -> SeenEvents {
        self.send(&message(session, text)).await
    }

    pub async fn say_to(&self, session: &str, agent: &str, text: &str) -> SeenEvents {
        self.send(&message_to(agent, session, text)).await
    }

    pub async fn switch(&self, session: &str, agent: &str) -> SeenEvents {
        self.send(&AgentStreamRequest {
            message_type: Some(codelab_protocol::MessageType::SwitchAgent.into()),
            agent_type: Some(agent.to_owned()),
            ..request(session)
        })
        .await
    }

    pub async fn result(&self, session: &str, call: &CallId, result: Value) -> SeenEvents {
        self.send(&tool_result(session, call, result)).await
    }

    pub async fn approve(&self, session: &str, call: &CallId) -> SeenEvents {
        self.decide(
            session,
            call,
            HitlDecision {
                decision: Some(codelab_protocol::DecisionChoice::Approve.into()),
                ..Default::default()
            },
        )
        .await
    }

    pub async fn decide(&self, session: &str, call: &CallId, decision: HitlDecision) -> SeenEvents {
        self.send(&hitl_decision(session, call, decision)).await
    }

    pub async fn send(&self, request: &AgentStreamRequest) -> SeenEvents {
        SeenEvents::all(self.open(request).await).await
    }

    /// Sends a request. The test reads the stream itself.
    pub async fn open(&self, request: &AgentStreamRequest) -> EventStream {
        self.client
            .send(request)
            .await
            .expect("the request is accepted")
    }

    /// The session's events after this number, and all later ones.
    pub async fn follow(&self, session: &str, after: u64) -> EventStream {
        self.client
            .events(&id(session), Some(after), true)
            .await
            .expect("the events can be read")
    }

    /// All stored events of the session.
    pub async fn log(&self, session: &str) -> SeenEvents {
        SeenEvents::all(
            self.client
                .events(&id(session), None, false)
                .await
                .expect("the events can be read"),
        )
        .await
    }

    pub async fn history(&self, session: &str) -> Vec<Message> {
        self.client
            .history(&id(session))
            .await
            .expect("the history can be read")
            .messages
    }

    pub async fn pending(&self, session: &str) -> Vec<ApprovalInfo> {
        self.client
            .pending_approvals(&id(session))
            .await
            .expect("the approvals can be read")
            .pending_approvals
    }

    pub async fn audit(&self, session: &str) -> AuditList {
        self.client
            .audit(&id(session))
            .await
            .expect("the audit can be read")
    }

    pub async fn switches(&self, session: &str) -> Vec<SwitchEntry> {
        self.client
            .agent_history(&id(session))
            .await
            .expect("the switches can be read")
            .switches
    }

    pub async fn current_agent(&self, session: &str) -> String {
        let current = self
            .client
            .current_agent(&id(session))
            .await
            .expect("the agent can be read");
        current.current_agent.into()
    }

    /// The model requests of agents, without the classifications.
    pub fn steps(&self) -> Vec<RecordedRequest> {
        self.model
            .requests()
            .into_iter()
            .filter(|request| !request.is_classification())
            .collect()
    }

    /// A plain request with the internal key. The body is null if there is none.
    pub async fn http(&self, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let answer = self
            .client
            .raw(method, path, &[("content-type", "application/json")], body)
            .await
            .unwrap();
        (
            answer.status,
            serde_json::from_slice(&answer.body).unwrap_or_default(),
        )
    }

    /// The status and error code of a request that must be refused.
    pub async fn refused(&self, request: &AgentStreamRequest) -> (u16, String) {
        refusal(self.client.send(request).await)
    }
}

impl Serving {
    /// The server that requests reach first.
    fn entered(&self) -> &OneServer {
        match self {
            Self::One(one) => one,
            Self::ThroughAnother(through) => &through.entry,
        }
    }
}

impl OneServer {
    pub fn new(environment: Vec<(String, String)>) -> Self {
        Self {
            server: None,
            environment,
            data: tempfile::tempdir().unwrap(),
            home: None,
        }
    }

    pub fn living_in(home: Handle, environment: Vec<(String, String)>) -> Self {
        Self {
            home: Some(home),
            ..Self::new(environment)
        }
    }

    /// Later settings win.
    pub fn configure(&mut self, settings: Vec<(String, String)>) {
        self.environment.extend(settings);
    }

    pub async fn boot(&mut self) -> Result<(), StartError> {
        let flags = Flags {
            data_dir: Some(self.data.path().to_owned()),
            ..Flags::default()
        };
        let settings = Settings::load(flags, self.environment.iter().cloned())?;
        let starting = Server::start(settings);
        let started = match &self.home {
            Some(home) => home.spawn(starting).await.unwrap(),
            None => starting.await,
        };
        self.server = Some(started?);
        Ok(())
    }

    pub async fn stop(&mut self) {
        match (self.server.take(), &self.home) {
            (Some(server), Some(home)) => home.spawn(server.stop()).await.unwrap(),
            (Some(server), None) => server.stop().await,
            (None, _) => {}
        }
    }

    pub fn is_running(&self) -> bool {
        self.server.is_some()
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.server().addr)
    }

    fn server(&self) -> &Server {
        self.server.as_ref().expect("the server runs")
    }
}

/// With the key of an operator.
pub(crate) fn client(url: &str) -> Client {
    Client::new(url, Credentials::InternalKey(INTERNAL_KEY.to_owned())).unwrap()
}

/// What makes a server one of several on this database, besides its address.
pub(crate) fn shared_settings(database_url: &str) -> Vec<(String, String)> {
    owned(&[
        ("DATABASE_URL", database_url),
        ("JWT_SECRET", SHARED_SECRET),
        ("CODELAB_MASTER_KEY", SHARED_SECRET),
    ])
}

/// The other servers must know the address before the server listens, so a free port is chosen.
pub(crate) async fn free_address() -> Vec<(String, String)> {
    let port = {
        let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        free.local_addr().unwrap().port()
    };
    owned(&[
        ("CODELAB_ADDR", &format!("127.0.0.1:{port}")),
        (
            "CODELAB_CLUSTER__ADDRESS",
            &format!("http://127.0.0.1:{port}"),
        ),
    ])
}

pub(crate) fn owned(settings: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    settings.iter().map(owned).collect()
}

pub fn id(session: &str) -> SessionId {
    SessionId::parse(session).unwrap()
}

pub fn request(session: &str) -> AgentStreamRequest {
    AgentStreamRequest {
        session_id: id(session),
        message_type: None,
        message: None,
        agent_type: None,
        tool_call_id: None,
        tool_result: None,
        hitl_decision: None,
        client_message_id: None,
        context: None,
    }
}

pub fn message(session: &str, text: &str) -> AgentStreamRequest {
    AgentStreamRequest {
        message: Some(text.to_owned()),
        ..request(session)
    }
}

pub fn message_to(agent: &str, session: &str, text: &str) -> AgentStreamRequest {
    AgentStreamRequest {
        agent_type: Some(agent.to_owned()),
        ..message(session, text)
    }
}

pub fn tool_result(session: &str, call: &CallId, result: Value) -> AgentStreamRequest {
    AgentStreamRequest {
        message_type: Some(codelab_protocol::MessageType::ToolResult.into()),
        tool_call_id: Some(call.clone()),
        tool_result: Some(result),
        ..request(session)
    }
}

pub fn hitl_decision(session: &str, call: &CallId, decision: HitlDecision) -> AgentStreamRequest {
    AgentStreamRequest {
        message_type: Some(codelab_protocol::MessageType::HitlDecision.into()),
        tool_call_id: Some(call.clone()),
        hitl_decision: Some(decision),
        ..request(session)
    }
}

/// The status and error code of an answer that must be an error.
pub fn refusal(answer: Result<EventStream, ClientError>) -> (u16, String) {
    match answer {
        Err(error @ ClientError::Status { .. }) => {
            let code = error
                .error_code()
                .map(|code| code.as_str().to_owned())
                .unwrap_or_default();
            (error.status().unwrap_or_default(), code)
        }
        Err(error) => panic!("not answered: {error}"),
        Ok(_) => panic!("the request was taken"),
    }
}
