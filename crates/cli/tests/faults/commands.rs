//! The program's commands, as a person at a terminal meets them.

use std::path::Path;

use codelab_client::Method;
use codelab_fakemodel::Reply;
use codelab_protocol::{SessionInfo, TurnStatus};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::{Value, json};

use crate::chat::Chat;
use crate::lab::{Lab, now};
use crate::process::{ran, refused, run};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test]
async fn a_second_server_on_the_same_data_is_refused() {
    let lab = Lab::start().await;
    let folder = text(lab.data_dir());
    let complaint = refused(
        &["serve", "--addr", "127.0.0.1:0", "--data-dir", folder],
        &lab.settings,
    )
    .await;
    assert!(
        complaint.contains("codelab.db") && complaint.contains("in use by another process"),
        "{complaint}"
    );
    lab.client()
        .health()
        .await
        .expect("the first server is not disturbed");
}

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let lab = Lab::start().await;
    let other = lab.home().join("other");
    let complaint = refused(
        &[
            "serve",
            "--addr",
            lab.server().host(),
            "--data-dir",
            text(&other),
        ],
        &lab.settings,
    )
    .await;
    assert!(
        complaint.contains(lab.server().host()) && complaint.contains("in use"),
        "{complaint}"
    );
}

#[tokio::test]
async fn a_backup_of_a_running_server_restores_the_same_sessions() {
    let mut lab = Lab::start().await;
    lab.model.default_reply(Reply::text("Noted."));
    lab.model.on(
        |body| body["messages"].to_string().contains("write it"),
        Reply::tool_call("write_file", json!({"path": "a.txt", "content": "x"})),
    );
    for session in ["one", "two", "three"] {
        lab.say(session, "remember me").await;
    }
    let asked = lab.say("asking", "write it").await;
    let file = lab.home().join("backup.db");
    let said = ran(
        &["backup", text(&file), "--data-dir", text(lab.data_dir())],
        &[],
    )
    .await;
    assert!(said.contains("backup.db"), "{said}");
    let before = (
        sessions(&lab).await,
        lab.history("two").await,
        lab.log("two").await.events,
    );
    lab.say("two", "after the backup").await;

    let again = refused(
        &["backup", text(&file), "--data-dir", text(lab.data_dir())],
        &[],
    )
    .await;
    assert!(again.contains("exists already"), "{again}");
    let onto_it = refused(
        &["restore", text(&file), "--data-dir", text(lab.data_dir())],
        &[],
    )
    .await;
    assert!(onto_it.contains("in use by another process"), "{onto_it}");

    lab.kill().await;
    let fresh = lab.home().join("fresh");
    ran(&["restore", text(&file), "--data-dir", text(&fresh)], &[]).await;
    lab.set_data_dir(&fresh);
    lab.boot().await;
    assert_eq!(
        (
            sessions(&lab).await,
            lab.history("two").await,
            lab.log("two").await.events
        ),
        before
    );
    let approved = lab.approve("asking", &asked.call_id()).await;
    assert_eq!(
        approved.status(),
        TurnStatus::AwaitingToolResult,
        "a waiting approval comes along"
    );

    let nonsense = lab.home().join("nonsense.db");
    std::fs::write(&nonsense, "not a database at all, whatever its name says").unwrap();
    refused(
        &[
            "restore",
            text(&nonsense),
            "--data-dir",
            text(&lab.home().join("third")),
        ],
        &[],
    )
    .await;
    let missing = refused(
        &["restore", "/nowhere/backup.db", "--data-dir", text(&fresh)],
        &[],
    )
    .await;
    assert!(missing.contains("/nowhere/backup.db"), "{missing}");
}

async fn sessions(lab: &Lab) -> Vec<String> {
    let list = lab.client().sessions(None, None).await.unwrap().sessions;
    let row = |session: SessionInfo| serde_json::to_string(&session).unwrap();
    list.into_iter().map(row).collect()
}

