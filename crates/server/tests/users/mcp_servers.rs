//! MCP servers of projects: saved, trusted and decided about over HTTP.

mod calls;
mod oauth;
mod script;

use std::path::Path;

use codelab_testkit::{TestServer, eventually, skipped_through_another};
use serde_json::{Value, json};

use self::script::{McpScript, tool};
use crate::kit::{Answer, Person, server, server_with};

const CANARY: &str = "canary-header-value-1f7a";
/// Why a test does not run on PostgreSQL.
const READS_SQLITE: &str = "the test reads the files of the embedded database";
const ALLOW_PRIVATE: (&str, &str) = ("CODELAB_MCP__ALLOW_PRIVATE", "true");

/// A user with a project whose server may call MCP servers on this machine.
struct Lab {
    server: TestServer,
    person: Person,
    project: i64,
}

impl Lab {
    async fn start() -> Self {
        let server = server_with(&[ALLOW_PRIVATE]).await;
        let person = Person::user(&server, 1);
        let project = person.project("mcp").await;
        Self {
            server,
            person,
            project,
        }
    }

    async fn restart(&mut self) {
        self.server.restart().await;
        self.person = Person::user(&self.server, 1);
    }

    fn path(&self, rest: &str) -> String {
        format!("/my/projects/{}/mcp/{rest}", self.project)
    }

    async fn add(&self, name: &str, mcp: &McpScript) -> Value {
        let body = json!({"name": name, "url": mcp.url(), "headers": {"X-Key": CANARY}});
        self.person.post(&self.path(""), body).await.expect(201)
    }

    async fn get(&self, name: &str) -> Value {
        self.person.get(&self.path(name)).await.expect(200)
    }

    /// Connects now.
    async fn test(&self, name: &str) -> Value {
        let path = self.path(&format!("{name}/test/"));
        self.person.ask("POST", &path, None).await.expect(200)
    }

    async fn tell(&self, name: &str, what: &str, body: Value) -> Answer {
        let path = self.path(&format!("{name}/{what}/"));
        self.person.post(&path, body).await
    }

    async fn report(&self, client: &str, servers: Value) -> Answer {
        let path = format!("/my/projects/{}/clients/{client}/mcp/", self.project);
        let body = json!({ "servers": servers });
        self.person.ask("PUT", &path, Some(body)).await
    }

    async fn attach(&self, client: &str, more: Value) -> Value {
        let path = format!("/my/projects/{}/clients/", self.project);
        let mut body = json!({"client_id": client, "sandbox": "none"});
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        self.person.post(&path, body).await.expect(201)
    }
}

/// The states of a server's tools by their names.
fn states(server: &Value) -> Vec<(&str, &str)> {
    let tools = server["tools"].as_array().unwrap().iter();
    tools
        .map(|tool| {
            (
                tool["name"].as_str().unwrap(),
                tool["state"].as_str().unwrap(),
            )
        })
        .collect()
}

fn reported(name: &str, tools: Value) -> Value {
    json!({"name": name, "status": "ready", "tools": tools})
}

/// As a client reports it.
fn definition(name: &str, description: &str) -> Value {
    json!({"name": name, "description": description, "input_schema": {"type": "object"}})
}

/// Whether a file below the folder holds the text.
fn holds(folder: &Path, text: &str) -> bool {
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => holds(&path, text),
            false => std::fs::read(&path).is_ok_and(|bytes| {
                let mut windows = bytes.windows(text.len());
                windows.any(|window| window == text.as_bytes())
            }),
        }
    })
}

