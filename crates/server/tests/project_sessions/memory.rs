//! What agents remember: found again, used in later turns, forgotten with what it belongs to; and
//! what happens when the memory engine cannot be used.

use std::path::Path;
use std::time::Duration;

use codelab_testkit::{Reply, TestServer, eventually, skipped_through_another};
use serde_json::{Value, json};

use crate::kit::{Person, Session, is_planning, metric, server, server_with, tasks};

/// How long a caller is awaited beside a loaded machine.
const DEADLINE: Duration = Duration::from_secs(30);

/// Asks until the answer fits.
async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    eventually(what, async || ask().await.ok_or("nothing")).await
}

pub struct Agent {
    person: Person,
    pub path: String,
}

impl Agent {
    pub async fn of(person: &Person, project: i64, name: &str) -> Self {
        let list = person
            .get(&format!("/my/projects/{project}/agents/"))
            .await
            .expect(200);
        let agents = list["agents"].as_array().unwrap();
        let id = agents.iter().find(|agent| agent["name"] == name).unwrap()["agent_id"]
            .as_str()
            .unwrap();
        Self {
            person: person.clone(),
            path: format!("/my/projects/{project}/agents/{id}"),
        }
    }

    async fn search(&self, body: Value) -> Vec<Value> {
        let found = self
            .person
            .post(&format!("{}/context/search/", self.path), body)
            .await
            .expect(200);
        found["results"].as_array().unwrap().clone()
    }

    pub async fn finds(&self, query: &str, text: &str) -> Value {
        until(&format!("{text} is found"), async || {
            let results = self.search(json!({ "query": query })).await;
            results
                .into_iter()
                .find(|hit| hit["text"].as_str().unwrap().contains(text))
        })
        .await
    }

    /// The same of a memory that cannot be searched for a while.
    async fn finds_again(&self, query: &str, text: &str) -> Value {
        until(&format!("{text} is found again"), async || {
            let answer = self
                .person
                .post(
                    &format!("{}/context/search/", self.path),
                    json!({ "query": query }),
                )
                .await;
            if answer.status == 503 {
                return None;
            }
            let results = answer.expect(200)["results"].as_array().unwrap().clone();
            results
                .into_iter()
                .find(|hit| hit["text"].as_str().unwrap().contains(text))
        })
        .await
    }

    pub async fn add(&self, body: Value) -> Value {
        self.person
            .post(&format!("{}/context/", self.path), body)
            .await
            .expect(201)
    }
}

fn asked(server: &TestServer) -> String {
    server.model.requests().last().unwrap().body.to_string()
}

async fn call(session: &Session, text: &str) -> Value {
    session.call("coder", text).await.expect(200)
}

/// An earlier answer is used in a later turn, and invisible to other agents and projects.
#[tokio::test]
async fn rag_context_of_an_agent() {
    if skipped_through_another("a claimed project first builds its memory, which its metrics tell")
    {
        return;
    }
    let server = server().await;
    let me = Person::new(&server, 1);
    let session = me.session().await;
    server
        .model
        .reply(Reply::text("The deploy keys are kept in vault-seven."));
    call(&session, "Where do we keep the deploy keys?").await;
    let coder = Agent::of(&me, session.project, "agent_coder").await;
    let hit = coder.finds("deploying with a key", "vault-seven").await;
    assert_eq!(
        (&hit["type"], &hit["success"]),
        (&json!("interaction"), &json!(true))
    );
    let later = me.session().await;
    let answer = call(&later, "Which vault holds the key for deployment?").await;
    assert!(
        answer["context"][0]
            .as_str()
            .unwrap()
            .contains("vault-seven"),
        "{answer:#}"
    );
    assert!(
        asked(&server).contains("vault-seven"),
        "the agent was not reminded"
    );
    let writer = me.session().await;
    writer
        .call("writer", "Which vault holds the key for deployment?")
        .await
        .expect(200);
    assert!(
        !asked(&server).contains("vault-seven"),
        "another agent was told"
    );
    let elsewhere = me.project(json!({ "name": "Elsewhere" })).await;
    let there = me.session_with(json!({ "project_id": elsewhere })).await;
    let answer = call(&there, "Which vault holds the key for deployment?").await;
    assert_eq!(answer["context"], json!([]));
    assert!(
        !asked(&server).contains("vault-seven"),
        "another project was told"
    );
    let recalls = async |outcome| {
        metric(
            &server,
            &format!("codelab_memory_recalls_total{{outcome=\"{outcome}\"}}"),
        )
        .await
    };
    assert_eq!(
        (recalls("found").await, recalls("nothing").await),
        (1.0, 3.0)
    );
}

