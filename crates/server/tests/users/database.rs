//! A PostgreSQL database of a test's own, where a server for it is given.

use tokio_postgres::NoTls;

pub struct OwnDatabase {
    pub url: String,
    server_url: String,
    name: String,
}

impl OwnDatabase {
    /// `None`, and a line that says so, where there is no PostgreSQL to test on.
    #[allow(clippy::print_stdout)]
    pub async fn make(name: &str) -> Option<Self> {
        let Some(server_url) = std::env::var("CODELAB_TEST_POSTGRES_URL").ok().filter(|url| !url.is_empty()) else {
            println!("skipped on PostgreSQL: CODELAB_TEST_POSTGRES_URL is not set");
            return None;
        };
        let name = format!("{name}_{}", std::process::id());
        let (server, _) = server_url.rsplit_once('/').expect("the address names a database");
        let url = format!("{server}/{name}");
        execute(&server_url, &format!("CREATE DATABASE {name}")).await;
        Some(Self { url, server_url, name })
    }

    pub async fn remove(self) {
        execute(&self.server_url, &format!("DROP DATABASE {} WITH (FORCE)", self.name)).await;
    }
}

async fn execute(url: &str, sql: &str) {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("PostgreSQL can be reached");
    let connection = tokio::spawn(connection);
    client.batch_execute(sql).await.expect("PostgreSQL does as it is told");
    drop(client);
    let _ended = connection.await;
}
