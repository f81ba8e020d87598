//! What agents spent: every call is counted once, for the user whose session made it.

use codelab_protocol::{Patch, TurnId, Usage};
use codelab_store::{
    Commit, NewSpending, ProjectBudget, ProjectChange, SessionKey, StoreError, UsageSum,
};

use crate::harness::{FIRST, Harness, agent, at, id, project_session, task_id};
use crate::users::{new_project, user};

fn spending(
    name: &str,
    turn: u64,
    task: Option<&str>,
    tokens: u64,
    usd: Option<f64>,
) -> NewSpending {
    let usage = Usage {
        prompt_tokens: tokens - 1,
        completion_tokens: 1,
        total_tokens: tokens,
        cached_tokens: tokens - 2,
        reasoning_tokens: 1,
        cost_usd: usd,
        model: Some("claude/sonnet".to_owned()),
        ..Usage::default()
    };
    NewSpending {
        agent: agent(name),
        turn: TurnId(turn),
        task: task.map(task_id),
        usage,
        at: at(1),
    }
}

fn sum(calls: u64, tokens: u64, micro_usd: u64, cost_known: bool) -> UsageSum {
    UsageSum {
        calls,
        prompt_tokens: tokens - calls,
        completion_tokens: calls,
        total_tokens: tokens,
        cached_tokens: tokens - 2 * calls,
        reasoning_tokens: calls,
        cost_micro_usd: micro_usd,
        cost_known,
    }
}

async fn spend(harness: &Harness, mut commit: Commit, spendings: Vec<NewSpending>) -> SessionKey {
    let key = commit.key;
    commit.spendings = spendings;
    harness.store.commit(commit).await.unwrap();
    key
}

pub async fn spendings_are_summed(mut harness: Harness) -> Harness {
    let mine = harness.store.of(user(1));
    let one = mine
        .create_project(new_project("one"), at(1))
        .await
        .unwrap();
    let two = mine
        .create_project(new_project("two"), at(1))
        .await
        .unwrap();
    let theirs = harness.store.of(user(2));
    let other = theirs
        .create_project(new_project("other"), at(1))
        .await
        .unwrap();
    assert_eq!(mine.usage(None).await.unwrap().total, UsageSum::default());

    let coder = spending("agent_coder", 1, None, 100, Some(0.000_25));
    let mut first = project_session("first", user(1), one.id());
    first.title = Some("the first".to_owned());
    let key = spend(&harness, first, vec![coder.clone(), coder.clone()]).await;
    let writer = spending("agent_writer", 2, Some("t1"), 10, None);
    spend(&harness, Commit::new(key, FIRST), vec![writer]).await;
    let mut second = project_session("second", user(1), two.id());
    second.last_activity = Some(at(9));
    spend(&harness, second, vec![coder.clone()]).await;
    spend(&harness, project_session("idle", user(1), two.id()), vec![]).await;
    spend(
        &harness,
        project_session("foreign", user(2), other.id()),
        vec![coder.clone()],
    )
    .await;
    let mut stale = Commit::new(key, codelab_store::Epoch(0));
    stale.spendings.push(coder);
    assert_eq!(harness.store.commit(stale).await, Err(StoreError::Conflict));

    harness.restart().await;
    let (mine, theirs) = (harness.store.of(user(1)), harness.store.of(user(2)));
    let all = mine.usage(None).await.unwrap();
    assert_eq!(all.total, sum(4, 310, 750, false));
    let projects: Vec<_> = all
        .by_project
        .iter()
        .map(|row| (row.project_id, row.usage))
        .collect();
    assert_eq!(
        projects,
        [
            (one.id(), sum(3, 210, 500, false)),
            (two.id(), sum(1, 100, 250, true))
        ]
    );
    let sessions: Vec<_> = all
        .by_session
        .iter()
        .map(|row| (row.session_id.as_str(), row.usage))
        .collect();
    assert_eq!(
        sessions,
        [
            ("second", sum(1, 100, 250, true)),
            ("first", sum(3, 210, 500, false))
        ]
    );
    assert_eq!(
        (
            all.by_session[1].title.as_deref(),
            all.by_session[1].project_id
        ),
        (Some("the first"), one.id())
    );
    let agents: Vec<_> = all
        .by_agent
        .iter()
        .map(|row| (row.project_id, row.agent.as_str(), row.usage))
        .collect();
    assert_eq!(
        agents,
        [
            (one.id(), "agent_coder", sum(2, 200, 500, true)),
            (one.id(), "agent_writer", sum(1, 10, 0, false)),
            (two.id(), "agent_coder", sum(1, 100, 250, true)),
        ]
    );
    let part = mine.usage(Some(two.id())).await.unwrap();
    assert_eq!(
        (
            part.total,
            part.by_project.len(),
            part.by_session.len(),
            part.by_agent.len()
        ),
        (sum(1, 100, 250, true), 1, 1, 1)
    );

    assert_eq!(
        mine.session_usage(key).await.unwrap(),
        sum(3, 210, 500, false)
    );
    assert_eq!(
        theirs.session_usage(key).await.unwrap(),
        UsageSum::default()
    );
    assert_eq!(
        theirs.usage(Some(one.id())).await.unwrap().total,
        UsageSum::default()
    );
    assert_eq!(
        theirs.usage(None).await.unwrap().total,
        sum(1, 100, 250, true)
    );
    assert_eq!(
        mine.project(one.id())
            .await
            .unwrap()
            .unwrap()
            .spent()
            .await
            .unwrap(),
        sum(3, 210, 500, false)
    );
    harness
}