/// One request of a task carries what was said in the session, what its agent remembers, and the
/// task itself.
#[tokio::test]
async fn combining_contexts() {
    let server = server().await;
    let me = Person::new(&server, 1);
    let elsewhere = me.session().await;
    server
        .model
        .reply(Reply::text("The deploy keys are kept in vault-seven."));
    call(&elsewhere, "Where do we keep the deploy keys?").await;
    Agent::of(&me, elsewhere.project, "agent_coder")
        .await
        .finds("deploy keys", "vault-seven")
        .await;
    let session = me.session().await;
    server
        .model
        .reply(Reply::text("Noted: the release is called Kingfisher."));
    session
        .call("writer", "Remember the name of the release")
        .await
        .expect(200);
    let description = "Look up which vault holds the key for deployment.";
    let task = json!({ "id": "a", "agent": "coder", "description": description, "depends_on": [] });
    server.model.on(is_planning, Reply::text(tasks(&[task])));
    let seen = session.stream_plan("Prepare the release").await.all().await;
    assert!(
        seen.one("task_completed")["context"][0]
            .as_str()
            .unwrap()
            .contains("vault-seven"),
        "{:?}",
        seen.kinds()
    );
    let requests = server.model.requests();
    let request = requests
        .iter()
        .find(|request| request.message(-1) == description)
        .expect("the task is asked");
    let text = request.body.to_string();
    for part in [
        "release is called Kingfisher",
        "Prepare the release",
        "vault-seven",
        description,
    ] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
}

#[tokio::test]
async fn memory_is_written_searched_with_filters_and_cleared() {
    let server = server().await;
    let me = Person::new(&server, 1);
    let project = me.project(json!({ "name": "P" })).await;
    let coder = Agent::of(&me, project, "agent_coder").await;
    coder
        .add(json!({ "text": "The parser broke on empty files", "type": "bug", "success": false }))
        .await;
    coder
        .add(
            json!({ "text": "Парсер исправлен для пустых файлов", "type": "fix", "success": true, "metadata": { "file": "a.rs" } }),
        )
        .await;
    coder.finds("parsers break", "broke on empty").await;
    coder.finds("исправления парсера", "исправлен").await;
    let only = |filter: Value| json!({ "query": "parser парсер", "top_k": 10, "filter": filter });
    assert_eq!(coder.search(only(json!({ "type": "bug" }))).await.len(), 1);
    assert_eq!(
        coder.search(only(json!({ "success": true }))).await[0]["type"],
        "fix"
    );
    assert_eq!(
        coder
            .search(only(json!({ "since": "2999-01-01T00:00:00Z" })))
            .await,
        Vec::<Value>::new()
    );
    for (path, body) in [
        ("context/search/", json!({ "query": " " })),
        ("context/search/", json!({ "query": "x", "top_k": 0 })),
        ("context/", json!({ "text": "" })),
        ("context/", json!({ "text": "x".repeat(70_000) })),
    ] {
        let answer = me.post(&format!("{}/{path}", coder.path), body).await;
        assert_eq!(answer.status, 422, "{:#}", answer.body);
    }
    // Everything can be listed, newest first, and forgotten one by one.
    let list = async |query: &str| {
        let path = format!("{}/context/{query}", coder.path);
        me.get(&path).await.expect(200)
    };
    let all = list("").await;
    let kinds: Vec<_> = (0..2)
        .map(|n| all["interactions"][n]["type"].clone())
        .collect();
    assert_eq!(
        (&all["total"], kinds),
        (&json!(2), vec![json!("fix"), json!("bug")])
    );
    assert_eq!(all["interactions"][1]["success"], false);
    assert_eq!(
        all["interactions"][0]["metadata"],
        json!({ "file": "a.rs" })
    );
    assert_eq!(all["interactions"][1].get("metadata"), None);
    let second = list("?limit=1&offset=1").await;
    assert_eq!(second["interactions"], json!([all["interactions"][1]]));
    let path = format!(
        "{}/context/{}/",
        coder.path,
        all["interactions"][0]["id"].as_str().unwrap()
    );
    me.ask("DELETE", &path, None).await.expect(204);
    assert_eq!(list("").await["interactions"], second["interactions"]);
    let stranger = Person::new(&server, 2);
    let hidden = stranger.get(&format!("{}/context/", coder.path)).await;
    hidden.refused(404, "PROJECT_NOT_FOUND");
    me.ask("DELETE", &format!("{}/context/", coder.path), None)
        .await
        .expect(204);
    assert_eq!(coder.search(only(json!({}))).await, Vec::<Value>::new());
    assert_eq!(list("").await["total"], 0);
}

