//! What waits for a user, in all sessions.

use codelab_store::{ApprovalClosed, ApprovalStatus, Commit, ProjectStore};

use crate::harness::{FIRST, Harness, approval, at, call, project_session};
use crate::project_sessions::{project_of, stored};
use crate::users::user;

pub async fn open_approvals_of_all_sessions_are_found(harness: Harness) -> Harness {
    let (mine, project) = project_of(&harness, 1).await;
    let (theirs, other) = project_of(&harness, 2).await;
    let asked = |name: &str, place: &ProjectStore, number, when| {
        let mut commit = project_session(name, user(number), place.id());
        let mut info = approval("c1");
        info.created_at = at(when);
        commit.approvals_opened.push(info);
        commit
    };
    let late = asked("late", &project, 1, 20);
    let expected = late.approvals_opened[0].clone();
    let late = stored(&harness, late).await;
    stored(&harness, asked("early", &project, 1, 10)).await;
    stored(&harness, asked("foreign", &other, 2, 5)).await;
    let deleted = stored(&harness, asked("deleted", &project, 1, 1)).await;
    harness.store.soft_delete(deleted, at(2)).await.unwrap();
    let decided = stored(&harness, asked("decided", &project, 1, 1)).await;
    let mut commit = Commit::new(decided, FIRST);
    commit.approvals_closed.push(ApprovalClosed {
        call_id: call("c1"),
        status: ApprovalStatus::Approved,
        decided_at: at(3),
    });
    stored(&harness, commit).await;

    let waiting = mine.waiting_sessions(None).await.unwrap();
    let keys: Vec<_> = waiting.iter().map(|session| session.key).collect();
    assert!(keys.is_sorted(), "{keys:?}");
    let mut ids: Vec<&str> = waiting
        .iter()
        .map(|session| session.session_id.as_str())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, ["early", "late"]);
    let rest = mine.waiting_sessions(Some(waiting[0].key)).await.unwrap();
    assert_eq!(rest, waiting[1..]);
    let (open, total) = mine.open_approvals(None, 10, 0).await.unwrap();
    assert_eq!(
        open.iter()
            .map(|open| open.session_id.as_str())
            .collect::<Vec<_>>(),
        ["early", "late"]
    );
    assert_eq!(
        (total, open[1].project_id, &open[1].info),
        (2, project.id(), &expected)
    );
    assert_eq!(
        mine.open_approvals(None, 1, 1).await.unwrap(),
        (vec![open[1].clone()], 2)
    );
    assert_eq!(
        mine.open_approvals(Some(late), 10, 0).await.unwrap(),
        (vec![open[1].clone()], 1)
    );
    assert_eq!(
        theirs.open_approvals(Some(late), 10, 0).await.unwrap(),
        (vec![], 0)
    );
    assert_eq!(theirs.open_approvals(None, 10, 0).await.unwrap().1, 1);
    // The same holds for the sessions that they block, and for no others.
    let mut waiting = project.unfinished_sessions(None, 10).await.unwrap();
    let after = Some(waiting[0].key);
    assert_eq!(
        project.unfinished_sessions(after, 10).await.unwrap(),
        waiting[1..]
    );
    waiting.sort_by(|a, b| a.session_id.cmp(&b.session_id));
    assert_eq!(
        waiting
            .iter()
            .map(|row| row.session_id.as_str())
            .collect::<Vec<_>>(),
        ["early", "late"]
    );
    harness
}
