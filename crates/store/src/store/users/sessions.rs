//! Lists, renames and reads a user's project sessions.
//!
//! Knowing a session's key is no permission, so every query checks the user again. Sessions of
//! other users, runtime sessions and deleted sessions are not found.

use std::ops::Deref;

use codelab_protocol::{PlanId, ProjectId, Role, SessionId, SessionKind, TaskId, TurnId, UserId};

use super::projects::missing;
use super::search::title_words;
use super::{ProjectStore, UserStore};
use crate::columns::Columns;
use crate::project_session::{
    OpenApprovalRow, PlanRow, ProjectSessionRow, SessionEdit, UnfinishedSession, WaitingSession,
};
use crate::row::{SessionRow, StoredMessage};
use crate::statement::{Param, Stmt};
use crate::store::pages::{MAX_LIST_BYTES, MAX_PART_ROWS, SizedList};
use crate::store::read::{approval_info, marks, message, message_bytes, message_columns, of_task};
use crate::{SessionKey, StoreError};

macro_rules! my_sessions {
    ($select:expr, $whose:literal, $rest:literal) => {
        concat!(
            "SELECT ",
            $select,
            " FROM sessions WHERE ",
            $whose,
            " AND realm = 'project' AND deleted_at IS NULL AND project_id IS NOT NULL",
            $rest
        )
    };
}
pub(super) use my_sessions;
/// The columns of `chat_session`.
macro_rules! session_columns {
    () => {
        "id, session_id, project_id, title, created_at, last_activity, message_count, \
         (SELECT COUNT(*) FROM tool_calls WHERE session_key = sessions.id AND status = 'open' \
         AND tool_name IN ('ask_followup_question', 'elicitation')), pinned, archived"
    };
}
pub(super) use session_columns;
macro_rules! list_sessions {
    ($whose:literal, $rest:literal) => {
        my_sessions!(session_columns!(), $whose, $rest)
    };
}
const SESSIONS: &str = list_sessions!(
    "user_id = $1",
    " AND archived = COALESCE(CAST($2 AS BIGINT), archived) ORDER BY last_activity DESC, id DESC LIMIT $3 OFFSET $4"
);
// The sign keeps planners from scanning all of the user's sessions instead of the project's.
const SESSIONS_OF_PROJECT: &str = list_sessions!(
    "+user_id = $1 AND project_id = $2",
    " AND archived = COALESCE(CAST($3 AS BIGINT), archived) ORDER BY last_activity DESC, id DESC LIMIT $4 OFFSET $5"
);
const COUNT_SESSIONS: &str = my_sessions!(
    "COUNT(*)",
    "user_id = $1",
    " AND archived = COALESCE(CAST($2 AS BIGINT), archived)"
);
const COUNT_SESSIONS_OF_PROJECT: &str = my_sessions!(
    "COUNT(*)",
    "+user_id = $1 AND project_id = $2",
    " AND archived = COALESCE(CAST($3 AS BIGINT), archived)"
);

// A turn that is not over runs, has a deadline, or waits for a decision, an answer or a tool
// result.
const UNFINISHED: &str = my_sessions!(
    "id, session_id, state",
    "+user_id = $1 AND project_id = $2",
    " AND +id > $3 AND (running = 1 OR wake_at IS NOT NULL \
     OR EXISTS (SELECT 1 FROM pending_approvals WHERE session_key = sessions.id AND status = 'pending') \
     OR EXISTS (SELECT 1 FROM tool_calls WHERE session_key = sessions.id AND status = 'open')) \
     ORDER BY +id LIMIT $4"
);

macro_rules! waiting_sessions {
    ($select:literal) => {
        my_sessions!(
            $select,
            "user_id = $1",
            " AND id > $2 AND (EXISTS (SELECT 1 FROM pending_approvals WHERE session_key = sessions.id AND status = 'pending') \
             OR EXISTS (SELECT 1 FROM tool_calls WHERE session_key = sessions.id AND status = 'open' \
             AND tool_name IN ('ask_followup_question', 'elicitation'))) ORDER BY id LIMIT $3"
        )
    };
}
const WAITING: SizedList<WaitingSession> = SizedList {
    sizes: waiting_sessions!("CAST(OCTET_LENGTH(state) AS BIGINT)"),
    rows: waiting_sessions!("id, owner, session_id, project_id, title, state"),
    decode: waiting,
};

