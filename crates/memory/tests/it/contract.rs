//! What every engine promises. A case gets an engine, a name that nobody uses, and removes what it
//! made.

use codelab_memory::{
    CollectionName, Created, Filter, MemoryEntryId, MemoryError, MemoryHealth, Query,
};
use codelab_protocol::Timestamp;
use futures_util::future::join_all;
use serde_json::json;

use crate::bed::{Bed, asked, found, ids, is_missing, said, session, unused_name};

/// Runs each case on the embedded engine, on the imitation of a server and, where one is given, on
/// a Qdrant server.
macro_rules! contract {
    ($($case:ident)*) => {
        mod embedded {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(super::Bed::embedded(), super::unused_name()).await;
            })*
        }
        mod standin {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(super::Bed::standin().await, super::unused_name()).await;
            })*
        }
        mod server {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                let Some(bed) = super::Bed::server() else { return };
                let name = super::unused_name();
                let memory = bed.open();
                super::$case(bed, name.clone()).await;
                memory.remove(&name).await.unwrap();
            })*
        }
    };
}

contract! {
    other_forms_of_a_word_are_found
    the_best_match_comes_first
    filters_hold
    a_hit_carries_what_was_added
    the_same_id_replaces
    delete_forgets_some_and_clear_forgets_all
    a_session_is_forgotten_alone
    a_rebuild_replaces_everything
    collections_come_and_go
    collections_are_apart
    memory_survives_a_restart
    a_thousand_interactions
    many_at_once
    nonsense_is_refused
}

async fn other_forms_of_a_word_are_found(bed: Bed, name: CollectionName) {
    let memory = bed.open();
    memory.create(&name).await.unwrap();
    let past = [
        said(1, "Fixed the failing parsers in the configuration module"),
        said(2, "Исправил ошибку в обработке файлов конфигурации"),
        said(
            3,
            "Виправлено помилку під час налаштування підключення до бази даних",
        ),
        said(4, "Wrote release notes"),
        said(5, "Ещё раз проверил права доступа"),
        said(6, "Додав обʼєкти ґрунтового шару у функцію readConfig"),
    ];
    memory.add(&name, past.into()).await.unwrap();
    for (question, wanted) in [
        ("fixes for a parser", 1),
        ("fail", 1),
        ("configurations", 1),
        ("ошибка", 2),
        ("какие файлы обрабатывали с ошибками", 2),
        ("помилки", 3),
        ("помилок", 3),
        ("налаштувати", 3),
        ("підключень", 3),
        ("базу", 3),
        ("note", 4),
        ("еще проверить доступ", 5),
        ("об'єктів", 6),
        ("грунтовий", 6),
        ("функціями", 6),
        ("config reading", 6),
    ] {
        let found = found(&memory, &name, question).await;
        assert_eq!(found.first(), Some(&wanted), "{question}: {found:?}");
    }
    assert_eq!(found(&memory, &name, "kubernetes").await, [0; 0]);
    assert_eq!(found(&memory, &name, "…!?").await, [0; 0]);
}

async fn the_best_match_comes_first(bed: Bed, name: CollectionName) {
    let memory = bed.open();
    memory.create(&name).await.unwrap();
    let common = (10..40).map(|id| said(id, "server restarted"));
    let past = [
        said(1, "server certificate expired"),
        said(2, "certificate"),
        said(3, "server server server"),
    ];
    memory
        .add(&name, past.into_iter().chain(common).collect())
        .await
        .unwrap();
    let hits = memory
        .search(
            &name,
            &Query {
                top_k: 3,
                ..asked("server certificate")
            },
        )
        .await
        .unwrap();
    assert_eq!(
        ids(&hits)[..2],
        [1, 2],
        "a rare word weighs more than a common one"
    );
    assert_eq!(hits.len(), 3);
    assert!(hits[0].score > hits[1].score && hits[1].score > hits[2].score && hits[2].score > 0.0);
    let equals = memory
        .search(
            &name,
            &Query {
                top_k: 100,
                ..asked("restart")
            },
        )
        .await
        .unwrap();
    assert_eq!(
        ids(&equals),
        (10..40).rev().collect::<Vec<_>>(),
        "among equals the newest comes first"
    );
}

