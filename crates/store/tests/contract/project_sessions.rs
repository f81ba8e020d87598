//! Sessions in projects: their user sees them, and nobody else.

use codelab_protocol::{
    Plan, PlanId, PlanStatus, Role, SessionKind, Task, TaskOrigin, TaskStatus, TurnId, WorkflowId,
};
use codelab_store::{
    Commit, MessageRange, PlanSaved, ProjectStore, Schedule, Search, SessionEdit, SessionKey,
    SessionMarks, StoreError, StoredMessage, UserStore,
};

use crate::harness::{FIRST, Harness, agent, at, create, id, message, project_session, task_id};
use crate::users::{new_project, user};

fn plan_id(text: &str) -> PlanId {
    PlanId::parse(text).unwrap()
}

fn plan(name: &str, status: PlanStatus) -> Plan {
    let task = |name: &str, depends_on: Vec<_>| Task {
        id: task_id(name),
        agent: agent("agent_coder"),
        description: "zero \0 and «quotes»".to_owned(),
        depends_on,
        paths: Vec::new(),
        waits_for: Vec::new(),
        status: TaskStatus::Running,
        estimated_tokens: 1200,
        estimated_cost_usd: Some(0.0125),
        result: None,
        error: None,
        usage: None,
    };
    Plan {
        plan_id: plan_id(name),
        workflow_id: WorkflowId::parse("wf-1").unwrap(),
        status,
        fallback: false,
        estimated_cost_usd: 0.025,
        cost_known: true,
        requires_approval: false,
        tasks: vec![task("t1", vec![]), task("t2", vec![task_id("t1")])],
    }
}

fn of_task(mut message: StoredMessage, plan: &str, task: &str) -> StoredMessage {
    message.task = Some(TaskOrigin {
        plan_id: Some(plan_id(plan)),
        task_id: Some(task_id(task)),
    });
    message
}

pub async fn project_of(harness: &Harness, number: i64) -> (UserStore, ProjectStore) {
    let mine = harness.store.of(user(number));
    let project = mine.create_project(new_project("p"), at(1)).await.unwrap();
    (mine, project)
}

pub async fn stored(harness: &Harness, commit: Commit) -> SessionKey {
    let key = commit.key;
    harness.store.commit(commit).await.unwrap();
    key
}

fn ords(messages: &[StoredMessage]) -> Vec<u64> {
    messages.iter().map(|message| message.ord).collect()
}

