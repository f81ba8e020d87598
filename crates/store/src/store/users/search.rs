//! Finds a user's sessions by words of their titles and messages.

use codelab_protocol::{ProjectId, UserId};

use super::UserStore;
use super::sessions::{chat_session, of_my_session, session_columns};
use crate::columns::Columns;
use crate::commit::project_session::TITLE_ORD;
use crate::project_session::ProjectSessionRow;
use crate::search::{SearchWords, searched_text, stored_words};
use crate::statement::{Param, Stmt};
use crate::{SessionKey, StoreError};

/// Maximum number of sessions of one page, because each one's snippet is read from a text.
const MAX_FOUND: u64 = 100;

/// Which text has which of the words (`$1`).
macro_rules! hits_sqlite {
    () => {
        "WITH hits AS MATERIALIZED (SELECT session_texts.session_key, session_texts.ord, asked.key AS word \
         FROM json_each($1) AS asked CROSS JOIN session_search ON session_search MATCH asked.value \
         CROSS JOIN session_texts ON session_texts.id = session_search.rowid \
         WHERE session_texts.hidden = 0)"
    };
}
macro_rules! hits_postgres {
    () => {
        "WITH hits AS MATERIALIZED (SELECT session_texts.session_key, session_texts.ord, asked.word \
         FROM UNNEST(STRING_TO_ARRAY(CAST($1 AS TEXT), ' ')) AS asked (word) \
         JOIN session_texts ON session_texts.lexemes @@ CAST(asked.word AS TSQUERY) \
         AND session_texts.hidden = 0)"
    };
}

/// Sessions that have all of the words (`$2` is their number). The index says nothing about whose
/// they are, so that is asked of the sessions.
macro_rules! of_found {
    () => {
        " WHERE id IN (SELECT session_key FROM hits GROUP BY session_key HAVING COUNT(DISTINCT word) = $2) \
         AND user_id = $3 AND realm = 'project' AND deleted_at IS NULL \
         AND project_id = COALESCE(CAST($4 AS BIGINT), project_id) \
         AND archived = COALESCE(CAST($5 AS BIGINT), archived)"
    };
}
macro_rules! count_found {
    ($hits:expr) => {
        concat!($hits, " SELECT COUNT(*) FROM sessions", of_found!())
    };
}
/// With the text of each that has most of the words, the newest of these, and with the number of all
/// sessions that were found. Only for the sessions of the page all columns are read.
macro_rules! list_found {
    ($hits:expr) => {
        concat!(
            $hits,
            ", best AS (SELECT session_key, ord, ROW_NUMBER() OVER \
             (PARTITION BY session_key ORDER BY COUNT(*) DESC, ord DESC) AS place FROM hits GROUP BY session_key, ord), \
             page AS (SELECT id AS found_key, best.ord AS found_ord, COUNT(*) OVER () AS found_total \
             FROM sessions JOIN best ON best.session_key = sessions.id AND best.place = 1",
            of_found!(),
            " ORDER BY last_activity DESC, id DESC LIMIT $6 OFFSET $7) SELECT ",
            session_columns!(),
            ", found_ord, found_total FROM page JOIN sessions ON sessions.id = found_key \
             ORDER BY last_activity DESC, id DESC"
        )
    };
}
const COUNT_SQLITE: &str = count_found!(hits_sqlite!());
const COUNT_POSTGRES: &str = count_found!(hits_postgres!());
const FOUND_SQLITE: &str = list_found!(hits_sqlite!());
const FOUND_POSTGRES: &str = list_found!(hits_postgres!());

macro_rules! text_of {
    ($database:ident) => {
        concat!(
            "SELECT ",
            searched_text!($database),
            " FROM messages",
            of_my_session!(" AND ord = $3")
        )
    };
}
const TEXT_SQLITE: &str = text_of!(sqlite);
const TEXT_POSTGRES: &str = text_of!(postgres);

const REPLACE_TITLE: &str = "INSERT INTO session_texts (session_key, ord, words) VALUES ($1, $2, $3) \
     ON CONFLICT (session_key, ord) DO UPDATE SET words = excluded.words";

/// The words of a new title, in place of those of the title before.
pub(super) fn title_words(user: UserId, key: SessionKey, title: &str) -> Stmt {
    let words = stored_words(user, title).into();
    Stmt::one(REPLACE_TITLE, vec![key.into(), TITLE_ORD.into(), words])
}

/// A session that has all words of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSession {
    pub session: ProjectSessionRow,
    /// A line of plain text from a message or from the title, with as many of the words as can be
    /// shown.
    pub snippet: String,
}