#[tokio::test]
async fn memory_goes_with_its_session_its_agent_and_its_project() {
    if skipped_through_another("it looks into the data folder of the owner") {
        return;
    }
    let server = server().await;
    let me = Person::new(&server, 1);
    let project = me.project(json!({ "name": "P" })).await;
    let session = me.session_with(json!({ "project_id": project })).await;
    call(&session, "Remember the heron").await;
    let coder = Agent::of(&me, project, "agent_coder").await;
    coder.finds("heron", "heron").await;
    me.ask("DELETE", &format!("/my/chat/sessions/{}", session.id), None)
        .await
        .expect(204);
    assert_eq!(
        coder.search(json!({ "query": "heron" })).await,
        Vec::<Value>::new(),
        "the session is gone"
    );
    let folders = || collections(&server.data_dir().join("memory"), project);
    assert_eq!(
        folders(),
        4,
        "one collection for each agent of the starter pack"
    );
    coder.add(json!({ "text": "the lapwing" })).await;
    coder.finds("lapwing", "lapwing").await;
    me.ask("DELETE", &coder.path, None).await.expect(204);
    assert_eq!(folders(), 3);
    let again = json!({ "name": "agent_coder" });
    me.post(&format!("/my/projects/{project}/agents/"), again)
        .await
        .expect(201);
    assert_eq!(folders(), 4);
    let coder = Agent::of(&me, project, "agent_coder").await;
    assert_eq!(
        coder.search(json!({ "query": "lapwing" })).await,
        Vec::<Value>::new(),
        "a new agent remembers nothing"
    );
    me.ask("DELETE", &format!("/my/projects/{project}"), None)
        .await
        .expect(204);
    assert_eq!(folders(), 0);
}

/// The collections of a project, as the engine inside the process keeps them.
fn collections(root: &Path, project: i64) -> usize {
    let Ok(entries) = std::fs::read_dir(root) else {
        return 0;
    };
    let of_project = format!("_project{project}_");
    entries
        .filter(|entry| {
            entry
                .as_ref()
                .unwrap()
                .file_name()
                .to_string_lossy()
                .contains(&of_project)
        })
        .count()
}

