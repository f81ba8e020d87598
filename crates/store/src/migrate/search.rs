//! Fills the index of words from the sessions that a database of an earlier version has. SQL cannot
//! cut a text into words in the same way on both databases, so this step is written in Rust.

use std::time::{Duration, Instant};

use codelab_protocol::UserId;
use rusqlite::Connection;
use tokio_postgres::types::{ToSql, Type};

use crate::StoreError;
use crate::commit::project_session::TITLE_ORD;
use crate::postgres::error::translate;
use crate::postgres::text::decode;
use crate::search::{searched_text, stored_words};

/// Messages that are held in memory at once on PostgreSQL. Each has at most 512 KiB of text and as
/// much of words.
const PART: i64 = 20;
/// Sessions that are read at once on PostgreSQL.
const SESSIONS_PART: i64 = 1_000;
/// How often the log says how far it is.
const TELL_EVERY: Duration = Duration::from_secs(10);

const SESSIONS: &str = "SELECT id, user_id, title FROM sessions WHERE realm = 'project' AND user_id IS NOT NULL \
     AND id > $1 ORDER BY id LIMIT $2";
macro_rules! messages {
    ($database:ident) => {
        concat!(
            "SELECT ord, ",
            searched_text!($database),
            " FROM messages WHERE session_key = $1 AND ord > $2 AND role IN ('user', 'assistant') ORDER BY ord LIMIT $3"
        )
    };
}
const MESSAGES_SQLITE: &str = messages!(sqlite);
const MESSAGES_POSTGRES: &str = messages!(postgres);
const INSERT: &str = "INSERT INTO session_texts (session_key, ord, words) VALUES ($1, $2, $3)";
const INSERT_PART: &str = "INSERT INTO session_texts (session_key, ord, words) \
     SELECT $1, texts.ord, texts.words FROM UNNEST($2, $3) AS texts (ord, words)";

/// An index that is made at the end is made faster. The reference to `sessions` deletes the words of
/// a session that a server of an earlier version deletes. It stops all writes to sessions, so it
/// comes last, without what such servers deleted meanwhile.
const FINISH_POSTGRES: &str = "CREATE INDEX session_texts_by_word ON session_texts USING GIN (lexemes); \
     LOCK TABLE sessions IN SHARE ROW EXCLUSIVE MODE; \
     DELETE FROM session_texts WHERE NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.id = session_texts.session_key); \
     ALTER TABLE session_texts ADD FOREIGN KEY (session_key) REFERENCES sessions (id) ON DELETE CASCADE";

/// Tells the log how far the fill is. A large database takes minutes.
struct Progress {
    sessions: u64,
    messages: u64,
    began: Instant,
    told: Option<Instant>,
}

impl Progress {
    fn begin() -> Self {
        Self {
            sessions: 0,
            messages: 0,
            began: Instant::now(),
            told: None,
        }
    }

    /// Says nothing of a database without sessions.
    fn session(&mut self) {
        self.sessions += 1;
        if self.told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
            self.told = Some(Instant::now());
            let Self {
                sessions, messages, ..
            } = self;
            tracing::info!(
                sessions,
                messages,
                "indexing stored messages for the search"
            );
        }
    }

    fn end(&self) {
        if self.sessions > 0 {
            let (sessions, messages) = (self.sessions, self.messages);
            let seconds = self.began.elapsed().as_secs();
            tracing::info!(
                sessions,
                messages,
                seconds,
                "indexed stored messages for the search"
            );
        }
    }
}

#[derive(Clone)]
struct OldSession {
    key: i64,
    user: Option<UserId>,
    title: Option<String>,
}

pub(super) fn fill_sqlite(connection: &Connection) -> Result<(), rusqlite::Error> {
    let mut sessions = connection.prepare(SESSIONS)?;
    let mut messages = connection.prepare(MESSAGES_SQLITE)?;
    let mut insert = connection.prepare(INSERT)?;
    let mut progress = Progress::begin();
    let mut rows = sessions.query([0, i64::MAX])?;
    while let Some(row) = rows.next()? {
        let (key, user, title) = (row.get(0)?, UserId::new(row.get(1)?), row.get(2)?);
        let session = OldSession { key, user, title };
        progress.session();
        if let Some((ord, words)) = session.title_words() {
            insert.execute((key, ord, words))?;
        }
        let mut texts = messages.query([key, 0, i64::MAX])?;
        while let Some(text) = texts.next()? {
            if let Some(words) = session.words(text.get_ref(1)?.as_str()?) {
                insert.execute((key, text.get::<_, i64>(0)?, words))?;
            }
            progress.messages += 1;
        }
    }
    progress.end();
    Ok(())
}

