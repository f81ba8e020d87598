//! Tokens that must not be believed, and those that must.

use codelab_testkit::TestServer;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

use crate::keys::{EC, RSA};
use crate::kit::{Person, SECRET, claims, seconds_from_now, server, server_with, sign};

const PROJECTS: &str = "/my/projects/";

/// Claims with one of them changed; `null` takes it away.
fn with(name: &str, value: Value) -> Value {
    let mut claims = claims(1);
    claims[name] = value.clone();
    if value.is_null() {
        claims.as_object_mut().unwrap().remove(name);
    }
    claims
}

fn base64(text: &str) -> String {
    use std::fmt::Write as _;
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut encoded = String::new();
    for group in text.as_bytes().chunks(3) {
        let bits = group.iter().enumerate().fold(0_u32, |bits, (at, byte)| {
            bits | u32::from(*byte) << (16 - 8 * at)
        });
        for at in 0..=group.len() {
            let _ = write!(
                encoded,
                "{}",
                alphabet[(bits >> (18 - 6 * at)) as usize & 63] as char
            );
        }
    }
    encoded
}

fn unsigned(header: &str, claims: &Value, signature: &str) -> String {
    format!(
        "{}.{}.{signature}",
        base64(header),
        base64(&claims.to_string())
    )
}

async fn assert_refused(server: &TestServer, cases: &[(&str, String)]) {
    for (what, token) in cases {
        let answer = Person::bearer(server, token).get(PROJECTS).await;
        assert_eq!(
            (answer.status, answer.code()),
            (401, "UNAUTHORIZED"),
            "{what}: {}",
            answer.body
        );
        answer.refused(401, "UNAUTHORIZED");
    }
}