pub async fn sessions_are_listed_for_their_user(harness: Harness) -> Harness {
    let (mine, one) = project_of(&harness, 1).await;
    let two = mine.create_project(new_project("q"), at(1)).await.unwrap();
    let (theirs, other) = project_of(&harness, 2).await;
    for (name, project, activity) in [
        ("old", &one, 1),
        ("new", &one, 30),
        ("middle", &two, 20),
        ("gone", &one, 5),
    ] {
        let mut commit = project_session(name, user(1), project.id());
        commit.last_activity = Some(at(activity));
        commit.title = Some(format!("about {name}"));
        stored(&harness, commit).await;
    }
    let gone = mine.session(&id("gone")).await.unwrap().unwrap();
    harness.store.soft_delete(gone.key, at(2)).await.unwrap();
    stored(&harness, project_session("foreign", user(2), other.id())).await;
    // Sessions of the runtime API belong to nobody, even if they name a user.
    let mut runtime = create("runtime");
    runtime.create.as_mut().unwrap().user_id = Some(user(1));
    stored(&harness, runtime).await;

    for (project, limit, offset, expected, count) in [
        (None, 10, 0, vec!["new", "middle", "old"], 3),
        (None, 1, 1, vec!["middle"], 3),
        (Some(one.id()), 10, 0, vec!["new", "old"], 2),
        (Some(one.id()), 1, 1, vec!["old"], 2),
        (Some(two.id()), 10, 0, vec!["middle"], 1),
        (Some(other.id()), 10, 0, vec![], 0),
    ] {
        let (page, total) = mine.sessions(project, None, limit, offset).await.unwrap();
        assert_eq!(
            page.iter()
                .map(|row| row.session_id.as_str())
                .collect::<Vec<_>>(),
            expected
        );
        assert_eq!(total, count);
    }
    let row = mine.sessions(None, None, 1, 0).await.unwrap().0.remove(0);
    assert_eq!(
        (row.project_id, row.title.as_deref()),
        (one.id(), Some("about new"))
    );
    assert_eq!(
        (row.created_at, row.last_activity, row.message_count),
        (at(0), at(30), 1)
    );
    let whole = mine.session(&id("new")).await.unwrap().unwrap();
    assert_eq!(
        (whole.key, whole.kind, whole.user_id),
        (row.key, SessionKind::Project, Some(user(1)))
    );
    assert_eq!(whole.project_id, Some(one.id()));
    for hidden in ["gone", "foreign", "runtime", "never"] {
        assert_eq!(mine.session(&id(hidden)).await.unwrap(), None, "{hidden}");
        assert_eq!(
            mine.change_session(&id(hidden), renamed("x")).await,
            Err(StoreError::NotFound),
            "{hidden}"
        );
    }
    let pin = SessionEdit {
        pinned: Some(true),
        ..SessionEdit::default()
    };
    let archive = SessionEdit {
        archived: Some(true),
        ..renamed("renamed \0")
    };
    for change in [pin, archive] {
        mine.change_session(&id("new"), change).await.unwrap();
    }
    for (archived, expected) in [(true, vec!["new"]), (false, vec!["middle", "old"])] {
        let (page, total) = mine.sessions(None, Some(archived), 10, 0).await.unwrap();
        let ids: Vec<&str> = page.iter().map(|row| row.session_id.as_str()).collect();
        assert_eq!((total, ids), (expected.len() as u64, expected));
        let marks = SessionMarks {
            pinned: archived,
            archived,
        };
        assert_eq!(page[0].marks, marks);
    }
    assert_eq!(
        mine.session(&id("new"))
            .await
            .unwrap()
            .unwrap()
            .title
            .as_deref(),
        Some("renamed \0")
    );
    assert_eq!(
        theirs.change_session(&id("new"), renamed("x")).await,
        Err(StoreError::NotFound)
    );
    harness
}

fn renamed(title: &str) -> SessionEdit {
    SessionEdit {
        title: Some(title.to_owned()),
        ..SessionEdit::default()
    }
}

pub async fn a_session_is_made_only_in_a_living_project_of_its_user(harness: Harness) -> Harness {
    let (mine, project) = project_of(&harness, 1).await;
    let (_, other) = project_of(&harness, 2).await;
    let foreign = project_session("s", user(1), other.id());
    assert_eq!(
        harness.store.commit(foreign).await,
        Err(StoreError::NotFound)
    );
    stored(&harness, project_session("s", user(1), project.id())).await;
    let twin = harness
        .store
        .commit(project_session("s", user(1), project.id()))
        .await;
    assert_eq!(twin, Err(StoreError::AlreadyExists));

    // Sessions are created while their project is deleted. All of them are deleted with it.
    let making: Vec<_> = (0..40)
        .map(|n| {
            let (store, commit) = (
                harness.store.clone(),
                project_session(&format!("s{n}"), user(1), project.id()),
            );
            tokio::spawn(async move { store.commit(commit).await })
        })
        .collect();
    project.delete().await.unwrap();
    for made in making {
        assert!(matches!(
            made.await.unwrap(),
            Ok(()) | Err(StoreError::NotFound)
        ));
    }
    let late = harness
        .store
        .commit(project_session("late", user(1), project.id()))
        .await;
    assert_eq!(late, Err(StoreError::NotFound));
    assert_eq!(mine.sessions(None, None, 10, 0).await.unwrap(), (vec![], 0));
    harness
}