#[tokio::test]
async fn a_memory_engine_that_cannot_be_used_degrades_health_and_nothing_else() {
    let server = server().await;
    let me = Person::new(&server, 1);
    let session = me.session().await;
    call(&session, "Remember the curlew").await;
    let coder = Agent::of(&me, session.project, "agent_coder").await;
    coder.finds("curlew", "curlew").await;
    let (memory, aside) = (
        server.data_dir().join("memory"),
        server.data_dir().join("aside"),
    );
    std::fs::rename(&memory, &aside).unwrap();
    std::fs::write(&memory, "not a folder").unwrap();
    // A project of its own needs collections that cannot be made now.
    let project = me.project(json!({ "name": "During the outage" })).await;
    let there = me.session_with(json!({ "project_id": project })).await;
    call(&there, "Remember the dunlin").await;
    call(&session, "And the ruff").await;
    let health = async |status: &str| {
        until(&format!("health is {status}"), async || {
            let health = me.get("/health").await.expect(200);
            (health["status"] == status).then_some(health)
        })
        .await
    };
    let degraded = health("degraded").await;
    assert_eq!(
        degraded["checks"]["memory"]["status"], "degraded",
        "{degraded:#}"
    );
    std::fs::remove_file(&memory).unwrap();
    std::fs::rename(&aside, &memory).unwrap();
    health("healthy").await;
    Agent::of(&me, project, "agent_coder")
        .await
        .finds("dunlin", "dunlin")
        .await;
    coder.finds("ruff", "ruff").await;
}

#[tokio::test]
async fn a_memory_server_that_never_answers_holds_up_nobody() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    // Kept open: a caller that is not answered must not be told either that nobody will.
    let accepting = tokio::spawn(async move {
        let mut callers = Vec::new();
        loop {
            callers.push(silent.accept().await.unwrap());
        }
    });
    let server = server_with(&[("QDRANT_URL", &url)]).await;
    let me = Person::new(&server, 1);
    let work = async {
        let project = me.project(json!({ "name": "P" })).await;
        let session = me.session_with(json!({ "project_id": project })).await;
        call(&session, "Remember the whimbrel").await;
        let coder = Agent::of(&me, project, "agent_coder").await;
        let path = |rest: &str| format!("/my/projects/{project}/agents/{rest}");
        me.post(&path(""), json!({ "name": "agent_tenth" }))
            .await
            .expect(201);
        me.ask("DELETE", &format!("{}/context/", coder.path), None)
            .await
            .expect(204);
        me.ask("DELETE", &format!("/my/chat/sessions/{}", session.id), None)
            .await
            .expect(204);
        me.ask("DELETE", &coder.path, None).await.expect(204);
        me.ask("DELETE", &format!("/my/projects/{project}"), None)
            .await
            .expect(204);
    };
    // Five of these wait for memory, two seconds each; an answer of the server would take twenty.
    tokio::time::timeout(Duration::from_secs(18), work)
        .await
        .expect("memory held somebody up");
    let health = me.get("/health").await.expect(200);
    assert_eq!(
        health["checks"]["memory"]["status"], "degraded",
        "{health:#}"
    );
    accepting.abort();
}