pub async fn what_was_spent_outlives_the_session_and_not_the_project(harness: Harness) -> Harness {
    let mine = harness.store.of(user(1));
    let project = mine.create_project(new_project("p"), at(1)).await.unwrap();
    let kept = mine
        .create_project(new_project("kept"), at(1))
        .await
        .unwrap();
    let nonsense = Usage {
        prompt_tokens: u64::MAX,
        completion_tokens: 0,
        total_tokens: u64::MAX,
        cost_usd: Some(f64::MAX),
        ..Usage::default()
    };
    let mut absurd = spending("agent_coder", 1, None, 7, None);
    absurd.usage = nonsense;
    // A model that reports absurd numbers does not break the sums.
    let key = spend(
        &harness,
        project_session("s", user(1), project.id()),
        vec![absurd.clone(), absurd.clone(), absurd],
    )
    .await;
    spend(
        &harness,
        project_session("t", user(1), kept.id()),
        vec![spending("agent_coder", 1, None, 5, None)],
    )
    .await;
    let before = project.spent().await.unwrap();
    assert!(before.total_tokens > 1 << 40 && before.cost_known);

    harness.store.purge(key).await.unwrap();
    assert_eq!(project.spent().await.unwrap(), before);
    let report = mine.usage(None).await.unwrap();
    assert_eq!(
        (
            report.by_project.len(),
            report.by_session.len(),
            report.by_agent.len()
        ),
        (2, 1, 2)
    );
    let agents = project.agents(10, 0).await.unwrap().0;
    project
        .delete_agent(&agents[0].agent.agent_id, at(2))
        .await
        .unwrap();
    assert_eq!(project.spent().await.unwrap(), before);
    project.delete().await.unwrap();
    assert_eq!(mine.usage(None).await.unwrap().total, sum(1, 5, 0, false));
    harness
}

pub async fn an_agents_average_is_over_its_newest_tasks(harness: Harness) -> Harness {
    let mine = harness.store.of(user(1));
    let project = mine.create_project(new_project("p"), at(1)).await.unwrap();
    let beside = mine
        .create_project(new_project("beside"), at(1))
        .await
        .unwrap();
    assert_eq!(
        project
            .agent_average_tokens(&agent("agent_coder"))
            .await
            .unwrap(),
        None
    );
    // An early task with very high usage, then a task of two calls and a direct call of three.
    let task = |turn, task, tokens| spending("agent_coder", turn, task, tokens, None);
    let early = vec![task(1, Some("t1"), 1_000_000)];
    let key = spend(&harness, project_session("s", user(1), project.id()), early).await;
    let later = vec![
        task(2, Some("t1"), 100),
        task(2, Some("t1"), 100),
        spending("agent_writer", 2, Some("t2"), 7, None),
        task(3, None, 40),
        task(3, None, 40),
        task(3, None, 20),
    ];
    spend(&harness, Commit::new(key, FIRST), later).await;
    assert_eq!(
        project
            .agent_average_tokens(&agent("agent_coder"))
            .await
            .unwrap(),
        Some(1_000_300 / 3)
    );
    assert_eq!(
        project
            .agent_average_tokens(&agent("agent_writer"))
            .await
            .unwrap(),
        Some(7)
    );
    assert_eq!(
        beside
            .agent_average_tokens(&agent("agent_coder"))
            .await
            .unwrap(),
        None
    );
    let more = (4..52).map(|turn| task(turn, None, 150)).collect();
    spend(&harness, Commit::new(key, FIRST), more).await;
    assert_eq!(
        project
            .agent_average_tokens(&agent("agent_coder"))
            .await
            .unwrap(),
        Some((48 * 150 + 300) / 50)
    );
    harness
}

pub async fn a_budget_changes_with_the_session_that_was_asked(harness: Harness) -> Harness {
    let mine = harness.store.of(user(1));
    let project = mine.create_project(new_project("p"), at(1)).await.unwrap();
    let beside = mine
        .create_project(new_project("beside"), at(1))
        .await
        .unwrap();
    let key = spend(
        &harness,
        project_session("s", user(1), project.id()),
        vec![],
    )
    .await;
    let mut commit = Commit::new(key, FIRST);
    let budget = ProjectBudget {
        budget_micro_usd: None,
        budget_tokens: Some(5000),
        granted_micro_usd: 0,
        granted_tokens: 4000,
        at: at(7),
    };
    commit.project_budget = Some(budget);
    let mut stale = commit.clone();
    stale.epoch = codelab_store::Epoch(0);
    assert_eq!(harness.store.commit(stale).await, Err(StoreError::Conflict));
    assert_eq!(
        mine.project(project.id()).await.unwrap().unwrap().row(),
        project.row()
    );
    harness.store.commit(commit).await.unwrap();
    let row = mine
        .project(project.id())
        .await
        .unwrap()
        .unwrap()
        .row()
        .clone();
    assert_eq!(
        (row.budget_micro_usd, row.budget_tokens, row.updated_at),
        (None, Some(5000), at(7))
    );
    assert_eq!((row.granted_micro_usd, row.granted_tokens), (0, 4000));
    // An amount that a person sets is not a grant.
    let set = ProjectChange {
        budget_tokens: Patch::Value(9),
        ..ProjectChange::default()
    };
    let row = project.change(set, at(8)).await.unwrap();
    assert_eq!((row.budget_tokens, row.granted_tokens), (Some(9), 0));
    assert_eq!(
        mine.project(beside.id()).await.unwrap().unwrap().row(),
        beside.row()
    );
    assert!(mine.session(&id("s")).await.unwrap().is_some());
    harness
}