pub async fn tasks_have_threads_of_their_own(harness: Harness) -> Harness {
    let (mine, project) = project_of(&harness, 1).await;
    let mut commit = project_session("threads", user(1), project.id());
    commit
        .messages
        .push(of_task(message(2, 1, "to the first task"), "p1", "t1"));
    let key = stored(&harness, commit).await;
    let mut commit = Commit::new(key, FIRST);
    let first = of_task(message(3, 1, "done \0"), "p1", "t1");
    commit.messages = vec![
        first.clone(),
        of_task(message(4, 1, "second"), "p1", "t2"),
        of_task(message(5, 1, "namesake"), "p2", "t1"),
        message(6, 1, "all is done"),
    ];
    commit.messages[3].task = Some(TaskOrigin::default());
    stored(&harness, commit).await;

    // The session's own history does not contain the threads of tasks.
    assert_eq!(ords(&harness.store.history(key, 0).await.unwrap()), [1, 6]);
    for range in [
        MessageRange::FromTurn(TurnId(1)),
        MessageRange::Last {
            before: None,
            limit: 2,
        },
    ] {
        let own = harness.store.messages(key, range.clone()).await.unwrap();
        assert_eq!(ords(&own), [1, 6], "{range:?}");
        assert!(own.iter().all(|message| message.task.is_none()));
    }
    assert_eq!(
        mine.session(&id("threads"))
            .await
            .unwrap()
            .unwrap()
            .message_count,
        2
    );
    let thread = |plan, task| MessageRange::Task {
        plan: plan_id(plan),
        task: task_id(task),
    };
    for (plan, task, expected) in [
        ("p1", "t1", vec![2, 3]),
        ("p1", "t2", vec![4]),
        ("p2", "t1", vec![5]),
        ("p2", "t2", vec![]),
    ] {
        assert_eq!(
            ords(
                &harness
                    .store
                    .messages(key, thread(plan, task))
                    .await
                    .unwrap()
            ),
            expected
        );
    }
    let (page, total) = mine
        .task_messages(key, &plan_id("p1"), &task_id("t1"), 1, 1)
        .await
        .unwrap();
    assert_eq!((page, total), (vec![first.clone()], 2));

    let mut twin = Commit::new(key, FIRST);
    twin.messages.push(first);
    assert_eq!(harness.store.commit(twin).await, Err(StoreError::Conflict));
    let mut half = Commit::new(key, FIRST);
    half.messages.push(message(7, 1, "whose?"));
    half.messages[0].task = Some(TaskOrigin {
        plan_id: Some(plan_id("p1")),
        task_id: None,
    });
    assert!(matches!(
        harness.store.commit(half).await,
        Err(StoreError::Invalid(_))
    ));
    harness
}

pub async fn histories_are_read_in_pages(harness: Harness) -> Harness {
    let (mine, project) = project_of(&harness, 1).await;
    let mut commit = project_session("long", user(1), project.id());
    commit
        .messages
        .extend((2..=9).map(|ord| message(ord, 1, "more")));
    for message in commit
        .messages
        .iter_mut()
        .filter(|message| message.ord % 3 == 0)
    {
        message.message.role = Role::Assistant;
    }
    let key = stored(&harness, commit).await;
    for (limit, offset, role, expected, count) in [
        (3, 0, None, vec![1, 2, 3], 9),
        (3, 8, None, vec![9], 9),
        (10, 9, None, vec![], 9),
        (2, 1, Some(Role::Assistant), vec![6, 9], 3),
        (10, 0, Some(Role::User), vec![1, 2, 4, 5, 7, 8], 6),
        (10, 0, Some(Role::Tool), vec![], 0),
    ] {
        let (page, total) = mine.messages(key, limit, offset, role).await.unwrap();
        assert_eq!(
            (ords(&page), total),
            (expected, count),
            "{limit} {offset} {role:?}"
        );
    }
    for (limit, expected) in [(3, vec![7, 8, 9]), (100, (1..=9).collect()), (0, vec![])] {
        assert_eq!(
            ords(&mine.last_messages(key, limit).await.unwrap()),
            expected
        );
    }
    harness
}

