//! MCP servers of projects: their secrets, what was accepted of them, who may use them.

use codelab_protocol::{Digest, McpPermission, McpServerName, ToolDefinition};
use codelab_store::{
    Acceptance, MAX_DEFINITIONS_OF_TOOL, McpServerChange, NewDefinition, NewMcpServer, Opened,
    ProjectStore, SealingKey, SecretHeaders, SecretText, StoreError,
};

use crate::harness::{Harness, at};
use crate::users::{new_project, user};

const CANARY: &str = "canary-header-value";

fn name(text: &str) -> McpServerName {
    McpServerName::parse(text).unwrap()
}

fn headers(value: &str) -> SecretHeaders {
    SecretHeaders::new([("Authorization".to_owned(), value.to_owned())].into())
}

fn server(named: &str) -> NewMcpServer {
    NewMcpServer {
        name: name(named),
        url: "https://mcp.example/mcp?v=1".to_owned(),
        headers: headers(CANARY),
    }
}

fn tool(tool: &str, description: &str) -> ToolDefinition {
    ToolDefinition {
        name: tool.to_owned(),
        title: None,
        description: description.to_owned(),
        input_schema: serde_json::Map::new(),
        annotations: None,
    }
}

fn definition(server: &str, tool_name: &str, description: &str) -> NewDefinition {
    NewDefinition {
        server: name(server),
        definition: tool(tool_name, description),
    }
}

async fn project(harness: &Harness) -> ProjectStore {
    let mine = harness.store.of(user(1));
    let made = mine.create_project(new_project("mcp"), at(1)).await;
    made.unwrap()
}

/// The server, tool and digest of everything that is accepted.
async fn accepted(project: &ProjectStore) -> Vec<(String, String, Digest)> {
    let rows = project.accepted_definitions().await.unwrap();
    let rows = rows.into_iter();
    rows.map(|row| (row.server.to_string(), row.tool, row.digest))
        .collect()
}

pub async fn a_server_comes_back_with_its_secrets(mut harness: Harness) -> Harness {
    let first = project(&harness).await;
    let created = first
        .create_mcp_server(server("github"), at(2))
        .await
        .unwrap();
    assert_eq!(created.headers, Opened::Value(headers(CANARY)));
    let again = first.create_mcp_server(server("github"), at(2)).await;
    assert_eq!(again, Err(StoreError::AlreadyExists));
    let bare = NewMcpServer {
        headers: SecretHeaders::default(),
        ..server("bare")
    };
    let bare = first.create_mcp_server(bare, at(2)).await.unwrap();
    assert_eq!(bare.headers, Opened::Nothing);
    let tokens = SecretText::new("canary-token");
    first
        .set_mcp_tokens(&name("github"), Some(&tokens))
        .await
        .unwrap();

    harness.restart().await;
    let mine = harness.store.of(user(1));
    let found = mine.project(first.id()).await.unwrap().unwrap();
    let rows = found.mcp_servers().await.unwrap();
    let names: Vec<_> = rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["bare", "github"]);
    let row = found.mcp_server(&name("github")).await.unwrap().unwrap();
    assert_eq!(row, rows[1]);
    assert_eq!(row.headers, Opened::Value(headers(CANARY)));
    assert_eq!(row.tokens, Opened::Value(tokens));
    assert_eq!((row.url, row.created_at), (created.url, at(2)));
    // Another project has other servers.
    let beside = mine
        .create_project(new_project("beside"), at(1))
        .await
        .unwrap();
    assert!(beside.mcp_servers().await.unwrap().is_empty());
    let missing = Err(StoreError::NotFound);
    assert_eq!(beside.set_mcp_tokens(&name("github"), None).await, missing);
    assert_eq!(beside.delete_mcp_server(&name("github")).await, missing);
    harness
}

pub async fn secrets_are_read_with_their_key_only(mut harness: Harness) -> Harness {
    let made = project(&harness).await;
    made.create_mcp_server(server("github"), at(2))
        .await
        .unwrap();
    for key in [None, Some(SealingKey::new(&[9; SealingKey::BYTES]))] {
        harness
            .restart_with(|options| options.sealing_key = key)
            .await;
        let mine = harness.store.of(user(1));
        let found = mine.project(made.id()).await.unwrap().unwrap();
        let row = found.mcp_server(&name("github")).await.unwrap().unwrap();
        assert_eq!(row.headers, Opened::Unreadable);
        assert_eq!(row.tokens, Opened::Nothing);
    }
    harness
        .restart_with(|options| options.sealing_key = None)
        .await;
    let mine = harness.store.of(user(1));
    let found = mine.project(made.id()).await.unwrap().unwrap();
    let refused = found.create_mcp_server(server("other"), at(3)).await;
    assert!(
        matches!(refused, Err(StoreError::Invalid(_))),
        "{refused:?}"
    );
    harness
}

