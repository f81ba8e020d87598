//! What a rewind takes back is left out for models, memory and search, and comes back with its
//! undoing.

use codelab_protocol::{MessageId, RewindId, TurnId};
use codelab_store::{
    Commit, HistoryChange, MessageRange, NewInteraction, SearchWords, ToolCallEnd, ToolCallOpened,
    ToolCallStatus,
};

use crate::harness::{FIRST, Harness, agent, at, call, message, project_session};
use crate::project_sessions::{project_of, stored};
use crate::users::user;

fn rewind_id() -> RewindId {
    RewindId::parse("rewind-1").unwrap()
}

pub async fn what_a_rewind_takes_back_is_hidden_and_comes_back(harness: Harness) -> Harness {
    let (mine, project) = project_of(&harness, 1).await;
    let mut commit = project_session("rewound", user(1), project.id());
    commit.search_user = Some(user(1));
    commit.messages = vec![
        message(1, 1, "kept words"),
        message(2, 2, "taken gateway"),
        message(3, 2, "taken answer"),
    ];
    let key = stored(&harness, commit).await;
    let name = agent("agent_coder");
    let mut commit = Commit::new(key, FIRST);
    for (turn, text) in [(1, "first"), (2, "second")] {
        commit.interactions.push(NewInteraction {
            agent: name.clone(),
            turn: Some(TurnId(turn)),
            task: None,
            kind: "interaction".to_owned(),
            success: Some(true),
            text: text.to_owned(),
            metadata: Default::default(),
            at: at(1),
        });
    }
    for (id, did) in [("write", Some("a.txt")), ("failed", None)] {
        commit.tool_calls_opened.push(ToolCallOpened {
            call_id: call(id),
            turn: TurnId(2),
            tool_name: "write_file".to_owned(),
        });
        commit.tool_calls_closed.push(ToolCallEnd {
            call_id: call(id),
            status: ToolCallStatus::Completed,
            result_digest: None,
            after_seq: None,
            did: did.map(str::to_owned),
        });
    }
    stored(&harness, commit).await;
    let store = &harness.store;

    let asked = store.messages(
        key,
        MessageRange::Last {
            before: None,
            limit: 10,
        },
    );
    let second = asked.await.unwrap()[1].message.message_id.clone();
    let found = store.message(key, &second).await.unwrap().unwrap();
    assert_eq!((found.ord, found.turn), (2, TurnId(2)));
    let unknown = MessageId::parse("nobody").unwrap();
    assert_eq!(store.message(key, &unknown).await.unwrap(), None);
    let size = store
        .history_size(key, TurnId(2), TurnId(u64::MAX))
        .await
        .unwrap();
    assert_eq!((size.messages, size.bytes), (2, 25));
    let calls = store.ran_calls(key, TurnId(2), 10).await.unwrap();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].did.as_deref(), Some("a.txt"));
    assert_eq!(store.ran_calls(key, TurnId(3), 10).await.unwrap(), []);

    let searched = SearchWords::parse("gateway").unwrap();
    let search = async || {
        let found = mine
            .search_sessions(&searched, None, Some(false), 10, 0)
            .await;
        found.unwrap().1
    };
    let remembered = async || project.count_interactions(&name).await.unwrap();
    let seen = async || {
        let range = MessageRange::FromTurn(TurnId(1));
        store.messages(key, range).await.unwrap().len()
    };
    assert_eq!(
        (search().await, remembered().await, seen().await),
        (1, 2, 3)
    );

    let mut commit = Commit::new(key, FIRST);
    commit.history_changes.push(HistoryChange::Hidden {
        rewind_id: rewind_id(),
        from: TurnId(2),
    });
    store.commit(commit).await.unwrap();
    assert_eq!(
        (search().await, remembered().await, seen().await),
        (0, 1, 1)
    );
    let all = store.history(key, 0).await.unwrap();
    let marks: Vec<_> = all
        .iter()
        .map(|said| said.message.rewound.clone())
        .collect();
    assert_eq!(marks, [None, Some(rewind_id()), Some(rewind_id())]);

    let mut commit = Commit::new(key, FIRST);
    commit.history_changes.push(HistoryChange::Shown {
        rewind_id: rewind_id(),
    });
    store.commit(commit).await.unwrap();
    assert_eq!(
        (search().await, remembered().await, seen().await),
        (1, 2, 3)
    );
    harness
}