pub async fn large_messages_make_small_pages(harness: Harness) -> Harness {
    let (mine, project) = project_of(&harness, 1).await;
    let key = stored(&harness, project_session("large", user(1), project.id())).await;
    let large = "x".repeat(1536 * 1024);
    let mut commit = Commit::new(key, FIRST);
    commit
        .messages
        .extend((2..=6).map(|ord| message(ord, 1, &large)));
    commit
        .messages
        .extend((2..=6).map(|ord| of_task(message(ord, 1, &large), "p1", "t1")));
    stored(&harness, commit).await;

    // As many as fit. The total still counts all, and the next page continues where this one ended.
    for (offset, expected) in [(0, vec![1, 2, 3, 4]), (4, vec![5, 6]), (6, vec![])] {
        let (page, total) = mine.messages(key, 1000, offset, None).await.unwrap();
        assert_eq!((ords(&page), total), (expected.clone(), 6));
        assert_eq!(
            ords(
                &mine
                    .messages(key, 1000, offset, Some(Role::User))
                    .await
                    .unwrap()
                    .0
            ),
            expected
        );
    }
    let (thread, total) = mine
        .task_messages(key, &plan_id("p1"), &task_id("t1"), 1000, 0)
        .await
        .unwrap();
    assert_eq!((ords(&thread), total), (vec![2, 3, 4], 5));
    assert_eq!(
        ords(&mine.last_messages(key, 20).await.unwrap()),
        [4, 5, 6],
        "the newest"
    );
    assert_eq!(
        ords(&harness.store.history(key, 1).await.unwrap()),
        [2],
        "never none where there is one"
    );
    harness
}

pub async fn plans_are_saved_as_they_stand(mut harness: Harness) -> Harness {
    let (_, project) = project_of(&harness, 1).await;
    let mut commit = project_session("planned", user(1), project.id());
    let saved = |name: &str, status, at| PlanSaved {
        turn: TurnId(1),
        plan: plan(name, status),
        at,
    };
    commit
        .plans
        .push(saved("p2", PlanStatus::AwaitingApproval, at(10)));
    let key = stored(&harness, commit).await;
    let mut commit = Commit::new(key, FIRST);
    commit.plans.push(saved("p1", PlanStatus::Running, at(20)));
    let mut ended = PlanSaved {
        turn: TurnId(7),
        ..saved("p2", PlanStatus::Partial, at(30))
    };
    ended.plan.tasks[0].result = Some("result".to_owned());
    commit.plans.push(ended.clone());
    stored(&harness, commit).await;
    // A commit that is refused stores no plan either.
    let mut stale = Commit::new(key, codelab_store::Epoch(0));
    stale.plans.push(saved("p2", PlanStatus::Completed, at(40)));
    assert_eq!(harness.store.commit(stale).await, Err(StoreError::Conflict));

    harness.restart().await;
    let mine = harness.store.of(user(1));
    let (plans, total) = mine.plans(key, 10, 0).await.unwrap();
    assert_eq!(total, 2);
    assert_eq!(
        mine.plans(key, 1, 1).await.unwrap(),
        (plans[1..].to_vec(), 2),
        "a page"
    );
    assert_eq!(
        plans
            .iter()
            .map(|row| row.plan.plan_id.as_str())
            .collect::<Vec<_>>(),
        ["p2", "p1"]
    );
    let row = mine.plan(key, &plan_id("p2")).await.unwrap().unwrap();
    assert_eq!(
        (&row.plan, row.created_at, row.updated_at),
        (&ended.plan, at(10), at(30))
    );
    assert_eq!(row.turn, TurnId(1), "of the request, whenever it ran last");
    assert_eq!(plans[0], row);
    assert_eq!(mine.plan(key, &plan_id("p3")).await.unwrap(), None);
    let here = mine.project(project.id()).await.unwrap().unwrap();
    let (all, total) = here.plans(10, 0).await.unwrap();
    let ids = all
        .iter()
        .map(|row| (row.session_id.as_str(), row.plan.plan_id.as_str()));
    assert_eq!(
        ids.collect::<Vec<_>>(),
        [("planned", "p1"), ("planned", "p2")]
    );
    assert_eq!((&all[1].plan, total), (&ended.plan, 2));
    assert_eq!(here.plans(1, 1).await.unwrap(), (all[1..].to_vec(), 2));
    let (_, beside) = project_of(&harness, 1).await;
    assert_eq!(beside.plans(10, 0).await.unwrap(), (vec![], 0));

    // A session that gets the same key later finds nothing of the earlier one.
    harness.store.purge(key).await.unwrap();
    let mut next = project_session("next", user(1), project.id());
    next.key = key;
    stored(&harness, next).await;
    assert!(mine.plans(key, 10, 0).await.unwrap().0.is_empty());
    harness
}

