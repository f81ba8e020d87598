//! The files of messages: stored once, and deleted with the last session that refers to them.

use codelab_protocol::{AttachedFile, NewAttachment};
use codelab_store::{Commit, SharedAttachment, StoreError};

use crate::harness::{FIRST, Harness, at, create, message, project_session};
use crate::users::{new_project, user};

fn file(name: &str, content: &[u8]) -> AttachedFile {
    AttachedFile::parse(NewAttachment::new(name, "text/plain", content)).unwrap()
}

fn image() -> AttachedFile {
    let content = b"\x89PNG\r\n\x1a\n\0\x01\xff";
    AttachedFile::parse(NewAttachment::new("a.png", "image/png", content)).unwrap()
}

pub async fn a_file_is_stored_once_and_goes_with_its_last_session(harness: Harness) -> Harness {
    let store = &harness.store;
    let project = store
        .of(user(1))
        .create_project(new_project("shop"), at(1))
        .await
        .unwrap();
    let (image, text) = (image(), file("a.txt", b"hello"));
    let mut keys = Vec::new();
    for name in ["one", "two"] {
        let mut commit = project_session(name, user(1), project.id());
        commit.messages[0].message.attachments = vec![image.about.clone()];
        // The same content under two names is one file.
        commit.attachments = vec![image.clone(), file("b.txt", b"hello"), text.clone()];
        keys.push(commit.key);
        store.commit(commit).await.unwrap();
    }
    let mut commit = create("other");
    commit.attachments = vec![text.clone()];
    let other = commit.key;
    store.commit(commit).await.unwrap();

    let read = |key, file: &AttachedFile| {
        let digest = file.about.digest.clone();
        async move { store.attachment(key, &digest).await.unwrap() }
    };
    assert_eq!(read(keys[0], &image).await.as_ref(), Some(&image));
    assert_eq!(read(keys[1], &text).await.unwrap().about.name, "b.txt");
    assert_eq!(read(other, &text).await.as_ref(), Some(&text));
    assert_eq!(read(other, &image).await, None, "it refers to no image");
    let stored = &store.history(keys[0], 0).await.unwrap()[0];
    assert_eq!(
        stored.message.attachments,
        std::slice::from_ref(&image.about)
    );

    // A later message of the same session can bring the file again.
    let mut commit = Commit::new(keys[0], FIRST);
    commit.messages.push(message(2, 1, "again"));
    commit.attachments = vec![image.clone()];
    store.commit(commit).await.unwrap();

    store.purge(keys[0]).await.unwrap();
    assert_eq!(read(keys[0], &image).await, None);
    assert_eq!(read(keys[1], &image).await.as_ref(), Some(&image));
    project.delete().await.unwrap();
    assert_eq!(read(keys[1], &image).await, None);
    assert_eq!(read(other, &text).await.as_ref(), Some(&text));
    store.purge(other).await.unwrap();
    // The digest is the key of the table, so this works only if the files are gone.
    for file in [&image, &text] {
        let digest = &file.about.digest;
        let insert = "INSERT INTO attachments (digest, size, content) VALUES";
        harness
            .tamper(&format!("{insert} ('{digest}', 0, 'x')"))
            .await;
    }
    harness
}

pub async fn a_session_can_refer_to_a_file_of_another_one(harness: Harness) -> Harness {
    let store = &harness.store;
    let project = store
        .of(user(1))
        .create_project(new_project("shop"), at(1))
        .await
        .unwrap();
    let image = image();
    let mut original = project_session("original", user(1), project.id());
    original.attachments = vec![image.clone()];
    let from = original.key;
    store.commit(original).await.unwrap();
    let shared = SharedAttachment {
        from,
        digest: image.about.digest.clone(),
    };
    let mut copy = project_session("copy", user(1), project.id());
    // Several messages can name it.
    copy.attachments_shared = vec![shared.clone(), shared.clone()];
    let key = copy.key;
    store.commit(copy).await.unwrap();
    let digest = &image.about.digest;
    assert_eq!(
        store.attachment(key, digest).await.unwrap(),
        Some(image.clone())
    );
    // A session that has it already keeps its own.
    let mut again = Commit::new(key, FIRST);
    again.messages.push(message(2, 1, "again"));
    again.attachments_shared = vec![shared.clone()];
    store.commit(again).await.unwrap();

    store.purge(from).await.unwrap();
    assert_eq!(
        store.attachment(key, digest).await.unwrap(),
        Some(image.clone())
    );
    // What the other session does not have cannot be shared, and nothing is stored then.
    let mut late = project_session("late", user(1), project.id());
    late.attachments_shared = vec![shared];
    let refused = store.commit(late).await;
    assert_eq!(refused, Err(StoreError::NotFound));
    let id = codelab_protocol::SessionId::parse("late").unwrap();
    assert!(store.of(user(1)).session(&id).await.unwrap().is_none());
    store.purge(key).await.unwrap();
    assert_eq!(store.attachment(key, digest).await.unwrap(), None);
    harness
}
