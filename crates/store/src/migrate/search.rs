//! Fills the index of words from the sessions that a database of an earlier version has. SQL cannot
//! cut a text into words in the same way on both databases, so this step is written in Rust.

use codelab_protocol::UserId;
use rusqlite::Connection;
use tokio_postgres::types::{ToSql, Type};

use crate::commit::project_session::TITLE_ORD;
use crate::postgres::text::decode;
use crate::search::{searched_text, stored_words};

/// The migration that makes the index.
pub(super) const NAME: &str = "search";

/// Messages that are held in memory at once on PostgreSQL.
const PART: i64 = 200;

const SESSIONS: &str = "SELECT id, user_id, title FROM sessions WHERE realm = 'project' AND user_id IS NOT NULL \
     AND id > $1 ORDER BY id LIMIT $2";
const MESSAGES: &str = concat!(
    "SELECT ord, ",
    searched_text!(),
    " FROM messages WHERE session_key = $1 AND ord > $2 AND role IN ('user', 'assistant') ORDER BY ord LIMIT $3"
);
const INSERT: &str = "INSERT INTO session_texts (session_key, ord, words) VALUES ($1, $2, $3)";
const INSERT_PART: &str = "INSERT INTO session_texts (session_key, ord, words) \
     SELECT $1, texts.ord, texts.words FROM UNNEST($2, $3) AS texts (ord, words)";

struct OldSession {
    key: i64,
    user: Option<UserId>,
    title: Option<String>,
}

pub(super) fn fill_sqlite(connection: &Connection) -> Result<(), rusqlite::Error> {
    let mut sessions = connection.prepare(SESSIONS)?;
    let mut messages = connection.prepare(MESSAGES)?;
    let mut insert = connection.prepare(INSERT)?;
    let mut rows = sessions.query([0, i64::MAX])?;
    while let Some(row) = rows.next()? {
        let (key, user, title) = (row.get(0)?, UserId::new(row.get(1)?), row.get(2)?);
        let session = OldSession { key, user, title };
        if let Some((ord, words)) = session.title_words() {
            insert.execute((key, ord, words))?;
        }
        let mut texts = messages.query([key, 0, i64::MAX])?;
        while let Some(text) = texts.next()? {
            if let Some(words) = session.words(text.get_ref(1)?.as_str()?) {
                insert.execute((key, text.get::<_, i64>(0)?, words))?;
            }
        }
    }
    Ok(())
}

pub(super) async fn fill_postgres(
    transaction: &tokio_postgres::Transaction<'_>,
) -> Result<(), tokio_postgres::Error> {
    let mut last = 0;
    loop {
        let part: [(&(dyn ToSql + Sync), Type); 2] = [(&last, Type::INT8), (&PART, Type::INT8)];
        let rows = transaction.query_typed(SESSIONS, &part).await?;
        for row in &rows {
            last = row.get(0);
            let title: Option<&str> = row.get(2);
            let session = OldSession {
                key: last,
                user: UserId::new(row.get(1)),
                title: title.map(|title| decode(title).into_owned()),
            };
            fill_session(transaction, &session).await?;
        }
        if rows.is_empty() {
            return Ok(());
        }
    }
}

async fn fill_session(
    transaction: &tokio_postgres::Transaction<'_>,
    session: &OldSession,
) -> Result<(), tokio_postgres::Error> {
    let mut words: Vec<(i64, String)> = session.title_words().into_iter().collect();
    let mut last = 0_i64;
    loop {
        let part: [(&(dyn ToSql + Sync), Type); 3] = [
            (&session.key, Type::INT8),
            (&last, Type::INT8),
            (&PART, Type::INT8),
        ];
        let rows = transaction.query_typed(MESSAGES, &part).await?;
        for row in &rows {
            last = row.get(0);
            let found = session.words(&decode(row.get(1)));
            words.extend(found.map(|found| (last, found)));
        }
        let (ords, texts): (Vec<i64>, Vec<String>) = words.drain(..).unzip();
        let stored: [(&(dyn ToSql + Sync), Type); 3] = [
            (&session.key, Type::INT8),
            (&ords, Type::INT8_ARRAY),
            (&texts, Type::TEXT_ARRAY),
        ];
        transaction.execute_typed(INSERT_PART, &stored).await?;
        if rows.is_empty() {
            return Ok(());
        }
    }
}

impl OldSession {
    /// A title is stored even without words: it stands for the title that the session has.
    fn title_words(&self) -> Option<(i64, String)> {
        let words = stored_words(self.user?, self.title.as_deref()?);
        Some((TITLE_ORD as i64, words))
    }

    fn words(&self, text: &str) -> Option<String> {
        Some(stored_words(self.user?, text)).filter(|words| !words.is_empty())
    }
}

/// Rows of an earlier version: sessions of two users, and one of the runtime API.
#[cfg(test)]
pub(super) const SAMPLE: &str = "INSERT INTO sessions (id, realm, session_id, user_id, project_id, title, created_at, \
     last_activity, epoch, state) VALUES (1, 'project', 'a', 7, 8, 'The title', 1, 2, 1, '{}'), \
     (2, 'project', 'b', 9, 8, NULL, 1, 2, 1, '{}'), (3, 'runtime', 'c', NULL, NULL, 'hidden', 1, 2, 1, '{}'); \
     INSERT INTO messages (session_key, ord, turn, message_id, role, timestamp, error, content) VALUES \
     (1, 1, 1, 'm1', 'user', 1, 0, 'Hello, src/main.rs!'), (1, 2, 1, 'm2', 'tool', 1, 0, 'output'), \
     (1, 3, 1, 'm3', 'assistant', 1, 0, ''), (2, 1, 1, 'm4', 'assistant', 1, 0, 'Привіт'), \
     (3, 1, 1, 'm5', 'user', 1, 0, 'hidden')";

#[cfg(test)]
pub(super) fn check_sample(found: &[(i64, i64, String)]) {
    let found: Vec<_> = found
        .iter()
        .map(|(key, ord, words)| (*key, *ord, words.as_str()))
        .collect();
    let expected = [
        (1, 0, "7:the 7:title"),
        (1, 1, "7:hello 7:main 7:rs 7:src"),
        (2, 1, "9:привіт"),
    ];
    assert_eq!(found, expected);
}