const CHANGE: &str = "UPDATE sessions SET title = COALESCE(CAST($1 AS TEXT), title), \
     pinned = COALESCE(CAST($2 AS BIGINT), pinned), archived = COALESCE(CAST($3 AS BIGINT), archived) \
     WHERE id = $4 AND user_id = $5 AND deleted_at IS NULL";

/// `$1` is the session and `$2` its user.
macro_rules! of_my_session {
    ($rest:literal) => {
        concat!(
            " WHERE session_key = $1 AND EXISTS (SELECT 1 FROM sessions WHERE sessions.id = $1 ",
            "AND sessions.user_id = $2 AND sessions.realm = 'project' AND sessions.deleted_at IS NULL)",
            $rest
        )
    };
}
pub(super) use of_my_session;

macro_rules! select_messages {
    ($rest:literal) => {
        concat!(
            "SELECT ",
            message_columns!(),
            " FROM messages",
            of_my_session!($rest)
        )
    };
}
macro_rules! list_messages {
    ($rest:literal) => {
        SizedList {
            sizes: concat!(
                "SELECT ",
                message_bytes!(),
                " FROM messages",
                of_my_session!($rest)
            ),
            rows: select_messages!($rest),
            decode: message,
        }
    };
}
const MESSAGES: SizedList<StoredMessage> = list_messages!(" ORDER BY ord LIMIT $3 OFFSET $4");
const MESSAGES_OF_ROLE: SizedList<StoredMessage> =
    list_messages!(" AND role = $3 ORDER BY ord LIMIT $4 OFFSET $5");
const LAST_MESSAGES: SizedList<StoredMessage> = list_messages!(" ORDER BY ord DESC LIMIT $3");
const REQUEST: &str = select_messages!(" AND turn = $3 AND role = 'user' ORDER BY ord LIMIT 1");
const COUNT_MESSAGES: &str = concat!("SELECT COUNT(*) FROM messages", of_my_session!(""));
const COUNT_MESSAGES_OF_ROLE: &str = concat!(
    "SELECT COUNT(*) FROM messages",
    of_my_session!(" AND role = $3")
);

macro_rules! list_task_messages {
    ($select:expr) => {
        concat!(
            "SELECT ",
            $select,
            " FROM task_messages",
            of_my_session!(" AND plan_id = $3 AND task_id = $4 ORDER BY ord LIMIT $5 OFFSET $6")
        )
    };
}
const TASK_MESSAGES: SizedList<StoredMessage> = SizedList {
    sizes: list_task_messages!(message_bytes!()),
    rows: list_task_messages!(message_columns!()),
    decode: message,
};
const COUNT_TASK_MESSAGES: &str = concat!(
    "SELECT COUNT(*) FROM task_messages",
    of_my_session!(" AND plan_id = $3 AND task_id = $4")
);

macro_rules! select_plans {
    ($select:literal, $rest:literal) => {
        concat!("SELECT ", $select, " FROM plans", of_my_session!($rest))
    };
}
const PLANS: SizedList<PlanRow> = SizedList {
    sizes: select_plans!(
        "CAST(OCTET_LENGTH(body) AS BIGINT)",
        " ORDER BY created_at, turn, plan_id LIMIT $3 OFFSET $4"
    ),
    rows: select_plans!(
        "turn, created_at, updated_at, body",
        " ORDER BY created_at, turn, plan_id LIMIT $3 OFFSET $4"
    ),
    decode: plan_row,
};
const COUNT_PLANS: &str = select_plans!("COUNT(*)", "");
const PLAN: &str = select_plans!("turn, created_at, updated_at, body", " AND plan_id = $3");