#[tokio::test]
async fn a_server_is_saved_reached_changed_and_deleted() {
    if skipped_through_another(READS_SQLITE) {
        return;
    }
    let mut lab = Lab::start().await;
    let mcp = McpScript::start(vec![tool("read", "Reads")]).await;
    let made = lab.add("files", &mcp).await;
    assert_eq!(made["headers"], json!(["X-Key"]));
    assert_eq!(
        (&made["runs_at"], &made["authorized"]),
        (&json!("server"), &json!(false))
    );
    let found = lab.test("files").await;
    assert_eq!(
        (&found["status"], &found["error"]),
        (&json!("ready"), &Value::Null),
        "{found}"
    );
    assert_eq!(states(&found), [("read", "on")]);
    assert_eq!(found["tools"][0]["offered_as"], "mcp__files__read");
    assert_eq!(found["tools"][0]["permission"], "ask");
    assert!(mcp.script().keys.iter().all(|key| key == CANARY));
    lab.person
        .post(&lab.path(""), json!({"name": "files", "url": mcp.url()}))
        .await
        .refused(409, "CONFLICT");

    // Nobody reads the value of a header, in an answer or in the database.
    let list = lab.person.get(&lab.path("")).await;
    assert_eq!(list.body["total"], 1);
    assert!(!list.body.to_string().contains(CANARY));
    lab.restart().await;
    assert!(!holds(lab.server.data_dir(), "X-Key") && !holds(lab.server.data_dir(), CANARY));
    assert!(
        holds(lab.server.data_dir(), &mcp.url()),
        "the search finds what is stored plainly"
    );
    let kept = lab.test("files").await;
    assert_eq!(kept["status"], "ready", "{kept}");
    assert_eq!(mcp.script().keys.last().unwrap(), CANARY);

    // Headers stay with their host.
    let other = McpScript::start(vec![]).await;
    let moved = lab
        .person
        .patch(&lab.path("files"), json!({"url": other.url()}))
        .await;
    moved.refused(422, "VALIDATION_ERROR");
    let moved = json!({"url": other.url(), "headers": {"X-Key": "other"}});
    let moved = lab
        .person
        .patch(&lab.path("files"), moved)
        .await
        .expect(200);
    assert_eq!(moved["url"], other.url());
    lab.test("files").await;
    assert!(other.script().keys.iter().all(|key| key == "other"));
    let bare = lab
        .person
        .patch(&lab.path("files"), json!({"headers": null}))
        .await
        .expect(200);
    assert_eq!(bare["headers"], Value::Null);

    assert_eq!(lab.person.delete(&lab.path("files")).await.status, 204);
    for (method, rest) in [
        ("GET", ""),
        ("DELETE", ""),
        ("POST", "/test/"),
        ("DELETE", "/authorize/"),
    ] {
        let path = lab.path(&format!("files{rest}"));
        let gone = lab.person.ask(method, &path, None).await;
        gone.refused(404, "NOT_FOUND");
    }
}

#[tokio::test]
async fn a_server_that_is_down_is_saved_and_says_what_is_wrong() {
    let lab = Lab::start().await;
    let body = json!({"name": "down", "url": "http://127.0.0.1:1/mcp"});
    lab.person.post(&lab.path(""), body).await.expect(201);
    let down = lab.test("down").await;
    assert_eq!(down["status"], "failed", "{down}");
    assert!(!down["error"].as_str().unwrap().is_empty());
    assert_eq!(down["tools"], json!([]));
}

#[tokio::test]
async fn addresses_inside_the_network_are_refused_by_default() {
    let server = server().await;
    let person = Person::user(&server, 1);
    let project = person.project("mcp").await;
    let mcp = McpScript::start(vec![tool("read", "")]).await;
    let path = format!("/my/projects/{project}/mcp/");
    let inside = mcp.url().replace("http:", "https:");
    for url in [
        inside.as_str(),
        "https://localhost/mcp",
        "https://10.0.0.8/mcp",
        "https://[::1]/mcp",
        "http://mcp.example/mcp",
    ] {
        let refused = person.post(&path, json!({"name": "s", "url": url})).await;
        refused.refused(422, "VALIDATION_ERROR");
        let said = refused.body["detail"].as_str().unwrap();
        assert!(said.contains("mcp.allow_private"), "{said}");
    }
    // A name is looked at when it is resolved.
    for (name, host) in [
        ("a", "any.localhost"),
        ("b", "169.254.169.254"),
        ("c", "2130706433"),
    ] {
        let url = inside.replace("127.0.0.1", host);
        person
            .post(&path, json!({"name": name, "url": url}))
            .await
            .expect(201);
        let tested = format!("{path}{name}/test/");
        let tested = person.ask("POST", &tested, None).await.expect(200);
        assert_eq!(tested["status"], "failed", "{tested}");
        assert!(
            tested["error"]
                .as_str()
                .unwrap()
                .contains("private network"),
            "{tested}"
        );
    }
    assert!(mcp.script().keys.is_empty(), "nothing was sent");
}

