//! Paths that need no key, and settings that widen which names are known.

use codelab_testkit::TestServer;

use crate::openapi::{WayIn, routes};
use crate::raw::{Request, authority};

#[tokio::test]
async fn public_paths_need_no_key_and_no_origin_but_the_right_host() {
    let server = TestServer::start().await;
    let read = routes()
        .into_iter()
        .filter(|route| route.way_in == WayIn::Open && route.method == "GET");
    let mut paths: Vec<String> = read.map(|route| route.path).collect();
    paths.push("/assets/status.css".to_owned());
    for path in paths {
        let request = Request::new(&server, "GET", &path);
        for origin in [None, Some("http://evil.example"), Some("null")] {
            let request = origin.iter().fold(request.clone(), |request, origin| {
                request.with("Origin", origin)
            });
            // Nobody gave a state, so nothing is authorized.
            let expected = if path == "/oauth/callback" { 400 } else { 200 };
            assert_eq!(
                request.send(&server).await.status,
                expected,
                "{path} from {origin:?}"
            );
        }
        let expected = if path.starts_with("/health") {
            200
        } else {
            403
        };
        for host in [None, Some("evil.example"), Some("")] {
            let request = request.clone().without("Host");
            let request = host
                .iter()
                .fold(request, |request, host| request.with("Host", host));
            assert_eq!(
                request.send(&server).await.status,
                expected,
                "{path} for {host:?}"
            );
        }
    }
}

/// Only the health report ignores the host, and only under its own name.
#[tokio::test]
async fn nothing_slips_through_behind_the_health_report() {
    let server = TestServer::start().await;
    for target in [
        "/health/../sessions",
        "/health/..%2fsessions",
        "/health;/sessions",
        "/health%2f..%2fsessions",
        "//health",
        "/HEALTH",
        "/sessions?/health",
        "/sessions#/health",
        "/unknown",
    ] {
        let foreign = Request::with_key(&server, "GET", target)
            .without("Host")
            .with("Host", "evil.example");
        assert_eq!(foreign.send(&server).await.status, 403, "{target}");
    }
    let slash = Request::new(&server, "GET", "/health/")
        .without("Host")
        .with("Host", "evil.example");
    assert_eq!(slash.send(&server).await.status, 200);
}

#[tokio::test]
async fn loopback_names_are_known_with_any_port() {
    let server = TestServer::start().await;
    let port = authority(&server).rsplit(':').next().unwrap().to_owned();
    for host in [
        "localhost",
        "LocalHost",
        "127.0.0.1",
        "[::1]",
        "localhost:1",
        &format!("localhost:{port}"),
        "[::1]:8080",
    ] {
        let request = Request::with_key(&server, "GET", "/sessions")
            .without("Host")
            .with("Host", host);
        assert_eq!(request.send(&server).await.status, 200, "{host}");
        // Without a public address nobody knows whether a proxy speaks TLS for it.
        for (scheme, status) in [("http", 200), ("https", 200), ("ftp", 403)] {
            let request = request
                .clone()
                .with("Origin", &format!("{scheme}://{host}"));
            assert_eq!(
                request.send(&server).await.status,
                status,
                "{scheme}://{host}"
            );
        }
    }
}

#[tokio::test]
async fn a_plain_public_address_has_a_scheme_too() {
    let server = TestServer::with(&[("CODELAB_SERVER__PUBLIC_URL", "http://lab.example")]).await;
    for (origin, status) in [("http", 200), ("https", 403)] {
        let request = Request::with_key(&server, "GET", "/sessions")
            .without("Host")
            .with("Host", "lab.example");
        let request = request.with("Origin", &format!("{origin}://lab.example"));
        assert_eq!(request.send(&server).await.status, status, "{origin}");
    }
}

#[tokio::test]
async fn settings_widen_the_names_and_nothing_more() {
    let server = TestServer::with(&[
        ("CODELAB_SERVER__PUBLIC_URL", "https://Lab.example:8443/"),
        (
            "CODELAB_SERVER__ALLOWED_HOSTS",
            "[\"other.example\", \"pinned.example:9000\"]",
        ),
        (
            "CODELAB_SERVER__ALLOWED_ORIGINS",
            "[\"https://ide.example\", \"https://slash.example/\"]",
        ),
    ])
    .await;
    let own = authority(&server).to_owned();
    let hosts = [
        ("lab.example:8443", 200),
        ("lab.example", 200),
        ("other.example", 200),
        ("OTHER.example:1234", 200),
        ("pinned.example:9000", 200),
        ("pinned.example:9001", 403),
        ("pinned.example", 403),
        ("ide.example", 403),
        ("evil.example", 403),
        ("sub.lab.example", 403),
        (own.as_str(), 200),
    ];
    for (host, status) in hosts {
        let request = Request::with_key(&server, "GET", "/sessions")
            .without("Host")
            .with("Host", host);
        assert_eq!(request.send(&server).await.status, status, "Host {host}");
    }
    // The scheme counts, whichever of its names is asked.
    for (origin, status) in [("https", 200), ("http", 403)] {
        for host in [
            "lab.example:8443",
            "lab.example",
            "other.example",
            "pinned.example:9000",
            own.as_str(),
        ] {
            let request = Request::with_key(&server, "GET", "/sessions")
                .without("Host")
                .with("Host", host);
            let request = request.with("Origin", &format!("{origin}://{host}"));
            assert_eq!(
                request.send(&server).await.status,
                status,
                "Origin {origin}://{host}"
            );
        }
    }
    let origins = [
        ("http://lab.example:8443", 403),
        ("https://lab.example:8443", 200),
        ("https://LAB.example:8443", 200),
        ("https://ide.example", 200),
        ("https://slash.example", 200),
        ("http://ide.example", 403),
        ("https://ide.example:444", 403),
        ("https://lab.example", 403),
        ("https://other.example", 403),
        ("https://evil.example", 403),
        ("null", 403),
    ];
    for (origin, status) in origins {
        let request = Request::with_key(&server, "GET", "/sessions").with("Origin", origin);
        assert_eq!(
            request.send(&server).await.status,
            status,
            "Origin {origin}"
        );
    }
}
