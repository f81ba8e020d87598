//! Commands for users, run as a person runs them, against a real server.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Output;

use codelab_testkit::{Client, Credentials, Method, TestServer};
use serde_json::{Value, json};

/// The program with these arguments, away from the server's own threads.
async fn codelab(arguments: &[&str]) -> Output {
    let arguments: Vec<String> = arguments
        .iter()
        .map(|&argument| argument.to_owned())
        .collect();
    let run = move || {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_codelab"));
        command
            .args(arguments)
            .env_clear()
            .env("HOME", "/nonexistent")
            .output()
            .unwrap()
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

async fn said(arguments: &[&str]) -> String {
    let output = codelab(arguments).await;
    assert!(output.status.success(), "{}", text(&output));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn folder(server: &TestServer) -> String {
    server.data_dir().display().to_string()
}

async fn get(server: &TestServer, token: &str, path: &str) -> Value {
    let client = Client::new(&server.url, Credentials::Bearer(token.to_owned())).unwrap();
    let answer = client.raw(Method::GET, path, &[], "").await.unwrap();
    assert_eq!(answer.status, 200);
    serde_json::from_slice(&answer.body).unwrap()
}

/// The agents of a user's only project, which is the default one.
async fn agents(server: &TestServer, token: &str) -> Vec<Value> {
    let projects = get(server, token, "/my/projects").await;
    assert_eq!(
        (&projects["total"], &projects["projects"][0]["is_default"]),
        (&json!(1), &json!(true))
    );
    let path = format!(
        "/my/projects/{}/agents",
        projects["projects"][0]["project_id"]
    );
    get(server, token, &path).await["agents"]
        .as_array()
        .unwrap()
        .clone()
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

const OWN: &str = "---\nname: agent_reviewer\nrole: reviewer\ndescription: Reviews\nmodel: gpt-4\ntemperature: 0.3\n\
                   tools: [read_file, attempt_completion]\n---\nYou review. {{messageHistory}} {{mood}}\n";
const CLAUDE: &str =
    "---\nname: doc-writer\ndescription: Writes\ntools: Read, Edit, WebSearch\n---\nYou write.\n";
const ROO: &str = "customModes:\n  - slug: test-writer\n    name: Tester\n    roleDefinition: You test.\n    groups:\n      \
                   - read\n      - - edit\n        - fileRegex: _test\\.py$\n      - browser\n";

#[tokio::test(flavor = "multi_thread")]
async fn agents_are_imported() {
    let server = TestServer::start().await;
    let files = tempfile::tempdir().unwrap();
    let own = write(files.path(), "own.md", OWN);
    let claude = write(files.path(), "claude.md", CLAUDE);
    let roo = write(files.path(), ".roomodes", ROO);
    let data = folder(&server);
    let import = [
        "agents",
        "import",
        &own,
        &claude,
        &roo,
        "--user",
        "4",
        "--data-dir",
        &data,
    ];
    let report = said(&import).await;
    for line in [
        "agent_reviewer: added",
        "doc_writer: added",
        "test_writer: added",
        "doc_writer: the tool WebSearch has no counterpart and was left out",
        "test_writer: the group browser has no counterpart and was left out",
    ] {
        assert!(report.lines().any(|said| said == line), "{line}: {report}");
    }
    assert!(report.contains("{{mood}}"), "{report}");

    let token = said(&["token", "--user", "4", "--data-dir", &data]).await;
    let before = agents(&server, &token).await;
    assert_eq!(before.len(), 7);
    let tester = before
        .iter()
        .find(|agent| agent["name"] == "test_writer")
        .unwrap();
    assert_eq!(
        (&tester["file_restrictions"], &tester["role"]),
        (&json!(["_test\\.py$"]), &json!("Tester"))
    );

    // Again: what exists is left alone, unless it is to be updated.
    let changed = write(
        files.path(),
        "own.md",
        &OWN.replace("role: reviewer", "role: critic"),
    );
    let again = said(&[
        "agents",
        "import",
        &changed,
        "--url",
        &server.url,
        "--token",
        &token,
    ])
    .await;
    assert!(again.contains("agent_reviewer: exists already"), "{again}");
    assert_eq!(agents(&server, &token).await, before);
    let update = [
        "agents",
        "import",
        &changed,
        "--url",
        &server.url,
        "--token",
        &token,
        "--update",
    ];
    assert!(said(&update).await.contains("agent_reviewer: updated"));
    let after = agents(&server, &token).await;
    assert_eq!((after.len(), &after[4]["role"]), (7, &json!("critic")));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_imported_says_why_in_one_line() {
    let server = TestServer::start().await;
    let files = tempfile::tempdir().unwrap();
    let good = write(files.path(), "good.md", OWN);
    let bad = write(files.path(), "bad.md", "no front matter");
    let wrong = write(
        files.path(),
        "wrong.md",
        &CLAUDE.replace("description", "temperature: 9\ndescription"),
    );
    let data = folder(&server);
    let me = ["--user", "4", "--data-dir", &data];
    let twin = write(files.path(), "twin.md", OWN);
    let tool = write(
        files.path(),
        "tool.md",
        &OWN.replace("[read_file,", "[fly,"),
    );
    let huge = write(
        files.path(),
        "huge.md",
        &format!("{OWN}{}", "x".repeat(70_000)),
    );
    let vast = write(
        files.path(),
        "vast.md",
        &format!("{OWN}{}", "x".repeat(1 << 20)),
    );
    let pattern = write(
        files.path(),
        "modes.yaml",
        &ROO.replace("_test", "(?!x)_test"),
    );
    for (arguments, part) in [
        (vec!["agents", "import", &good, &bad], "between two lines"),
        (
            vec!["agents", "import", &good, &twin],
            "twin.md: agent_reviewer is defined twice",
        ),
        (
            vec!["agents", "import", &good, &tool],
            "there is no tool fly",
        ),
        (
            vec!["agents", "import", &good, &pattern],
            "regular expression",
        ),
        (
            vec!["agents", "import", &huge],
            "system_prompt must be at most",
        ),
        (vec!["agents", "import", &vast], "larger than"),
        (
            vec!["agents", "import", "/nonexistent.md"],
            "/nonexistent.md",
        ),
        (vec!["agents", "import", &good, "--project", "999"], "404"),
        (
            vec!["agents", "import", &good, &wrong],
            "temperature must be 0 to 2",
        ),
        (vec!["agents", "import", &good, "--token", "x"], "401"),
    ] {
        let output = codelab(&[&arguments[..], &me[..]].concat()).await;
        let said = text(&output);
        assert!(
            !output.status.success() && said.contains(part),
            "{arguments:?}: {said}"
        );
        // What a server said stands in a second line.
        let lines: Vec<&str> = said.trim().lines().collect();
        let is_short = match lines.as_slice() {
            [_] => true,
            [_, details] => {
                details.starts_with("details: ") && details.contains("the server answered ")
            }
            _ => false,
        };
        assert!(is_short, "{said}");
    }
    let refused = [
        ["--project", "default"],
        ["--project", "../x"],
        ["--user", "0"],
        ["--url", "http://127.0.0.1:1"],
    ];
    for wrong in refused {
        let output = codelab(
            &[
                &["agents", "import", &good, "--data-dir", &data],
                &wrong[..],
            ]
            .concat(),
        )
        .await;
        assert!(
            !output.status.success() && text(&output).contains(wrong[0]),
            "{wrong:?}: {}",
            text(&output)
        );
    }
    // A definition that is wrong keeps the others from being sent.
    let token = said(&["token", "--user", "4", "--data-dir", &data]).await;
    assert_eq!(agents(&server, &token).await.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_link_works_beside_the_running_server() {
    let server = TestServer::start().await;
    let link = said(&["login-link", "--user", "9", "--data-dir", &folder(&server)]).await;
    let ticket = link
        .strip_prefix(&format!("{}/#login=", server.url))
        .unwrap_or_else(|| panic!("{link}"));
    let client = Client::new(&server.url, Credentials::None).unwrap();
    let json_body = [("content-type", "application/json")];
    let body = json!({ "ticket": ticket }).to_string();
    let answer = client
        .raw(Method::POST, "/login", &json_body, body.clone())
        .await
        .unwrap();
    assert_eq!(answer.status, 200);
    assert_eq!(
        serde_json::from_slice::<Value>(&answer.body).unwrap()["user_id"],
        9
    );
    assert_eq!(
        client
            .raw(Method::POST, "/login", &json_body, body)
            .await
            .unwrap()
            .status,
        401
    );
    let empty = tempfile::tempdir().unwrap();
    let data = empty.path().display().to_string();
    let output = codelab(&["login-link", "--user", "9", "--data-dir", &data]).await;
    let told = text(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    for part in [
        &format!("no server runs with the data folder {data}"),
        &format!("codelab serve --data-dir {data}"),
    ] {
        assert!(told.contains(part.as_str()), "{part}\n{told}");
    }
    assert!(
        !told.contains("#login="),
        "no link that leads nowhere: {told}"
    );
    assert_eq!(
        std::fs::read_dir(empty.path()).unwrap().count(),
        0,
        "and no ticket is left for a server that is started later"
    );
    for wrong in ["0", "-1"] {
        assert!(
            !codelab(&[
                "login-link",
                "--user",
                wrong,
                "--data-dir",
                &folder(&server)
            ])
            .await
            .status
            .success()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn health_is_an_exit_code() {
    let server = TestServer::start().await;
    assert_eq!(
        said(&["health", "--data-dir", &folder(&server)]).await,
        "healthy"
    );
    let empty = tempfile::tempdir().unwrap();
    let output = codelab(&["health", "--data-dir", &empty.path().display().to_string()]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output).contains("no server runs with the data folder"),
        "{}",
        text(&output)
    );
}
