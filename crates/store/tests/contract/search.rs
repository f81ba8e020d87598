//! The search over sessions finds the same on every database.

use codelab_protocol::{ProjectId, Role};
use codelab_store::{Commit, SearchWords, SessionEdit, SessionKey, StoredMessage, UserStore};

use crate::harness::{FIRST, Harness, at, create, id, message, project_session};
use crate::project_sessions::{project_of, stored};
use crate::users::{new_project, user};

fn words(text: &str) -> SearchWords {
    SearchWords::parse(text).unwrap()
}

async fn found_in(mine: &UserStore, text: &str, project: Option<ProjectId>) -> Vec<String> {
    let (page, total) = mine
        .search_sessions(&words(text), project, Some(false), 100, 0)
        .await
        .unwrap();
    assert_eq!(page.len() as u64, total, "{text}");
    page.into_iter()
        .map(|found| found.session.session_id.as_str().to_owned())
        .collect()
}

async fn found(mine: &UserStore, text: &str) -> Vec<String> {
    found_in(mine, text, None).await
}

fn said_by(role: Role, mut message: StoredMessage) -> StoredMessage {
    message.message.role = role;
    message
}

/// A session with a title and messages, active at a time of its own.
async fn session(
    harness: &Harness,
    (name, number, project): (&str, i64, ProjectId),
    title: Option<&str>,
    texts: &[&str],
) -> SessionKey {
    let mut commit = project_session(name, user(number), project);
    commit.title = title.map(str::to_owned);
    let count = texts.len() as u64;
    commit.messages = (1..=count)
        .zip(texts)
        .map(|(ord, text)| message(ord, 1, text))
        .collect();
    commit.last_activity = Some(at(count as i64));
    stored(harness, commit).await
}

pub async fn sessions_are_found_by_the_words_of_their_titles_and_messages(
    harness: Harness,
) -> Harness {
    let (mine, project) = project_of(&harness, 1).await;
    let p = project.id();
    let texts = [
        "Please fix src/main.rs:42, it panics at `my_function`",
        "Write to john.doe@example.com or https://example.com/a-b?c=d",
    ];
    let code = session(&harness, ("code", 1, p), Some("The Parser"), &texts).await;
    let texts = [
        "Привіт, п’ять ЇЖАКІВ і café",
        "ΣΊΣΥΦΟΣ",
        "version 1.5e3 0x1F",
    ];
    session(&harness, ("many", 1, p), None, &texts).await;
    session(
        &harness,
        ("plain", 1, p),
        Some("parser"),
        &["nothing \0 else"],
    )
    .await;
    // A later commit, with what is not searched beside it.
    let mut commit = Commit::new(code, FIRST);
    commit.search_user = Some(user(1));
    commit.messages = vec![
        said_by(Role::Assistant, message(3, 1, "The answer is Zebra")),
        said_by(Role::Tool, message(4, 1, "toolresult")),
        said_by(Role::Assistant, message(5, 1, "")),
    ];
    stored(&harness, commit).await;

    for (text, expected) in [
        ("parser", &["code", "plain"] as &[_]),
        ("PARS", &["code", "plain"]),
        ("arser", &[]),
        ("parsers", &[]),
        // All words, wherever in the session they are.
        ("parser zebra", &["code"]),
        ("zebra parser panics main", &["code"]),
        ("parser absent", &[]),
        ("src/main.rs", &["code"]),
        ("main.rs:4", &["code"]),
        ("my_func", &["code"]),
        ("john.doe@exam", &["code"]),
        ("a-b", &["code"]),
        ("toolresult", &[]),
        ("їжак", &["many"]),
        ("ПРИВІТ п'ять", &["many"]),
        ("Café", &["many"]),
        ("cafe\u{301}", &["many"]),
        ("cafe", &[]),
        ("σίσυφος", &["many"]),
        ("1.5E", &["many"]),
        ("0x1f", &["many"]),
        ("el", &["plain"]),
        ("nothing else", &["plain"]),
        ("?!", &[]),
    ] {
        assert_eq!(found(&mine, text).await, expected, "{text}");
    }
    for (text, snippet) in [
        ("zebra", "The answer is Zebra"),
        (
            "panics src",
            "Please fix src/main.rs:42, it panics at `my_function`",
        ),
        // In no message: the title.
        ("the parser", "The Parser"),
    ] {
        let (page, _) = mine
            .search_sessions(&words(text), None, None, 1, 0)
            .await
            .unwrap();
        assert_eq!(page[0].snippet, snippet, "{text}");
        assert_eq!(page[0].session.title.as_deref(), Some("The Parser"));
    }
    // What follows NUL is shown too.
    let (page, _) = mine
        .search_sessions(&words("else"), None, None, 1, 0)
        .await
        .unwrap();
    assert_eq!(page[0].snippet, "nothing \0 else");
    // In pages, as the list of all sessions.
    for (limit, offset, expected) in [(1, 0, &["code"] as &[_]), (1, 1, &["plain"]), (5, 2, &[])] {
        let (page, total) = mine
            .search_sessions(&words("parser"), None, None, limit, offset)
            .await
            .unwrap();
        let ids: Vec<_> = page
            .iter()
            .map(|found| found.session.session_id.as_str())
            .collect();
        assert_eq!((ids.as_slice(), total), (expected, 2));
    }
    // What is deleted is not found, and does not come back with a new session.
    harness.store.purge(code).await.unwrap();
    assert_eq!(found(&mine, "parser").await, ["plain"]);
    assert_eq!(found(&mine, "zebra").await, [""; 0]);
    project.delete().await.unwrap();
    assert_eq!(found(&mine, "parser").await, [""; 0]);
    harness
}