#[tokio::test]
async fn bad_tokens_are_refused() {
    let server = server().await;
    let hs = |algorithm, secret: &[u8]| {
        jsonwebtoken::encode(
            &Header::new(algorithm),
            &claims(1),
            &EncodingKey::from_secret(secret),
        )
        .unwrap()
    };
    let good = sign(&claims(1));
    let stripped = good.rsplit_once('.').unwrap().0.to_owned();
    let mut critical = Header::new(Algorithm::HS256);
    critical.crit = Some(vec!["exp".to_owned()]);
    let critical = jsonwebtoken::encode(
        &critical,
        &claims(1),
        &EncodingKey::from_secret(SECRET.as_bytes()),
    )
    .unwrap();
    let none = |name: &str| {
        unsigned(
            &format!(r#"{{"alg":"{name}","typ":"JWT"}}"#),
            &claims(1),
            "",
        )
    };
    assert_refused(
        &server,
        &[
            ("empty", String::new()),
            ("no signature", stripped.clone()),
            ("an empty signature", format!("{stripped}.")),
            (
                "a changed signature",
                format!("{stripped}.{}", "A".repeat(43)),
            ),
            ("alg none", none("none")),
            ("alg None", none("None")),
            (
                "alg none, signed",
                format!("{}{}", none("none"), good.rsplit_once('.').unwrap().1),
            ),
            ("another secret", hs(Algorithm::HS256, b"another secret")),
            ("an empty secret", hs(Algorithm::HS256, b"")),
            ("HS512", hs(Algorithm::HS512, SECRET.as_bytes())),
            ("RS256", RSA.sign(&claims(1))),
            ("ES256", EC.sign(&claims(1))),
            ("a critical extension", critical),
            ("no exp", sign(&with("exp", Value::Null))),
            (
                "exp as text",
                sign(&with("exp", json!(seconds_from_now(3600).to_string()))),
            ),
            ("exp as word", sign(&with("exp", json!("never")))),
            ("exp true", sign(&with("exp", json!(true)))),
            (
                "exp in a list",
                sign(&with("exp", json!([seconds_from_now(3600)]))),
            ),
            ("expired", sign(&with("exp", json!(seconds_from_now(-1))))),
            ("expired long ago", sign(&with("exp", json!(1)))),
            ("exp negative", sign(&with("exp", json!(-1)))),
            ("not yet", sign(&with("nbf", json!(seconds_from_now(3600))))),
            (
                "nbf as text",
                sign(&with("nbf", json!(seconds_from_now(3600).to_string()))),
            ),
            ("no aud", sign(&with("aud", Value::Null))),
            ("another aud", sign(&with("aud", json!("codelab2")))),
            ("aud in other case", sign(&with("aud", json!("CodeLab")))),
            ("empty aud", sign(&with("aud", json!([])))),
            ("aud as number", sign(&with("aud", json!(1)))),
            ("no sub", sign(&with("sub", Value::Null))),
            ("sub 0", sign(&with("sub", json!(0)))),
            ("sub \"0\"", sign(&with("sub", json!("0")))),
            ("sub -1", sign(&with("sub", json!(-1)))),
            ("sub \"-1\"", sign(&with("sub", json!("-1")))),
            ("sub 1.5", sign(&with("sub", json!(1.5)))),
            ("sub 1.0", sign(&with("sub", json!(1.0)))),
            ("sub \"1.0\"", sign(&with("sub", json!("1.0")))),
            ("sub empty", sign(&with("sub", json!("")))),
            ("sub \" 1\"", sign(&with("sub", json!(" 1")))),
            ("sub \"01\"", sign(&with("sub", json!("01")))),
            ("sub \"+1\"", sign(&with("sub", json!("+1")))),
            ("sub \"alice\"", sign(&with("sub", json!("alice")))),
            ("sub in a list", sign(&with("sub", json!([1])))),
            (
                "sub too large",
                sign(&with("sub", json!("9223372036854775808"))),
            ),
            ("sub true", sign(&with("sub", json!(true)))),
            (
                "a huge token",
                sign(&with("padding", json!("x".repeat(20_000)))),
            ),
            ("claims that are no object", hs_text("[1]")),
        ],
    )
    .await;
}

fn hs_text(claims: &str) -> String {
    let claims: Value = serde_json::from_str(claims).unwrap();
    jsonwebtoken::encode(
        &Header::new(Algorithm::HS256),
        &claims,
        &EncodingKey::from_secret(SECRET.as_bytes()),
    )
    .unwrap()
}

#[tokio::test]
async fn good_tokens_are_believed() {
    let server = server().await;
    let project = Person::user(&server, 7).project("seven").await;
    for (what, claims) in [
        ("digits", with("sub", json!("7"))),
        ("a number", with("sub", json!(7))),
        ("several audiences", {
            let mut claims = with("sub", json!(7));
            claims["aud"] = json!(["other", "codelab"]);
            claims
        }),
        ("optional claims", {
            let mut claims = with("sub", json!(7));
            (claims["tz"], claims["household_id"]) = (json!("Europe/Kyiv"), json!(12));
            (claims["locale"], claims["role"]) = (json!("uk"), json!("admin"));
            claims
        }),
        ("an unknown role", {
            let mut claims = with("sub", json!(7));
            claims["role"] = json!(["admin"]);
            claims
        }),
    ] {
        let seen = Person::bearer(&server, &sign(&claims))
            .get(PROJECTS)
            .await
            .expect(200);
        assert_eq!(
            (&seen["total"], &seen["projects"][0]["project_id"]),
            (&json!(1), &json!(project)),
            "{what}"
        );
    }
    // The scheme's name may be written in any case; two tokens at once are none.
    let token = sign(&claims(7));
    let lower = Person::with(&server, Some(("authorization", format!("bearer {token}"))));
    lower.get(PROJECTS).await.expect(200);
    let twice = [("authorization", format!("Bearer {token}"))];
    let twice: Vec<(&str, &str)> = twice
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    Person::user(&server, 7)
        .ask_with("GET", PROJECTS, None, &twice)
        .await
        .refused(401, "UNAUTHORIZED");
    // An admin sees nothing of other users here.
    let mut admin = claims(8);
    admin["role"] = json!("admin");
    Person::bearer(&server, &sign(&admin))
        .get(&format!("{PROJECTS}{project}"))
        .await
        .refused(404, "PROJECT_NOT_FOUND");
}

#[tokio::test]
async fn a_public_key_takes_its_own_algorithm_only() {
    for (algorithm, own, other) in [("RS256", &*RSA, &*EC), ("ES256", &*EC, &*RSA)] {
        let file = own.file().display().to_string();
        let settings = [
            ("CODELAB_AUTH__JWT_ALGORITHM", algorithm),
            ("CODELAB_AUTH__JWT_PUBLIC_KEY_FILE", &file),
        ];
        let server = server_with(&settings).await;
        Person::bearer(&server, &own.sign(&claims(1)))
            .get(PROJECTS)
            .await
            .expect(200);
        assert_refused(
            &server,
            &[
                ("the other kind of key", other.sign(&claims(1))),
                ("the shared secret", sign(&claims(1))),
                ("the public key as a secret", own.swapped()),
                ("alg none", unsigned(r#"{"alg":"none"}"#, &claims(1), "")),
                (
                    "expired",
                    own.sign(&with("exp", json!(seconds_from_now(-1)))),
                ),
                ("another aud", own.sign(&with("aud", json!("other")))),
            ],
        )
        .await;
    }
}

#[tokio::test]
async fn a_key_that_cannot_be_read_stops_the_start() {
    let missing = RSA.file().with_file_name("missing.pem");
    for (algorithm, file, part) in [
        ("RS256", None, "must name"),
        ("RS256", Some(missing), "No such file"),
        ("RS256", Some(EC.file()), "no public key for RS256"),
        ("ES256", Some(RSA.file()), "no public key for ES256"),
    ] {
        let path = file.map(|file| file.display().to_string());
        let mut settings = vec![("CODELAB_AUTH__JWT_ALGORITHM", algorithm)];
        settings.extend(
            path.as_deref()
                .map(|path| ("CODELAB_AUTH__JWT_PUBLIC_KEY_FILE", path)),
        );
        let error = TestServer::try_with(&settings)
            .await
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.starts_with("auth.jwt_public_key_file: ") && error.contains(part),
            "{error}"
        );
        assert!(!error.contains('\n'), "{error}");
    }
}