#[tokio::test]
async fn wrong_settings_are_named_in_one_line() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("data");
    let config = home.path().join("wrong.toml");
    std::fs::write(
        &config,
        "addr = \"127.0.0.1:0\"\n[limits]\nsteps = \"many\"\n",
    )
    .unwrap();
    let broken = home.path().join("broken.toml");
    std::fs::write(&broken, "addr = \"127.0.0.1:0\"\n[limits\n").unwrap();
    let (config, broken, missing) = (text(&config), text(&broken), "/nowhere/codelab.toml");
    let exposed = ("JWT_SECRET", "0123456789abcdef0123456789abcdef");
    #[rustfmt::skip]
    let cases: [(&[&str], &[(&str, &str)], &str); 13] = [
        (&["--addr", "not an address"], &[], "addr: must be an IP address and a port"),
        (&["--addr", "0.0.0.0:0"], &[exposed], "INTERNAL_API_KEY and JWT_SECRET must both be set"),
        (&["--config", config], &[], "limits.steps: "),
        (&["--config", broken], &[], "broken.toml, line 2: "),
        (&["--config", missing], &[], "/nowhere/codelab.toml: "),
        (&[], &[("CODELAB_LIMITS__QUEUE_LENGHT", "3")], "limits"),
        (&[], &[("CODELAB_LIMITS__MODEL_TIMEOUT_SECONDS", "0")], "limits.model_timeout_seconds: must be more than 0"),
        (&[], &[("DATABASE_URL", "mysql://localhost/x")], "database.url: "),
        (&[], &[("DATABASE_URL", "postgres://someone:hidden@127.0.0.1:1/x")], "database.url: postgres:… cannot be used"),
        (&[], &[("DATABASE_URL", "sqlite:/dev/null/x.db")], "(check DATABASE_URL)"),
        (&[], &[("CODELAB_LOCALES", "en")], "CODELAB_LOCALES: is not a setting"),
        (&[], &[("LLM_PROXY_URL", "not a url")], "LLM_PROXY_URL"),
        (&[], &[("CODELAB_MULTIPLE_TOOL_CALLS", "both")], "multiple_tool_calls: "),
    ];
    for (arguments, environment, expected) in cases {
        let mut all = vec!["serve", "--data-dir", text(&folder)];
        if !arguments.contains(&"--addr") {
            all.extend(["--addr", "127.0.0.1:0"]);
        }
        all.extend(arguments);
        let environment: Vec<_> = environment
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        let complaint = refused(&all, &environment).await;
        assert!(
            complaint.starts_with("codelab: ") && complaint.contains(expected),
            "{expected:?}: {complaint}"
        );
        assert!(!complaint.contains("hidden"), "{complaint}");
    }
}

#[tokio::test]
async fn help_says_what_there_is() {
    #[rustfmt::skip]
    let cases: [(&[&str], &[&str]); 7] = [
        (&["--help"], &["serve", "token", "audit", "backup", "restore", "--version"]),
        (&["serve", "--help"], &["--addr", "CODELAB_ADDR", "127.0.0.1:8080", "--data-dir", "CODELAB_DATA_DIR", "--config"]),
        (&["token", "--help"], &["--user", "--days", "--admin", "--data-dir"]),
        (&["audit", "--help"], &["verify"]),
        (&["audit", "verify", "--help"], &["--data-dir"]),
        (&["backup", "--help"], &["<FILE>", "also while the server runs", "--data-dir"]),
        (&["restore", "--help"], &["<FILE>", "while the server is stopped", "--data-dir"]),
    ];
    for (arguments, expected) in cases {
        let help = ran(arguments, &[]).await;
        for word in expected {
            assert!(
                help.contains(word),
                "codelab {arguments:?} does not mention {word}:\n{help}"
            );
        }
    }
    let version = ran(&["--version"], &[]).await;
    assert_eq!(
        version.trim(),
        concat!("codelab ", env!("CARGO_PKG_VERSION"))
    );
}