pub async fn a_change_touches_only_what_it_names(harness: Harness) -> Harness {
    let project = project(&harness).await;
    let github = name("github");
    project
        .create_mcp_server(server("github"), at(2))
        .await
        .unwrap();
    let tokens = SecretText::new("t");
    project
        .set_mcp_tokens(&github, Some(&tokens))
        .await
        .unwrap();
    let changed = |change| project.change_mcp_server(&github, change, at(3));
    let row = changed(McpServerChange::default()).await.unwrap();
    assert_eq!(row.headers, Opened::Value(headers(CANARY)));
    assert_eq!(row.tokens, Opened::Value(tokens));
    let change = McpServerChange {
        url: Some("https://other.example/".to_owned()),
        forget_tokens: true,
        ..McpServerChange::default()
    };
    let row = changed(change).await.unwrap();
    assert_eq!(row.url, "https://other.example/");
    assert_eq!(row.headers, Opened::Value(headers(CANARY)));
    assert_eq!(row.tokens, Opened::Nothing);
    let change = McpServerChange {
        headers: Some(SecretHeaders::default()),
        ..McpServerChange::default()
    };
    let row = changed(change).await.unwrap();
    assert_eq!((row.headers, row.created_at), (Opened::Nothing, at(2)));
    let unknown = project
        .change_mcp_server(&name("unknown"), McpServerChange::default(), at(3))
        .await;
    assert_eq!(unknown, Err(StoreError::NotFound));
    harness
}

pub async fn the_first_definition_of_a_tool_is_accepted_once(harness: Harness) -> Harness {
    let project = project(&harness).await;
    let offer = |description: &'static str| {
        let project = project.clone();
        tokio::spawn(async move {
            let definitions = vec![
                definition("s", "read", description),
                definition("s", "zero \0", description),
            ];
            project
                .accept_definitions(definitions, Acceptance::FirstSeen, at(2))
                .await
                .unwrap();
        })
    };
    let offers: Vec<_> = ["one", "two", "three"].into_iter().map(offer).collect();
    for offer in offers {
        offer.await.unwrap();
    }
    let rows = accepted(&project).await;
    assert_eq!(rows.len(), 2, "{rows:?}");
    let first = project
        .accepted_definition(&name("s"), "read")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(rows[0].2, first.digest());
    assert_eq!(
        (rows[0].1.as_str(), rows[1].1.as_str()),
        ("read", "zero \0")
    );

    // A person accepts others. The oldest ones make room.
    for number in 0..=MAX_DEFINITIONS_OF_TOOL {
        let changed = definition("s", "read", &format!("version {number}"));
        project
            .accept_definitions(vec![changed], Acceptance::Decided, at(10 + number as i64))
            .await
            .unwrap();
    }
    let rows = accepted(&project).await;
    assert_eq!(rows.len() as u64, MAX_DEFINITIONS_OF_TOOL + 1);
    assert!(!rows.iter().any(|(_, _, digest)| *digest == first.digest()));
    let gone = tool("read", "version 0").digest();
    assert!(!rows.iter().any(|(_, _, digest)| *digest == gone));
    let newest = project.accepted_definition(&name("s"), "read").await;
    let last = format!("version {MAX_DEFINITIONS_OF_TOOL}");
    assert_eq!(newest.unwrap(), Some(tool("read", &last)));
    // What is accepted again is the newest one.
    let again = definition("s", "read", "version 5");
    project
        .accept_definitions(vec![again], Acceptance::Decided, at(100))
        .await
        .unwrap();
    let newest = project.accepted_definition(&name("s"), "read").await;
    assert_eq!(newest.unwrap(), Some(tool("read", "version 5")));
    harness
}