macro_rules! from_open_approvals {
    ($select:literal, $rest:literal) => {
        concat!(
            $select,
            " FROM sessions JOIN pending_approvals ON pending_approvals.session_key = sessions.id ",
            "AND pending_approvals.status = 'pending' WHERE sessions.user_id = $1 AND sessions.realm = 'project' ",
            "AND sessions.deleted_at IS NULL AND sessions.project_id IS NOT NULL",
            $rest
        )
    };
}
macro_rules! list_open_approvals {
    ($rest:literal) => {
        SizedList {
            sizes: from_open_approvals!("SELECT CAST(OCTET_LENGTH(arguments) + OCTET_LENGTH(parts) + COALESCE(OCTET_LENGTH(preview), 0) AS BIGINT)", $rest),
            rows: from_open_approvals!(
                "SELECT sessions.session_id, sessions.project_id, sessions.owner, call_id, kind, tool_name, arguments, digest, parts, \
                 reason, pending_approvals.created_at, expires_at, timeout_seconds, mcp, preview",
                $rest
            ),
            decode: open_approval,
        }
    };
}
const OPEN_APPROVALS: SizedList<OpenApprovalRow> = list_open_approvals!(
    " ORDER BY pending_approvals.created_at, sessions.id, call_id LIMIT $2 OFFSET $3"
);
const COUNT_OPEN_APPROVALS: &str = from_open_approvals!("SELECT COUNT(*)", "");
const OPEN_APPROVALS_OF_SESSION: SizedList<OpenApprovalRow> = list_open_approvals!(
    " AND sessions.id = $2 ORDER BY pending_approvals.created_at, call_id LIMIT $3 OFFSET $4"
);
const COUNT_OPEN_APPROVALS_OF_SESSION: &str =
    from_open_approvals!("SELECT COUNT(*)", " AND sessions.id = $2");

/// A project session that belongs to the user who asked for it. Only [`UserStore::session`] returns
/// one, so holders need not check the user again.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnedSession {
    user: UserId,
    project: ProjectId,
    row: SessionRow,
}

impl OwnedSession {
    pub fn user(&self) -> UserId {
        self.user
    }

    pub fn project(&self) -> ProjectId {
        self.project
    }

    pub fn id(&self) -> &SessionId {
        &self.row.session_id
    }
}

/// The session as it was when it was asked for.
impl Deref for OwnedSession {
    type Target = SessionRow;

    fn deref(&self) -> &SessionRow {
        &self.row
    }
}

impl UserStore {
    /// A page of the user's sessions, in one project or in all, newest activity first, and how many
    /// there are. `archived`: only those, or only the others.
    pub async fn sessions(
        &self,
        project: Option<ProjectId>,
        archived: Option<bool>,
        limit: u64,
        offset: u64,
    ) -> Result<(Vec<ProjectSessionRow>, u64), StoreError> {
        let (count, page) = match project {
            None => (COUNT_SESSIONS, SESSIONS),
            Some(_) => (COUNT_SESSIONS_OF_PROJECT, SESSIONS_OF_PROJECT),
        };
        let whose: Vec<Param> = [self.user.into()]
            .into_iter()
            .chain(project.map(Param::from))
            .chain([Param::optional(archived)])
            .collect();
        let total = self
            .store
            .read_one(count, whose.clone(), |row| row.count())
            .await?
            .unwrap_or(0);
        let params = whose
            .into_iter()
            .chain([limit.into(), offset.into()])
            .collect();
        Ok((self.store.read(page, params, chat_session).await?, total))
    }

    pub async fn session(&self, id: &SessionId) -> Result<Option<OwnedSession>, StoreError> {
        let row = self.store.session(SessionKind::Project, id).await?;
        let row = row.filter(|row| row.user_id == Some(self.user) && row.deleted_at.is_none());
        Ok(row.and_then(|row| {
            Some(OwnedSession {
                user: self.user,
                project: row.project_id?,
                row,
            })
        }))
    }

    /// `NotFound` when there is none.
    pub async fn change_session(
        &self,
        id: &SessionId,
        change: SessionEdit,
    ) -> Result<(), StoreError> {
        let key = self.session(id).await?.ok_or(StoreError::NotFound)?.key;
        let params = vec![
            Param::optional_text(change.title.as_deref()),
            Param::optional(change.pinned),
            Param::optional(change.archived),
            key.into(),
            self.user.into(),
        ];
        let mut stmts = vec![Stmt::one(CHANGE, params)];
        stmts.extend(
            change
                .title
                .map(|title| title_words(self.user, key, &title)),
        );
        self.store
            .write(Some(key), stmts)
            .await
            .map(drop)
            .map_err(missing)
    }

