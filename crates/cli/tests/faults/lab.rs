//! A data folder, a scripted model, and one server process after the other on them.

use std::path::{Path, PathBuf};

use codelab_client::{Client, ClientError, EventData, EventStream, Method, StreamEvent};
use codelab_fakemodel::FakeModel;
use codelab_protocol::{
    AgentStreamRequest, ApprovalInfo, CallId, ChunkBody, HitlDecision, Message, Role, Timestamp,
    TurnStatus,
};
use codelab_testkit::{SeenEvents, hitl_decision, id, message};
use serde_json::Value;
use tempfile::TempDir;

use crate::process::{DEADLINE, INTERNAL_KEY, Process};

pub struct Lab {
    pub model: FakeModel,
    pub settings: Vec<(String, String)>,
    /// What a shell does before it becomes the server, such as `umask 000`.
    pub prelude: String,
    data_dir: PathBuf,
    /// Beside the data, so that a full disk or a restored database does not touch the log.
    home: TempDir,
    server: Option<Process>,
}

impl Lab {
    pub async fn start() -> Self {
        Self::with(&[]).await
    }

    /// With settings, given as environment variables.
    pub async fn with(settings: &[(&str, &str)]) -> Self {
        let mut lab = Self::prepare(settings).await;
        lab.boot().await;
        lab
    }

    /// Everything but the server.
    pub async fn prepare(settings: &[(&str, &str)]) -> Self {
        let model = FakeModel::start().await;
        let home = tempfile::tempdir().unwrap();
        let data_dir = home.path().join("data");
        let own = [
            ("INTERNAL_API_KEY", INTERNAL_KEY),
            ("LLM_PROXY_URL", &model.url()),
            ("RUST_LOG", "warn"),
        ];
        let settings = own
            .iter()
            .chain(settings)
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Self {
            settings: settings.collect(),
            prelude: String::new(),
            model,
            data_dir,
            home,
            server: None,
        }
    }

    pub async fn boot(&mut self) {
        let server = Process::start(
            &self.data_dir,
            &self.log_file(),
            &self.settings,
            &self.prelude,
        )
        .await;
        self.server = Some(server);
    }

    pub fn log_file(&self) -> PathBuf {
        self.home.path().join("server.log")
    }

    /// The lines that the server has logged with this text in them.
    pub fn logged(&self, text: &str) -> Vec<String> {
        let log = std::fs::read_to_string(self.log_file()).unwrap();
        log.lines()
            .filter(|line| line.contains(text))
            .map(str::to_owned)
            .collect()
    }

    /// An unauthenticated look, such as a load balancer's: the status, and the body where it is
    /// JSON.
    pub async fn look(&self, path: &str) -> (u16, Value) {
        let answer = self
            .client()
            .raw(Method::GET, path, &[], String::new())
            .await
            .unwrap();
        (
            answer.status,
            serde_json::from_slice(&answer.body).unwrap_or_default(),
        )
    }

    pub async fn kill(&mut self) {
        self.server.take().expect("a server runs").kill().await;
    }

    /// `kill -9`, then a new server on the same data.
    pub async fn crash(&mut self) {
        self.kill().await;
        self.boot().await;
    }

    /// The running server leaves this lab, for a test that watches its end.
    pub fn take_server(&mut self) -> Process {
        self.server.take().expect("a server runs")
    }

    pub fn server(&self) -> &Process {
        self.server.as_ref().expect("a server runs")
    }

