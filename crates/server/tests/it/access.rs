//! Who is let in: every route of the API document against every way of not being allowed, and that
//! nothing happened.

mod answers;
mod names;
mod secrets;

use codelab_testkit::{INTERNAL_KEY, Reply, TestServer};
use serde_json::json;

use crate::openapi::{Route, WayIn, routes};
use crate::raw::{Request, authority};

/// A change to an honest request, and what it must be answered with.
struct Attack {
    what: String,
    status: u16,
    drop: &'static [&'static str],
    add: Vec<(&'static str, String)>,
    body: Option<&'static str>,
}

const KEY: &[&str] = &["X-Internal-Auth", "Authorization"];
const HOST: &[&str] = &["Host"];

/// Two sessions that an attack could change: one waits for a decision, one is deleted.
const WAITING: &str = "waiting";
const DELETED: &str = "deleted";

/// Taken by every route that takes a body; an attack that gets through makes a session, asks the
/// model, or is heard in the Chat.
const BODY: &str = r#"{"session_id":"intruder","message":"hello","text":"hello","author":"intruder",
    "question":"hello?","timeout_seconds":1}"#;

#[tokio::test]
async fn a_missing_or_wrong_key_is_refused_everywhere() {
    let upper = INTERNAL_KEY.to_uppercase();
    let keys = [
        "wrong".to_owned(),
        String::new(),
        upper,
        format!("{INTERNAL_KEY}x"),
        INTERNAL_KEY[1..].to_owned(),
        format!("\"{INTERNAL_KEY}\""),
        format!("Bearer {INTERNAL_KEY}"),
        format!("\u{a0}{INTERNAL_KEY}"),
        INTERNAL_KEY.replace('-', " "),
        format!("{INTERNAL_KEY},{INTERNAL_KEY}"),
        "*".to_owned(),
        "null".to_owned(),
    ];
    let mut attacks = vec![Attack::new("no key", 401, KEY, vec![])];
    attacks.extend(
        keys.into_iter()
            .map(|key| Attack::new("key", 401, KEY, vec![("X-Internal-Auth", key)])),
    );
    for (name, value) in [
        ("Cookie", format!("X-Internal-Auth={INTERNAL_KEY}")),
        ("X-Internal-Key", INTERNAL_KEY.to_owned()),
        ("Authorization", format!("Basic {INTERNAL_KEY}")),
        ("Authorization", INTERNAL_KEY.to_owned()),
    ] {
        attacks.push(Attack::new(
            "the key elsewhere",
            401,
            KEY,
            vec![(name, value)],
        ));
    }
    let twice = vec![
        ("X-Internal-Auth", "wrong".to_owned()),
        ("X-Internal-Auth", INTERNAL_KEY.to_owned()),
    ];
    attacks.push(Attack::new(
        "a wrong key before the right one",
        401,
        KEY,
        twice,
    ));
    refused(attacks).await;
}

#[tokio::test]
async fn a_foreign_host_is_refused_everywhere() {
    let hosts = |port: &str| {
        [
            "evil.example".to_owned(),
            format!("evil.example:{port}"),
            format!("127.0.0.1.evil.example:{port}"),
            format!("localhost.evil.example:{port}"),
            format!("evil-localhost:{port}"),
            format!("127.0.0.2:{port}"),
            format!("0.0.0.0:{port}"),
            format!("[::2]:{port}"),
            "2130706433".to_owned(),
            format!(":{port}"),
            String::new(),
            "null".to_owned(),
            format!("evil.example, 127.0.0.1:{port}"),
        ]
    };
    let mut attacks = vec![Attack::new("no Host", 403, HOST, vec![])];
    let server = Target::start().await;
    let port = authority(&server.server)
        .rsplit(':')
        .next()
        .unwrap()
        .to_owned();
    attacks.extend(hosts(&port).map(|host| Attack::new("Host", 403, HOST, vec![("Host", host)])));
    let own = authority(&server.server).to_owned();
    let two =
        |first: &str, second: &str| vec![("Host", first.to_owned()), ("Host", second.to_owned())];
    attacks.push(Attack::new(
        "two Hosts",
        403,
        HOST,
        two(&own, "evil.example"),
    ));
    attacks.push(Attack::new(
        "two Hosts",
        403,
        HOST,
        two("evil.example", &own),
    ));
    attacks.push(Attack::new(
        "the own Host twice",
        403,
        HOST,
        two(&own, &own),
    ));
    let forwarded = vec![
        ("Host", "evil.example".to_owned()),
        ("X-Forwarded-Host", own.clone()),
    ];
    attacks.push(Attack::new("a forwarded Host", 403, HOST, forwarded));
    server.refuses(attacks).await;
}