impl UserStore {
    /// A page of the sessions that have all of the words in their title and messages, newest
    /// activity first, and how many there are.
    pub async fn search_sessions(
        &self,
        words: &SearchWords,
        project: Option<ProjectId>,
        archived: Option<bool>,
        limit: u64,
        offset: u64,
    ) -> Result<(Vec<FoundSession>, u64), StoreError> {
        if words.is_empty() {
            return Ok((Vec::new(), 0));
        }
        let (count, list, asked) = if self.store.is_shared() {
            (COUNT_POSTGRES, FOUND_POSTGRES, words.postgres(self.user))
        } else {
            (COUNT_SQLITE, FOUND_SQLITE, words.sqlite(self.user))
        };
        let which: Vec<Param> = vec![
            asked.into(),
            words.len().into(),
            self.user.into(),
            Param::optional(project),
            Param::optional(archived),
        ];
        let window = [limit.min(MAX_FOUND).into(), offset.into()];
        let params = which.iter().cloned().chain(window).collect();
        let page = self
            .store
            .search(self.user, list, params, found_session)
            .await?;
        let total = match page.first() {
            Some((_, _, total)) => *total,
            None if offset == 0 && limit > 0 => 0,
            // The page is behind the last session.
            None => {
                let counted = self
                    .store
                    .search(self.user, count, which, |row| row.count());
                counted.await?.pop().unwrap_or(0)
            }
        };
        let mut found = Vec::new();
        for (session, ord, _) in page {
            let text = match ord {
                TITLE_ORD => session.title.clone(),
                _ => self.text(session.key, ord).await?,
            };
            let snippet = words.snippet(text.as_deref().unwrap_or_default());
            found.push(FoundSession { session, snippet });
        }
        Ok((found, total))
    }

    /// The searched part of a message. `None` if it was deleted meanwhile.
    async fn text(&self, key: SessionKey, ord: u64) -> Result<Option<String>, StoreError> {
        let params = self.of(key).into_iter().chain([ord.into()]).collect();
        let sql = if self.store.is_shared() {
            TEXT_POSTGRES
        } else {
            TEXT_SQLITE
        };
        self.store.read_one(sql, params, |row| row.string()).await
    }
}

/// With the number of the text for its snippet, and how many were found.
fn found_session(row: &mut Columns<'_>) -> Result<(ProjectSessionRow, u64, u64), StoreError> {
    Ok((chat_session(row)?, row.count()?, row.count()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::query_plan::{assert_uses, empty};

    #[test]
    fn sqlite_searches_by_the_index_of_words() {
        let connection = empty();
        for sql in [COUNT_SQLITE, FOUND_SQLITE] {
            assert_uses(&connection, sql, "session_search VIRTUAL TABLE INDEX 0:M1");
            assert_uses(
                &connection,
                sql,
                "session_texts USING INTEGER PRIMARY KEY (rowid=?)",
            );
        }
    }

    /// PostgreSQL would read all of an empty table, so that is made expensive.
    #[tokio::test]
    async fn postgres_searches_by_the_index_of_words() {
        let Ok(url) = std::env::var("CODELAB_TEST_POSTGRES_URL") else {
            return;
        };
        let (mut client, driver) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
            .await
            .unwrap();
        tokio::spawn(driver);
        let schema = "DROP SCHEMA IF EXISTS test_search_plan CASCADE; CREATE SCHEMA test_search_plan; \
             SET search_path = test_search_plan; SET enable_seqscan = off";
        client.batch_execute(schema).await.unwrap();
        let migrations = crate::migrate::POSTGRES;
        crate::migrate::postgres(&mut client, migrations)
            .await
            .unwrap();
        for (sql, types, values) in [
            (COUNT_POSTGRES, "", ""),
            (FOUND_POSTGRES, ", BIGINT, BIGINT", ", 10, 0"),
        ] {
            let prepare =
                format!("PREPARE asked (TEXT, BIGINT, BIGINT, BIGINT, BIGINT{types}) AS {sql}");
            client.batch_execute(&prepare).await.unwrap();
            let explain = format!("EXPLAIN EXECUTE asked ($q$'1:a':*$q$, 1, 1, NULL, 0{values})");
            let lines = client.simple_query(&explain).await.unwrap();
            let plan: Vec<_> = lines
                .iter()
                .filter_map(|line| match line {
                    tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
                    _ => None,
                })
                .collect();
            let plan = plan.join("\n");
            assert!(
                plan.contains("Index Scan on session_texts_by_word"),
                "{plan}"
            );
            client.batch_execute("DEALLOCATE asked").await.unwrap();
        }
        client
            .batch_execute("DROP SCHEMA test_search_plan CASCADE")
            .await
            .unwrap();
    }
}
