//! The agents of a project: made, checked, changed, removed.

use codelab_testkit::Reply;
use serde_json::{Value, json};

use crate::kit::{Person, server, server_with};

#[tokio::test]
async fn an_agent_lives_and_ends() {
    let server = server().await;
    let me = Person::user(&server, 1);
    let project = me.project("p").await;
    let agents = format!("/my/projects/{project}/agents");
    let whole = json!({
        "name": "reviewer_2", "role": "reviewer", "description": "Reads", "model": "gpt-4o", "temperature": 1.25,
        "max_tokens": 512, "system_prompt": "You review. {{messageHistory}}", "allowed_tools": ["read_file", "echo"],
        "file_restrictions": ["\\.md$"], "concurrency_limit": 2,
    });
    let mut made = me
        .post(&format!("{agents}/"), whole.clone())
        .await
        .expect(201);
    assert_eq!(
        made.as_object_mut().unwrap().remove("warnings"),
        Some(json!([]))
    );
    for (field, value) in whole.as_object().unwrap() {
        assert_eq!(&made[field], value, "{field}");
    }
    let path = format!("{agents}/{}", made["agent_id"].as_str().unwrap());
    assert_eq!(me.get(&path).await.expect(200), made);
    assert_eq!(me.agents(project).await[4], made);

    // Only what is named changes; the present name may be repeated.
    let changed = me
        .patch(&path, json!({ "name": "reviewer_2", "role": "critic" }))
        .await
        .expect(200);
    for (field, value) in whole
        .as_object()
        .unwrap()
        .iter()
        .filter(|(field, _)| *field != "role")
    {
        assert_eq!(&changed[field], value, "{field}");
    }
    assert_eq!(changed["role"], "critic");
    let cleared = json!({ "temperature": null, "max_tokens": null, "file_restrictions": null, "allowed_tools": [] });
    let cleared = me.patch(&format!("{path}/"), cleared).await.expect(200);
    for field in ["temperature", "max_tokens", "file_restrictions"] {
        assert_eq!(cleared[field], Value::Null, "{field}");
    }
    assert_eq!(cleared["allowed_tools"], json!([]));

    me.delete(&path).await.expect(204);
    for answer in [
        me.get(&path).await,
        me.patch(&path, json!({})).await,
        me.delete(&path).await,
    ] {
        answer.refused(404, "AGENT_NOT_FOUND");
    }
    assert_eq!(me.agents(project).await.len(), 4);
    for other in ["x", "agent-0", "a%20b", &"x".repeat(200)] {
        me.get(&format!("{agents}/{other}"))
            .await
            .refused(404, "AGENT_NOT_FOUND");
    }
    assert_eq!(me.get(&format!("{agents}/%ff")).await.status, 404);
}

#[tokio::test]
async fn a_name_is_enough() {
    let server = server_with(&[("LLM_MODEL", "local-model")]).await;
    let me = Person::user(&server, 1);
    let path = format!("/my/projects/{}/agents", me.project("p").await);
    let made = me.post(&path, json!({ "name": "plain" })).await.expect(201);
    assert_eq!(
        (&made["model"], &made["concurrency_limit"]),
        (&json!("local-model"), &json!(4))
    );
    assert_eq!(
        (&made["temperature"], &made["max_tokens"]),
        (&Value::Null, &Value::Null)
    );
    let tools = [
        "read_file",
        "list_files",
        "search_in_code",
        "attempt_completion",
        "ask_followup_question",
    ];
    assert_eq!(made["allowed_tools"], json!(tools));
}

