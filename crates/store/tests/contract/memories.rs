//! What agents remember: nothing is lost on the way to the index, and nothing outlives its source.

use codelab_store::{
    AgentLocation, Commit, InteractionId, NewInteraction, ProjectStore, SessionKey, StoreError,
};
use serde_json::json;

use crate::harness::{FIRST, Harness, agent, at, id, project_session, task_id};
use crate::users::{new_project, user};

fn interaction(name: &str, text: &str) -> NewInteraction {
    NewInteraction {
        turn: None,
        agent: agent(name),
        task: None,
        kind: "note".to_owned(),
        success: None,
        text: text.to_owned(),
        metadata: serde_json::Map::new(),
        at: at(5),
    }
}

async fn project_of(harness: &Harness, number: i64) -> ProjectStore {
    harness
        .store
        .of(user(number))
        .create_project(new_project("p"), at(1))
        .await
        .unwrap()
}

async fn session_with(
    harness: &Harness,
    name: &str,
    place: &ProjectStore,
    texts: &[&str],
) -> SessionKey {
    let mut commit = project_session(name, user(1), place.id());
    commit.interactions = texts
        .iter()
        .map(|text| interaction("agent_coder", text))
        .collect();
    let key = commit.key;
    harness.store.commit(commit).await.unwrap();
    key
}

async fn texts(project: &ProjectStore, name: &str) -> Vec<String> {
    project
        .interactions(&agent(name), None, 100)
        .await
        .unwrap()
        .into_iter()
        .map(|row| row.text)
        .collect()
}

