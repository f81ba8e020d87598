//! A PostgreSQL database for one test, if a server for it is given.

use tokio_postgres::NoTls;

pub struct OwnDatabase {
    pub url: String,
    pub name: String,
    server_url: String,
}

impl OwnDatabase {
    /// `None` if there is no PostgreSQL to test on. It prints that the test was skipped.
    #[allow(clippy::print_stdout)]
    pub async fn make(name: &str) -> Option<Self> {
        let Some(server_url) = std::env::var("CODELAB_TEST_POSTGRES_URL")
            .ok()
            .filter(|url| !url.is_empty())
        else {
            println!("skipped on PostgreSQL: CODELAB_TEST_POSTGRES_URL is not set");
            return None;
        };
        Some(Self::beside(&server_url, format!("{name}_{}", std::process::id())).await)
    }

    /// `server_url` names any database of the server. The new one is created beside it.
    pub async fn beside(server_url: &str, name: String) -> Self {
        let (server, _) = server_url
            .rsplit_once('/')
            .expect("the address names a database");
        let url = format!("{server}/{name}");
        execute(server_url, &format!("CREATE DATABASE {name}")).await;
        Self {
            url,
            name,
            server_url: server_url.to_owned(),
        }
    }

    /// How many other connections on this database are idle inside a transaction.
    pub async fn open_transactions(&self) -> i64 {
        let name = &self.name;
        self.count(&format!(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}' AND state LIKE 'idle in transaction%'"
        ))
        .await
    }

    /// What a statement that counts rows says.
    pub async fn count(&self, sql: &str) -> i64 {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        let count = client.query_one(sql, &[]).await.unwrap().get(0);
        drop(client);
        let _ended = connection.await;
        count
    }

    pub async fn execute(&self, sql: &str) {
        execute(&self.url, sql).await;
    }

    pub async fn remove(&self) {
        execute(
            &self.server_url,
            &format!("DROP DATABASE {} WITH (FORCE)", self.name),
        )
        .await;
    }
}

async fn execute(url: &str, sql: &str) {
    let (client, connection) = tokio_postgres::connect(url, NoTls)
        .await
        .expect("PostgreSQL can be reached");
    let connection = tokio::spawn(connection);
    client
        .batch_execute(sql)
        .await
        .expect("PostgreSQL executes the statement");
    drop(client);
    let _ended = connection.await;
}