    /// A page of the session's own history, oldest first, and how many messages there are of this
    /// role.
    pub async fn messages(
        &self,
        key: SessionKey,
        limit: u64,
        offset: u64,
        role: Option<Role>,
    ) -> Result<(Vec<StoredMessage>, u64), StoreError> {
        let (count, page) = match role {
            None => (COUNT_MESSAGES, MESSAGES),
            Some(_) => (COUNT_MESSAGES_OF_ROLE, MESSAGES_OF_ROLE),
        };
        let whose = self
            .of(key)
            .into_iter()
            .chain(role.map(|role| role.as_str().into()))
            .collect();
        self.page(count, page, whose, limit, offset).await
    }

    /// The last messages of the session's own history, from the oldest to the newest.
    pub async fn last_messages(
        &self,
        key: SessionKey,
        limit: u64,
    ) -> Result<Vec<StoredMessage>, StoreError> {
        let whose = self.of(key).to_vec();
        let mut newest_first = self
            .store
            .read_sized(LAST_MESSAGES, whose, limit, None, MAX_LIST_BYTES)
            .await?;
        newest_first.reverse();
        Ok(newest_first)
    }

    /// What the user asked for in a turn.
    pub async fn request(
        &self,
        key: SessionKey,
        turn: TurnId,
    ) -> Result<Option<StoredMessage>, StoreError> {
        let params = self.of(key).into_iter().chain([turn.0.into()]).collect();
        self.store.read_one(REQUEST, params, message).await
    }

    /// A page of a task's thread, oldest first, and how many messages it has.
    pub async fn task_messages(
        &self,
        key: SessionKey,
        plan: &PlanId,
        task: &TaskId,
        limit: u64,
        offset: u64,
    ) -> Result<(Vec<StoredMessage>, u64), StoreError> {
        let thread = [Param::text(plan.as_str()), Param::text(task.as_str())];
        let whose = self.of(key).into_iter().chain(thread).collect();
        let (page, total) = self
            .page(COUNT_TASK_MESSAGES, TASK_MESSAGES, whose, limit, offset)
            .await?;
        Ok((of_task(page, plan, task), total))
    }

    /// A page of a session's plans, oldest first, and how many there are.
    pub async fn plans(
        &self,
        key: SessionKey,
        limit: u64,
        offset: u64,
    ) -> Result<(Vec<PlanRow>, u64), StoreError> {
        self.page(COUNT_PLANS, PLANS, self.of(key).to_vec(), limit, offset)
            .await
    }

    pub async fn plan(
        &self,
        key: SessionKey,
        plan: &PlanId,
    ) -> Result<Option<PlanRow>, StoreError> {
        let params = self
            .of(key)
            .into_iter()
            .chain([Param::text(plan.as_str())])
            .collect();
        self.store.read_one(PLAN, params, plan_row).await
    }

    /// A page of what waits for the user, in one session or in all, oldest first, and the total
    /// number.
    pub async fn open_approvals(
        &self,
        session: Option<SessionKey>,
        limit: u64,
        offset: u64,
    ) -> Result<(Vec<OpenApprovalRow>, u64), StoreError> {
        let (count, page) = match session {
            None => (COUNT_OPEN_APPROVALS, OPEN_APPROVALS),
            Some(_) => (COUNT_OPEN_APPROVALS_OF_SESSION, OPEN_APPROVALS_OF_SESSION),
        };
        let whose = [self.user.into()]
            .into_iter()
            .chain(session.map(Param::from))
            .collect();
        self.page(count, page, whose, limit, offset).await
    }

    /// Some of the sessions that wait for a decision or an answer of the user, by key after the last
    /// one that is known. An empty list is the end.
    pub async fn waiting_sessions(
        &self,
        after: Option<SessionKey>,
    ) -> Result<Vec<WaitingSession>, StoreError> {
        let whose = vec![self.user.into(), after.map_or(Param::Int(0), Param::from)];
        self.store
            .read_sized(WAITING, whose, MAX_PART_ROWS, None, MAX_LIST_BYTES)
            .await
    }

    pub(super) fn of(&self, key: SessionKey) -> [Param; 2] {
        [key.into(), self.user.into()]
    }

    /// Returns fewer rows than `limit` if more would not fit one page.
    async fn page<T: Send + 'static>(
        &self,
        count: &'static str,
        list: SizedList<T>,
        whose: Vec<Param>,
        limit: u64,
        offset: u64,
    ) -> Result<(Vec<T>, u64), StoreError> {
        let total = self
            .store
            .read_one(count, whose.clone(), |row| row.count())
            .await?
            .unwrap_or(0);
        Ok((
            self.store
                .read_sized(list, whose, limit, Some(offset), MAX_LIST_BYTES)
                .await?,
            total,
        ))
    }
}