async fn filters_hold(bed: Bed, name: CollectionName) {
    let memory = bed.open();
    memory.create(&name).await.unwrap();
    let mut past = Vec::new();
    for (id, kind, success, millis) in [
        (1, "task", true, 1000),
        (2, "task", false, 2000),
        (3, "chat", true, 3000),
        (4, "chat", false, 1_800_000_000_000),
    ] {
        let mut interaction = said(id, "deployed the service");
        interaction.kind = kind.into();
        interaction.success = success;
        interaction.timestamp = Timestamp::from_millis(millis);
        past.push(interaction);
    }
    memory.add(&name, past).await.unwrap();
    let at = |millis| Some(Timestamp::from_millis(millis));
    let all = Filter::default();
    for (filter, wanted) in [
        (all.clone(), vec![1, 2, 3, 4]),
        (
            Filter {
                kind: Some("chat".into()),
                ..all.clone()
            },
            vec![3, 4],
        ),
        (
            Filter {
                kind: Some("cha".into()),
                ..all.clone()
            },
            vec![],
        ),
        (
            Filter {
                success: Some(false),
                ..all.clone()
            },
            vec![2, 4],
        ),
        (
            Filter {
                since: at(2000),
                ..all.clone()
            },
            vec![2, 3, 4],
        ),
        (
            Filter {
                until: at(2000),
                ..all.clone()
            },
            vec![1, 2],
        ),
        (
            Filter {
                since: at(1001),
                until: at(2999),
                ..all.clone()
            },
            vec![2],
        ),
        (
            Filter {
                since: at(1_800_000_000_000),
                until: at(1_800_000_000_000),
                ..all.clone()
            },
            vec![4],
        ),
        (
            Filter {
                since: at(1_800_000_000_001),
                ..all.clone()
            },
            vec![],
        ),
        (
            Filter {
                kind: Some("task".into()),
                success: Some(true),
                since: at(0),
                until: at(5000),
            },
            vec![1],
        ),
    ] {
        let query = Query {
            filter: filter.clone(),
            ..asked("deploy services")
        };
        let mut found = ids(&memory.search(&name, &query).await.unwrap());
        found.sort_unstable();
        assert_eq!(found, wanted, "{filter:?}");
    }
}

async fn a_hit_carries_what_was_added(bed: Bed, name: CollectionName) {
    let memory = bed.open();
    memory.create(&name).await.unwrap();
    let mut interaction = said(u64::MAX >> 1, "Wrote a test \u{0} \"в кавычках\" 🦀");
    interaction.task_id = Some("task-7".parse().unwrap());
    interaction.success = false;
    interaction.timestamp = Timestamp::from_millis(1_768_334_400_005);
    interaction.metadata = json!({"files": ["a.rs"], "cost": 0.25})
        .as_object()
        .unwrap()
        .clone();
    memory
        .add(&name, vec![interaction.clone(), said(2, "…")])
        .await
        .unwrap();
    let hits = memory.search(&name, &asked("tests")).await.unwrap();
    let [hit] = hits.as_slice() else {
        panic!("{hits:?}")
    };
    assert_eq!(
        (hit.id, &hit.text, &hit.kind),
        (interaction.id, &interaction.text, &interaction.kind)
    );
    assert_eq!(
        (hit.success, &hit.task_id, hit.timestamp),
        (false, &interaction.task_id, interaction.timestamp)
    );
    assert_eq!(hit.metadata, interaction.metadata);
    assert_eq!(
        memory.count(&name).await.unwrap(),
        2,
        "a text without words is remembered as well"
    );
}

async fn the_same_id_replaces(bed: Bed, name: CollectionName) {
    let memory = bed.open();
    memory.create(&name).await.unwrap();
    memory
        .add(&name, vec![said(1, "old words"), said(2, "other")])
        .await
        .unwrap();
    memory
        .add(&name, vec![said(1, "new phrase")])
        .await
        .unwrap();
    assert_eq!(memory.count(&name).await.unwrap(), 2);
    assert_eq!(found(&memory, &name, "words").await, [0; 0]);
    assert_eq!(found(&memory, &name, "phrases").await, [1]);
}

