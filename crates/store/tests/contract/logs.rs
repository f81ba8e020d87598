//! What a reader of all of a user's sessions looks for: sessions with news, and their events.

use codelab_store::{Commit, Schedule, SessionKey, UserStore};

use crate::harness::{FIRST, Harness, at, event, project_session};
use crate::project_sessions::{project_of, stored};
use crate::users::user;

pub async fn logs_with_news_are_found_for_their_user(harness: Harness) -> Harness {
    let (mine, project) = project_of(&harness, 1).await;
    let (theirs, _) = project_of(&harness, 2).await;
    let mut keys = Vec::new();
    for name in ["a", "b", "c"] {
        let commit = project_session(name, user(1), project.id());
        keys.push(stored(&harness, commit).await);
    }
    keys.sort();
    // An event happens at the millisecond of its number.
    for schedule in [None, Some(Schedule::default())] {
        let mut more = Commit::new(keys[1], FIRST);
        let last = mine.log(keys[1]).await.unwrap().unwrap().last_seq;
        more.events.extend((1..=2).map(|n| event(last + n, 2)));
        more.schedule = schedule;
        more.last_activity = schedule.map(|_| at(1));
        harness.store.commit(more).await.unwrap();
    }
    let mut quiet = Commit::new(keys[1], FIRST);
    quiet.state = Some("{}".to_owned());
    harness.store.commit(quiet).await.unwrap();
    let news = async |since, after, limit| -> Vec<(SessionKey, u64)> {
        let page = mine.logs_since(at(since), after, limit).await.unwrap();
        page.iter().map(|row| (row.key, row.last_seq)).collect()
    };
    assert_eq!(news(5, None, 10).await, [(keys[1], 5)], "the time it has");
    assert_eq!(news(6, None, 10).await, []);
    let all = [(keys[0], 1), (keys[1], 5), (keys[2], 1)];
    assert_eq!(news(1, None, 2).await, all[..2]);
    assert_eq!(news(1, Some(keys[1]), 2).await, all[2..]);
    let seqs = async |reader: &UserStore, after, up_to| -> Vec<u64> {
        let page = reader.events(keys[1], after, up_to, 10).await.unwrap();
        page.iter().map(|event| event.seq).collect()
    };
    assert_eq!(seqs(&mine, 1, 4).await, [2, 3, 4]);
    for (up_to, time, last) in [(5, 3, Some(3)), (2, 3, Some(2)), (5, 0, None)] {
        let found = mine.last_seq_at(keys[1], up_to, at(time)).await.unwrap();
        assert_eq!(found, last, "up to {up_to} at {time}");
    }
    assert!(theirs.logs_since(at(0), None, 10).await.unwrap().is_empty());
    assert!(theirs.log(keys[1]).await.unwrap().is_none());
    assert!(seqs(&theirs, 0, 9).await.is_empty());
    assert_eq!(theirs.last_seq_at(keys[1], 5, at(5)).await.unwrap(), None);
    harness.store.soft_delete(keys[1], at(9)).await.unwrap();
    assert_eq!(news(5, None, 10).await, []);
    assert!(seqs(&mine, 0, 9).await.is_empty());
    harness
}
