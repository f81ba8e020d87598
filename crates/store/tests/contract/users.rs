//! Users' own data: only its owner sees it, complete or not at all.

use codelab_protocol::{AgentId, AllowedTool, Digest, Patch, ProjectId, SessionKind, Tool, UserId};
use codelab_store::{AgentChange, NewAgent, NewProject, ProjectChange, ProjectStore, StoreError};

use crate::harness::{Harness, agent, approval, at, id, project_session, random};

pub fn user(number: i64) -> UserId {
    UserId::new(number).unwrap()
}

pub fn new_agent(name: &str) -> NewAgent {
    NewAgent {
        agent_id: AgentId::parse(&format!("agent-{:016x}", random())).unwrap(),
        name: agent(name),
        role: "developer".to_owned(),
        description: "zero \0 and «quotes»".to_owned(),
        model: Some("gpt-4".to_owned()),
        fallback_models: vec!["gpt-4o".to_owned()],
        temperature: Some(0.1 + 0.2),
        max_tokens: Some(4096),
        system_prompt: "{{messageHistory}}".to_owned(),
        allowed_tools: [Tool::ReadFile, Tool::WriteFile]
            .map(AllowedTool::BuiltIn)
            .to_vec(),
        file_restrictions: vec![r"\.md$".to_owned()],
        concurrency_limit: 4,
    }
}

pub fn new_project(name: &str) -> NewProject {
    NewProject {
        name: name.to_owned(),
        description: None,
        budget_micro_usd: Some(1_500_000),
        budget_tokens: None,
        nonce: format!("{:016x}", random()),
        agents: vec![new_agent("agent_coder"), new_agent("agent_writer")],
    }
}

async fn names(project: &ProjectStore) -> Vec<String> {
    let (agents, total) = project.agents(100, 0).await.unwrap();
    assert_eq!(total, agents.len() as u64);
    agents
        .into_iter()
        .map(|row| row.agent.name.as_str().to_owned())
        .collect()
}

pub async fn projects_come_back_with_their_agents(mut harness: Harness) -> Harness {
    let mine = harness.store.of(user(1));
    let (one, two) = (new_project("one"), new_project("two"));
    let first = mine.create_project(one.clone(), at(1)).await.unwrap();
    let second = mine.create_project(two, at(2)).await.unwrap();
    assert!(first.id() < second.id());
    assert_eq!(first.row().budget_micro_usd, Some(1_500_000));
    assert!(!first.row().is_default);

    harness.restart().await;
    let mine = harness.store.of(user(1));
    let (page, total) = mine.projects(10, 0).await.unwrap();
    assert_eq!((page.len(), total), (2, 2));
    assert_eq!(page[0], *first.row());
    assert_eq!(mine.projects(1, 1).await.unwrap().0, [second.row().clone()]);
    let first = mine.project(first.id()).await.unwrap().unwrap();
    assert_eq!(names(&first).await, ["agent_coder", "agent_writer"]);
    let stored = first.agent(&one.agents[0].agent_id).await.unwrap().unwrap();
    assert_eq!(stored.agent, one.agents[0]);
    assert_eq!((stored.created_at, stored.updated_at), (at(1), at(1)));
    harness
}