async fn delete_forgets_some_and_clear_forgets_all(bed: Bed, name: CollectionName) {
    let memory = bed.open();
    memory.create(&name).await.unwrap();
    memory
        .add(&name, (1..=5).map(|id| said(id, "same words")).collect())
        .await
        .unwrap();
    memory
        .delete(
            &name,
            vec![MemoryEntryId(2), MemoryEntryId(4), MemoryEntryId(99)],
        )
        .await
        .unwrap();
    assert_eq!(found(&memory, &name, "word").await, [5, 3, 1]);
    memory.clear(&name).await.unwrap();
    assert_eq!(memory.count(&name).await.unwrap(), 0);
    assert_eq!(found(&memory, &name, "word").await, [0; 0]);
    assert!(memory.exists(&name).await.unwrap());
    memory
        .add(&name, vec![said(1, "fresh words")])
        .await
        .unwrap();
    assert_eq!(found(&memory, &name, "word").await, [1]);
}

async fn a_session_is_forgotten_alone(bed: Bed, name: CollectionName) {
    let memory = bed.open();
    memory.create(&name).await.unwrap();
    memory
        .delete_session(&name, &session("first"))
        .await
        .unwrap();
    let of = |id, owner: Option<&str>| {
        let mut interaction = said(id, "same words");
        interaction.session_id = owner.map(session);
        interaction
    };
    let past = [
        of(1, Some("first")),
        of(2, Some("second")),
        of(3, None),
        of(4, Some("first")),
        of(5, Some("first:b")),
    ];
    memory.add(&name, past.into()).await.unwrap();
    memory
        .delete_session(&name, &session("first"))
        .await
        .unwrap();
    assert_eq!(found(&memory, &name, "word").await, [5, 3, 2]);
    assert_eq!(memory.count(&name).await.unwrap(), 3);
    memory
        .delete_session(&name, &session("unknown"))
        .await
        .unwrap();
    assert_eq!(memory.count(&name).await.unwrap(), 3);
}

async fn a_rebuild_replaces_everything(bed: Bed, name: CollectionName) {
    let memory = bed.open();
    let past = |ids: std::ops::Range<u64>| ids.map(|id| said(id, &format!("rebuilt number{id}")));
    assert_eq!(
        memory.rebuild(&name, past(0..3)).await.unwrap(),
        3,
        "a missing one is made"
    );
    memory
        .add(&name, vec![said(900, "stale words")])
        .await
        .unwrap();
    let with_bad = past(0..600).chain([said(999, " ")]);
    assert_eq!(memory.rebuild(&name, with_bad).await.unwrap(), 600);
    assert_eq!(memory.count(&name).await.unwrap(), 600);
    assert_eq!(found(&memory, &name, "stale").await, [0; 0]);
    assert_eq!(found(&memory, &name, "rebuilt number599").await[0], 599);
    assert_eq!(memory.rebuild(&name, []).await.unwrap(), 0);
    assert_eq!(memory.count(&name).await.unwrap(), 0);
}

async fn collections_come_and_go(bed: Bed, name: CollectionName) {
    let memory = bed.open();
    assert!(!memory.exists(&name).await.unwrap());
    assert!(is_missing(&memory.search(&name, &asked("word")).await));
    assert!(is_missing(&memory.add(&name, vec![said(1, "word")]).await));
    assert!(is_missing(
        &memory.delete(&name, vec![MemoryEntryId(1)]).await
    ));
    assert!(is_missing(
        &memory.delete_session(&name, &session("any")).await
    ));
    assert!(is_missing(&memory.clear(&name).await));
    assert!(is_missing(&memory.count(&name).await));
    memory.remove(&name).await.unwrap();

    assert_eq!(memory.create(&name).await.unwrap(), Created::New);
    assert_eq!(memory.create(&name).await.unwrap(), Created::Existing);
    assert_eq!(
        found(&memory, &name, "word").await,
        [0; 0],
        "a new one is empty"
    );
    memory.delete(&name, vec![MemoryEntryId(1)]).await.unwrap();
    memory.add(&name, vec![said(1, "word")]).await.unwrap();
    assert_eq!(memory.create(&name).await.unwrap(), Created::Existing);
    assert_eq!(memory.count(&name).await.unwrap(), 1);
    assert!(memory.collections().await.unwrap().contains(&name));
    assert_eq!(memory.health().await, MemoryHealth::Healthy);

    memory.remove(&name).await.unwrap();
    assert!(!memory.exists(&name).await.unwrap());
    assert!(!memory.collections().await.unwrap().contains(&name));
    assert_eq!(memory.create(&name).await.unwrap(), Created::New);
    assert_eq!(memory.count(&name).await.unwrap(), 0);
}

