//! Who can read what the server keeps: its owner, and nobody else.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use codelab_client::Method;
use codelab_fakemodel::Reply;
use codelab_testkit::eventually;
use serde_json::json;

use crate::chat::Chat;
use crate::lab::Lab;

#[tokio::test]
async fn the_data_folder_is_its_owners_alone_whatever_the_umask_and_wherever_secrets_come_from() {
    let mut lab = Lab::prepare(&[("JWT_SECRET", "given-by-the-environment-and-long-enough")]).await;
    lab.prelude = "umask 000".to_owned();
    lab.model.default_reply(Reply::text("Noted."));
    // What an earlier version left.
    let left = lab.data_dir().join("memory/user1_project1_coder_context");
    fs::create_dir_all(&left).unwrap();
    fs::write(left.join("segment"), "what people said").unwrap();
    for path in [
        lab.data_dir(),
        &lab.data_dir().join("memory"),
        &left,
        &left.join("segment"),
    ] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    lab.boot().await;
    assert_eq!(
        open_to_others(lab.data_dir()),
        Vec::<PathBuf>::new(),
        "from the first moment on"
    );
    assert_eq!(
        lab.logged("other users could read the data folder").len(),
        1
    );

    lab.say("s", "hello").await;
    let chat = Chat::new(&lab).await;
    let agents = chat
        .get(&lab, &format!("/my/projects/{}/agents/", chat.project))
        .await;
    let agent = agents["agents"][0]["agent_id"].as_str().unwrap();
    let path = format!("/my/projects/{}/agents/{agent}/context/", chat.project);
    let (status, added) = chat
        .ask(
            &lab,
            Method::POST,
            &path,
            Some(json!({ "text": "the build needs cmake" })),
        )
        .await;
    assert_eq!(status, 201, "{added}");
    eventually("it is remembered", async || {
        let search = json!({ "query": "cmake" });
        let (_, found) = chat
            .ask(&lab, Method::POST, &format!("{path}search/"), Some(search))
            .await;
        if found["results"]
            .as_array()
            .is_some_and(|results| results.len() == 1)
        {
            Ok(())
        } else {
            Err(found)
        }
    })
    .await;
    assert_eq!(
        open_to_others(lab.data_dir()),
        Vec::<PathBuf>::new(),
        "nor what libraries made since"
    );
    let files = all_beneath(lab.data_dir());
    assert!(
        files.iter().any(|path| path.ends_with("codelab.db-wal")) && files.len() > 10,
        "{files:?}"
    );

    lab.crash().await;
    lab.say("s", "hello again").await;
    assert_eq!(open_to_others(lab.data_dir()), Vec::<PathBuf>::new());
    assert_eq!(
        lab.logged("other users could read the data folder").len(),
        1,
        "what is narrow needs no word"
    );
}

fn open_to_others(folder: &Path) -> Vec<PathBuf> {
    let everything = all_beneath(folder).into_iter().chain([folder.to_owned()]);
    everything
        .filter(|path| fs::symlink_metadata(path).is_ok_and(|found| found.mode() & 0o077 != 0))
        .collect()
}

fn all_beneath(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(all_beneath(&entry.path()));
        }
        found.push(entry.path());
    }
    found
}