pub async fn another_user_reads_nothing(harness: Harness) -> Harness {
    let (mine, project) = project_of(&harness, 1).await;
    let (theirs, _) = project_of(&harness, 2).await;
    let mut commit = project_session("private", user(1), project.id());
    commit
        .messages
        .push(of_task(message(2, 1, "secret"), "p1", "t1"));
    commit.plans.push(PlanSaved {
        turn: TurnId(1),
        plan: plan("p1", PlanStatus::Running),
        at: at(1),
    });
    let key = stored(&harness, commit).await;
    let (plan, task) = (plan_id("p1"), task_id("t1"));
    for (reader, sees) in [(&mine, true), (&theirs, false)] {
        assert_eq!(
            reader.session(&id("private")).await.unwrap().is_some(),
            sees
        );
        assert_eq!(
            reader.messages(key, 10, 0, None).await.unwrap().1,
            u64::from(sees)
        );
        assert_eq!(
            reader
                .messages(key, 10, 0, Some(Role::User))
                .await
                .unwrap()
                .0
                .len(),
            usize::from(sees)
        );
        assert_eq!(
            reader.last_messages(key, 10).await.unwrap().len(),
            usize::from(sees)
        );
        assert_eq!(
            reader
                .task_messages(key, &plan, &task, 10, 0)
                .await
                .unwrap()
                .1,
            u64::from(sees)
        );
        assert_eq!(
            reader.plans(key, 10, 0).await.unwrap().0.len(),
            usize::from(sees)
        );
        assert_eq!(reader.plan(key, &plan).await.unwrap().is_some(), sees);
        assert_eq!(
            reader
                .sessions(Some(project.id()), None, 10, 0)
                .await
                .unwrap()
                .1,
            u64::from(sees)
        );
    }
    // After it is deleted, its own user cannot reach it either.
    harness.store.soft_delete(key, at(2)).await.unwrap();
    assert!(mine.last_messages(key, 10).await.unwrap().is_empty());
    assert!(mine.plans(key, 10, 0).await.unwrap().0.is_empty());
    harness
}

pub async fn project_sessions_are_found_after_a_restart(mut harness: Harness) -> Harness {
    let (_, project) = project_of(&harness, 1).await;
    let mut runtime = create("runtime");
    let mut in_project = project_session("chat", user(1), project.id());
    for commit in [&mut runtime, &mut in_project] {
        commit.schedule = Some(Schedule {
            wake_at: Some(at(50)),
            running: true,
        });
    }
    let keys = [
        stored(&harness, runtime).await,
        stored(&harness, in_project).await,
    ];
    harness.restart().await;
    let project = harness
        .store
        .of(user(1))
        .project(project.id())
        .await
        .unwrap()
        .unwrap();
    let unfinished = project.unfinished_sessions(None, 10).await.unwrap();
    assert_eq!(
        unfinished.iter().map(|row| row.key).collect::<Vec<_>>(),
        keys[1..]
    );
    let due = harness
        .store
        .due_sessions(Search::Alone, at(100), "me", 10)
        .await
        .unwrap();
    let running = harness
        .store
        .running_sessions(Search::Alone, None, "me", 10)
        .await
        .unwrap();
    for mut found in [due, running] {
        found.sort_by_key(|session| session.kind.as_str());
        let [in_project, runtime] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!(
            (in_project.kind, in_project.key, &in_project.session_id),
            (SessionKind::Project, keys[1], &id("chat"))
        );
        assert_eq!((runtime.kind, runtime.key), (SessionKind::Runtime, keys[0]));
    }
    harness
}