async fn collections_are_apart(bed: Bed, name: CollectionName) {
    let memory = bed.open();
    let names = [name, unused_name(), unused_name(), unused_name()];
    for (id, name) in (1..).zip(&names) {
        memory.create(name).await.unwrap();
        memory
            .add(name, vec![said(id, "shared words")])
            .await
            .unwrap();
    }
    for (id, name) in (1..).zip(&names) {
        assert_eq!(found(&memory, name, "word").await, [id]);
    }
    memory.clear(&names[1]).await.unwrap();
    memory.remove(&names[2]).await.unwrap();
    assert_eq!(found(&memory, &names[0], "word").await, [1]);
    assert_eq!(found(&memory, &names[3], "word").await, [4]);
    for name in &names[1..] {
        memory.remove(name).await.unwrap();
    }
}

async fn memory_survives_a_restart(bed: Bed, name: CollectionName) {
    for run in 1..=3 {
        let memory = bed.open();
        let ensured = memory.create(&name).await.unwrap();
        assert_eq!(
            ensured,
            if run == 1 {
                Created::New
            } else {
                Created::Existing
            }
        );
        memory
            .add(
                &name,
                vec![said(run, "lasting words"), said(100, &format!("run {run}"))],
            )
            .await
            .unwrap();
        assert_eq!(memory.count(&name).await.unwrap(), run + 1);
        assert_eq!(
            found(&memory, &name, "word").await,
            (1..=run).rev().collect::<Vec<_>>()
        );
        memory.close().await;
    }
}

async fn a_thousand_interactions(bed: Bed, name: CollectionName) {
    let memory = bed.open();
    memory.create(&name).await.unwrap();
    let text = |id: u64| {
        format!(
            "Task {id}: changed module{} of the service, group{}",
            id % 37,
            id / 10
        )
    };
    memory
        .add(&name, (0..1000).map(|id| said(id, &text(id))).collect())
        .await
        .unwrap();
    assert_eq!(memory.count(&name).await.unwrap(), 1000);
    for group in [0u64, 42, 99] {
        let mut found = found(&memory, &name, &format!("group{group}")).await;
        found.sort_unstable();
        assert_eq!(found, (group * 10..group * 10 + 10).collect::<Vec<_>>());
    }
    let both = found(&memory, &name, "module20 group42").await;
    assert_eq!(both[0], 427, "{both:?}");
}

async fn many_at_once(bed: Bed, name: CollectionName) {
    const WRITERS: u64 = 8;
    const EACH: u64 = 10;
    let memory = bed.open();
    memory.create(&name).await.unwrap();
    let writers = join_all((0..WRITERS).map(|writer| {
        let (memory, name) = (&memory, &name);
        async move {
            for n in 0..EACH {
                let id = writer * EACH + n;
                memory
                    .add(name, vec![said(id, &format!("words of writer{writer}"))])
                    .await
                    .unwrap();
                let found = found(memory, name, &format!("writer{writer}")).await;
                assert_eq!(
                    found.first(),
                    Some(&id),
                    "what was added is found by a later search"
                );
            }
        }
    }));
    let readers = join_all((0..WRITERS).map(|_| {
        let (memory, name) = (&memory, &name);
        async move {
            for _ in 0..EACH {
                found(memory, name, "words").await;
                memory.create(name).await.unwrap();
            }
        }
    }));
    tokio::join!(writers, readers);
    assert_eq!(memory.count(&name).await.unwrap(), WRITERS * EACH);
}

async fn nonsense_is_refused(bed: Bed, name: CollectionName) {
    let memory = bed.open();
    memory.create(&name).await.unwrap();
    for query in [
        asked(" "),
        Query {
            top_k: 0,
            ..asked("word")
        },
        Query {
            top_k: 101,
            ..asked("word")
        },
    ] {
        let refused = memory.search(&name, &query).await;
        assert!(
            matches!(refused, Err(MemoryError::Invalid { .. })),
            "{query:?}"
        );
    }
    let refused = memory.add(&name, vec![said(1, "good"), said(2, " ")]).await;
    assert!(matches!(refused, Err(MemoryError::Invalid { .. })));
    assert_eq!(
        memory.count(&name).await.unwrap(),
        0,
        "a batch is taken whole or not at all"
    );
    memory.add(&name, Vec::new()).await.unwrap();
    memory.delete(&name, Vec::new()).await.unwrap();
}
