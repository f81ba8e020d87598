//! A store on a fresh database, direct access to that database for tampering, and functions that
//! make rows.

use codelab_protocol::{
    AgentName, ApprovalInfo, CallId, ClientMessageId, Message, MessageId, ProjectId, Role,
    SessionId, SessionKind, TaskId, Timestamp, TurnId, UserId, arguments_digest,
};
use codelab_store::audit_chain::AuditKey;
use codelab_store::{
    Commit, DatabaseUrl, Epoch, NewSessionRow, SealingKey, SessionKey, SessionKeys, Store,
    StoreOptions, StoredEvent, StoredMessage,
};
use serde_json::json;
use tempfile::TempDir;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    Sqlite,
    Postgres,
    /// PostgreSQL as a user whom it accepts only over TLS.
    PostgresOverTls,
    /// PostgreSQL behind PgBouncer in transaction mode.
    PostgresPooled,
}

pub struct Harness {
    pub store: Store,
    pub options: StoreOptions,
    location: Location,
}

enum Location {
    Sqlite(TempDir),
    Postgres {
        url: String,
        schema: String,
        has_own_role: bool,
    },
}

pub fn postgres_url() -> Option<String> {
    variable(POSTGRES_URL)
}

/// Names the same server as the other variable, and a user whom it accepts only over TLS.
pub fn postgres_tls_url() -> Option<String> {
    variable(POSTGRES_TLS_URL)
}

/// PgBouncer in transaction mode before the same server. It accepts every user of the server.
pub fn pgbouncer_url() -> Option<String> {
    variable(PGBOUNCER_URL)
}

const POSTGRES_URL: &str = "CODELAB_TEST_POSTGRES_URL";
const POSTGRES_TLS_URL: &str = "CODELAB_TEST_POSTGRES_TLS_URL";
const PGBOUNCER_URL: &str = "CODELAB_TEST_PGBOUNCER_URL";

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|url| !url.is_empty())
}

impl Harness {
    /// `None` if there is no such database to test on.
    pub async fn open(engine: Engine) -> Option<Self> {
        Self::open_with(engine, |_| ()).await
    }

    pub async fn open_with(engine: Engine, adjust: impl FnOnce(&mut StoreOptions)) -> Option<Self> {
        let (location, url) = match engine {
            Engine::Sqlite => {
                let folder = tempfile::tempdir().unwrap();
                let url = format!("sqlite:{}", folder.path().join("codelab.db").display());
                (Location::Sqlite(folder), url)
            }
            Engine::Postgres | Engine::PostgresOverTls => {
                let url = postgres_url()?;
                let store_url = match engine {
                    Engine::PostgresOverTls => postgres_tls_url()?,
                    _ => url.clone(),
                };
                make_schema(url, store_url).await
            }
            Engine::PostgresPooled => make_role(postgres_url()?, pgbouncer_url()?).await,
        };
        let mut options = StoreOptions::new(DatabaseUrl::parse(&url).unwrap());
        options.audit_key = Some(audit_key());
        options.sealing_key = Some(SealingKey::new(&[8; SealingKey::BYTES]));
        adjust(&mut options);
        let store = Store::open(options.clone()).await.unwrap();
        Some(Self {
            store,
            options,
            location,
        })
    }

    pub async fn finish(self) {
        self.store.close().await;
        if let Location::Postgres {
            url,
            schema,
            has_own_role,
        } = &self.location
        {
            execute_postgres(url, &format!("DROP SCHEMA {schema} CASCADE")).await;
            if *has_own_role {
                execute_postgres(url, &format!("DROP ROLE {schema}")).await;
            }
        }
    }

    /// Ends the store's connections to PostgreSQL from the server's side, and waits until they are
    /// gone.
    pub async fn cut_connections(&self) {
        if let Location::Postgres { url, schema, .. } = &self.location {
            let end = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = ";
            execute_postgres(url, &format!("{end}'{schema}'")).await;
        }
    }

    pub async fn restart(&mut self) {
        self.store.close().await;
        self.store = Store::open(self.options.clone()).await.unwrap();
    }

    pub async fn restart_with(&mut self, adjust: impl FnOnce(&mut StoreOptions)) {
        adjust(&mut self.options);
        self.restart().await;
    }

    /// Changes the database without the store.
    pub async fn tamper(&self, sql: &str) {
        match &self.location {
            Location::Sqlite(folder) => {
                let connection =
                    rusqlite::Connection::open(folder.path().join("codelab.db")).unwrap();
                connection
                    .busy_timeout(std::time::Duration::from_secs(10))
                    .unwrap();
                connection.execute_batch(sql).unwrap();
            }
            Location::Postgres { url, schema, .. } => {
                execute_postgres(url, &format!("SET search_path = {schema}; {sql}")).await;
            }
        }
    }

    /// PostgreSQL only: nobody else can use the table until the connection is dropped.
    pub async fn lock(&self, table: &str) -> tokio_postgres::Client {
        let Location::Postgres { url, schema, .. } = &self.location else {
            panic!("this is not PostgreSQL");
        };
        let (client, driver) = tokio_postgres::connect(url, tokio_postgres::NoTls)
            .await
            .unwrap();
        tokio::spawn(driver);
        let lock = format!(
            "SET search_path = {schema}; BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE"
        );
        client.batch_execute(&lock).await.unwrap();
        client
    }

