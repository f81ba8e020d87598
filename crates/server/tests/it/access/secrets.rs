//! The server's own keys: where they come from, who can read them, and when they must be given.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use codelab_testkit::{Reply, TestServer, skipped_through_another};

use crate::raw::Request;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        .permissions()
        .mode()
        & 0o777
}

#[tokio::test]
async fn secrets_that_are_not_given_are_made_once_and_kept_private() {
    if skipped_through_another("several servers have no generated keys") {
        return;
    }
    let mut server = TestServer::with(&[("INTERNAL_API_KEY", "")]).await;
    let folder = server.data_dir().join("secrets");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let (key, jwt) = (read("internal_api_key"), read("jwt_secret"));
    assert_eq!(mode(&folder), 0o700);
    for (name, secret) in [("internal_api_key", &key), ("jwt_secret", &jwt)] {
        assert_eq!(mode(&folder.join(name)), 0o600, "{name}");
        assert!(
            secret.len() == 64 && secret.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "{name} is too guessable"
        );
    }
    assert_ne!(key, jwt);
    let sessions =
        |key: &str| Request::new(&server, "GET", "/sessions").with("X-Internal-Auth", key);
    assert_eq!(sessions(&key).send(&server).await.status, 200);
    assert_eq!(sessions("").send(&server).await.status, 401);
    assert_eq!(sessions(&jwt).send(&server).await.status, 401);

    server.restart().await;
    assert_eq!(
        (read("internal_api_key"), read("jwt_secret")),
        (key.clone(), jwt)
    );
    let again = Request::new(&server, "GET", "/sessions").with("X-Internal-Auth", &key);
    assert_eq!(again.send(&server).await.status, 200);
}

#[tokio::test]
async fn given_secrets_are_written_nowhere() {
    let server = TestServer::with(&[("JWT_SECRET", "given-jwt-secret")]).await;
    assert!(!server.data_dir().join("secrets").exists());
}

/// The model may be anybody's server: a key that nobody chose is never shown to it.
#[tokio::test]
async fn only_a_chosen_key_is_sent_to_a_model_nearby() {
    if skipped_through_another("several servers have no generated keys") {
        return;
    }
    for (settings, header, value) in [
        (vec![("INTERNAL_API_KEY", "")], "x-internal-auth", None),
        (
            vec![("INTERNAL_API_KEY", "chosen")],
            "x-internal-auth",
            Some("chosen"),
        ),
        (
            vec![("INTERNAL_API_KEY", "chosen"), ("LLM_API_KEY", "sk-1")],
            "x-internal-auth",
            None,
        ),
        (
            vec![("INTERNAL_API_KEY", "chosen"), ("LLM_API_KEY", "sk-1")],
            "authorization",
            Some("Bearer sk-1"),
        ),
    ] {
        let server = TestServer::with(&settings).await;
        let key = match settings[0].1 {
            "" => {
                std::fs::read_to_string(server.data_dir().join("secrets/internal_api_key")).unwrap()
            }
            key => key.to_owned(),
        };
        server.model.route_to("ask");
        server.model.reply(Reply::text("Hello"));
        let body = r#"{"session_id":"s","message":"hello"}"#;
        let send = Request::new(&server, "POST", "/agent/message/stream")
            .with("X-Internal-Auth", &key)
            .json(body);
        assert_eq!(send.send(&server).await.status, 200);
        let requests = server.model.requests();
        assert_eq!(requests.len(), 2);
        assert!(
            requests
                .iter()
                .all(|request| request.header(header) == value),
            "{settings:?} {header}"
        );
    }
}

#[tokio::test]
async fn a_server_for_other_machines_needs_chosen_secrets() {
    if skipped_through_another("it chooses the address of the server") {
        return;
    }
    let jwt = ("JWT_SECRET", "chosen-by-somebody-and-long-enough");
    let key = ("INTERNAL_API_KEY", "another-chosen-one-of-32-bytes..");
    let no_key = ("INTERNAL_API_KEY", "");
    for addr in ["0.0.0.0:0", "[::]:0"] {
        let addr = ("CODELAB_ADDR", addr);
        for settings in [vec![addr], vec![addr, no_key], vec![addr, no_key, jwt]] {
            let error = TestServer::try_with(&settings).await.err();
            let error = error
                .unwrap_or_else(|| panic!("started with {settings:?}"))
                .to_string();
            assert!(
                error.contains("INTERNAL_API_KEY") && error.contains("JWT_SECRET"),
                "{error}"
            );
            assert!(
                !error.contains('\n') && !error.contains("chosen"),
                "{error}"
            );
        }
        // Those of 31 bytes can be guessed, or are taken for it.
        let [short_key, short_jwt] = [key, jwt].map(|(name, value)| (name, &value[..31]));
        for (settings, name) in [
            ([addr, jwt, short_key], "INTERNAL_API_KEY"),
            ([addr, short_jwt, key], "JWT_SECRET"),
        ] {
            let error = TestServer::try_with(&settings).await.err();
            let error = error
                .unwrap_or_else(|| panic!("started with {settings:?}"))
                .to_string();
            assert!(
                error.starts_with(&format!("{name}: has 31 bytes"))
                    && error.contains("at least 32"),
                "{error}"
            );
            assert!(
                !error.contains('\n') && !error.contains("chosen"),
                "{error}"
            );
        }
        let started = TestServer::try_with(&[addr, jwt, key]).await;
        assert!(started.is_ok(), "{addr:?}: {:?}", started.err());
    }
    for addr in ["127.0.0.1:0", "localhost:0", "127.9.9.9:0"] {
        assert!(
            TestServer::try_with(&[("CODELAB_ADDR", addr), no_key])
                .await
                .is_ok(),
            "{addr}"
        );
        let short = [
            ("CODELAB_ADDR", addr),
            ("INTERNAL_API_KEY", "k"),
            ("JWT_SECRET", "j"),
        ];
        assert!(
            TestServer::try_with(&short).await.is_ok(),
            "short ones are good enough on {addr}"
        );
    }
}
