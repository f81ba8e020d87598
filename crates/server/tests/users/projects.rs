//! Projects: made, seen, changed, removed.

use serde_json::{Value, json};

use crate::kit::{Person, server};

#[tokio::test]
async fn a_project_lives_and_ends() {
    let mut server = server().await;
    let me = Person::user(&server, 1);
    let body = json!({ "name": "  Shop ", "description": "A shop", "budget_usd": 2.5, "budget_tokens": 1000 });
    let made = me.post("/my/projects/", body).await.expect(201);
    let id = made["project_id"].as_i64().unwrap();
    assert_eq!(
        (made["name"].as_str(), made["is_default"].as_bool()),
        (Some("Shop"), Some(false))
    );
    assert_eq!(
        (&made["budget_usd"], &made["budget_tokens"]),
        (&json!(2.5), &json!(1000))
    );
    let path = format!("/my/projects/{id}");
    assert_eq!(me.get(&path).await.expect(200), made);
    assert_eq!(me.get(&format!("{path}/")).await.expect(200), made);
    assert_eq!(
        me.get("/my/projects").await.expect(200)["projects"],
        json!([made])
    );

    let changed = me
        .patch(&path, json!({ "name": "Store", "budget_usd": 0.1 }))
        .await
        .expect(200);
    assert_eq!(
        (&changed["name"], &changed["description"]),
        (&json!("Store"), &json!("A shop"))
    );
    assert_eq!(
        (&changed["budget_usd"], &changed["budget_tokens"]),
        (&json!(0.1), &json!(1000))
    );
    let cleared = json!({ "description": null, "budget_usd": null, "budget_tokens": null });
    let cleared = me.patch(&path, cleared).await.expect(200);
    for field in ["description", "budget_usd", "budget_tokens"] {
        assert_eq!(cleared[field], Value::Null, "{field}");
    }
    assert_eq!(
        me.patch(&path, json!({})).await.expect(200)["name"],
        "Store"
    );

    server.restart().await;
    let me = Person::user(&server, 1);
    assert_eq!(me.get(&path).await.expect(200)["name"], "Store");
    assert_eq!(me.agents(id).await.len(), 4);
    me.delete(&path).await.expect(204);
    for answer in [
        me.get(&path).await,
        me.patch(&path, json!({})).await,
        me.delete(&path).await,
    ] {
        answer.refused(404, "PROJECT_NOT_FOUND");
    }
    me.get(&format!("{path}/agents/"))
        .await
        .refused(404, "PROJECT_NOT_FOUND");
}

#[tokio::test]
async fn a_new_project_has_the_starter_pack() {
    let server = server().await;
    let me = Person::user(&server, 1);
    let agents = me.agents(me.project("new").await).await;
    let read = ["read_file", "list_files", "search_in_code"];
    let all = [
        "read_file",
        "write_file",
        "list_files",
        "search_in_code",
        "create_directory",
        "execute_command",
    ];
    let expected = [
        (
            "agent_coder",
            "developer",
            0.3,
            4096,
            all.to_vec(),
            Value::Null,
        ),
        (
            "agent_analyzer",
            "analyst",
            0.5,
            2048,
            read.to_vec(),
            Value::Null,
        ),
        (
            "agent_writer",
            "writer",
            0.7,
            2048,
            [&read[..], &["write_file"]].concat(),
            json!([r"\.(md|txt|rst)$"]),
        ),
        (
            "agent_researcher",
            "researcher",
            0.6,
            3096,
            read.to_vec(),
            Value::Null,
        ),
    ];
    assert_eq!(agents.len(), expected.len());
    for (agent, (name, role, temperature, max_tokens, mut tools, restrictions)) in
        agents.iter().zip(expected)
    {
        tools.extend(["attempt_completion", "ask_followup_question"]);
        if name == "agent_coder" {
            tools.push("mcp__*");
        }
        assert_eq!(
            (&agent["name"], &agent["role"]),
            (&json!(name), &json!(role))
        );
        assert_eq!(
            (&agent["model"], &agent["temperature"]),
            (&json!("gpt-4"), &json!(temperature)),
            "{name}"
        );
        assert_eq!(
            (&agent["max_tokens"], &agent["concurrency_limit"]),
            (&json!(max_tokens), &json!(4)),
            "{name}"
        );
        assert_eq!(
            (&agent["allowed_tools"], &agent["file_restrictions"]),
            (&json!(tools), &restrictions),
            "{name}"
        );
        assert!(
            !agent["system_prompt"].as_str().unwrap().is_empty() && agent["agent_id"].is_string(),
            "{name}"
        );
    }
}