pub async fn another_user_finds_nothing(harness: Harness) -> Harness {
    let (mine, theirs) = (harness.store.of(user(1)), harness.store.of(user(2)));
    let project = mine
        .create_project(new_project("mine"), at(1))
        .await
        .unwrap();
    let other = theirs
        .create_project(new_project("theirs"), at(1))
        .await
        .unwrap();
    assert!(theirs.project(project.id()).await.unwrap().is_none());
    assert!(
        theirs
            .project(ProjectId::new(i64::MAX).unwrap())
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(
        theirs.projects(10, 0).await.unwrap(),
        (vec![other.row().clone()], 1)
    );

    // An agent's id does not give access from another project, even one of the same user.
    let agent = project
        .agents(1, 0)
        .await
        .unwrap()
        .0
        .remove(0)
        .agent
        .agent_id;
    let beside = mine
        .create_project(new_project("beside"), at(1))
        .await
        .unwrap();
    for stranger in [&other, &beside] {
        assert_eq!(stranger.agent(&agent).await.unwrap(), None);
        let change = AgentChange {
            role: Some("thief".to_owned()),
            ..AgentChange::default()
        };
        assert_eq!(
            stranger.change_agent(&agent, change, at(2)).await,
            Err(StoreError::NotFound)
        );
        assert_eq!(
            stranger.set_agent_registered(&agent, false, at(2)).await,
            Err(StoreError::NotFound)
        );
        assert_eq!(
            stranger.delete_agent(&agent, at(2)).await,
            Err(StoreError::NotFound)
        );
    }
    let found = project.agent(&agent).await.unwrap().unwrap();
    assert_eq!(
        (found.agent.role.as_str(), found.registered),
        ("developer", true)
    );
    // The operator of the server finds it, with its owner.
    let operated = harness
        .store
        .project_of_anyone(project.id())
        .await
        .unwrap()
        .unwrap();
    assert_eq!((operated.user(), operated.row()), (user(1), project.row()));
    assert!(
        harness
            .store
            .project_of_anyone(ProjectId::new(i64::MAX).unwrap())
            .await
            .unwrap()
            .is_none()
    );
    harness
}

pub async fn one_default_project_is_made(harness: Harness) -> Harness {
    let mine = harness.store.of(user(7));
    assert!(mine.default_project().await.unwrap().is_none());
    let asking: Vec<_> = (0..50)
        .map(|_| {
            let mine = mine.clone();
            tokio::spawn(async move {
                mine.default_project_or(new_project("Default"), at(1))
                    .await
                    .unwrap()
                    .id()
            })
        })
        .collect();
    let mut ids = Vec::new();
    for task in asking {
        ids.push(task.await.unwrap());
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "{ids:?}");
    assert_eq!(mine.projects(10, 0).await.unwrap().1, 1);
    let project = mine.default_project().await.unwrap().unwrap();
    assert!(project.row().is_default);
    assert_eq!(names(&project).await.len(), 2);
    // Another user has another default project.
    assert_ne!(
        harness
            .store
            .of(user(8))
            .default_project_or(new_project("d"), at(1))
            .await
            .unwrap()
            .id(),
        ids[0]
    );
    project.delete().await.unwrap();
    assert_ne!(
        mine.default_project_or(new_project("again"), at(2))
            .await
            .unwrap()
            .id(),
        ids[0]
    );
    harness
}

pub async fn changes_touch_only_what_they_name(harness: Harness) -> Harness {
    let mine = harness.store.of(user(1));
    let project = mine
        .create_project(new_project("before"), at(1))
        .await
        .unwrap();
    let rename = ProjectChange {
        name: Some("after".to_owned()),
        ..ProjectChange::default()
    };
    let describe = ProjectChange {
        description: Patch::Value("text".to_owned()),
        ..ProjectChange::default()
    };
    let (one, two) = tokio::join!(
        project.change(rename, at(2)),
        project.change(describe, at(2))
    );
    assert!(one.is_ok() && two.is_ok());
    let clear = ProjectChange {
        budget_micro_usd: Patch::Null,
        ..ProjectChange::default()
    };
    let row = project.change(clear, at(3)).await.unwrap();
    assert_eq!(
        (row.name.as_str(), row.description.as_deref()),
        ("after", Some("text"))
    );
    assert_eq!(
        (row.budget_micro_usd, row.budget_tokens, row.updated_at),
        (None, None, at(3))
    );

    let created = project
        .create_agent(new_agent("reviewer"), at(4))
        .await
        .unwrap();
    let twin = project.create_agent(new_agent("reviewer"), at(4)).await;
    assert_eq!(twin, Err(StoreError::AlreadyExists));
    let agent_id = &created.agent.agent_id;
    let all = AgentChange {
        role: Some("r".to_owned()),
        description: Some("d".to_owned()),
        model: Patch::Value("m".to_owned()),
        fallback_models: Some(vec!["a".to_owned(), "b/c".to_owned()]),
        temperature: Patch::Null,
        max_tokens: Patch::Value(7),
        system_prompt: Some("p".to_owned()),
        allowed_tools: Some(vec![]),
        file_restrictions: Some(vec![]),
        concurrency_limit: Some(9),
    };
    let row = project.change_agent(agent_id, all, at(5)).await.unwrap();
    let expected = NewAgent {
        agent_id: agent_id.clone(),
        name: agent("reviewer"),
        role: "r".to_owned(),
        description: "d".to_owned(),
        model: Some("m".to_owned()),
        fallback_models: vec!["a".to_owned(), "b/c".to_owned()],
        temperature: None,
        max_tokens: Some(7),
        system_prompt: "p".to_owned(),
        allowed_tools: vec![],
        file_restrictions: vec![],
        concurrency_limit: 9,
    };
    assert_eq!(
        (row.agent, row.created_at, row.updated_at),
        (expected, at(4), at(5))
    );
    let follow = AgentChange {
        model: Patch::Null,
        ..AgentChange::default()
    };
    let row = project.change_agent(agent_id, follow, at(5)).await.unwrap();
    assert_eq!(row.agent.model, None, "it follows the server's default");
    for registered in [false, true] {
        project
            .set_agent_registered(agent_id, registered, at(6))
            .await
            .unwrap();
        let row = project.agent(agent_id).await.unwrap().unwrap();
        assert_eq!((row.registered, row.updated_at), (registered, at(5)));
    }
    project.delete_agent(agent_id, at(6)).await.unwrap();
    assert_eq!(
        project.delete_agent(agent_id, at(6)).await,
        Err(StoreError::NotFound)
    );
    assert_eq!(names(&project).await, ["agent_coder", "agent_writer"]);
    harness
}

pub async fn a_removed_project_takes_everything_along(harness: Harness) -> Harness {
    let store = &harness.store;
    let mine = store.of(user(1));
    let project = mine
        .create_project(new_project("doomed"), at(1))
        .await
        .unwrap();
    let kept = mine
        .create_project(new_project("kept"), at(1))
        .await
        .unwrap();
    for (name, place) in [("inside", &project), ("beside", &kept)] {
        let mut commit = project_session(name, user(1), place.id());
        commit.approvals_opened.push(approval("c1"));
        store.commit(commit).await.unwrap();
    }
    let inside = store
        .session(SessionKind::Project, &id("inside"))
        .await
        .unwrap()
        .unwrap()
        .key;
    let beside = store
        .session(SessionKind::Project, &id("beside"))
        .await
        .unwrap()
        .unwrap()
        .key;

    project.delete().await.unwrap();
    assert_eq!(project.delete().await, Err(StoreError::NotFound));
    assert!(mine.project(project.id()).await.unwrap().is_none());
    assert!(names(&project).await.is_empty());
    assert_eq!(
        project.create_agent(new_agent("late"), at(2)).await,
        Err(StoreError::NotFound)
    );
    assert_eq!(
        project.change(ProjectChange::default(), at(2)).await,
        Err(StoreError::NotFound)
    );
    assert_eq!(
        store
            .session(SessionKind::Project, &id("inside"))
            .await
            .unwrap(),
        None
    );
    assert!(store.events(inside, 0, 10).await.unwrap().is_empty());
    assert!(store.pending_approvals(inside).await.unwrap().is_empty());
    assert_eq!(store.events(beside, 0, 10).await.unwrap().len(), 1);
    assert_eq!(names(&kept).await.len(), 2);
    // The number is not used again.
    assert!(
        mine.create_project(new_project("next"), at(3))
            .await
            .unwrap()
            .id()
            > kept.id()
    );
    harness
}

pub async fn a_login_ticket_is_accepted_once_and_in_time(harness: Harness) -> Harness {
    let store = &harness.store;
    let hash = |text: &str| Digest::of_bytes(text.as_bytes());
    store
        .add_login_ticket(&hash("t1"), user(3), at(1000))
        .await
        .unwrap();
    store
        .add_login_ticket(&hash("late"), user(3), at(1000))
        .await
        .unwrap();
    assert_eq!(
        store
            .take_login_ticket(&hash("other"), at(1))
            .await
            .unwrap(),
        None
    );
    assert_eq!(
        store
            .take_login_ticket(&hash("late"), at(1000))
            .await
            .unwrap(),
        None
    );
    let taking: Vec<_> = (0..20)
        .map(|_| {
            let (store, hash) = (store.clone(), hash("t1"));
            tokio::spawn(async move { store.take_login_ticket(&hash, at(999)).await.unwrap() })
        })
        .collect();
    let mut winners = Vec::new();
    for task in taking {
        winners.extend(task.await.unwrap());
    }
    assert_eq!(winners, [user(3)]);
    harness
}

pub async fn a_web_session_lasts_until_its_end(mut harness: Harness) -> Harness {
    let hash = |text: &str| Digest::of_bytes(text.as_bytes());
    harness
        .store
        .add_web_session(&hash("a"), user(3), at(0), at(1000))
        .await
        .unwrap();
    harness
        .store
        .add_web_session(&hash("b"), user(4), at(0), at(2000))
        .await
        .unwrap();
    harness.restart().await;
    let store = &harness.store;
    assert_eq!(
        store.web_session_user(&hash("a"), at(999)).await.unwrap(),
        Some(user(3))
    );
    assert_eq!(
        store.web_session_user(&hash("a"), at(1000)).await.unwrap(),
        None
    );
    assert_eq!(
        store.web_session_user(&hash("x"), at(0)).await.unwrap(),
        None
    );
    store.remove_expired_logins(at(1000)).await.unwrap();
    assert_eq!(
        store.web_session_user(&hash("a"), at(0)).await.unwrap(),
        None
    );
    assert_eq!(
        store.web_session_user(&hash("b"), at(0)).await.unwrap(),
        Some(user(4))
    );
    store.end_web_session(&hash("b")).await.unwrap();
    assert_eq!(
        store.web_session_user(&hash("b"), at(0)).await.unwrap(),
        None
    );
    harness
}
