//! The login link and the cookie that comes of it.

use codelab_protocol::{Timestamp, UserId};
use codelab_server::LoginTicket;
use codelab_testkit::TestServer;
use serde_json::json;

use crate::kit::{Answer, Person, claims, seconds_from_now, server, server_with, sign};

/// A ticket as `codelab login-link` leaves it, valid for some seconds.
pub fn ticket(server: &TestServer, user: i64, seconds: i64) -> String {
    let expires_at = Timestamp::from_millis(seconds_from_now(seconds) * 1000);
    let ticket =
        LoginTicket::leave_in(server.data_dir(), UserId::new(user).unwrap(), expires_at).unwrap();
    let link = ticket.link("http://localhost:1/");
    link.strip_prefix("http://localhost:1/#login=")
        .unwrap()
        .to_owned()
}

pub async fn log_in(server: &TestServer, ticket: &str) -> Answer {
    Person::stranger(server)
        .post("/login", json!({ "ticket": ticket }))
        .await
}

fn set_cookie(answer: &Answer) -> String {
    answer.raw.headers["set-cookie"]
        .to_str()
        .unwrap()
        .to_owned()
}

pub fn cookie(answer: &Answer) -> String {
    set_cookie(answer).split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_link_logs_in_until_the_logout() {
    let mut server = server().await;
    let project = Person::user(&server, 3).project("three").await;
    let answer = log_in(&server, &ticket(&server, 3, 600)).await;
    assert_eq!(
        (answer.status, &answer.body["user_id"]),
        (200, &json!(3)),
        "{}",
        answer.body
    );
    let set = set_cookie(&answer);
    for part in [
        "; HttpOnly",
        "; SameSite=Strict",
        "; Path=/",
        "; Max-Age=2592000",
    ] {
        assert!(set.contains(part), "{set}");
    }
    assert!(
        !set.contains("Secure") && !answer.body.to_string().contains(&cookie(&answer)),
        "{set}"
    );

    let cookie = cookie(&answer);
    let path = format!("/my/projects/{project}");
    let browser = Person::cookie(&server, &format!("theme=dark; {cookie}"));
    browser.get(&path).await.expect(200);
    let own = server.url.clone();
    browser
        .ask_with(
            "PATCH",
            &path,
            Some(json!({ "name": "x" })),
            &[("origin", &own)],
        )
        .await
        .expect(200);
    let evil = [("origin", "http://evil.example")];
    browser
        .ask_with("DELETE", &path, None, &evil)
        .await
        .refused(403, "FORBIDDEN");
    browser
        .ask_with("POST", "/logout", None, &evil)
        .await
        .refused(403, "FORBIDDEN");
    // A bad token is not made good by a cookie.
    let bad = [("authorization", "Bearer x")];
    browser
        .ask_with("GET", &path, None, &bad)
        .await
        .refused(401, "UNAUTHORIZED");

    server.restart().await;
    let browser = Person::cookie(&server, &cookie);
    browser.get(&path).await.expect(200);
    let out = browser.post("/logout/", json!(null)).await;
    assert_eq!(out.status, 204);
    assert!(
        set_cookie(&out).starts_with("codelab_session=; ")
            && set_cookie(&out).contains("Max-Age=0")
    );
    browser.get(&path).await.refused(401, "UNAUTHORIZED");
    assert_eq!(browser.post("/logout", json!(null)).await.status, 204);
    // A cookie is no key to the runtime's own routes.
    assert_eq!(browser.get("/sessions").await.status, 401);
}

#[tokio::test]
async fn a_ticket_works_once_and_in_time() {
    let server = server().await;
    let used = ticket(&server, 3, 600);
    let asking: Vec<_> = (0..20)
        .map(|_| {
            let (person, ticket) = (Person::stranger(&server), used.clone());
            tokio::spawn(async move {
                person
                    .post("/login", json!({ "ticket": ticket }))
                    .await
                    .status
            })
        })
        .collect();
    let mut statuses = Vec::new();
    for task in asking {
        statuses.push(task.await.unwrap());
    }
    statuses.sort();
    assert_eq!((statuses[0], &statuses[1..]), (200, &[401; 19][..]));
    log_in(&server, &used).await.refused(401, "UNAUTHORIZED");
    log_in(&server, &ticket(&server, 3, -1))
        .await
        .refused(401, "UNAUTHORIZED");
    // Nothing of a ticket is left behind, and nothing in the folder is one.
    let left = std::fs::read_dir(server.data_dir().join("login-tickets"))
        .unwrap()
        .count();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn what_is_no_ticket_is_refused() {
    let server = server().await;
    let kept = ticket(&server, 3, 600);
    let file = std::fs::read_dir(server.data_dir().join("login-tickets"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let hash = file.file_name().into_string().unwrap();
    assert!(
        !hash.contains(&kept)
            && !std::fs::read_to_string(file.path())
                .unwrap()
                .contains(&kept)
    );
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let traversal = format!("../secrets/{}", "a".repeat(53));
    for wrong in [
        "",
        "x",
        &hash,
        &kept[1..],
        &format!("{kept}0"),
        &traversal,
        &"0".repeat(64),
        &sign(&claims(3)),
    ] {
        log_in(&server, wrong).await.refused(401, "UNAUTHORIZED");
    }
    let stranger = Person::stranger(&server);
    stranger
        .post("/login", json!({}))
        .await
        .refused(422, "MISSING_REQUIRED_FIELD");
    stranger
        .post("/login", json!({ "ticket": 3 }))
        .await
        .refused(422, "VALIDATION_ERROR");
    stranger
        .post("/login", json!({ "ticket": "x".repeat(5000) }))
        .await
        .refused(413, "PAYLOAD_TOO_LARGE");
    let form = [("content-type", "application/x-www-form-urlencoded")];
    stranger
        .ask_with("POST", "/login", None, &form)
        .await
        .refused(422, "VALIDATION_ERROR");
    let evil = [("origin", "null")];
    stranger
        .ask_with("POST", "/login", Some(json!({ "ticket": kept })), &evil)
        .await
        .refused(403, "FORBIDDEN");
    log_in(&server, &kept).await.expect(200);
}

#[tokio::test]
async fn wrong_tickets_keep_nobody_else_out() {
    let server = server().await;
    let right = ticket(&server, 3, 600);
    let guesses: Vec<_> = (0..120)
        .map(|number| {
            let guess = if number % 2 == 0 {
                format!("{number:064x}")
            } else {
                "x".to_owned()
            };
            let stranger = Person::stranger(&server);
            tokio::spawn(async move { stranger.post("/login", json!({ "ticket": guess })).await })
        })
        .collect();
    for guess in guesses {
        guess.await.unwrap().refused(401, "UNAUTHORIZED");
    }
    log_in(&server, &right).await.expect(200);
}

#[tokio::test]
async fn behind_tls_the_cookie_is_secure() {
    let server = server_with(&[("CODELAB_SERVER__PUBLIC_URL", "https://codelab.example")]).await;
    let answer = log_in(&server, &ticket(&server, 3, 600)).await;
    assert!(
        set_cookie(&answer).contains("; Secure"),
        "{}",
        set_cookie(&answer)
    );
}