impl ProjectStore {
    /// Sessions whose turn may not be over, sorted by key. `after` is the last key of the page
    /// before.
    pub async fn unfinished_sessions(
        &self,
        after: Option<SessionKey>,
        limit: u64,
    ) -> Result<Vec<UnfinishedSession>, StoreError> {
        let after = after.map_or(Param::Int(0), Param::from);
        let params = vec![self.user.into(), self.row.id.into(), after, limit.into()];
        self.store.read(UNFINISHED, params, unfinished).await
    }
}

fn unfinished(row: &mut Columns<'_>) -> Result<UnfinishedSession, StoreError> {
    Ok(UnfinishedSession {
        key: SessionKey::from_raw(row.int()?),
        session_id: row.id()?,
        state: row.string()?,
    })
}

fn waiting(row: &mut Columns<'_>) -> Result<WaitingSession, StoreError> {
    Ok(WaitingSession {
        key: SessionKey::from_raw(row.int()?),
        owner: row.optional_string()?,
        session_id: row.id()?,
        project_id: row.project()?,
        title: row.optional_string()?,
        state: row.string()?,
    })
}

pub(super) fn chat_session(row: &mut Columns<'_>) -> Result<ProjectSessionRow, StoreError> {
    Ok(ProjectSessionRow {
        key: SessionKey::from_raw(row.int()?),
        session_id: row.id()?,
        project_id: row.project()?,
        title: row.optional_string()?,
        created_at: row.time()?,
        last_activity: row.time()?,
        message_count: row.count()?,
        asks: row.count()? > 0,
        marks: marks(row)?,
    })
}

pub(super) fn plan_row(row: &mut Columns<'_>) -> Result<PlanRow, StoreError> {
    Ok(PlanRow {
        turn: row.turn()?,
        created_at: row.time()?,
        updated_at: row.time()?,
        plan: row.json()?,
    })
}

fn open_approval(row: &mut Columns<'_>) -> Result<OpenApprovalRow, StoreError> {
    Ok(OpenApprovalRow {
        session_id: row.id()?,
        project_id: row.project()?,
        owner: row.optional_string()?,
        info: approval_info(row)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::query_plan::{assert_uses, empty};

    #[test]
    fn sqlite_finds_rows_by_the_intended_index() {
        let connection = empty();
        for (sql, index) in [
            (SESSIONS, "sessions_by_user (user_id=?)"),
            (COUNT_SESSIONS, "sessions_by_user (user_id=?)"),
            (SESSIONS_OF_PROJECT, "sessions_by_project (project_id=?)"),
            (
                COUNT_SESSIONS_OF_PROJECT,
                "sessions_by_project (project_id=?)",
            ),
            (
                UNFINISHED,
                "SEARCH sessions USING INDEX sessions_by_project (project_id=?)",
            ),
            (
                UNFINISHED,
                "tool_calls USING COVERING INDEX tool_calls_open (session_key=?)",
            ),
            (
                MESSAGES.rows,
                "SEARCH messages USING PRIMARY KEY (session_key=?)",
            ),
            (
                LAST_MESSAGES.rows,
                "SEARCH messages USING PRIMARY KEY (session_key=?)",
            ),
            (
                LAST_MESSAGES.sizes,
                "SEARCH messages USING PRIMARY KEY (session_key=?)",
            ),
            (
                TASK_MESSAGES.rows,
                "PRIMARY KEY (session_key=? AND plan_id=? AND task_id=?)",
            ),
            (PLAN, "PRIMARY KEY (session_key=? AND plan_id=?)"),
            (
                OPEN_APPROVALS.rows,
                "SEARCH sessions USING INDEX sessions_by_user (user_id=?)",
            ),
            (
                OPEN_APPROVALS.rows,
                "pending_approvals_open (session_key=?)",
            ),
            (
                WAITING.rows,
                "SEARCH sessions USING INDEX sessions_by_user (user_id=?)",
            ),
            (
                OPEN_APPROVALS_OF_SESSION.rows,
                "SEARCH sessions USING INTEGER PRIMARY KEY (rowid=?)",
            ),
        ] {
            assert_uses(&connection, sql, index);
        }
    }
}
