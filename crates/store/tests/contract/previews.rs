//! What a write that waits for a decision would replace.

use codelab_protocol::{Digest, FileBase, FilePreview};
use codelab_store::{ApprovalClosed, ApprovalPreviewed, ApprovalStatus, Commit, StoreError};

use crate::harness::{FIRST, Harness, approval, at, call};

pub async fn an_approval_shows_what_it_replaces_and_can_be_asked_again(
    harness: Harness,
) -> Harness {
    let key = harness.session("previewed").await;
    let mut ask = Commit::new(key, FIRST);
    ask.approvals_opened.push(approval("c1"));
    harness.store.commit(ask).await.unwrap();
    let preview = |base| FilePreview {
        base,
        diff: "-old\n+\u{1F600} \0 'quoted'\n".to_owned(),
        is_unread: true,
        is_outdated: false,
        truncated: false,
        note: Some("why".to_owned()),
    };
    let show = |base| {
        let mut commit = Commit::new(key, FIRST);
        commit.approvals_previewed.push(ApprovalPreviewed {
            call_id: call("c1"),
            preview: preview(base),
        });
        harness.store.commit(commit)
    };
    for base in [FileBase::Missing, FileBase::of_bytes(b"old")] {
        show(base.clone()).await.unwrap();
        let shown = harness.store.pending_approvals(key).await.unwrap();
        assert_eq!(shown[0].preview.as_deref(), Some(&preview(base)));
    }
    let mut decide = Commit::new(key, FIRST);
    decide.approvals_closed.push(ApprovalClosed {
        call_id: call("c1"),
        status: ApprovalStatus::Edited,
        decided_at: at(77),
    });
    harness.store.commit(decide).await.unwrap();
    assert_eq!(
        show(FileBase::Missing).await,
        Err(StoreError::Conflict),
        "nobody looks at it any more"
    );

    // The edited call asks again, under the same id.
    let mut again = approval("c1");
    again
        .arguments
        .insert("content".to_owned(), "edited".into());
    again.digest = Digest::of_bytes(b"edited");
    again.reason = "it changed".to_owned();
    again.preview = Some(Box::new(preview(FileBase::of_bytes(b"new"))));
    let mut ask = Commit::new(key, FIRST);
    ask.approvals_opened.push(again.clone());
    harness.store.commit(ask).await.unwrap();
    let row = harness.store.approval(key, &call("c1")).await.unwrap();
    let row = row.unwrap();
    assert_eq!((row.status, row.info), (ApprovalStatus::Pending, again));
    harness
}