pub async fn a_search_finds_only_what_its_user_may_see(harness: Harness) -> Harness {
    let (mine, project) = project_of(&harness, 1).await;
    let second = mine.create_project(new_project("q"), at(1)).await.unwrap();
    // The number of the one begins with that of the other.
    let (theirs, other) = project_of(&harness, 11).await;
    let texts = ["the canary", "later"];
    for (name, number, project, count) in [
        ("first", 1, project.id(), 1),
        ("second", 1, second.id(), 2),
        ("deleted", 1, project.id(), 1),
        ("foreign", 11, other.id(), 1),
    ] {
        session(&harness, (name, number, project), None, &texts[..count]).await;
    }
    let deleted = mine.session(&id("deleted")).await.unwrap().unwrap();
    harness.store.soft_delete(deleted.key, at(2)).await.unwrap();
    let mut runtime = create("runtime");
    runtime.messages = vec![message(1, 1, "the canary")];
    stored(&harness, runtime).await;

    assert_eq!(found(&mine, "canary").await, ["second", "first"]);
    assert_eq!(found(&theirs, "canary").await, ["foreign"]);
    assert_eq!(
        found_in(&mine, "canary", Some(second.id())).await,
        ["second"]
    );
    assert_eq!(found_in(&mine, "canary", Some(other.id())).await, [""; 0]);
    // Not even words that were stored with another user's number.
    let lie = "UPDATE session_texts SET words = '1:canary' WHERE words LIKE '11:%'";
    harness.tamper(lie).await;
    assert_eq!(found(&mine, "canary").await, ["second", "first"]);

    let archive = SessionEdit {
        archived: Some(true),
        ..SessionEdit::default()
    };
    mine.change_session(&id("first"), archive).await.unwrap();
    assert_eq!(found(&mine, "canary").await, ["second"]);
    let (archived, total) = mine
        .search_sessions(&words("canary"), None, Some(true), 10, 0)
        .await
        .unwrap();
    assert_eq!(
        (archived[0].session.session_id.as_str(), total),
        ("first", 1)
    );
    harness
}

pub async fn what_a_search_is_asked_is_never_a_query_language(harness: Harness) -> Harness {
    let (mine, project) = project_of(&harness, 1).await;
    let text = "a near not and or words 1 x";
    session(&harness, ("one", 1, project.id()), None, &[text]).await;
    for text in [
        "\"",
        "'",
        "''",
        "\"a",
        "a\"",
        "a'",
        "a*",
        "*",
        "a AND",
        "NOT",
        "a OR",
        "NEAR(a)",
        "a:*",
        "words:a",
        "^a",
        "-a",
        "a\\",
        "a & ",
        "a | !",
        "a <-> x",
        "1:a",
        "a;",
        "(",
        ")",
        "{}",
        "$1",
        "%",
        "a\0",
        "\u{1}a",
        "x') OR 1=1 --",
        "\u{10FFFF}",
        "🦀",
        "\u{301}",
    ] {
        let words = words(text);
        let found = mine
            .search_sessions(&words, None, None, 10, 0)
            .await
            .unwrap_or_else(|error| panic!("{text}: {error}"));
        // An accent alone is a word too.
        let expected = u64::from(!words.is_empty() && text != "\u{301}");
        assert_eq!(found.1, expected, "{text}");
    }
    harness
}

pub async fn a_new_title_replaces_the_old_one(harness: Harness) -> Harness {
    let (mine, project) = project_of(&harness, 1).await;
    let key = session(&harness, ("one", 1, project.id()), None, &["hello"]).await;
    // The first title that a session gets stays.
    for title in ["Firsttitle", "Secondtitle"] {
        let mut commit = Commit::new(key, FIRST);
        commit.search_user = Some(user(1));
        commit.title = Some(title.to_owned());
        stored(&harness, commit).await;
    }
    assert_eq!(found(&mine, "firsttitle").await, ["one"]);
    assert_eq!(found(&mine, "secondtitle").await, [""; 0]);
    for title in ["Renamed \0", "Again"] {
        let change = SessionEdit {
            title: Some(title.to_owned()),
            ..SessionEdit::default()
        };
        mine.change_session(&id("one"), change).await.unwrap();
    }
    assert_eq!(found(&mine, "again").await, ["one"]);
    assert_eq!(found(&mine, "hello").await, ["one"]);
    for gone in ["firsttitle", "renamed"] {
        assert_eq!(found(&mine, gone).await, [""; 0]);
    }
    harness
}

pub async fn a_text_with_very_many_words_is_stored(harness: Harness) -> Harness {
    let (mine, project) = project_of(&harness, i64::MAX).await;
    let many: String = ('\u{20000}'..)
        .take(40_000)
        .flat_map(|c| [c, ' '])
        .collect();
    let of = ("many", i64::MAX, project.id());
    session(&harness, of, None, &[many.as_str()]).await;
    assert_eq!(found(&mine, "\u{20000}").await, ["many"]);
    harness
}