#[tokio::test]
async fn a_token_carries_the_documented_claims() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("data");
    for (arguments, days, role) in [
        (&["--user", "7"][..], 30, Value::Null),
        (
            &["--user", "7", "--days", "2", "--admin"][..],
            2,
            json!("admin"),
        ),
    ] {
        let token = ran(
            &[&["token", "--data-dir", text(&folder)], arguments].concat(),
            &[],
        )
        .await;
        let secret = std::fs::read_to_string(folder.join("secrets/jwt_secret")).unwrap();
        let key = DecodingKey::from_secret(secret.trim().as_bytes());
        let mut validation = Validation::new(Algorithm::HS256);
        validation.set_audience(&["codelab"]);
        validation.set_required_spec_claims(&["exp", "aud", "sub"]);
        let claims = jsonwebtoken::decode::<Value>(token.trim(), &key, &validation)
            .expect("the token is valid")
            .claims;
        assert_eq!(
            (&claims["sub"], &claims["aud"], &claims["role"]),
            (&json!("7"), &json!("codelab"), &role)
        );
        let left_seconds = claims["exp"].as_i64().unwrap() - now().as_millis() / 1000;
        assert!(
            (days * 86_400 - 60..=days * 86_400).contains(&left_seconds),
            "{claims}"
        );
    }
}

#[tokio::test]
async fn tokens_that_make_no_sense_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("data");
    for (arguments, expected) in [
        (
            ["--user", "0", "--days", "1"],
            "--user must be a positive number",
        ),
        (
            ["--user=-1", "--days", "1", "--admin"],
            "--user must be a positive number",
        ),
        (["--user", "7", "--days", "0"], "--days must be 1 to 3650"),
        (
            ["--user", "7", "--days", "3651"],
            "--days must be 1 to 3650",
        ),
    ] {
        let complaint = refused(
            &[&["token", "--data-dir", text(&folder)], &arguments[..]].concat(),
            &[],
        )
        .await;
        assert!(complaint.contains(expected), "{complaint}");
    }
    assert!(!folder.exists(), "nothing is made for a refused token");
}