    /// A new session with its first event and message.
    pub async fn session(&self, name: &str) -> SessionKey {
        let commit = create(name);
        let key = commit.key;
        self.store.commit(commit).await.unwrap();
        key
    }
}

/// A schema of the server at `url` for the user in `store_url`.
async fn make_schema(url: String, store_url: String) -> (Location, String) {
    let schema = format!("test_{:016x}", random());
    let mut make = format!("CREATE SCHEMA {schema};");
    if let Some(user) = user_of(&store_url) {
        make.push_str(&format!(" ALTER SCHEMA {schema} OWNER TO \"{user}\""));
    }
    execute_postgres(&url, &make).await;
    let separator = if store_url.contains('?') { '&' } else { '?' };
    let own = format!(
        "{store_url}{separator}options=-c%20search_path%3D{schema}&application_name={schema}"
    );
    let location = Location::Postgres {
        url,
        schema,
        has_own_role: false,
    };
    (location, own)
}

/// PgBouncer refuses `options`, so the schema is found by the name of its own user.
async fn make_role(url: String, pgbouncer_url: String) -> (Location, String) {
    let schema = format!("test_{:016x}", random());
    let make = format!(
        "CREATE ROLE {schema} SUPERUSER LOGIN PASSWORD '{schema}'; \
         CREATE SCHEMA AUTHORIZATION {schema}"
    );
    execute_postgres(&url, &make).await;
    let (_, place) = pgbouncer_url.split_once('@').unwrap();
    let own = format!("postgres://{schema}:{schema}@{place}?pgbouncer=true");
    let location = Location::Postgres {
        url,
        schema,
        has_own_role: true,
    };
    (location, own)
}

fn user_of(url: &str) -> Option<&str> {
    let (user, _) = url.split_once("://")?.1.split_once('@')?;
    Some(user.split(':').next().unwrap_or(user))
}

pub async fn execute_postgres(url: &str, sql: &str) {
    let (client, driver) = tokio_postgres::connect(url, tokio_postgres::NoTls)
        .await
        .unwrap();
    let driver = tokio::spawn(driver);
    client.batch_execute(sql).await.unwrap();
    drop(client);
    let _ = driver.await;
}

pub fn audit_key() -> AuditKey {
    AuditKey::new(&[7; AuditKey::BYTES])
}

pub fn random() -> u64 {
    getrandom::u64().unwrap()
}

pub fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_768_334_400_000 + millis)
}

pub fn id(text: &str) -> SessionId {
    SessionId::parse(text).unwrap()
}

pub fn call(text: &str) -> CallId {
    CallId::parse(text).unwrap()
}

pub fn client_id(text: &str) -> ClientMessageId {
    ClientMessageId::parse(text).unwrap()
}

pub fn agent(text: &str) -> AgentName {
    AgentName::parse(text).unwrap()
}

pub const FIRST: Epoch = Epoch(1);

pub fn new_key() -> SessionKey {
    SessionKeys::default().allocate(at(0).as_millis(), random() as u32)
}

pub fn new_session(name: &str) -> NewSessionRow {
    NewSessionRow {
        kind: SessionKind::Runtime,
        session_id: id(name),
        user_id: None,
        project_id: None,
        system_prompt: None,
        created_at: at(0),
        owner: None,
    }
}

pub fn create(name: &str) -> Commit {
    let mut commit = Commit::new(new_key(), FIRST);
    commit.create = Some(new_session(name));
    commit.state = Some("{}".to_owned());
    commit.messages.push(message(1, 1, "hello"));
    commit.events.push(event(1, 1));
    commit
}

/// The first commit of a session in a project.
pub fn project_session(name: &str, user: UserId, project: ProjectId) -> Commit {
    let mut commit = create(name);
    let session = commit.create.as_mut().unwrap();
    (session.kind, session.user_id, session.project_id) =
        (SessionKind::Project, Some(user), Some(project));
    commit.search_user = Some(user);
    commit
}

pub fn task_id(text: &str) -> TaskId {
    TaskId::parse(text).unwrap()
}

pub fn event(seq: u64, turn: u64) -> StoredEvent {
    StoredEvent {
        seq,
        turn: TurnId(turn),
        kind: "assistant_message".into(),
        body: format!("{{\"n\":{seq}}}").into(),
        settled: None,
        timestamp: at(seq as i64),
    }
}

pub fn message(ord: u64, turn: u64, content: &str) -> StoredMessage {
    let id = MessageId::parse(&format!("m{ord}")).unwrap();
    let message = Message::new(id, Role::User, content.to_owned(), at(ord as i64));
    StoredMessage {
        ord,
        turn: TurnId(turn),
        task: None,
        message,
    }
}

pub fn approval(call_id: &str) -> ApprovalInfo {
    let arguments = json!({"path": "a.py", "content": "x = 1\u{0}"})
        .as_object()
        .unwrap()
        .clone();
    ApprovalInfo {
        mcp: None,
        call_id: call(call_id),
        kind: codelab_protocol::ApprovalKind::Tool,
        tool_name: "write_file".to_owned(),
        digest: arguments_digest("write_file", &arguments),
        arguments,
        parts: Vec::new(),
        reason: "writes a file".to_owned(),
        created_at: at(5),
        expires_at: Some(at(300_000)),
        timeout_seconds: 300,
        preview: None,
    }
}