/// A Host is a name and a port; what only begins like a known name is foreign.
#[tokio::test]
async fn a_host_that_hides_behind_a_port_is_refused_everywhere() {
    let server = Target::start().await;
    let own = authority(&server.server).to_owned();
    let hosts = [
        format!("{own}@evil.example"),
        "127.0.0.1:evil.example".to_owned(),
        "localhost:80:evil.example".to_owned(),
        "[::1]evil.example".to_owned(),
        "[::1].evil.example:80".to_owned(),
        format!("{own}/evil.example"),
        format!("{own}#evil.example"),
    ];
    server
        .refuses(
            hosts
                .map(|host| Attack::new("Host", 403, HOST, vec![("Host", host)]))
                .into(),
        )
        .await;
}

#[tokio::test]
async fn a_foreign_origin_is_refused_everywhere() {
    let server = Target::start().await;
    let own = authority(&server.server).to_owned();
    let (name, port) = own.rsplit_once(':').unwrap();
    let other_port = port.parse::<u16>().unwrap().wrapping_sub(1).max(1);
    let origins = [
        "http://evil.example".to_owned(),
        "https://evil.example".to_owned(),
        "null".to_owned(),
        "NULL".to_owned(),
        String::new(),
        format!("http://{name}:{other_port}"),
        format!("http://{name}"),
        format!("http://localhost:{port}"),
        format!("http://{own}.evil.example"),
        format!("http://{own}@evil.example"),
        format!("http://evil.example/{own}"),
        format!("http://evil.example http://{own}"),
        format!("ftp://{own}"),
        own.clone(),
        "file://".to_owned(),
        "chrome-extension://abcdefghijklmnop".to_owned(),
    ];
    let mut attacks: Vec<Attack> = origins
        .map(|origin| Attack::new("Origin", 403, &[], vec![("Origin", origin)]))
        .into();
    let two = |first: &str, second: &str| {
        vec![("Origin", first.to_owned()), ("Origin", second.to_owned())]
    };
    attacks.push(Attack::new(
        "two Origins",
        403,
        &[],
        two(&format!("http://{own}"), "http://evil.example"),
    ));
    attacks.push(Attack::new(
        "two Origins",
        403,
        &[],
        two("http://evil.example", &format!("http://{own}")),
    ));
    server.refuses(attacks).await;
}

/// What a page elsewhere can send without asking the browser first: a form, with no key of its own.
#[tokio::test]
async fn a_form_of_another_page_is_refused_everywhere() {
    const FORM: &[&str] = &["X-Internal-Auth", "Authorization", "Content-Type"];
    const MULTIPART: &str =
        "--x\r\nContent-Disposition: form-data; name=\"session_id\"\r\n\r\nintruder\r\n--x--\r\n";
    let forms = [
        (
            "application/x-www-form-urlencoded",
            "session_id=intruder&message=hello",
        ),
        ("multipart/form-data; boundary=x", MULTIPART),
        ("text/plain", BODY),
        ("text/plain;application/json", BODY),
    ];
    let mut attacks = Vec::new();
    for (content_type, body) in forms {
        for (origin, status) in [
            (None, 401),
            (Some("http://evil.example"), 403),
            (Some("null"), 403),
        ] {
            let mut add = vec![("Content-Type", content_type.to_owned())];
            add.extend(origin.map(|origin| ("Origin", origin.to_owned())));
            attacks.push(Attack {
                body: Some(body),
                ..Attack::new(content_type, status, FORM, add)
            });
        }
    }
    refused(attacks).await;
}