#[tokio::test]
async fn a_name_is_taken_once_in_a_project() {
    let server = server().await;
    let me = Person::user(&server, 1);
    let (one, two) = (me.project("one").await, me.project("two").await);
    let path = |project: i64| format!("/my/projects/{project}/agents");
    me.post(&path(one), json!({ "name": "mine" }))
        .await
        .expect(201);
    me.post(&path(one), json!({ "name": "mine" }))
        .await
        .refused(409, "CONFLICT");
    me.post(&path(one), json!({ "name": "agent_coder" }))
        .await
        .refused(409, "CONFLICT");
    me.post(&path(one), json!({ "name": "orchestrator" }))
        .await
        .refused(409, "CONFLICT");
    me.post(&path(two), json!({ "name": "mine" }))
        .await
        .expect(201);
    // Of many at once, one is made.
    let asking: Vec<_> = (0..20)
        .map(|_| {
            let (me, path) = (me.clone(), path(one));
            tokio::spawn(async move { me.post(&path, json!({ "name": "raced" })).await.status })
        })
        .collect();
    let mut statuses = Vec::new();
    for task in asking {
        statuses.push(task.await.unwrap());
    }
    statuses.sort();
    assert_eq!((statuses[0], &statuses[1..]), (201, &[409; 19][..]));
    assert_eq!(me.agents(one).await.len(), 6);
}

#[tokio::test]
async fn wrong_agents_are_refused() {
    let server = server().await;
    let me = Person::user(&server, 1);
    let project = me.project("p").await;
    let path = format!("/my/projects/{project}/agents");
    let before = me.agents(project).await;
    let agent = format!("{path}/{}", before[0]["agent_id"].as_str().unwrap());
    for name in ["", "A", "a b", "a-b", "a.b", "é", "a\n", &"x".repeat(65)] {
        me.post(&path, json!({ "name": name }))
            .await
            .refused(422, "VALIDATION_ERROR");
    }
    me.post(&path, json!({ "role": "x" }))
        .await
        .refused(422, "MISSING_REQUIRED_FIELD");
    me.patch(&agent, json!({ "name": "renamed" }))
        .await
        .refused(422, "VALIDATION_ERROR");
    let deep = format!("{}{}", "(".repeat(300), ")".repeat(300));
    let wrong = [
        ("role", json!("x".repeat(101))),
        ("role", json!("a\nb")),
        ("description", json!("x".repeat(2001))),
        ("model", json!("")),
        ("model", json!("  ")),
        ("model", json!("a b")),
        ("model", json!("x".repeat(201))),
        ("temperature", json!(-0.1)),
        ("temperature", json!(2.01)),
        ("temperature", json!("0.5")),
        ("max_tokens", json!(0)),
        ("max_tokens", json!(200_001)),
        ("max_tokens", json!(-1)),
        ("max_tokens", json!(1.5)),
        ("system_prompt", json!("x".repeat(65_537))),
        ("allowed_tools", json!(["fly"])),
        ("allowed_tools", json!("read_file")),
        ("file_restrictions", json!(["("])),
        ("file_restrictions", json!([""])),
        ("file_restrictions", json!(["x".repeat(513)])),
        ("file_restrictions", json!(vec!["x"; 33])),
        ("file_restrictions", json!(["(?:a{1000}){1000}"])),
        ("file_restrictions", json!([deep])),
        ("concurrency_limit", json!(0)),
        ("concurrency_limit", json!(65)),
    ];
    for (field, value) in wrong {
        me.post(&path, json!({ "name": "new_one", field: value }))
            .await
            .refused(422, "VALIDATION_ERROR");
        me.patch(&agent, json!({ field: value }))
            .await
            .refused(422, "VALIDATION_ERROR");
    }
    for field in [
        "role",
        "description",
        "system_prompt",
        "allowed_tools",
        "concurrency_limit",
    ] {
        me.patch(&agent, json!({ field: null }))
            .await
            .refused(422, "VALIDATION_ERROR");
    }
    // Right and wrong in one request: nothing of it is kept.
    let mixed = json!({ "role": "changed", "temperature": 9 });
    me.patch(&agent, mixed)
        .await
        .refused(422, "VALIDATION_ERROR");
    assert_eq!(me.agents(project).await, before);
}