pub async fn what_was_decided_goes_with_its_server(harness: Harness) -> Harness {
    let mine = project(&harness).await;
    let decide = async |server: &str| {
        mine.accept_definitions(
            vec![definition(server, "read", "d")],
            Acceptance::FirstSeen,
            at(2),
        )
        .await
        .unwrap();
        for permission in [McpPermission::Forbid, McpPermission::Allow] {
            mine.set_mcp_permission(&name(server), "read", permission)
                .await
                .unwrap();
        }
        let found = mine.mcp_permissions().await.unwrap();
        assert!(found.iter().any(|row| row.server == name(server)
            && row.tool == "read"
            && row.permission == McpPermission::Allow));
    };
    decide("s").await;
    decide("beside").await;
    // A new server does not inherit what was decided about another one of its name.
    mine.create_mcp_server(server("s"), at(3)).await.unwrap();
    assert_eq!(mine.mcp_permissions().await.unwrap().len(), 1);
    assert_eq!(accepted(&mine).await.len(), 1);
    decide("s").await;
    mine.delete_mcp_server(&name("s")).await.unwrap();
    assert_eq!(mine.mcp_server(&name("s")).await.unwrap(), None);
    assert_eq!(mine.mcp_permissions().await.unwrap().len(), 1);
    mine.forget_mcp_server(&name("beside")).await.unwrap();
    assert!(accepted(&mine).await.is_empty());
    decide("s").await;
    mine.set_mcp_permission(&name("s"), "read", McpPermission::Ask)
        .await
        .unwrap();
    assert!(mine.mcp_permissions().await.unwrap().is_empty());
    decide("s").await;
    mine.create_mcp_server(server("s2"), at(3)).await.unwrap();

    mine.delete().await.unwrap();
    assert!(mine.mcp_permissions().await.unwrap().is_empty());
    assert!(accepted(&mine).await.is_empty());
    assert!(mine.mcp_servers().await.unwrap().is_empty());
    let late = mine.create_mcp_server(server("late"), at(4)).await;
    assert_eq!(late, Err(StoreError::NotFound));
    let late = vec![definition("s", "late", "d")];
    assert_eq!(
        mine.accept_definitions(late, Acceptance::FirstSeen, at(4))
            .await,
        Err(StoreError::NotFound)
    );
    harness
}

pub async fn an_authorization_is_finished_once_and_in_time(harness: Harness) -> Harness {
    const OPEN_AT_ONCE: usize = 8;
    let store = &harness.store;
    let project = project(&harness).await;
    let hash = |text: &str| Digest::of_bytes(text.as_bytes());
    let begin = async |state: &str, expires_at| {
        let pending = SecretText::new(format!("pending {state}"));
        project
            .add_mcp_authorization(&hash(state), &name("s"), &pending, expires_at)
            .await
            .unwrap();
    };
    begin("one", at(1000)).await;
    let one = hash("one");
    let found = store.project_of_mcp_authorization(&one, at(999)).await;
    assert_eq!(found.unwrap(), Some(project.id()));
    for (state, now) in [("one", at(1000)), ("other", at(1))] {
        let found = store.project_of_mcp_authorization(&hash(state), now).await;
        assert_eq!(found.unwrap(), None, "{state}");
        let taken = store.take_mcp_authorization(&hash(state), now).await;
        assert_eq!(taken.unwrap(), None, "{state}");
    }
    let taking: Vec<_> = (0..20)
        .map(|_| {
            let (store, hash) = (store.clone(), hash("one"));
            tokio::spawn(async move { store.take_mcp_authorization(&hash, at(999)).await.unwrap() })
        })
        .collect();
    let mut winners = Vec::new();
    for task in taking {
        winners.extend(task.await.unwrap());
    }
    assert_eq!(winners.len(), 1);
    assert_eq!(winners[0].server, name("s"));
    assert_eq!(
        (winners[0].user_id, winners[0].project_id),
        (user(1), project.id())
    );
    let pending = Opened::Value(SecretText::new("pending one"));
    assert_eq!(winners[0].pending, pending);

    for number in 0..=OPEN_AT_ONCE {
        begin(&format!("state {number}"), at(2000 + number as i64)).await;
    }
    let oldest = store.take_mcp_authorization(&hash("state 0"), at(1)).await;
    assert_eq!(oldest.unwrap(), None);
    store.remove_expired_logins(at(2001)).await.unwrap();
    let expired = store.take_mcp_authorization(&hash("state 1"), at(1)).await;
    assert_eq!(expired.unwrap(), None);
    project.delete_mcp_server(&name("s")).await.unwrap_err();
    project.forget_mcp_server(&name("s")).await.unwrap();
    let forgotten = store.take_mcp_authorization(&hash("state 5"), at(1)).await;
    assert_eq!(forgotten.unwrap(), None);
    harness
}