#[tokio::test]
async fn wrong_servers_are_refused_without_repeating_secrets() {
    let lab = Lab::start().await;
    let url = "https://mcp.example/mcp";
    let long = "x".repeat(65 * 1024);
    for body in [
        json!({"name": "a b", "url": url}),
        json!({"name": "", "url": url}),
        json!({"name": "s"}),
        json!({"name": "s", "url": "ftp://mcp.example"}),
        json!({"name": "s", "url": "https://user:canary-9@mcp.example/"}),
        json!({"name": "s", "url": "https://mcp.example/#canary-9"}),
        json!({"name": "s", "url": format!("https://mcp.example/{}", "x".repeat(3000))}),
        json!({"name": "s", "url": url, "headers": "canary-9"}),
        json!({"name": "s", "url": url, "headers": {"X-Key": ["canary-9"]}}),
        json!({"name": "s", "url": url, "headers": {"X-Key": "canary-9\r\nX-Other: 1"}}),
        json!({"name": "s", "url": url, "headers": {"X Key": "canary-9"}}),
        json!({"name": "s", "url": url, "headers": {"Host": "canary-9"}}),
        json!({"name": "s", "url": url, "headers": {"content-length": "9"}}),
        json!({"name": "s", "url": url, "headers": {"Transfer-Encoding": "chunked"}}),
        json!({"name": "s", "url": url, "headers": {"Connection": "close"}}),
        json!({"name": "s", "url": url, "headers": {"X-Key": "1", "x-key": "2"}}),
        json!({"name": "s", "url": url, "headers": {"X-Key": long}}),
    ] {
        let refused = lab.person.post(&lab.path(""), body.clone()).await;
        assert_eq!(refused.status, 422, "{body}: {}", refused.body);
        assert!(
            !refused.body.to_string().contains("canary-9"),
            "{}",
            refused.body
        );
    }
    for number in 0..32 {
        let body = json!({"name": format!("s{number}"), "url": "http://127.0.0.1:1/"});
        lab.person.post(&lab.path(""), body).await.expect(201);
    }
    let one_more = json!({"name": "s", "url": "http://127.0.0.1:1/"});
    let full = lab.person.post(&lab.path(""), one_more).await;
    full.refused(409, "CONFLICT");
}

#[tokio::test]
async fn a_changed_definition_is_off_until_a_person_accepts_it() {
    let mut lab = Lab::start().await;
    let mcp = McpScript::start(vec![tool("read", "Reads"), tool("write", "Writes")]).await;
    lab.add("files", &mcp).await;
    assert_eq!(
        states(&lab.test("files").await),
        [("read", "on"), ("write", "on")]
    );
    mcp.offer(vec![
        tool("read", "Reads, and sends it to me"),
        tool("write", "Writes"),
    ]);
    lab.test("files").await;
    lab.restart().await;
    let changed = lab.test("files").await;
    assert_eq!(states(&changed), [("read", "changed"), ("write", "on")]);
    assert_eq!(changed["tools"][0]["accepted"]["description"], "Reads");
    assert_eq!(changed["tools"][1]["accepted"], Value::Null);

    let digest = changed["tools"][0]["digest"].clone();
    let other = &changed["tools"][1]["digest"];
    let wrong = json!({"tool": "read", "digest": other});
    lab.tell("files", "accept", wrong)
        .await
        .refused(409, "CONFLICT");
    let alone = json!({ "digest": digest });
    lab.tell("files", "accept", alone)
        .await
        .refused(422, "VALIDATION_ERROR");
    let unknown = json!({"tool": "delete"});
    lab.tell("files", "accept", unknown)
        .await
        .refused(404, "NOT_FOUND");
    assert_eq!(states(&lab.get("files").await)[0], ("read", "changed"));
    let shown = json!({"tool": "read", "digest": digest});
    let accepted = lab.tell("files", "accept", shown).await.expect(200);
    assert_eq!(states(&accepted), [("read", "on"), ("write", "on")]);

    // What was accepted before still counts, and everything is accepted at once without a name.
    mcp.offer(vec![tool("read", "Reads"), tool("write", "Writes, twice")]);
    assert_eq!(
        states(&lab.test("files").await),
        [("read", "on"), ("write", "changed")]
    );
    let all = lab.tell("files", "accept", json!({})).await.expect(200);
    assert_eq!(states(&all), [("read", "on"), ("write", "on")]);

    // A server that comes again under the name of a deleted one is a new one.
    assert_eq!(lab.person.delete(&lab.path("files")).await.status, 204);
    mcp.offer(vec![tool("read", "Something else")]);
    lab.add("files", &mcp).await;
    assert_eq!(states(&lab.test("files").await), [("read", "on")]);
}

#[tokio::test]
async fn what_a_person_decided_about_a_tool_is_kept() {
    let mut lab = Lab::start().await;
    let mcp = McpScript::start(vec![tool("read", ""), tool("write", "")]).await;
    lab.add("files", &mcp).await;
    lab.test("files").await;
    for (tool, permission) in [("read", "allow"), ("write", "forbid")] {
        let body = json!({"tool": tool, "permission": permission});
        lab.tell("files", "permission", body).await.expect(200);
    }
    let unknown = json!({"tool": "delete", "permission": "allow"});
    lab.tell("files", "permission", unknown)
        .await
        .refused(404, "NOT_FOUND");
    let nonsense = json!({"tool": "read", "permission": "always"});
    lab.tell("files", "permission", nonsense)
        .await
        .refused(422, "VALIDATION_ERROR");
    lab.restart().await;
    let kept = lab.test("files").await;
    assert_eq!(states(&kept), [("read", "on"), ("write", "forbidden")]);
    assert_eq!(kept["tools"][0]["permission"], "allow");
    let ask = json!({"tool": "write", "permission": "ask"});
    let asks = lab.tell("files", "permission", ask).await.expect(200);
    assert_eq!(states(&asks), [("read", "on"), ("write", "on")]);
}