/// With the demonstration model, as the guide says.
#[tokio::test]
async fn the_guide_to_a_planned_request_shows_what_is_seen() {
    if std::process::Command::new("curl")
        .arg("--version")
        .output()
        .is_err()
    {
        println!("skipped: curl is not installed");
        return;
    }
    let mut lab = Lab::prepare(&[]).await;
    lab.settings.retain(|(name, _)| name != "LLM_PROXY_URL");
    lab.boot().await;
    let data_dir = lab.data_dir().to_str().unwrap();
    let token = ran(
        &["token", "--user", "1", "--data-dir", data_dir],
        &lab.settings,
    )
    .await;
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut script = tokio::process::Command::new("bash");
    script.arg(docs.join("orchestrated-request.sh"));
    let output = script
        .env("CODELAB_URL", &lab.server().url)
        .env("TOKEN", token.trim())
        .output()
        .await
        .unwrap();
    let seen = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{seen}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let guide = std::fs::read_to_string(docs.join("orchestrated-request.md")).unwrap();
    // The headings, and the words of the list of events; ids and times are others each time.
    let headings = |text: &str| {
        text.lines()
            .filter(|line| line.starts_with("== "))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(headings(&seen), headings(&guide));
    let events = |text: &str| {
        let (_, rest) = text
            .split_once("== Every step, as the event log holds it\n")
            .expect("the list of events");
        let (list, _) = rest.split_once("\n\n").expect("something after it");
        list.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(events(&seen), events(&guide));
}

#[tokio::test]
async fn memories_are_made_anew_from_the_database() {
    let mut lab = Lab::start().await;
    lab.model
        .default_reply(Reply::text("The deploy keys are in vault seven."));
    let chat = Chat::new(&lab).await;
    chat.post(
        &lab,
        "message/",
        json!({ "content": "Where are the deploy keys?", "target_agent": "coder" }),
    )
    .await;
    let folder = text(lab.data_dir()).to_owned();
    let rebuild = ["memory", "rebuild", "--data-dir", &folder];
    let complaint = refused(&rebuild, &lab.settings).await;
    assert!(
        complaint.contains("in use by another process"),
        "{complaint}"
    );

    lab.kill().await;
    let memory = lab.data_dir().join("memory");
    std::fs::remove_dir_all(&memory).unwrap();
    let said = ran(&rebuild, &lab.settings).await;
    assert_eq!(
        said.trim(),
        "1 interactions of 4 agents indexed, 0 agents without a memory"
    );
    assert_eq!(
        std::fs::read_dir(&memory).unwrap().count(),
        4,
        "a file for each agent"
    );

    lab.boot().await;
    let agents = chat
        .get(&lab, &format!("/my/projects/{}/agents/", chat.project))
        .await;
    let coder = agents["agents"]
        .as_array()
        .unwrap()
        .iter()
        .find(|agent| agent["name"] == "agent_coder")
        .unwrap();
    let search = format!(
        "/my/projects/{}/agents/{}/context/search/",
        chat.project,
        coder["agent_id"].as_str().unwrap()
    );
    let (status, found) = chat
        .ask(
            &lab,
            Method::POST,
            &search,
            Some(json!({ "query": "keys for deploying" })),
        )
        .await;
    assert_eq!(status, 200, "{found}");
    assert!(
        found["results"][0]["text"]
            .as_str()
            .is_some_and(|hit| hit.contains("vault seven")),
        "{found}"
    );
}

#[tokio::test]
async fn the_program_tells_of_its_settings_and_its_commands() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().display().to_string();
    let file = folder.path().join("codelab.toml");
    std::fs::write(&file, "[limits]\nsteps = 7\n[llm]\napi_key = \"canary\"\n").unwrap();
    let all = ran(&["config", "show", "--data-dir", &data], &[]).await;
    let row = |name: &str| {
        let found = all
            .lines()
            .find(|line| line.split_whitespace().next() == Some(name));
        found
            .unwrap_or_else(|| panic!("{name}: {all}"))
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(
        row("limits.steps"),
        format!("limits.steps 7 {data}/codelab.toml")
    );
    assert_eq!(row("limits.repeats"), "limits.repeats 3 default");
    assert_eq!(
        row("llm.api_key"),
        format!("llm.api_key [secret] {data}/codelab.toml")
    );
    assert_eq!(row("data_dir"), format!("data_dir {data} flag: --data-dir"));
    let set: Value = serde_json::from_str(
        &ran(
            &["config", "show", "--set", "--json", "--data-dir", &data],
            &[],
        )
        .await,
    )
    .unwrap();
    let names: Vec<&Value> = set["settings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|setting| &setting["name"])
        .collect();
    assert_eq!(names, ["data_dir", "limits.steps", "llm.api_key"]);
    assert!(!all.contains("canary") && !set.to_string().contains("canary"));
    std::fs::write(&file, "[limits]\nsteps = 0\n").unwrap();
    let wrong = run(&["config", "show", "--data-dir", &data], &[]).await;
    let complaint = String::from_utf8_lossy(&wrong.stderr);
    assert!(
        !wrong.status.success() && complaint.contains("limits.steps: must be more than 0"),
        "{complaint}"
    );

    for (shell, part) in [
        ("bash", "complete -F"),
        ("zsh", "#compdef codelab"),
        ("fish", "complete -c codelab"),
    ] {
        let script = ran(&["completions", shell], &[]).await;
        assert!(
            script.contains(part) && script.contains("doctor"),
            "{shell}: {script}"
        );
    }
    assert!(ran(&["man"], &[]).await.contains(".TH codelab 1"));
    assert!(
        ran(&["man", "serve"], &[])
            .await
            .contains(".TH codelab-serve 1")
    );
    assert!(!run(&["man", "nothing"], &[]).await.status.success());
}
