//! Who is not part of the installation: forged requests between servers, servers with other
//! secrets, and a second server with the same address.

use codelab_client::{Client, Credentials, Method};
use codelab_protocol::SessionId;
use serde_json::json;

use crate::installation::Installation;
use crate::is_wanted;
use crate::server::{Server, Settings};

/// Where servers send requests to each other.
const FORWARD_PATH: &str = "/cluster/forward";
const OTHER_SECRET: &str = "another-secret-of-more-than-32-characters";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_are_refused() {
    if !is_wanted("strangers_are_refused") {
        return;
    }
    let Some(installation) = Installation::start(2, &[]).await else {
        return;
    };
    forged_requests(&installation).await;
    other_secrets(&installation).await;
    no_address(&installation).await;
    the_same_address(&installation).await;
    installation.ready().await.unwrap();
    installation.remove();
}

/// Without the key of the installation nothing is accepted, whatever the headers say.
async fn forged_requests(installation: &Installation) {
    let body = json!({"session_id": "forged"}).to_string();
    let nobody = Credentials::Bearer("nobody".to_owned());
    for server in &installation.servers {
        let client = Client::new(&server.url(), nobody.clone()).unwrap();
        let forged = [
            ("x-codelab-cluster-key", "0".repeat(64)),
            ("x-codelab-forward-method", "POST".to_owned()),
            ("x-codelab-forward-path", "/sessions".to_owned()),
            ("x-codelab-forward-thing", "session:forged".to_owned()),
            ("x-codelab-forward-epoch", "1".to_owned()),
            ("x-codelab-forward-caller", "internal".to_owned()),
            ("content-type", "application/json".to_owned()),
        ];
        let headers: Vec<(&str, &str)> = forged
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        for path in [FORWARD_PATH, "/sessions"] {
            let answer = client
                .raw(Method::POST, path, &headers, body.clone())
                .await
                .unwrap();
            let said = String::from_utf8_lossy(&answer.body);
            assert!(
                matches!(answer.status, 401 | 403 | 404),
                "{path}: {} {said}",
                answer.status
            );
        }
    }
    let forged = SessionId::parse("forged").unwrap();
    let found = installation.client.history(&forged).await;
    assert_eq!(found.unwrap_err().status(), Some(404));
}

async fn other_secrets(installation: &Installation) {
    for (number, secret) in [
        (11, "INTERNAL_API_KEY"),
        (12, "JWT_SECRET"),
        (13, "CODELAB_MASTER_KEY"),
    ] {
        let said = refused(installation, number, &[(secret, OTHER_SECRET)]).await;
        assert!(said.contains(secret), "it names {secret}: {said}");
    }
}

async fn no_address(installation: &Installation) {
    let said = refused(installation, 14, &[("CODELAB_CLUSTER__ADDRESS", "")]).await;
    assert!(said.contains("cluster.address"), "{said}");
}

async fn the_same_address(installation: &Installation) {
    let address = installation.servers[0].cluster_address();
    let said = refused(installation, 15, &[("CODELAB_CLUSTER__ADDRESS", &address)]).await;
    assert!(said.contains("address"), "{said}");
}

/// The complaint of one more server that must not start.
async fn refused(installation: &Installation, number: usize, other: &[(&str, &str)]) -> String {
    let mut settings: Settings = installation.settings.clone();
    let other = other
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    settings.more.extend(other);
    let mut server = Server::new(number, installation.folder()).await;
    match server.start(&settings).await {
        Err(complaint) => complaint,
        Ok(()) => panic!("server {number} started with {:?}", settings.more),
    }
}
