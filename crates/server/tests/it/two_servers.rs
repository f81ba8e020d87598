//! A second server on the data folder of a living one.

use codelab_server::{Flags, Server, Settings, StartError};
use codelab_testkit::{INTERNAL_KEY, Reply, TestServer};

#[tokio::test]
async fn a_second_server_on_a_data_folder_does_not_start_and_disturbs_nobody() {
    let first = TestServer::start().await;
    let run = || std::fs::read_to_string(first.data_dir().join("server-run")).unwrap();
    let before = run();
    // With a database of its own, as if both shared one on the network: only the folder is the
    // same.
    let elsewhere = tempfile::tempdir().unwrap();
    let database = format!("sqlite:{}", elsewhere.path().join("other.db").display());
    let environment = [
        ("INTERNAL_API_KEY", INTERNAL_KEY),
        ("CODELAB_ADDR", "127.0.0.1:0"),
        ("DATABASE_URL", database.as_str()),
    ];
    let flags = Flags {
        data_dir: Some(first.data_dir().to_owned()),
        ..Flags::default()
    };
    let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let refused = Server::start(Settings::load(flags, environment.into_iter()).unwrap())
        .await
        .err()
        .unwrap();
    assert!(matches!(refused, StartError::InUse(_)), "{refused}");
    assert_eq!(
        refused.to_string(),
        format!(
            "data folder {}: another server uses it",
            first.data_dir().display()
        )
    );
    assert_eq!(
        run(),
        before,
        "the living one is still the one that ran last"
    );
    first.model.reply(Reply::text("Hi."));
    assert_eq!(
        first.say_to("s", "coder", "hello").await.answer().content,
        "Hi."
    );
}