#[tokio::test]
async fn what_was_deleted_while_memory_was_out_is_never_found_again() {
    if skipped_through_another("it looks into the data folder of the owner") {
        return;
    }
    let mut server = server().await;
    let me = Person::new(&server, 1);
    let project = me.project(json!({ "name": "P" })).await;
    let session = me.session_with(json!({ "project_id": project })).await;
    call(&session, "Remember the godwit").await;
    let [coder, writer, researcher, analyzer] = [
        Agent::of(&me, project, "agent_coder").await,
        Agent::of(&me, project, "agent_writer").await,
        Agent::of(&me, project, "agent_researcher").await,
        Agent::of(&me, project, "agent_analyzer").await,
    ];
    coder.finds("godwit", "godwit").await;
    for (agent, text) in [
        (&writer, "the knot"),
        (&researcher, "the plover"),
        (&analyzer, "the sanderling"),
    ] {
        agent.add(json!({ "text": text })).await;
        agent.finds(text, text).await;
    }
    let (memory, aside) = (
        server.data_dir().join("memory"),
        server.data_dir().join("aside"),
    );
    std::fs::rename(&memory, &aside).unwrap();
    std::fs::write(&memory, "not a folder").unwrap();
    me.ask("DELETE", &format!("/my/chat/sessions/{}", session.id), None)
        .await
        .expect(204);
    me.ask("DELETE", &format!("{}/context/", writer.path), None)
        .await
        .expect(204);
    me.ask("DELETE", &researcher.path, None).await.expect(204);
    me.ask("DELETE", &analyzer.path, None).await.expect(204);
    // Nothing that the server only had in mind survives this.
    server.stop().await;
    std::fs::remove_file(&memory).unwrap();
    std::fs::rename(&aside, &memory).unwrap();
    server.restart().await;
    let me = Person::new(&server, 1);
    me.post(
        &format!("/my/projects/{project}/agents/"),
        json!({ "name": "agent_researcher" }),
    )
    .await
    .expect(201);
    for (agent, text) in [
        ("agent_coder", "godwit"),
        ("agent_writer", "knot"),
        ("agent_researcher", "plover"),
    ] {
        let agent = Agent::of(&me, project, agent).await;
        assert_eq!(
            agent.search(json!({ "query": text })).await,
            Vec::<Value>::new(),
            "{text}"
        );
    }
    let session = me.session_with(json!({ "project_id": project })).await;
    assert_eq!(
        call(&session, "Who remembers the godwit?").await["context"],
        json!([])
    );
    // Nor does what nobody asks for stay on the disk.
    until("the analyzer's collection is gone", async || {
        (collections(&memory, project) == 3).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_broken_collection_is_mended_and_holds_up_no_other() {
    if skipped_through_another("it looks into the data folder of the owner") {
        return;
    }
    let server = server().await;
    let (me, other) = (Person::new(&server, 1), Person::new(&server, 2));
    let (mine, theirs) = (
        me.project(json!({ "name": "P" })).await,
        other.project(json!({ "name": "P" })).await,
    );
    let (coder, neighbour) = (
        Agent::of(&me, mine, "agent_coder").await,
        Agent::of(&other, theirs, "agent_coder").await,
    );
    coder.add(json!({ "text": "the turnstone" })).await;
    coder.finds("turnstone", "turnstone").await;
    let file = server
        .data_dir()
        .join("memory")
        .join(format!("user1_project{mine}_agent_coder_context.memory"));
    assert!(file.is_file());
    std::fs::write(&file, "not a memory").unwrap();
    coder.add(json!({ "text": "the redshank" })).await;
    neighbour.add(json!({ "text": "the avocet" })).await;
    neighbour.finds("avocet", "avocet").await;
    coder.finds_again("turnstone", "turnstone").await;
    coder.finds_again("redshank", "redshank").await;
}

#[tokio::test]
async fn the_embedding_model_is_shown_the_internal_key() {
    let proxy = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", proxy.local_addr().unwrap());
    let server = server_with(&[
        ("LLM_PROXY_URL", &url),
        ("CODELAB_EMBEDDING__MODEL", "words"),
    ])
    .await;
    let me = Person::new(&server, 1);
    let project = me.project(json!({ "name": "P" })).await;
    Agent::of(&me, project, "agent_coder")
        .await
        .add(json!({ "text": "the ruff" }))
        .await;
    let (mut caller, _) = tokio::time::timeout(DEADLINE, proxy.accept())
        .await
        .expect("it is asked")
        .unwrap();
    let mut head = vec![0; 4096];
    let length = tokio::io::AsyncReadExt::read(&mut caller, &mut head)
        .await
        .unwrap();
    let head = String::from_utf8_lossy(&head[..length]).to_lowercase();
    assert!(head.contains("/embeddings"), "{head}");
    assert!(
        head.contains(&format!(
            "x-internal-auth: {}\r\n",
            codelab_testkit::INTERNAL_KEY
        )),
        "{head}"
    );
}