    pub fn client(&self) -> &Client {
        &self.server().client
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    pub fn set_data_dir(&mut self, folder: &Path) {
        self.data_dir = folder.to_owned();
    }

    /// Sends a message to the coder and reads its stream to the end.
    pub async fn say(&self, session: &str, text: &str) -> SeenEvents {
        self.send(&to_coder(session, text)).await
    }

    pub async fn send(&self, request: &AgentStreamRequest) -> SeenEvents {
        SeenEvents::all(
            self.client()
                .send(request)
                .await
                .expect("the request is taken"),
        )
        .await
    }

    pub async fn approve(&self, session: &str, call: &CallId) -> SeenEvents {
        self.send(&approval(session, call)).await
    }

    /// The whole log of a session, read on until a turn ends or suspends.
    pub async fn until_done(&self, session: &str, after: u64) -> SeenEvents {
        let mut stream = self
            .client()
            .events(&id(session), Some(after), true)
            .await
            .expect("events can be read");
        let seen = SeenEvents::until_done(&mut stream);
        tokio::time::timeout(DEADLINE, seen)
            .await
            .expect("the turn reaches an end")
    }

    /// All stored events of the session, which must be numbered 1, 2, 3, …
    pub async fn log(&self, session: &str) -> SeenEvents {
        let stream = self
            .client()
            .events(&id(session), None, false)
            .await
            .expect("events can be read");
        let seen = SeenEvents::all(stream).await;
        // A log that cannot be read on ends with an error that has no number.
        let unread = seen
            .events
            .iter()
            .find(|event| event.event == "error" && event.id.is_none());
        assert!(
            unread.is_none() && !seen.ids().is_empty(),
            "{session}: {unread:?}"
        );
        assert_contiguous(&seen.ids(), 1);
        seen
    }

    pub async fn history(&self, session: &str) -> Vec<Message> {
        self.client()
            .history(&id(session))
            .await
            .expect("the history can be read")
            .messages
    }

    /// What this role said, in order.
    pub async fn said_by(&self, role: Role, session: &str) -> Vec<String> {
        let spoken = self
            .history(session)
            .await
            .into_iter()
            .filter(|message| message.role == role);
        spoken.map(|message| message.content).collect()
    }

    pub async fn pending(&self, session: &str) -> Vec<ApprovalInfo> {
        self.client()
            .pending_approvals(&id(session))
            .await
            .expect("approvals can be read")
            .pending_approvals
    }
}

/// A message for a pinned agent, so that no classification comes before the answer.
pub fn to_coder(session: &str, text: &str) -> AgentStreamRequest {
    AgentStreamRequest {
        agent_type: Some("coder".to_owned()),
        ..message(session, text)
    }
}

pub fn approval(session: &str, call: &CallId) -> AgentStreamRequest {
    hitl_decision(
        session,
        call,
        HitlDecision {
            decision: Some(codelab_protocol::DecisionChoice::Approve.into()),
            ..Default::default()
        },
    )
}

/// What a turn's stream shows up to the error with which it ends, where the turn cannot be stored.
pub async fn told(mut stream: EventStream) -> SeenEvents {
    let is_error = |event: &StreamEvent| match &event.data {
        EventData::Chunk(chunk) => matches!(chunk.body, ChunkBody::Error(_)),
        _ => false,
    };
    let seen = tokio::time::timeout(DEADLINE, SeenEvents::until(&mut stream, is_error))
        .await
        .expect("it is told");
    let done = stream
        .next()
        .await
        .expect("a last frame")
        .expect("a whole stream");
    assert!(
        matches!(done.data, EventData::Done(done) if done.status == TurnStatus::Failed),
        "as every stream ends"
    );
    assert!(stream.next().await.is_none());
    assert_eq!(
        seen.events.last().and_then(|event| event.id),
        None,
        "it is no event of the session"
    );
    seen
}

pub fn assert_contiguous(ids: &[u64], first: u64) {
    let expected: Vec<u64> = (first..first + ids.len() as u64).collect();
    assert_eq!(
        ids, expected,
        "events are numbered without gaps and repeats"
    );
}

/// Status and code of an error answer.
pub fn refusal<T>(answer: Result<T, ClientError>) -> (u16, String) {
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

pub fn now() -> Timestamp {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    Timestamp::from_millis(since.as_millis() as i64)
}
