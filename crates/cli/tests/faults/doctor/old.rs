//! Databases of earlier versions, and what `codelab doctor` says of PostgreSQL.

use std::path::Path;

use codelab_testkit::OwnDatabase;
use serde_json::Value;

use super::{CANARY, Said, Setup, judge, line};

const OLD: [&str; 3] = ["0001_init.sql", "0002_users.sql", "0003_chat.sql"];
const LEDGER: &str = "CREATE TABLE schema_migrations (version BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL);\
     INSERT INTO schema_migrations VALUES (1, 'init'), (2, 'users'), (3, 'chat');";

/// What an earlier version of CodeLab made.
fn old_tables(engine: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../store/migrations")
        .join(engine);
    let files = OLD.map(|name| std::fs::read_to_string(folder.join(name)).unwrap());
    format!("{}\n{LEDGER}", files.join("\n"))
}

pub fn old_database(path: &Path) {
    rusqlite::Connection::open(path)
        .unwrap()
        .execute_batch(&old_tables("sqlite"))
        .unwrap();
}

pub async fn on_postgres(setup: &Setup) {
    let Some(database) = OwnDatabase::make("doctor").await else {
        return;
    };
    let setup = setup.with("DATABASE_URL", &database.url);
    let (said, is_usable) = setup.asked().await;
    let line_of =
        |said: &Value, check: &str| line(said, check)["found"].as_str().unwrap().to_owned();
    assert!(
        is_usable && line_of(&said, "database").contains("no tables of CodeLab yet"),
        "{said:#}"
    );
    assert!(
        line_of(&said, "clock").contains("PostgreSQL") || line_of(&said, "clock").contains("model"),
        "{said:#}"
    );
    database.execute(&old_tables("postgres")).await;
    let wanted = Said {
        check: "database",
        status: "warning",
        found: &["schema version 3"],
        advice: "Start the server once",
    };
    judge("old schema on PostgreSQL", &setup.asked().await, &wanted);
    if let Some((_, place)) = database.url.split_once('@') {
        let (said, _) = setup
            .with(
                "DATABASE_URL",
                &format!("postgres://nobody:{CANARY}@{place}"),
            )
            .asked()
            .await;
        assert_eq!(line(&said, "database")["status"], "problem", "{said:#}");
        assert!(
            line_of(&said, "database").contains("refused the user"),
            "{said:#}"
        );
    }
    database.remove().await;
}
