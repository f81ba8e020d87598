//! The Chat on its way from one owner to the next.

use codelab_store::{MAX_CHAT_HANDOVER_BYTES, StoreError};
use futures_util::future::join_all;

use crate::harness::{Harness, at};

pub async fn a_chat_handover_is_taken_once(mut harness: Harness) -> Harness {
    let store = &harness.store;
    assert_eq!(store.take_chat_handover().await, Ok(None));
    for body in [r#"{"n":1}"#, r#"{"n":2}"#] {
        store
            .save_chat_handover(body.to_owned(), at(5))
            .await
            .unwrap();
    }
    harness.restart().await;
    let store = &harness.store;
    // Several servers try to take it, and only the newest counts.
    let takers = join_all((0..4).map(|_| store.take_chat_handover())).await;
    let mut taken: Vec<_> = takers.into_iter().filter_map(Result::unwrap).collect();
    assert_eq!(taken.pop().as_deref(), Some(r#"{"n":2}"#));
    assert!(taken.is_empty());
    assert_eq!(store.take_chat_handover().await, Ok(None));

    // Everything up to the limit fits.
    let largest = "x".repeat(MAX_CHAT_HANDOVER_BYTES);
    let too_large = format!("{largest}x");
    store
        .save_chat_handover(largest.clone(), at(6))
        .await
        .unwrap();
    assert!(matches!(
        store.save_chat_handover(too_large, at(7)).await,
        Err(StoreError::Invalid(_))
    ));
    assert!(store.take_chat_handover().await == Ok(Some(largest)));
    harness
}
