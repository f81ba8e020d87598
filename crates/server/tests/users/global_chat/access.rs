//! Who may speak and read, and how much.

use codelab_testkit::{INTERNAL_KEY, TestServer};
use serde_json::{Value, json};

use super::Room;
use crate::kit::{Answer, Person, claims, metric, sign};

const READ: &str = "/chat/history";
const SAY: &str = "/chat/user_message";
const TELL: &str = "/chat/agent_message";
const ASK: &str = "/chat/ask_user";

fn admin(server: &TestServer) -> Person {
    let mut claims = claims(1);
    claims["role"] = json!("admin");
    Person::bearer(server, &sign(&claims))
}

async fn all(person: &Person) -> [Answer; 4] {
    let told = json!({ "author": "a", "text": "x" });
    // A question that is let in is refused for its blank text, and waits for nobody.
    let asked = json!({ "author": "a", "question": " " });
    [
        person.get(READ).await,
        person.post(SAY, json!({ "text": "x" })).await,
        person.post(TELL, told).await,
        person.post(ASK, asked).await,
    ]
}

#[tokio::test]
async fn users_speak_for_themselves_and_programs_for_agents() {
    let cases: &[(&str, [u16; 4], [u16; 4], [u16; 4])] = &[
        // setting, a user, an admin, a program
        (
            "all",
            [200, 201, 403, 403],
            [200, 201, 403, 403],
            [200, 201, 201, 422],
        ),
        (
            "admin",
            [403, 403, 403, 403],
            [200, 201, 403, 403],
            [200, 201, 201, 422],
        ),
        (
            "off",
            [403, 403, 403, 403],
            [403, 403, 403, 403],
            [403, 403, 403, 403],
        ),
    ];
    for (setting, user, of_admin, program) in cases {
        let room = Room::with(&[("CODELAB_CHAT__ACCESS", setting)]).await;
        room.server
            .model
            .default_reply(codelab_testkit::Reply::text("ok"));
        let admin = admin(&room.server);
        for (person, expected) in [
            (&room.user, user),
            (&admin, of_admin),
            (&room.program, program),
        ] {
            let answers = all(person).await;
            let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
            assert_eq!(statuses, expected, "{setting}: {answers:?}");
            answers
                .iter()
                .filter(|answer| answer.status == 403)
                .for_each(|answer| answer.refused(403, "FORBIDDEN"));
        }
    }
}

#[tokio::test]
async fn strangers_are_refused() {
    let room = Room::new().await;
    for stranger in [
        Person::stranger(&room.server),
        Person::bearer(&room.server, "x"),
        Person::bearer(&room.server, INTERNAL_KEY),
        Person::with(&room.server, Some(("x-internal-auth", "wrong".to_owned()))),
        Person::cookie(&room.server, &format!("codelab_session={}", "a".repeat(64))),
    ] {
        let [read, say, tell, ask] = all(&stranger).await;
        read.refused(401, "UNAUTHORIZED");
        say.refused(401, "UNAUTHORIZED");
        for agents in [tell, ask] {
            assert_eq!(
                agents.expect(401),
                json!({ "detail": "Invalid or missing internal API key" })
            );
        }
    }
    assert_eq!(room.history().await.len(), 0);
}

#[tokio::test]
async fn a_message_names_the_user_who_wrote_it() {
    let room = Room::new().await;
    room.server
        .model
        .default_reply(codelab_testkit::Reply::text("ok"));
    room.say("mine").await;
    room.program
        .post(SAY, json!({ "text": "relayed" }))
        .await
        .expect(201);
    let meta = json!({ "user_id": 1, "tags": ["x"], "reply_to": 5 });
    room.program
        .post(
            TELL,
            json!({ "author": "ci", "text": "said", "meta": meta }),
        )
        .await
        .expect(201);
    let history = room.history().await;
    let find = |text: &str| {
        history
            .iter()
            .find(|message| message["text"] == text)
            .unwrap()
    };
    assert_eq!(find("mine")["meta"], json!({ "user_id": 7 }));
    assert_eq!(
        find("relayed").get("meta"),
        None,
        "a program speaks for no user it could prove"
    );
    assert_eq!(
        find("said")["meta"],
        json!({ "reply_to": 5, "tags": ["x"] }),
        "and for no user it names"
    );
}

#[tokio::test]
async fn the_history_is_read_in_parts_and_bounded() {
    let room = Room::with(&[("CODELAB_CHAT__HISTORY_MESSAGES", "150")]).await;
    let mut ids = Vec::new();
    for number in 0..160 {
        ids.push(room.tell("ci", &number.to_string(), &[]).await);
    }
    let texts = async |query: String| -> Vec<i64> {
        let found = room
            .user
            .get(&format!("/chat/history{query}"))
            .await
            .expect(200);
        found
            .as_array()
            .unwrap()
            .iter()
            .map(|message: &Value| message["text"].as_str().unwrap().parse().unwrap())
            .collect()
    };
    assert_eq!(
        texts(String::new()).await,
        (60..160).collect::<Vec<_>>(),
        "the last hundred"
    );
    assert_eq!(texts("?limit=2".to_owned()).await, [158, 159]);
    assert_eq!(
        texts("?limit=1000".to_owned()).await,
        (10..160).collect::<Vec<_>>(),
        "the oldest have left"
    );
    assert_eq!(
        texts(format!("?after={}&limit=2", ids[20])).await,
        [21, 22],
        "the oldest first"
    );
    assert_eq!(
        texts(format!("?after={}", ids[2])).await,
        (10..160).collect::<Vec<_>>()
    );
    assert_eq!(
        texts("?after=18446744073709551615".to_owned()).await,
        [0; 0]
    );
    for query in [
        "?limit=0",
        "?limit=10001",
        "?limit=x",
        "?after=-1",
        "?after=x",
    ] {
        room.user
            .get(&format!("/chat/history{query}"))
            .await
            .refused(422, "VALIDATION_ERROR");
    }
    assert_eq!(
        metric(&room.server, "codelab_chat_history_messages").await,
        150.0
    );
    assert_eq!(
        metric(
            &room.server,
            "codelab_chat_messages_total{outcome=\"agent\"}"
        )
        .await,
        160.0
    );
}

#[tokio::test]
async fn what_is_too_large_is_refused() {
    let room = Room::new().await;
    let long = "x".repeat(32 * 1024 + 1);
    room.user
        .post(SAY, json!({ "text": long }))
        .await
        .refused(422, "VALIDATION_ERROR");
    for body in [
        json!({ "author": "a", "text": long }),
        json!({ "author": "a".repeat(65), "text": "x" }),
        json!({ "author": "a", "text": "x", "meta": { "tags": vec!["t"; 17] } }),
        json!({ "author": "a", "text": "x", "meta": { "tags": ["t".repeat(65)] } }),
        json!({ "author": "a", "text": "x", "meta": { "reply_to": 0 } }),
    ] {
        room.program
            .post(TELL, body)
            .await
            .refused(422, "VALIDATION_ERROR");
    }
    assert_eq!(room.history().await.len(), 0);
    assert_eq!(
        metric(
            &room.server,
            "codelab_chat_refusals_total{outcome=\"VALIDATION_ERROR\"}"
        )
        .await,
        5.0
    );
}
