//! Where the server under test keeps its data.

use std::path::Path;

use tempfile::TempDir;
use tokio_postgres::NoTls;

pub struct Place {
    folder: TempDir,
    postgres: Option<OwnDatabase>,
}

/// A database of its own on a given PostgreSQL server.
struct OwnDatabase {
    server_url: String,
    name: String,
    url: String,
}

impl Place {
    pub fn sqlite() -> Self {
        Self { folder: kept_folder(), postgres: None }
    }

    /// `server_url` names any database of the server; a new one is made beside it.
    pub async fn postgres(server_url: &str, name: String) -> Self {
        let (server, _) = server_url.rsplit_once('/').expect("the address of a database");
        let url = format!("{server}/{name}");
        execute(server_url, &format!("CREATE DATABASE {name}")).await;
        let own = OwnDatabase { server_url: server_url.to_owned(), name, url };
        Self { folder: kept_folder(), postgres: Some(own) }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn database_url(&self) -> Option<&str> {
        self.postgres.as_ref().map(|own| own.url.as_str())
    }

    /// Where the data can be looked at.
    pub fn description(&self) -> String {
        let folder = self.folder.path().display();
        match &self.postgres {
            Some(own) => format!("{folder} and the database {}", own.name),
            None => folder.to_string(),
        }
    }

    /// Takes the data away. Not called after a failure, so that it can be looked at.
    pub async fn remove(mut self) {
        self.folder.disable_cleanup(false);
        if let Some(own) = &self.postgres {
            execute(&own.server_url, &format!("DROP DATABASE {} WITH (FORCE)", own.name)).await;
        }
    }
}

fn kept_folder() -> TempDir {
    let mut folder = tempfile::Builder::new().prefix("codelab-crash-").tempdir().expect("a temporary folder");
    folder.disable_cleanup(true);
    folder
}

async fn execute(url: &str, sql: &str) {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("PostgreSQL can be reached");
    let connection = tokio::spawn(connection);
    client.batch_execute(sql).await.expect("PostgreSQL does as it is told");
    drop(client);
    let _ended = connection.await;
}