#[tokio::test]
async fn unknown_placeholders_and_models_are_told() {
    let server = server().await;
    let me = Person::user(&server, 1);
    let path = format!("/my/projects/{}/agents", me.project("p").await);
    let prompt = "{{messageHistory}} {{userId}} {{currentTime}} {{timezone}} {{householdId}} {{mood}} {{mood}}";
    let made = me
        .post(&path, json!({ "name": "a", "system_prompt": prompt }))
        .await
        .expect(201);
    let warnings = made["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].as_str().unwrap().contains("{{mood}}"),
        "{warnings:?}"
    );
    let agent = format!("{path}/{}", made["agent_id"].as_str().unwrap());
    let fixed = me
        .patch(&agent, json!({ "system_prompt": "{{messageHistory}}" }))
        .await
        .expect(200);
    assert_eq!(fixed["warnings"], json!([]));
    let odd = me
        .patch(&agent, json!({ "model": "gpt-4444" }))
        .await
        .expect(200);
    assert_eq!(
        (&odd["model"], odd["warnings"].as_array().unwrap().len()),
        (&json!("gpt-4444"), 1)
    );
    assert!(
        odd["warnings"][0]
            .as_str()
            .unwrap()
            .contains("gpt-4444 is not known"),
        "{odd}"
    );
}

#[tokio::test]
async fn a_project_holds_a_hundred_agents() {
    let server = server().await;
    let me = Person::user(&server, 1);
    let path = format!("/my/projects/{}/agents", me.project("p").await);
    for number in 4..100 {
        me.post(&path, json!({ "name": format!("a{number}") }))
            .await
            .expect(201);
    }
    me.post(&path, json!({ "name": "one_more" }))
        .await
        .refused(409, "CONFLICT");
}

#[tokio::test]
async fn an_agent_follows_the_servers_model_until_a_person_chooses() {
    let server = server_with(&[("LLM_MODEL", "local-model")]).await;
    server.model.default_reply(Reply::text("Done."));
    let me = Person::user(&server, 1);
    let project = me.project("p").await;
    for agent in me.agents(project).await {
        assert_eq!(
            (&agent["model"], &agent["model_inherited"]),
            (&json!("local-model"), &json!(true)),
            "{agent:#}"
        );
    }
    let health = me.get("/health").await.expect(200);
    assert_eq!(health["checks"]["model"]["detail"], "local-model");
    let coder = me.agent(project, "agent_coder").await;
    let path = format!("/my/projects/{project}/agents/{coder}");
    let session = me.session(project).await;
    // The model before and after the change, and whether it follows.
    for (change, model, inherited) in [
        (json!({}), "local-model", true),
        (json!({ "model": "gpt-4o" }), "gpt-4o", false),
        (json!({ "role": "critic" }), "gpt-4o", false),
        (json!({ "model": null }), "local-model", true),
    ] {
        let changed = me.patch(&path, change).await.expect(200);
        assert_eq!(
            (&changed["model"], &changed["model_inherited"]),
            (&json!(model), &json!(inherited))
        );
        me.say(&session, "coder", "go").await.expect(200);
        let asked = server.model.requests().pop().unwrap();
        assert_eq!(
            asked.body["model"], model,
            "what is shown is what is called"
        );
    }
    let fallbacks = json!({ "fallback_models": ["gpt-4o", "gpt-4o-mini"] });
    let changed = me.patch(&path, fallbacks).await.expect(200);
    assert_eq!(changed["fallback_models"], json!(["gpt-4o", "gpt-4o-mini"]));
    for wrong in [json!(["a b"]), json!([""]), json!(vec!["m"; 9]), json!("m")] {
        me.patch(&path, json!({ "fallback_models": wrong }))
            .await
            .refused(422, "VALIDATION_ERROR");
    }
    let cleared = me.patch(&path, json!({ "fallback_models": null })).await;
    assert_eq!(cleared.expect(200)["fallback_models"], json!([]));
}