pub(super) async fn fill_postgres(
    transaction: &tokio_postgres::Transaction<'_>,
) -> Result<(), StoreError> {
    let mut progress = Progress::begin();
    let mut last = 0;
    loop {
        let part: [(&(dyn ToSql + Sync), Type); 2] =
            [(&last, Type::INT8), (&SESSIONS_PART, Type::INT8)];
        let rows = transaction.query_typed(SESSIONS, &part).await;
        let rows = rows.map_err(|error| translate(&error))?;
        for row in &rows {
            last = row.get(0);
            let title: Option<&str> = row.get(2);
            let session = OldSession {
                key: last,
                user: UserId::new(row.get(1)),
                title: title.map(|title| decode(title).into_owned()),
            };
            progress.session();
            fill_session(transaction, &session, &mut progress).await?;
        }
        if rows.is_empty() {
            break;
        }
    }
    let finished = transaction.batch_execute(FINISH_POSTGRES).await;
    finished.map_err(|error| translate(&error))?;
    progress.end();
    Ok(())
}

async fn fill_session(
    transaction: &tokio_postgres::Transaction<'_>,
    session: &OldSession,
    progress: &mut Progress,
) -> Result<(), StoreError> {
    let failed = |error| translate(&error);
    let mut words: Vec<(i64, String)> = session.title_words().into_iter().collect();
    let mut last = 0_i64;
    loop {
        let part: [(&(dyn ToSql + Sync), Type); 3] = [
            (&session.key, Type::INT8),
            (&last, Type::INT8),
            (&PART, Type::INT8),
        ];
        let rows = transaction
            .query_typed(MESSAGES_POSTGRES, &part)
            .await
            .map_err(failed)?;
        last = rows.last().map_or(last, |row| row.get(0));
        progress.messages += rows.len() as u64;
        let is_last = (rows.len() as i64) < PART;
        words.extend(words_of(session, rows).await?);
        let (ords, texts): (Vec<i64>, Vec<String>) = words.drain(..).unzip();
        let stored: [(&(dyn ToSql + Sync), Type); 3] = [
            (&session.key, Type::INT8),
            (&ords, Type::INT8_ARRAY),
            (&texts, Type::TEXT_ARRAY),
        ];
        transaction
            .execute_typed(INSERT_PART, &stored)
            .await
            .map_err(failed)?;
        if is_last {
            return Ok(());
        }
    }
}

/// On a thread of its own, because long texts take a while and the connection needs this one.
async fn words_of(
    session: &OldSession,
    rows: Vec<tokio_postgres::Row>,
) -> Result<Vec<(i64, String)>, StoreError> {
    let session = session.clone();
    let cut = tokio::task::spawn_blocking(move || {
        let words = rows.iter().filter_map(|row| {
            let words = session.words(&decode(row.get(1)))?;
            Some((row.get(0), words))
        });
        words.collect()
    });
    cut.await.map_err(|_| StoreError::stopped())
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

/// Rows of an earlier version: sessions of two users, and one of the runtime API. A text has NUL, as
/// the database stores it.
#[cfg(test)]
pub(super) fn sample(nul: &str) -> String {
    SAMPLE.replace("{nul}", nul)
}

#[cfg(test)]
const SAMPLE: &str = "INSERT INTO sessions (id, realm, session_id, user_id, project_id, title, created_at, \
     last_activity, epoch, state) VALUES (1, 'project', 'a', 7, 8, 'The title', 1, 2, 1, '{}'), \
     (2, 'project', 'b', 9, 8, NULL, 1, 2, 1, '{}'), (3, 'runtime', 'c', NULL, NULL, 'hidden', 1, 2, 1, '{}'); \
     INSERT INTO messages (session_key, ord, turn, message_id, role, timestamp, error, content) VALUES \
     (1, 1, 1, 'm1', 'user', 1, 0, 'Hello, src/main.rs!'), (1, 2, 1, 'm2', 'tool', 1, 0, 'output'), \
     (1, 3, 1, 'm3', 'assistant', 1, 0, ''), (1, 4, 1, 'm6', 'user', 1, 0, 'before{nul}after'), (2, 1, 1, 'm4', 'assistant', 1, 0, 'Привіт'), \
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
        (1, 4, "7:after 7:before"),
        (2, 1, "9:привіт"),
    ];
    assert_eq!(found, expected);
}