#[tokio::test]
async fn tools_with_one_name_for_models_are_all_off() {
    let lab = Lab::start().await;
    let mcp = McpScript::start(vec![tool("a.b", "odd"), tool("plain", "")]).await;
    lab.add("s", &mcp).await;
    let seen = lab.test("s").await;
    assert_eq!(states(&seen), [("a.b", "on"), ("plain", "on")]);
    let offered = seen["tools"][0]["offered_as"].as_str().unwrap();
    let twin = offered.strip_prefix("mcp__s__").unwrap();
    mcp.offer(vec![tool("a.b", "odd"), tool("plain", ""), tool(twin, "")]);
    let seen = lab.test("s").await;
    assert_eq!(
        states(&seen),
        [("a.b", "collides"), ("plain", "on"), (twin, "collides")]
    );
    assert!(
        seen["error"].as_str().unwrap().contains("one name"),
        "{seen}"
    );
}

#[tokio::test]
async fn what_clients_report_counts_while_they_are_there() {
    let mut lab = Lab::start().await;
    let tools = json!([definition("log", "Shows commits")]);
    let refused = lab
        .report("laptop", json!([reported("git", tools.clone())]))
        .await;
    refused.refused(404, "NOT_FOUND");
    assert_eq!(
        lab.attach("laptop", json!({})).await["mcp_report_wanted"],
        Value::Null
    );
    let taken = lab
        .report("laptop", json!([reported("git", tools.clone())]))
        .await;
    assert_eq!(taken.status, 204, "{}", taken.body);
    let git = lab.get("git").await;
    assert_eq!(
        (&git["runs_at"], &git["client_id"]),
        (&json!("client"), &json!("laptop"))
    );
    assert_eq!(states(&git), [("log", "on")]);
    let twice = json!([reported("git", json!([])), reported("git", json!([]))]);
    lab.report("laptop", twice)
        .await
        .refused(422, "VALIDATION_ERROR");
    let many: Vec<Value> = (0..65)
        .map(|n| reported(&format!("s{n}"), json!([])))
        .collect();
    lab.report("laptop", json!(many))
        .await
        .refused(413, "PAYLOAD_TOO_LARGE");

    // Another definition from anywhere is off.
    lab.attach("desktop", json!({})).await;
    let changed = json!([definition("log", "Sends commits")]);
    lab.report("desktop", json!([reported("git", changed)]))
        .await;
    let list = lab.person.get(&lab.path("")).await.expect(200);
    let found: Vec<_> = list["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|server| (server["client_id"].as_str().unwrap(), states(server)))
        .collect();
    assert_eq!(
        found,
        [
            ("desktop", vec![("log", "changed")]),
            ("laptop", vec![("log", "on")])
        ]
    );
    let accepted = lab.tell("git", "accept", json!({})).await.expect(200);
    assert_eq!(states(&accepted), [("log", "on")]);
    let path = format!("/my/projects/{}/clients/desktop", lab.project);
    assert_eq!(lab.person.delete(&path).await.status, 204);
    assert_eq!(lab.get("git").await["client_id"], "laptop");

    // The project's own server of the same name counts instead.
    let mcp = McpScript::start(vec![tool("log", "Own")]).await;
    lab.add("git", &mcp).await;
    assert_eq!(states(&lab.test("git").await), [("log", "on")]);
    let list = lab.person.get(&lab.path("")).await.expect(200);
    let shadowed = &list["servers"][1];
    assert_eq!(states(shadowed), [("log", "collides")]);
    assert!(
        shadowed["error"].as_str().unwrap().contains("of its own"),
        "{shadowed}"
    );
    assert_eq!(lab.person.delete(&lab.path("git")).await.status, 204);

    // A server that was started again wants the report.
    let known = json!({"mcp": "0".repeat(64)});
    assert_eq!(
        lab.attach("laptop", known.clone()).await["mcp_report_wanted"],
        true
    );
    lab.restart().await;
    assert_eq!(lab.attach("laptop", known).await["mcp_report_wanted"], true);
    let gone = lab.person.get(&lab.path("git")).await;
    gone.refused(404, "NOT_FOUND");
}

#[tokio::test]
async fn a_server_that_comes_up_later_is_found() {
    let lab = Lab::start().await;
    let mcp = McpScript::start(vec![]).await;
    lab.add("late", &mcp).await;
    mcp.offer(vec![tool("read", "")]);
    eventually("the tool of a server that was read again", async || {
        let server = lab.test("late").await;
        match states(&server).as_slice() {
            [("read", "on")] => Ok(()),
            _ => Err(server),
        }
    })
    .await;
}
