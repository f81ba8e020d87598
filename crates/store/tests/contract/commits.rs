//! What a commit writes, when it is refused, and how concurrent commits interact.

use codelab_protocol::{
    Digest, PlanId, ProjectId, Reasoning, Role, SessionKind, SwitchEntry, TaskId, TaskOrigin,
    ToolCall, TurnId, TurnStatus, Usage, UserId,
};
use codelab_store::{
    ApprovalClosed, ApprovalExtended, ApprovalStatus, Commit, Epoch, InputRow, MessageRange,
    NewContext, NewInput, Schedule, StoreError, StoredSwitch, ToolCallEnd, ToolCallOpened,
    ToolCallStatus,
};
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use serde_json::json;

use crate::harness::{
    FIRST, Harness, agent, approval, at, call, client_id, create, event, id, message,
};

/// Texts that are difficult for one of the databases, or in SQL.
const AWKWARD: &str = "Привіт, \u{1F600} \0 \u{1} \u{1}0 'quoted' $1 ? -- \\ \n\t\u{202e}";

pub async fn everything_comes_back_after_a_restart(mut harness: Harness) -> Harness {
    let mut commit = create("whole");
    let key = commit.key;
    commit.create = commit.create.map(|mut session| {
        session.user_id = UserId::new(7);
        session.project_id = ProjectId::new(8);
        session.system_prompt = Some("be brief".to_owned());
        session.owner = Some("server-1".to_owned());
        session
    });
    commit.title = Some(AWKWARD.to_owned());
    commit.state = Some(format!("{{\"text\":\"{AWKWARD}\"}}"));
    commit.schedule = Some(Schedule {
        wake_at: Some(at(500)),
        running: true,
    });
    commit.last_activity = Some(at(9));
    let mut answer = message(2, 1, AWKWARD);
    answer.message.role = Role::Assistant;
    answer.message.agent_id = Some(agent("coder"));
    answer.message.name = Some("coder".to_owned());
    answer.message.error = true;
    answer.message.usage = Some(Usage {
        prompt_tokens: 1,
        completion_tokens: 2,
        total_tokens: 3,
        cost_usd: Some(0.25),
        ..Usage::default()
    });
    let arguments = json!({"path": AWKWARD, "n": 1.5})
        .as_object()
        .unwrap()
        .clone();
    answer.message.tool_calls = vec![ToolCall {
        call_id: call("c1"),
        name: "read_file".to_owned(),
        arguments,
    }];
    let mut result = message(3, 1, "");
    result.message.role = Role::Tool;
    result.message.tool_call_id = Some(call("c1"));
    commit.messages.extend([answer, result]);
    let mut settled = event(2, 1);
    settled.settled = Some(TurnStatus::AwaitingApproval);
    settled.body = format!("{{\"text\":\"{AWKWARD}\"}}").into();
    commit.events.push(settled);
    let entry = SwitchEntry {
        from_agent: agent("orchestrator"),
        to_agent: agent("coder"),
        reason: AWKWARD.to_owned(),
        confidence: Some("high".to_owned()),
        timestamp: at(3),
    };
    commit.switches.push(StoredSwitch {
        ord: 1,
        entry: entry.clone(),
    });
    commit.context = Some(NewContext {
        current_agent: agent("coder"),
        switch_count: 1,
        metadata: "{\"last_error\":null}".to_owned(),
        created_at: at(0),
        last_switch_at: Some(at(3)),
    });
    commit.approvals_opened.push(approval("c1"));
    let written = commit.clone();
    harness.store.commit(commit).await.unwrap();
    harness.restart().await;

    let store = &harness.store;
    let row = store
        .session(SessionKind::Runtime, &id("whole"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (row.key, row.epoch, row.owner.as_deref()),
        (key, FIRST, Some("server-1"))
    );
    assert_eq!(
        (row.user_id, row.project_id),
        (UserId::new(7), ProjectId::new(8))
    );
    assert_eq!(row.title.as_deref(), Some(AWKWARD));
    assert_eq!(row.system_prompt.as_deref(), Some("be brief"));
    assert_eq!(Some(row.state), written.state);
    assert_eq!((row.created_at, row.last_activity), (at(0), at(9)));
    assert_eq!((row.message_count, row.first_seq, row.last_seq), (3, 1, 2));
    assert_eq!(Some(row.schedule), written.schedule);
    assert_eq!(row.deleted_at, None);
    assert_eq!(store.history(key, 0).await.unwrap(), written.messages);
    assert_eq!(store.events(key, 0, 100).await.unwrap(), written.events);
    assert_eq!(store.switches(key).await.unwrap(), [entry]);
    let context = store.context(key).await.unwrap().unwrap();
    assert_eq!(
        (context.current_agent, context.switch_count),
        (agent("coder"), 1)
    );
    assert_eq!(
        store.pending_approvals(key).await.unwrap(),
        [approval("c1")]
    );
    assert_eq!(
        store
            .session(SessionKind::Project, &id("whole"))
            .await
            .unwrap(),
        None
    );

    // A commit replaces what it names and keeps the rest.
    let mut next = Commit::new(key, FIRST);
    next.schedule = Some(Schedule::default());
    next.title = Some("short".to_owned());
    let replaced = NewContext {
        current_agent: agent("ask"),
        switch_count: 2,
        metadata: "{}".to_owned(),
        created_at: at(70),
        last_switch_at: None,
    };
    next.context = Some(replaced);
    store.commit(next).await.unwrap();
    let row = store
        .session(SessionKind::Runtime, &id("whole"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((Some(row.state), row.last_activity), (written.state, at(9)));
    assert_eq!(
        (row.schedule, row.title.as_deref()),
        (Schedule::default(), Some(AWKWARD)),
        "a title stays"
    );
    let context = store.context(key).await.unwrap().unwrap();
    assert_eq!(
        (
            context.current_agent,
            context.created_at,
            context.last_switch_at
        ),
        (agent("ask"), at(0), None)
    );
    harness
}

/// What people read of the reasoning stays, and so does what later turns keep.
pub async fn what_a_provider_wants_back_goes_when_its_turn_ends(harness: Harness) -> Harness {
    let store = &harness.store;
    let reasoning = |opaque| {
        Box::new(Reasoning {
            text: AWKWARD.to_owned(),
            provider: "claude".to_owned(),
            model: Some("sonnet".to_owned()),
            opaque,
        })
    };
    let kept = json!({"blocks": [{"type": "thinking", "signature": AWKWARD}]});
    let origin = TaskOrigin {
        plan_id: PlanId::parse("plan-1").ok(),
        task_id: TaskId::parse("t1").ok(),
    };
    let (plan, task) = (origin.plan_id.clone(), origin.task_id.clone());
    let thought = |ord, turn, task: Option<TaskOrigin>| {
        let mut stored = message(ord, turn, "answer");
        stored.message.role = Role::Assistant;
        stored.message.reasoning = Some(reasoning(kept.clone()));
        stored.task = task;
        stored
    };
    let mut commit = create("reasoning");
    let key = commit.key;
    commit.messages.extend([
        thought(2, 1, None),
        thought(1, 1, Some(origin)),
        thought(3, 2, None),
    ]);
    store.commit(commit).await.unwrap();
    let found = async || {
        let range = MessageRange::Task {
            plan: plan.clone().unwrap(),
            task: task.clone().unwrap(),
        };
        let of_task = store.messages(key, range).await.unwrap();
        let own = store.history(key, 0).await.unwrap();
        let all = own.into_iter().chain(of_task);
        all.filter_map(|stored| stored.message.reasoning)
            .collect::<Vec<_>>()
    };
    assert_eq!(found().await, [(); 3].map(|()| reasoning(kept.clone())));
    let mut end = Commit::new(key, FIRST);
    // A message of the same commit is among them.
    end.messages.push(thought(4, 1, None));
    end.reasoning_forgotten.push(TurnId(1));
    store.commit(end).await.unwrap();
    let opaque: Vec<_> = found().await.into_iter().map(|kept| kept.opaque).collect();
    assert_eq!(
        opaque,
        [json!(null), kept.clone(), json!(null), json!(null)]
    );
    assert_eq!(found().await[0], reasoning(json!(null)));
    // An earlier version kept it with the rest of the reasoning.
    let old = json!({"reasoning": {"text": "hm", "provider": "claude", "opaque": {"x": 1}}});
    let rewritten = format!("UPDATE messages SET notes = '{old}' WHERE session_key = {key}");
    harness.tamper(&rewritten).await;
    let old = found().await[0].clone();
    assert_eq!(
        (old.text.as_str(), old.model, old.opaque),
        ("hm", None, json!({"x": 1}))
    );
    harness
}

pub async fn a_name_is_unique_per_kind_of_session(harness: Harness) -> Harness {
    let results = join_all((0..16).map(|_| harness.store.commit(create("taken")))).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    assert!(
        results
            .iter()
            .all(|result| matches!(result, Ok(()) | Err(StoreError::AlreadyExists)))
    );
    let row = harness
        .store
        .session(SessionKind::Runtime, &id("taken"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((row.message_count, row.last_seq), (1, 1));

    let mut elsewhere = create("taken");
    elsewhere.create.as_mut().unwrap().kind = SessionKind::Project;
    harness.store.commit(elsewhere).await.unwrap();
    harness.store.soft_delete(row.key, at(1)).await.unwrap();
    assert_eq!(
        harness.store.commit(create("taken")).await,
        Err(StoreError::AlreadyExists)
    );
    harness
}

pub async fn a_refused_commit_leaves_its_neighbours_alone(harness: Harness) -> Harness {
    let mut keys = Vec::new();
    for n in 0..24 {
        keys.push(harness.session(&format!("s{n}")).await);
    }
    // Every third commit has an old epoch, every fourth fails half-way through its rows.
    let commits = keys.iter().enumerate().map(|(n, key)| {
        let mut commit = Commit::new(*key, if n % 3 == 0 { Epoch(0) } else { FIRST });
        commit.state = Some(format!("{n}"));
        commit.events.extend([event(2, 1), event(3, 1)]);
        commit
            .messages
            .push(message(if n % 4 == 1 { 1 } else { 2 }, 1, "next"));
        harness.store.commit(commit)
    });
    let results = join_all(commits).await;
    for (n, (key, result)) in keys.iter().zip(results).enumerate() {
        let refused = n % 3 == 0 || n % 4 == 1;
        assert_eq!(
            result,
            if refused {
                Err(StoreError::Conflict)
            } else {
                Ok(())
            },
            "{n}"
        );
        let row = harness
            .store
            .session(SessionKind::Runtime, &id(&format!("s{n}")))
            .await
            .unwrap()
            .unwrap();
        let expected = if refused {
            ("{}".to_owned(), 1, 1)
        } else {
            (n.to_string(), 2, 3)
        };
        assert_eq!(
            (row.state, row.message_count, row.last_seq),
            expected,
            "{n}"
        );
        let events = harness.store.events(*key, 0, 100).await.unwrap();
        assert_eq!(events.len() as u64, row.last_seq, "{n}");
    }
    harness
}

pub async fn events_have_no_gap_and_no_twin(harness: Harness) -> Harness {
    let key = harness.session("events").await;
    let with_events = |seqs: &[u64]| {
        let mut commit = Commit::new(key, FIRST);
        commit.events.extend(seqs.iter().map(|seq| event(*seq, 1)));
        commit
    };
    for (seqs, expected) in [
        (&[1][..], "conflict"),
        (&[3], "conflict"),
        (&[2, 4], "invalid"),
        (&[3, 2], "invalid"),
        (&[0], "invalid"),
        (&[2, 3], "stored"),
        (&[3], "conflict"),
    ] {
        let said = match harness.store.commit(with_events(seqs)).await {
            Ok(()) => "stored",
            Err(StoreError::Conflict) => "conflict",
            Err(StoreError::Invalid(_)) => "invalid",
            Err(other) => panic!("{seqs:?}: {other}"),
        };
        assert_eq!(said, expected, "{seqs:?}");
    }
    // Sixteen writers compete for each next number.
    for seq in 4..12 {
        let results = join_all((0..16).map(|_| harness.store.commit(with_events(&[seq])))).await;
        assert_eq!(
            results.iter().filter(|result| result.is_ok()).count(),
            1,
            "{seq}"
        );
    }
    let seqs: Vec<_> = harness
        .store
        .events(key, 0, 100)
        .await
        .unwrap()
        .iter()
        .map(|event| event.seq)
        .collect();
    assert_eq!(seqs, (1..12).collect::<Vec<_>>());
    harness
}

pub async fn an_acknowledged_commit_is_seen_by_the_next_read(harness: Harness) -> Harness {
    let key = harness.session("fresh").await;
    for seq in 2..80 {
        let mut commit = Commit::new(key, FIRST);
        commit.state = Some(seq.to_string());
        commit.events.push(event(seq, 1));
        harness.store.commit(commit).await.unwrap();
        let row = harness
            .store
            .session(SessionKind::Runtime, &id("fresh"))
            .await
            .unwrap()
            .unwrap();
        assert_eq!((row.state, row.last_seq), (seq.to_string(), seq));
        assert_eq!(
            harness.store.events(key, seq - 1, 10).await.unwrap().len(),
            1
        );
    }
    harness
}

pub async fn waiting_commits_share_a_transaction(harness: Harness) -> Harness {
    let before = harness.store.stats();
    let results =
        join_all((0..64).map(|n| harness.store.commit(create(&format!("shared-{n}"))))).await;
    assert!(results.iter().all(Result::is_ok));
    let after = harness.store.stats();
    assert_eq!(after.commits - before.commits, 64);
    let transactions = after.transactions - before.transactions;
    assert!(
        transactions <= 16,
        "64 commits took {transactions} transactions"
    );
    harness
}

pub async fn callers_that_leave_lose_nothing(harness: Harness) -> Harness {
    let key = harness.session("left").await;
    for seq in 2..200 {
        let mut commit = Commit::new(key, FIRST);
        commit.events.push(event(seq, 1));
        // The first poll submits the commit. Then the caller is gone.
        let _ = harness.store.commit(commit).now_or_never();
        tokio::task::yield_now().await;
    }
    let mut last = Commit::new(key, FIRST);
    last.events.push(event(200, 1));
    harness.store.commit(last).await.unwrap();
    assert_eq!(harness.store.events(key, 0, 1000).await.unwrap().len(), 200);
    harness
}

pub async fn a_closed_store_refuses_and_keeps_what_it_accepted(mut harness: Harness) -> Harness {
    let store = harness.store.clone();
    let commits = (0..32).map(|n| store.commit(create(&format!("c{n}"))));
    let (results, ()) = tokio::join!(join_all(commits), harness.store.close());
    let accepted = results.iter().filter(|result| result.is_ok()).count();
    assert!(
        results
            .iter()
            .all(|result| matches!(result, Ok(()) | Err(StoreError::Unavailable(_))))
    );
    assert!(matches!(
        store.commit(create("late")).await,
        Err(StoreError::Unavailable(_))
    ));
    assert!(matches!(
        store.list_sessions(SessionKind::Runtime, 10, 0).await,
        Err(StoreError::Unavailable(_))
    ));
    assert!(store.ping().await.is_err());
    harness.restart().await;
    harness.store.ping().await.unwrap();
    assert_eq!(
        harness
            .store
            .list_sessions(SessionKind::Runtime, 100, 0)
            .await
            .unwrap()
            .1,
        accepted as u64
    );
    harness
}

pub async fn one_decision_wins(harness: Harness) -> Harness {
    let key = harness.session("asked").await;
    let mut ask = Commit::new(key, FIRST);
    ask.approvals_opened
        .extend([approval("c1"), approval("c2")]);
    harness.store.commit(ask.clone()).await.unwrap();
    assert_eq!(harness.store.commit(ask).await, Err(StoreError::Conflict));

    let mut extend = Commit::new(key, FIRST);
    extend.approvals_extended.push(ApprovalExtended {
        call_id: call("c1"),
        expires_at: Some(at(900_000)),
    });
    extend.approvals_extended.push(ApprovalExtended {
        call_id: call("c2"),
        expires_at: None,
    });
    harness.store.commit(extend).await.unwrap();
    let expiries: Vec<_> = harness
        .store
        .pending_approvals(key)
        .await
        .unwrap()
        .iter()
        .map(|info| info.expires_at)
        .collect();
    assert_eq!(expiries, [Some(at(900_000)), None]);

    let decide = |status| {
        let mut commit = Commit::new(key, FIRST);
        commit.approvals_closed.push(ApprovalClosed {
            call_id: call("c1"),
            status,
            decided_at: at(77),
        });
        harness.store.commit(commit)
    };
    let choices = [
        ApprovalStatus::Approved,
        ApprovalStatus::Rejected,
        ApprovalStatus::Edited,
        ApprovalStatus::Expired,
    ];
    let results = join_all(choices.map(decide)).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    let row = harness
        .store
        .approval(key, &call("c1"))
        .await
        .unwrap()
        .unwrap();
    let winner = results.iter().position(Result::is_ok).unwrap();
    assert_eq!(row.status, choices[winner]);
    let pending = harness.store.pending_approvals(key).await.unwrap();
    assert_eq!(
        pending
            .iter()
            .map(|info| info.call_id.as_str())
            .collect::<Vec<_>>(),
        ["c2"]
    );
    assert_eq!(
        harness.store.approval(key, &call("c3")).await.unwrap(),
        None
    );
    harness
}

pub async fn repeats_are_recognised(harness: Harness) -> Harness {
    let key = harness.session("repeats").await;
    let send = || {
        let mut commit = Commit::new(key, FIRST);
        let input = InputRow {
            turn: TurnId(2),
            after_seq: 1,
        };
        commit.inputs.push(NewInput {
            client_message_id: client_id("mine"),
            input,
        });
        harness.store.commit(commit)
    };
    let results = join_all((0..50).map(|_| send())).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    let found = harness.store.input(key, &client_id("mine")).await.unwrap();
    assert_eq!(
        found,
        Some(InputRow {
            turn: TurnId(2),
            after_seq: 1
        })
    );
    assert_eq!(
        harness.store.input(key, &client_id("other")).await.unwrap(),
        None
    );

    let mut open = Commit::new(key, FIRST);
    let tool_name = "read_file".to_owned();
    open.tool_calls_opened.push(ToolCallOpened {
        call_id: call("c1"),
        turn: TurnId(2),
        tool_name,
    });
    harness.store.commit(open.clone()).await.unwrap();
    assert_eq!(harness.store.commit(open).await, Err(StoreError::Conflict));
    let close = |status, result: Option<&[u8]>| {
        let mut commit = Commit::new(key, FIRST);
        let result_digest = result.map(Digest::of_bytes);
        commit.tool_calls_closed.push(ToolCallEnd {
            did: None,
            call_id: call("c1"),
            status,
            result_digest,
            after_seq: Some(9),
        });
        harness.store.commit(commit)
    };
    close(ToolCallStatus::Unknown, None).await.unwrap();
    close(ToolCallStatus::Completed, Some(b"late"))
        .await
        .unwrap();
    assert_eq!(
        close(ToolCallStatus::Completed, Some(b"again")).await,
        Err(StoreError::Conflict)
    );
    let row = harness
        .store
        .tool_call(key, &call("c1"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((row.after_seq, row.turn), (Some(9), TurnId(2)));
    assert_eq!(row.result_digest, Some(Digest::of_bytes(b"late")));
    assert_eq!(
        harness.store.tool_call(key, &call("c2")).await.unwrap(),
        None
    );
    harness
}