#[tokio::test]
async fn wrong_projects_are_refused() {
    let server = server().await;
    let me = Person::user(&server, 1);
    let id = me.project("kept").await;
    let path = format!("/my/projects/{id}");
    let before = me.get(&path).await.expect(200);
    let validation = "VALIDATION_ERROR";
    for (body, code) in [
        (json!({}), "MISSING_REQUIRED_FIELD"),
        (json!({ "name": null }), validation),
        (json!({ "name": "" }), validation),
        (json!({ "name": " \t" }), validation),
        (json!({ "name": "two\nlines" }), validation),
        (json!({ "name": "x".repeat(201) }), validation),
        (json!({ "name": 3 }), validation),
        (
            json!({ "name": "n", "description": "x".repeat(10_001) }),
            validation,
        ),
        (json!({ "name": "n", "budget_usd": -0.01 }), validation),
        (json!({ "name": "n", "budget_usd": 1e10 }), validation),
        (json!({ "name": "n", "budget_usd": "5" }), validation),
        (json!({ "name": "n", "budget_tokens": -1 }), validation),
        (json!({ "name": "n", "budget_tokens": 1.5 }), validation),
        (
            json!({ "name": "n", "budget_tokens": 1_u64 << 53 }),
            validation,
        ),
        (json!([]), validation),
    ] {
        me.post("/my/projects/", body.clone())
            .await
            .refused(422, code);
        if body != json!({}) {
            me.patch(&path, body).await.refused(422, validation);
        }
    }
    assert_eq!(me.get("/my/projects/").await.expect(200)["total"], 1);
    assert_eq!(me.get(&path).await.expect(200), before);
    for query in [
        "?limit=0",
        "?limit=1001",
        "?limit=x",
        "?offset=-1",
        "?offset=18446744073709551615",
    ] {
        me.get(&format!("/my/projects/{query}"))
            .await
            .refused(422, validation);
        me.get(&format!("{path}/agents/{query}"))
            .await
            .refused(422, validation);
    }
    for other in [
        "0",
        "-1",
        "01",
        "1.0",
        "x",
        "9223372036854775808",
        "%20",
        "default",
        "%00",
        "%ff",
    ] {
        me.get(&format!("/my/projects/{other}"))
            .await
            .refused(404, "PROJECT_NOT_FOUND");
    }
}

#[tokio::test]
async fn lists_are_paged() {
    let server = server().await;
    let me = Person::user(&server, 1);
    let mut ids = Vec::new();
    for name in ["a", "b", "c"] {
        ids.push(me.project(name).await);
    }
    let page = me.get("/my/projects/?limit=2&offset=1").await.expect(200);
    let seen: Vec<_> = page["projects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["project_id"].as_i64().unwrap())
        .collect();
    assert_eq!(seen, ids[1..]);
    assert_eq!(
        (&page["total"], &page["limit"], &page["offset"]),
        (&json!(3), &json!(2), &json!(1))
    );
    let agents = me
        .get(&format!("/my/projects/{}/agents/?limit=1&offset=3", ids[0]))
        .await
        .expect(200);
    assert_eq!(
        (&agents["total"], &agents["agents"][0]["name"]),
        (&json!(4), &json!("agent_researcher"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_first_requests_make_one_default_project() {
    let server = server().await;
    let me = Person::user(&server, 5);
    let asking: Vec<_> = (0..50)
        .map(|_| {
            let me = me.clone();
            tokio::spawn(async move { me.get("/my/projects/").await.expect(200) })
        })
        .collect();
    let mut seen = Vec::new();
    for task in asking {
        seen.push(task.await.unwrap());
    }
    seen.dedup();
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert_eq!(
        (&seen[0]["total"], &seen[0]["limit"], &seen[0]["offset"]),
        (&json!(1), &json!(100), &json!(0))
    );
    let default = &seen[0]["projects"][0];
    assert_eq!(
        (&default["name"], &default["is_default"]),
        (&json!("Default"), &json!(true))
    );
    let id = default["project_id"].as_i64().unwrap();
    assert_eq!(me.agents(id).await.len(), 4);

    // It is a project like any other, and comes back only for a user who has none.
    let other = me.project("other").await;
    me.delete(&format!("/my/projects/{id}")).await.expect(204);
    let list = me.get("/my/projects/").await.expect(200);
    assert_eq!(
        (&list["total"], &list["projects"][0]["project_id"]),
        (&json!(1), &json!(other))
    );
    me.delete(&format!("/my/projects/{other}"))
        .await
        .expect(204);
    let again = me.get("/my/projects/").await.expect(200)["projects"][0].clone();
    assert_eq!(again["is_default"], true);
    assert!(again["project_id"].as_i64().unwrap() > other, "{again}");
}