pub async fn interactions_come_back_in_order(mut harness: Harness) -> Harness {
    let project = project_of(&harness, 1).await;
    let beside = project_of(&harness, 1).await;
    let mut commit = project_session("s", user(1), project.id());
    let metadata = json!({"files": ["a \0"], "n": 1.5})
        .as_object()
        .unwrap()
        .clone();
    let whole = NewInteraction {
        task: Some(task_id("t1")),
        kind: "task".to_owned(),
        success: Some(false),
        metadata: metadata.clone(),
        ..interaction("agent_coder", "zero \0 and «quotes»")
    };
    commit.interactions = vec![
        whole.clone(),
        interaction("agent_writer", "of another agent"),
    ];
    harness.store.commit(commit).await.unwrap();
    let noted = project
        .add_interaction(interaction("agent_coder", "noted"))
        .await
        .unwrap();
    beside
        .add_interaction(interaction("agent_coder", "elsewhere"))
        .await
        .unwrap();
    for missing in ["nobody", "orchestrator"] {
        assert_eq!(
            project.add_interaction(interaction(missing, "x")).await,
            Err(StoreError::NotFound)
        );
    }

    harness.restart().await;
    let project = harness
        .store
        .of(user(1))
        .project(project.id())
        .await
        .unwrap()
        .unwrap();
    let rows = project
        .interactions(&agent("agent_coder"), None, 10)
        .await
        .unwrap();
    let newest_first: Vec<_> = rows.iter().rev().cloned().collect();
    for (limit, offset, expected) in [(10, 0, &newest_first[..]), (1, 1, &newest_first[1..2])] {
        let coder = agent("agent_coder");
        let page = project.newest_interactions(&coder, limit, offset).await;
        assert_eq!(page.unwrap(), (expected.to_vec(), rows.len() as u64));
    }
    assert_eq!(
        (
            rows.len(),
            rows[1].id,
            rows[1].session_id.as_ref(),
            rows[1].success
        ),
        (2, noted, None, None)
    );
    let row = &rows[0];
    assert_eq!(
        (row.session_id.as_ref(), row.task.as_ref()),
        (Some(&id("s")), whole.task.as_ref())
    );
    assert_eq!(
        (&row.agent, row.kind.as_str(), row.success),
        (&whole.agent, "task", Some(false))
    );
    assert_eq!(
        (&row.text, &row.metadata, row.created_at),
        (&whole.text, &metadata, at(5))
    );
    // Page by page, without repetition.
    assert_eq!(
        project
            .interactions(&agent("agent_coder"), None, 1)
            .await
            .unwrap(),
        rows[..1]
    );
    assert_eq!(
        project
            .interactions(&agent("agent_coder"), Some(row.id), 10)
            .await
            .unwrap(),
        rows[1..]
    );
    assert!(
        project
            .interactions(&agent("agent_coder"), Some(noted), 10)
            .await
            .unwrap()
            .is_empty()
    );
    // Finds which of many numbers belong to this agent in this project.
    let many: Vec<InteractionId> = (0..25).map(InteractionId).collect();
    let present = project
        .present_interactions(&agent("agent_coder"), &many)
        .await
        .unwrap();
    assert_eq!(present.into_iter().collect::<Vec<_>>(), [row.id, noted]);
    assert!(
        project
            .present_interactions(&agent("agent_coder"), &[])
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(
        project
            .count_interactions(&agent("agent_coder"))
            .await
            .unwrap(),
        2
    );
    assert!(project.has_agent(&agent("agent_coder")).await.unwrap());
    // Maintenance goes through all agents, page by page.
    let first = &harness.store.agents_of_all(0, 1).await.unwrap()[0];
    assert!(
        harness
            .store
            .agents_of_all(first.number, 1_000)
            .await
            .unwrap()
            .iter()
            .all(|place| place != first)
    );
    let mine = |place: &&AgentLocation| {
        place.project_id == project.row().id && place.agent == agent("agent_coder")
    };
    assert_eq!(
        harness
            .store
            .agents_of_all(0, 1_000)
            .await
            .unwrap()
            .iter()
            .filter(mine)
            .count(),
        1
    );
    assert!(!project.has_agent(&agent("nobody")).await.unwrap());
    harness
}

pub async fn each_interaction_is_indexed_once(harness: Harness) -> Harness {
    let project = project_of(&harness, 1).await;
    let other = project_of(&harness, 2).await;
    session_with(&harness, "s", &project, &["one", "two"]).await;
    other
        .add_interaction(interaction("agent_writer", "three"))
        .await
        .unwrap();
    let store = &harness.store;
    let waiting = store.unindexed_interactions(None, 10).await.unwrap();
    let seen: Vec<_> = waiting
        .iter()
        .map(|row| {
            (
                row.user_id,
                row.project_id,
                row.interaction.agent.as_str(),
                row.interaction.text.as_str(),
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            (user(1), project.id(), "agent_coder", "one"),
            (user(1), project.id(), "agent_coder", "two"),
            (user(2), other.id(), "agent_writer", "three"),
        ]
    );
    assert_eq!(waiting[0].interaction.session_id, Some(id("s")));
    assert_eq!(
        store.unindexed_interactions(None, 1).await.unwrap(),
        waiting[..1]
    );
    let after = Some(waiting[0].interaction.id);
    assert_eq!(
        store.unindexed_interactions(after, 10).await.unwrap(),
        waiting[1..]
    );

    // One of them is removed while it is being indexed.
    let ids: Vec<_> = waiting.iter().map(|row| row.interaction.id).collect();
    other
        .clear_interactions(&agent("agent_writer"), at(6))
        .await
        .unwrap();
    assert_eq!(
        other
            .count_interactions(&agent("agent_writer"))
            .await
            .unwrap(),
        0
    );
    assert_eq!(store.mark_indexed(&ids).await.unwrap(), ids[2..]);
    assert!(
        store
            .unindexed_interactions(None, 10)
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(store.mark_indexed(&[]).await.unwrap(), []);
    // Its number is not used again.
    let next = other
        .add_interaction(interaction("agent_writer", "four"))
        .await
        .unwrap();
    assert!(next > ids[2]);
    assert_eq!(
        store.unindexed_interactions(None, 10).await.unwrap()[0]
            .interaction
            .id,
        next
    );
    assert_eq!(
        store
            .mark_indexed(&[InteractionId(u64::MAX >> 1)])
            .await
            .unwrap()
            .len(),
        1
    );
    harness
}

pub async fn what_is_remembered_goes_with_its_source(harness: Harness) -> Harness {
    let (project, kept) = (project_of(&harness, 1).await, project_of(&harness, 1).await);
    let doomed = session_with(&harness, "doomed", &project, &["of a doomed session"]).await;
    let living = session_with(&harness, "living", &project, &["of a living session"]).await;
    session_with(&harness, "kept", &kept, &["kept"]).await;
    project
        .add_interaction(interaction("agent_writer", "of the writer"))
        .await
        .unwrap();
    harness.store.purge(doomed).await.unwrap();
    assert_eq!(
        texts(&project, "agent_coder").await,
        ["of a living session"]
    );

    let agents = project.agents(10, 0).await.unwrap().0;
    let coder = agents
        .iter()
        .find(|row| row.agent.name == agent("agent_coder"))
        .unwrap();
    project
        .delete_agent(&coder.agent.agent_id, at(7))
        .await
        .unwrap();
    assert!(texts(&project, "agent_coder").await.is_empty());
    assert_eq!(texts(&project, "agent_writer").await, ["of the writer"]);
    // Its last actions are committed without a trace in its memory.
    let mut commit = Commit::new(living, FIRST);
    commit
        .interactions
        .push(interaction("agent_coder", "too late"));
    harness.store.commit(commit).await.unwrap();
    assert!(texts(&project, "agent_coder").await.is_empty());

    project.delete().await.unwrap();
    assert!(texts(&project, "agent_writer").await.is_empty());
    let late = project
        .add_interaction(interaction("agent_writer", "x"))
        .await;
    assert_eq!(late, Err(StoreError::NotFound));
    assert_eq!(
        project
            .clear_interactions(&agent("agent_writer"), at(8))
            .await,
        Err(StoreError::NotFound)
    );
    assert_eq!(texts(&kept, "agent_coder").await, ["kept"]);
    harness
}

pub async fn what_was_deleted_is_noted_for_the_indexes(harness: Harness) -> Harness {
    let (project, other) = (project_of(&harness, 1).await, project_of(&harness, 2).await);
    let store = &harness.store;
    let (coder, writer) = (agent("agent_coder"), agent("agent_writer"));
    let purged = session_with(&harness, "purged", &project, &["of a session", "once more"]).await;
    let kept = project
        .add_interaction(interaction("agent_writer", "kept"))
        .await
        .unwrap();
    let one = project
        .add_interaction(interaction("agent_writer", "one"))
        .await
        .unwrap();
    other
        .add_interaction(interaction("agent_coder", "of a project"))
        .await
        .unwrap();
    assert!(
        store
            .erased_interactions(None, 10)
            .await
            .unwrap()
            .is_empty()
    );

    assert_eq!(
        project.delete_interaction(&coder, one, at(1)).await,
        Err(StoreError::NotFound),
        "another agent's"
    );
    assert_eq!(
        other.delete_interaction(&writer, one, at(1)).await,
        Err(StoreError::NotFound),
        "another user's"
    );
    project
        .delete_interaction(&writer, one, at(1))
        .await
        .unwrap();
    assert_eq!(
        project.delete_interaction(&writer, one, at(2)).await,
        Err(StoreError::NotFound)
    );
    store.purge(purged).await.unwrap();
    other.delete().await.unwrap();
    assert_eq!(texts(&project, "agent_writer").await, ["kept"]);

    let erased = store.erased_interactions(None, 10).await.unwrap();
    let mut places: Vec<_> = erased
        .iter()
        .map(|row| (row.user_id, row.project_id, row.agent.as_str()))
        .collect();
    places.sort();
    let (mine, theirs) = ((user(1), project.id()), (user(2), other.id()));
    let coders = (mine.0, mine.1, "agent_coder");
    assert_eq!(
        places,
        [
            coders,
            coders,
            (mine.0, mine.1, "agent_writer"),
            (theirs.0, theirs.1, "agent_coder")
        ]
    );
    assert!(erased.iter().all(|row| row.id != kept));
    assert_eq!(
        store.erased_interactions(None, 1).await.unwrap(),
        erased[..1]
    );
    assert_eq!(
        store
            .erased_interactions(Some(erased[0].id), 2)
            .await
            .unwrap(),
        erased[1..3]
    );
    let ids: Vec<_> = erased[1..].iter().map(|row| row.id).collect();
    store.forget_erased(&ids).await.unwrap();
    assert_eq!(
        store.erased_interactions(None, 10).await.unwrap(),
        erased[..1]
    );
    harness
}