#[tokio::test]
async fn every_method_of_a_known_address_is_refused_to_strangers() {
    let target = Target::start().await;
    let before = target.state().await;
    let mut wrong = Vec::new();
    for route in routes()
        .into_iter()
        .filter(|route| route.way_in != WayIn::Open)
    {
        for method in [
            "HEAD",
            "OPTIONS",
            "PUT",
            "PATCH",
            "TRACE",
            "DELETE",
            "POST",
            "GET",
            "CONNECTED",
        ] {
            let stranger = Request::new(&target.server, method, &route.at(WAITING)).json(BODY);
            for (origin, allowed) in [
                (None, [401, 405]),
                (Some("http://evil.example"), [403, 403]),
            ] {
                let request = origin.iter().fold(stranger.clone(), |request, origin| {
                    request.with("Origin", origin)
                });
                let status = request.send(&target.server).await.status;
                if !allowed.contains(&status) {
                    wrong.push(format!("{method} {} from {origin:?}: {status}", route.path));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(target.state().await, before);
}

#[tokio::test]
async fn an_honest_request_passes_everywhere() {
    let target = Target::start().await;
    let own = authority(&target.server).to_owned();
    let mut wrong = Vec::new();
    for route in routes() {
        for origin in [None, Some(format!("http://{own}"))] {
            // A session that does not exist: the request is let in, and changes nothing.
            let mut request = target.honest(&route, "nobody").body("{}");
            request
                .headers
                .extend(origin.map(|origin| ("Origin".to_owned(), origin)));
            // A stream that is let in does not end.
            let status = request.status(&target.server).await;
            if matches!(status, 401 | 403 | 405) {
                wrong.push(format!("{} {}: {status}", route.method, route.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

async fn refused(attacks: Vec<Attack>) {
    Target::start().await.refuses(attacks).await;
}

impl Attack {
    fn new(
        what: &str,
        status: u16,
        drop: &'static [&'static str],
        add: Vec<(&'static str, String)>,
    ) -> Self {
        Self {
            what: format!("{what} {add:?}"),
            status,
            drop,
            add,
            body: None,
        }
    }
}

/// A server with something to lose.
struct Target {
    server: TestServer,
}

impl Target {
    async fn start() -> Self {
        let server = TestServer::start().await;
        server.model.route_to("coder");
        server.model.default_reply(Reply::text("Hello"));
        server.say(DELETED, "hello").await;
        server
            .client
            .delete_session(&session(DELETED), false)
            .await
            .unwrap();
        server.model.reply(Reply::tool_call(
            "write_file",
            json!({"path": "a.py", "content": "1"}),
        ));
        server.say(WAITING, "write a.py").await;
        Self { server }
    }

    fn honest(&self, route: &Route, session: &str) -> Request {
        route.request(&self.server, session).json(BODY)
    }

    async fn refuses(&self, attacks: Vec<Attack>) {
        let mut before = self.state().await;
        let mut wrong = Vec::new();
        let routes: Vec<Route> = routes()
            .into_iter()
            .filter(|route| route.way_in != WayIn::Open)
            .collect();
        assert!(routes.len() >= 15, "{routes:?}");
        for attack in attacks {
            for (route, session) in routes
                .iter()
                .flat_map(|route| [(route, WAITING), (route, DELETED)])
            {
                let mut request = self.honest(route, session);
                request = attack
                    .drop
                    .iter()
                    .fold(request, |request, name| request.without(name));
                request = attack
                    .add
                    .iter()
                    .fold(request, |request, (name, value)| request.with(name, value));
                if let Some(body) = attack.body {
                    request = request.body(body);
                }
                let answer = request.send(&self.server).await;
                let ok = match answer.status {
                    401 if route.way_in == WayIn::User => {
                        answer.refusal() == (401, "UNAUTHORIZED".to_owned())
                    }
                    401 => {
                        answer.json() == json!({"detail": "Invalid or missing internal API key"})
                    }
                    403 => answer.refusal() == (403, "FORBIDDEN".to_owned()),
                    _ => false,
                };
                if answer.status != attack.status || !ok {
                    let (method, text) = (&route.method, answer.text());
                    wrong.push(format!(
                        "{method} {} with {}: {} {text:.120}",
                        request.target, attack.what, answer.status
                    ));
                }
            }
            let after = self.state().await;
            if after != before {
                wrong.push(format!("{} changed something: {after}", attack.what));
                before = after;
            }
        }
        assert!(
            wrong.is_empty(),
            "{} let in or answered wrongly: {wrong:#?}",
            wrong.len()
        );
    }

    /// Everything an attack could change.
    async fn state(&self) -> String {
        let mut state = format!("{} model requests\n", self.server.model.request_count());
        for path in [
            "/sessions",
            "/sessions/waiting/events?follow=false",
            "/sessions/waiting/history",
            "/sessions/waiting/pending-approvals",
            "/sessions/waiting/audit",
            "/agents/waiting/current",
            "/sessions/deleted/history",
            "/sessions/intruder/history",
            "/chat/history",
        ] {
            let answer = Request::with_key(&self.server, "GET", path)
                .send(&self.server)
                .await;
            state.push_str(&format!("{path}: {} {}\n", answer.status, answer.text()));
        }
        state
    }
}

fn session(id: &str) -> codelab_protocol::SessionId {
    codelab_protocol::SessionId::parse(id).unwrap()
}
