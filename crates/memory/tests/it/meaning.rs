//! Search by meaning beside search by words, with a model whose meanings are known.

use std::time::Duration;

use codelab_memory::{Created, MemoryHealth};

use crate::bed::{Bed, found, said, unused_name};
use crate::model::Model;

const NO_PAUSE: Duration = Duration::ZERO;
const LONG_PAUSE: Duration = Duration::from_secs(3600);

#[tokio::test(flavor = "multi_thread")]
async fn words_and_meaning_are_fused() {
    for bed in Bed::all().await {
        let name = unused_name();
        let model = Model::start().await;
        let memory = bed.open_with(Some(model.client(NO_PAUSE)));
        memory.create(&name).await.unwrap();
        let past = [
            said(1, "sold an automobile"),
            said(2, "called a physician"),
            said(3, "the word car is short"),
        ];
        memory.add(&name, past.into()).await.unwrap();
        let by_both = found(&memory, &name, "car").await;
        assert_eq!(
            by_both[..2],
            [3, 1],
            "word and meaning, then meaning alone: {by_both:?}"
        );
        assert_eq!(found(&memory, &name, "doctor").await[0], 2);

        model.set_down(true);
        assert_eq!(
            found(&memory, &name, "car").await,
            [3],
            "without the model words still work"
        );
        memory
            .add(&name, vec![said(4, "a defect in the lexer")])
            .await
            .unwrap();
        model.set_down(false);
        assert_eq!(
            found(&memory, &name, "lexer").await[0],
            4,
            "what was added without the model is found by words"
        );
        memory.remove(&name).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_failed_is_left_alone() {
    let bed = Bed::embedded();
    let model = Model::start().await;
    let name = unused_name();
    let memory = bed.open_with(Some(model.client(LONG_PAUSE)));
    memory.create(&name).await.unwrap();
    memory
        .add(&name, vec![said(1, "sold an automobile")])
        .await
        .unwrap();
    assert_eq!(memory.health().await, MemoryHealth::Healthy);
    model.set_down(true);
    let before = model.calls();
    for _ in 0..5 {
        assert_eq!(found(&memory, &name, "automobiles").await, [1]);
    }
    assert_eq!(model.calls(), before + 1, "the others did not wait for it");
    assert_eq!(memory.health().await, MemoryHealth::WordsOnly);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_model_asks_for_a_rebuild_and_words_work_until_then() {
    for bed in Bed::all().await {
        let name = unused_name();
        let model = Model::start().await;
        let past = || vec![said(1, "sold an automobile"), said(2, "called a physician")];
        let without = bed.open();
        without.create(&name).await.unwrap();
        without.add(&name, past()).await.unwrap();
        without.close().await;

        let with = bed.open_with(Some(model.client(NO_PAUSE)));
        assert_eq!(found(&with, &name, "automobiles").await, [1]);
        with.add(&name, vec![said(3, "bought a car")])
            .await
            .unwrap();
        assert_eq!(found(&with, &name, "car").await, [3], "by words alone");
        assert_eq!(with.create(&name).await.unwrap(), Created::Outdated);
        assert_eq!(with.rebuild(&name, past()).await.unwrap(), 2);
        assert_eq!(with.create(&name).await.unwrap(), Created::Existing);
        assert_eq!(found(&with, &name, "car").await[0], 1, "by meaning");
        with.close().await;

        let other = bed.open_with(Some(model.client_of("another", NO_PAUSE)));
        assert_eq!(found(&other, &name, "automobiles").await, [1]);
        assert_eq!(other.create(&name).await.unwrap(), Created::Outdated);
        other.close().await;

        let without = bed.open();
        assert_eq!(
            without.create(&name).await.unwrap(),
            Created::Existing,
            "unused vectors do no harm"
        );
        assert_eq!(found(&without, &name, "automobiles").await, [1]);
        without.remove(&name).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_is_not_there_yet_holds_up_nothing() {
    for bed in Bed::all().await {
        let name = unused_name();
        let model = Model::start().await;
        model.set_down(true);
        let memory = bed.open_with(Some(model.client(NO_PAUSE)));
        assert_eq!(memory.create(&name).await.unwrap(), Created::New);
        memory
            .add(&name, vec![said(1, "sold an automobile")])
            .await
            .unwrap();
        assert_eq!(found(&memory, &name, "automobiles").await, [1]);
        model.set_down(false);
        assert_eq!(found(&memory, &name, "automobiles").await, [1]);
        assert_eq!(memory.create(&name).await.unwrap(), Created::Outdated);
        memory
            .rebuild(&name, [said(1, "sold an automobile")])
            .await
            .unwrap();
        assert_eq!(found(&memory, &name, "car").await, [1]);
        memory.remove(&name).await.unwrap();
    }
}
