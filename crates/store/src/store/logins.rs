//! Logins of the web page: one-time tickets, and the web sessions that they start. Both are stored
//! as hashes.

use codelab_protocol::{Digest, Timestamp, UserId};

use super::{Store, authorizations};
use crate::StoreError;
use crate::statement::{Expect, Stmt};

const ADD_TICKET: &str =
    "INSERT INTO login_tickets (hash, user_id, expires_at) VALUES ($1, $2, $3)";
// One statement removes and reads, so that a ticket can be used only once.
const TAKE_TICKET: &str =
    "DELETE FROM login_tickets WHERE hash = $1 AND expires_at > $2 RETURNING user_id";
const ADD_SESSION: &str =
    "INSERT INTO web_sessions (hash, user_id, created_at, expires_at) VALUES ($1, $2, $3, $4)";
const SESSION_USER: &str = "SELECT user_id FROM web_sessions WHERE hash = $1 AND expires_at > $2";
const END_SESSION: &str = "DELETE FROM web_sessions WHERE hash = $1";
const EXPIRED: [&str; 3] = [
    "DELETE FROM login_tickets WHERE expires_at <= $1",
    "DELETE FROM web_sessions WHERE expires_at <= $1",
    authorizations::EXPIRED,
];

impl Store {
    pub async fn add_login_ticket(
        &self,
        hash: &Digest,
        user: UserId,
        expires_at: Timestamp,
    ) -> Result<(), StoreError> {
        let stmt = Stmt::one(
            ADD_TICKET,
            vec![hash.into(), user.into(), expires_at.into()],
        );
        self.write(None, vec![stmt]).await.map(drop)
    }

    /// Uses up a ticket and returns its user. `None` for an unknown, used or expired ticket.
    pub async fn take_login_ticket(
        &self,
        hash: &Digest,
        now: Timestamp,
    ) -> Result<Option<UserId>, StoreError> {
        let stmt = Stmt {
            sql: TAKE_TICKET,
            params: vec![hash.into(), now.into()],
            expect: Expect::Number,
        };
        Ok(self
            .write(None, vec![stmt])
            .await?
            .number
            .and_then(UserId::new))
    }

    pub async fn add_web_session(
        &self,
        hash: &Digest,
        user: UserId,
        now: Timestamp,
        expires_at: Timestamp,
    ) -> Result<(), StoreError> {
        let stmt = Stmt::one(
            ADD_SESSION,
            vec![hash.into(), user.into(), now.into(), expires_at.into()],
        );
        self.write(None, vec![stmt]).await.map(drop)
    }

    pub async fn web_session_user(
        &self,
        hash: &Digest,
        now: Timestamp,
    ) -> Result<Option<UserId>, StoreError> {
        let user = self
            .read_one(SESSION_USER, vec![hash.into(), now.into()], |row| row.int())
            .await?;
        Ok(user.and_then(UserId::new))
    }

    pub async fn end_web_session(&self, hash: &Digest) -> Result<(), StoreError> {
        self.write(None, vec![Stmt::any(END_SESSION, vec![hash.into()])])
            .await
            .map(drop)
    }

    /// Removes tickets, web sessions and begun authorizations whose time is over.
    pub async fn remove_expired_logins(&self, now: Timestamp) -> Result<(), StoreError> {
        let stmts = EXPIRED
            .iter()
            .map(|sql| Stmt::any(sql, vec![now.into()]))
            .collect();
        self.write(None, stmts).await.map(drop)
    }
}
