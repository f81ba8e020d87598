//! Reads sessions and their parts. Each method is one query.

use codelab_protocol::{
    ApprovalInfo, ApprovalKind, CallId, ClientMessageId, Message, PlanId, Role, SessionId,
    SessionInfo, SessionKind, SwitchEntry, TaskId, TaskOrigin, TurnId, TurnStatus,
};

use super::Store;
use super::pages::{MAX_PART_BYTES, MAX_PART_ROWS, SizedList};
use crate::columns::Columns;
use crate::row::{
    ApprovalRow, ApprovalStatus, ContextRow, InputRow, MessageNotes, Schedule, SessionMarks,
    SessionRow, StoredEvent, StoredMessage, ToolCallRow,
};
use crate::statement::Param;
use crate::{Epoch, SessionKey, StoreError};

/// Which messages: a part of the session's own history, or the thread of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageRange {
    /// The `limit` newest messages below `before` (or of all), oldest first.
    Last {
        before: Option<u64>,
        limit: usize,
    },
    /// From the first message of this turn on.
    FromTurn(TurnId),
    Task {
        plan: PlanId,
        task: TaskId,
    },
}

const SESSION: &str = "SELECT id, realm, session_id, user_id, project_id, title, system_prompt, created_at, \
     last_activity, deleted_at, message_count, last_seq, first_seq, state, owner, epoch, \
     wake_at, running, pinned, archived FROM sessions WHERE realm = $1 AND session_id = $2";
const LIST: &str = "SELECT session_id, title, created_at, last_activity, is_active, message_count FROM sessions \
     WHERE realm = $1 AND deleted_at IS NULL ORDER BY last_activity DESC, id DESC LIMIT $2 OFFSET $3";
const COUNT: &str = "SELECT COUNT(*) FROM sessions WHERE realm = $1 AND deleted_at IS NULL";

macro_rules! message_columns {
    () => {
        "ord, turn, message_id, role, agent_id, name, tool_call_id, timestamp, error, usage, tool_calls, notes, opaque_reasoning, rewound, content"
    };
}
pub(super) use message_columns;

macro_rules! message_bytes {
    () => {
        "CAST(OCTET_LENGTH(content) + COALESCE(OCTET_LENGTH(tool_calls), 0) + COALESCE(OCTET_LENGTH(notes), 0) \
         + COALESCE(OCTET_LENGTH(opaque_reasoning), 0) AS BIGINT)"
    };
}
pub(super) use message_bytes;

macro_rules! select_messages {
    ($where:literal) => {
        concat!(
            "SELECT ",
            message_columns!(),
            " FROM messages WHERE session_key = $1 AND ",
            $where
        )
    };
}
const HISTORY: &str = select_messages!("ord > $2 ORDER BY ord LIMIT $3");
const HISTORY_SIZES: &str = concat!(
    "SELECT ",
    message_bytes!(),
    " FROM messages WHERE session_key = $1 AND ord > $2 ORDER BY ord LIMIT $3"
);
const MESSAGES_BEFORE: &str =
    select_messages!("ord < $2 AND rewound IS NULL ORDER BY ord DESC LIMIT $3");
// The ordering makes the planner use the index by turn to find the turn's first message. All later
// messages belong to it, also a late result of a call of an earlier turn.
const MESSAGES_FROM_TURN: &str = select_messages!(
    "ord >= (SELECT ord FROM messages WHERE session_key = $1 AND turn >= $2 ORDER BY turn, ord LIMIT 1) AND rewound IS NULL ORDER BY ord"
);

const MESSAGES_OF_TASK: &str = concat!(
    "SELECT ",
    message_columns!(),
    " FROM task_messages WHERE session_key = $1 AND plan_id = $2 AND task_id = $3 ORDER BY ord"
);

const EVENTS: &str = "SELECT seq, turn, kind, settled, created_at, body FROM events \
     WHERE session_key = $1 AND seq > $2 ORDER BY seq LIMIT $3";
const EVENT_SIZES: &str = "SELECT CAST(OCTET_LENGTH(body) AS BIGINT) FROM events WHERE session_key = $1 AND seq > $2 \
     ORDER BY seq LIMIT $3";
// Counts characters. The cast is needed because PostgreSQL counts them in 32 bits.
const EVENT_PIECE: &str = "SELECT SUBSTR(body, CAST(CAST($1 AS BIGINT) AS INTEGER), CAST(CAST($2 AS BIGINT) AS INTEGER)) \
     FROM events WHERE session_key = $3 AND seq = $4";
const SWITCHES: &str = "SELECT from_agent, to_agent, reason, confidence, switched_at FROM agent_switches \
     WHERE session_key = $1 ORDER BY ord";
const CONTEXT: &str = "SELECT current_agent, switch_count, metadata, created_at, last_switch_at FROM agent_contexts \
     WHERE session_key = $1";

macro_rules! select_approvals {
    ($where:literal) => {
        concat!(
            "SELECT call_id, kind, tool_name, arguments, digest, parts, reason, created_at, expires_at, ",
            "timeout_seconds, mcp, preview, status FROM pending_approvals WHERE session_key = $1",
            $where
        )
    };
}
const APPROVALS_PENDING: &str =
    select_approvals!(" AND status = 'pending' ORDER BY created_at, call_id");
const APPROVAL: &str = select_approvals!(" AND call_id = $2");

const TOOL_CALL: &str = "SELECT turn, result_digest, after_seq FROM tool_calls \
     WHERE session_key = $1 AND call_id = $2";
const INPUT: &str =
    "SELECT turn, after_seq FROM inputs WHERE session_key = $1 AND client_message_id = $2";

impl Store {
    /// Also returns deleted sessions, with `deleted_at`, and project sessions of any user. It is
    /// for the code that runs a session. Requests of users must use [`Store::of`].
    pub async fn session(
        &self,
        kind: SessionKind,
        id: &SessionId,
    ) -> Result<Option<SessionRow>, StoreError> {
        self.read_one(
            SESSION,
            vec![kind.as_str().into(), Param::text(id.as_str())],
            session,
        )
        .await
    }

    /// A page of the sessions that are not deleted, newest activity first, and how many there are.
    pub async fn list_sessions(
        &self,
        kind: SessionKind,
        limit: u64,
        offset: u64,
    ) -> Result<(Vec<SessionInfo>, u64), StoreError> {
        let total = self
            .read_one(COUNT, vec![kind.as_str().into()], |row| row.count())
            .await?;
        let page = self
            .read(
                LIST,
                vec![kind.as_str().into(), limit.into(), offset.into()],
                session_info,
            )
            .await?;
        Ok((page, total.unwrap_or(0)))
    }

    /// Oldest first, without what a rewind has taken back.
    pub async fn messages(
        &self,
        key: SessionKey,
        range: MessageRange,
    ) -> Result<Vec<StoredMessage>, StoreError> {
        match range {
            MessageRange::FromTurn(turn) => {
                self.read(MESSAGES_FROM_TURN, vec![key.into(), turn.0.into()], message)
                    .await
            }
            MessageRange::Last { before, limit } => {
                let before = before.unwrap_or(u64::MAX);
                let params = vec![key.into(), before.into(), (limit as u64).into()];
                let mut newest_first = self.read(MESSAGES_BEFORE, params, message).await?;
                newest_first.reverse();
                Ok(newest_first)
            }
            MessageRange::Task { plan, task } => {
                let params = vec![
                    key.into(),
                    Param::text(plan.as_str()),
                    Param::text(task.as_str()),
                ];
                Ok(of_task(
                    self.read(MESSAGES_OF_TASK, params, message).await?,
                    &plan,
                    &task,
                ))
            }
        }
    }

    /// The next part of the session's own history after this position, oldest first. Empty at the
    /// end.
    pub async fn history(
        &self,
        key: SessionKey,
        after_ord: u64,
    ) -> Result<Vec<StoredMessage>, StoreError> {
        let list = SizedList {
            sizes: HISTORY_SIZES,
            rows: HISTORY,
            decode: message,
        };
        self.read_sized(
            list,
            vec![key.into(), after_ord.into()],
            MAX_PART_ROWS,
            None,
            MAX_PART_BYTES,
        )
        .await
    }

    /// The stored events after `after_seq`, in order.
    /// At most `limit`, and at most one page, but at least one if there is one.
    pub async fn events(
        &self,
        key: SessionKey,
        after_seq: u64,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let list = SizedList {
            sizes: EVENT_SIZES,
            rows: EVENTS,
            decode: event,
        };
        self.read_sized(
            list,
            vec![key.into(), after_seq.into()],
            limit as u64,
            None,
            MAX_PART_BYTES,
        )
        .await
    }

    /// A part of one event's body: at most `chars` characters after the first `skipped`. Empty past
    /// its end. `None` if there is no such event.
    pub async fn event_piece(
        &self,
        key: SessionKey,
        seq: u64,
        skipped: u64,
        chars: u64,
    ) -> Result<Option<String>, StoreError> {
        let params = vec![(skipped + 1).into(), chars.into(), key.into(), seq.into()];
        self.read_one(EVENT_PIECE, params, |row| row.string()).await
    }

    pub async fn switches(&self, key: SessionKey) -> Result<Vec<SwitchEntry>, StoreError> {
        self.read(SWITCHES, vec![key.into()], switch).await
    }

    pub async fn context(&self, key: SessionKey) -> Result<Option<ContextRow>, StoreError> {
        self.read_one(CONTEXT, vec![key.into()], context).await
    }

    /// What waits for a person, in the order it was asked.
    pub async fn pending_approvals(
        &self,
        key: SessionKey,
    ) -> Result<Vec<ApprovalInfo>, StoreError> {
        self.read(APPROVALS_PENDING, vec![key.into()], approval_info)
            .await
    }

    pub async fn approval(
        &self,
        key: SessionKey,
        call: &CallId,
    ) -> Result<Option<ApprovalRow>, StoreError> {
        self.read_one(
            APPROVAL,
            vec![key.into(), Param::text(call.as_str())],
            approval,
        )
        .await
    }

    pub async fn tool_call(
        &self,
        key: SessionKey,
        call: &CallId,
    ) -> Result<Option<ToolCallRow>, StoreError> {
        self.read_one(
            TOOL_CALL,
            vec![key.into(), Param::text(call.as_str())],
            tool_call,
        )
        .await
    }

    pub async fn input(
        &self,
        key: SessionKey,
        id: &ClientMessageId,
    ) -> Result<Option<InputRow>, StoreError> {
        self.read_one(INPUT, vec![key.into(), Param::text(id.as_str())], |row| {
            Ok(InputRow {
                turn: row.turn()?,
                after_seq: row.count()?,
            })
        })
        .await
    }
}

pub(super) fn marks(row: &mut Columns<'_>) -> Result<SessionMarks, StoreError> {
    Ok(SessionMarks {
        pinned: row.flag()?,
        archived: row.flag()?,
    })
}

fn session(row: &mut Columns<'_>) -> Result<SessionRow, StoreError> {
    Ok(SessionRow {
        key: SessionKey::from_raw(row.int()?),
        kind: row.parsed(SessionKind::parse)?,
        session_id: row.id()?,
        user_id: row.optional_user()?,
        project_id: row.optional_project()?,
        title: row.optional_string()?,
        system_prompt: row.optional_string()?,
        created_at: row.time()?,
        last_activity: row.time()?,
        deleted_at: row.optional_time()?,
        message_count: row.count()?,
        last_seq: row.count()?,
        first_seq: row.count()?,
        state: row.string()?,
        owner: row.optional_string()?,
        epoch: Epoch(row.count()?),
        schedule: Schedule {
            wake_at: row.optional_time()?,
            running: row.flag()?,
        },
        marks: marks(row)?,
    })
}

fn session_info(row: &mut Columns<'_>) -> Result<SessionInfo, StoreError> {
    Ok(SessionInfo {
        session_id: row.id()?,
        title: row.optional_string()?,
        created_at: row.time()?,
        last_activity: row.time()?,
        is_active: row.flag()?,
        message_count: row.count()?,
    })
}

/// Messages of a thread do not hold their task, so the query adds it.
pub(super) fn of_task(
    mut messages: Vec<StoredMessage>,
    plan: &PlanId,
    task: &TaskId,
) -> Vec<StoredMessage> {
    for message in &mut messages {
        message.task = Some(TaskOrigin {
            plan_id: Some(plan.clone()),
            task_id: Some(task.clone()),
        });
    }
    messages
}

pub(super) fn message(row: &mut Columns<'_>) -> Result<StoredMessage, StoreError> {
    let (ord, turn) = (row.count()?, row.turn()?);
    let message_id = row.id()?;
    let role = row.parsed(role)?;
    let agent_id = row.optional_id()?;
    let name = row.optional_string()?;
    let tool_call_id = row.optional_id()?;
    let (timestamp, error) = (row.time()?, row.flag()?);
    let usage = row.optional_json()?;
    let tool_calls = row.optional_json()?.unwrap_or_default();
    let MessageNotes {
        answers,
        plan_id,
        task_id,
        warnings,
        mut reasoning,
        is_cut,
        partial: reason,
        error_message,
        retries,
        steered,
        attachments,
    } = row.optional_json()?.unwrap_or_default();
    let opaque = row.optional_json()?;
    if let (Some(reasoning), Some(opaque)) = (&mut reasoning, opaque) {
        reasoning.opaque = opaque;
    }
    let rewound = row.optional_id()?;
    let content = row.string()?;
    let message = Message {
        agent_id,
        name,
        tool_calls,
        tool_call_id,
        usage,
        error,
        answers,
        plan_id,
        task_id,
        warnings,
        reasoning,
        is_cut,
        partial: reason.is_some(),
        reason,
        error_message,
        retries,
        steered,
        attachments,
        rewound,
        ..Message::new(message_id, role, content, timestamp)
    };
    Ok(StoredMessage {
        ord,
        turn,
        task: None,
        message,
    })
}

fn role(text: &str) -> Option<Role> {
    [Role::System, Role::User, Role::Assistant, Role::Tool]
        .into_iter()
        .find(|role| role.as_str() == text)
}

pub(super) fn event(row: &mut Columns<'_>) -> Result<StoredEvent, StoreError> {
    Ok(StoredEvent {
        seq: row.count()?,
        turn: row.turn()?,
        kind: row.string()?.into(),
        settled: row.optional_parsed(TurnStatus::parse)?,
        timestamp: row.time()?,
        body: row.text()?.into(),
    })
}

fn switch(row: &mut Columns<'_>) -> Result<SwitchEntry, StoreError> {
    Ok(SwitchEntry {
        from_agent: row.id()?,
        to_agent: row.id()?,
        reason: row.string()?,
        confidence: row.optional_string()?,
        timestamp: row.time()?,
    })
}

fn context(row: &mut Columns<'_>) -> Result<ContextRow, StoreError> {
    Ok(ContextRow {
        current_agent: row.id()?,
        switch_count: row.count()?,
        metadata: row.string()?,
        created_at: row.time()?,
        last_switch_at: row.optional_time()?,
    })
}

fn approval(row: &mut Columns<'_>) -> Result<ApprovalRow, StoreError> {
    Ok(ApprovalRow {
        info: approval_info(row)?,
        status: row.parsed(ApprovalStatus::parse)?,
    })
}

pub(super) fn approval_info(row: &mut Columns<'_>) -> Result<ApprovalInfo, StoreError> {
    Ok(ApprovalInfo {
        call_id: row.id()?,
        kind: row.parsed(ApprovalKind::parse)?,
        tool_name: row.string()?,
        arguments: row.json()?,
        digest: row.digest()?,
        parts: row.json()?,
        reason: row.string()?,
        created_at: row.time()?,
        expires_at: row.optional_time()?,
        timeout_seconds: row.count()?,
        mcp: row.optional_json()?,
        preview: row.optional_json()?,
    })
}

fn tool_call(row: &mut Columns<'_>) -> Result<ToolCallRow, StoreError> {
    Ok(ToolCallRow {
        turn: row.turn()?,
        result_digest: row.optional_digest()?,
        after_seq: row.optional_count()?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::query_plan::{assert_uses, empty};
    use super::*;

    /// A query for few rows must not scan all rows of a long session.
    #[test]
    fn sqlite_finds_rows_by_the_intended_index() {
        let connection = empty();
        for (sql, index) in [
            (SESSION, "sqlite_autoindex_sessions_1"),
            (LIST, "sessions_by_activity"),
            (COUNT, "sessions_by_activity"),
            (HISTORY, "PRIMARY KEY (session_key=? AND ord>?)"),
            (HISTORY_SIZES, "PRIMARY KEY (session_key=? AND ord>?)"),
            (MESSAGES_BEFORE, "PRIMARY KEY (session_key=? AND ord<?)"),
            (
                MESSAGES_FROM_TURN,
                "messages_by_turn (session_key=? AND turn>?)",
            ),
            (
                MESSAGES_OF_TASK,
                "PRIMARY KEY (session_key=? AND plan_id=? AND task_id=?)",
            ),
            (
                EVENTS,
                "sqlite_autoindex_events_1 (session_key=? AND seq>?)",
            ),
            (
                EVENT_SIZES,
                "sqlite_autoindex_events_1 (session_key=? AND seq>?)",
            ),
            (
                EVENT_PIECE,
                "sqlite_autoindex_events_1 (session_key=? AND seq=?)",
            ),
            (APPROVALS_PENDING, "pending_approvals_open"),
            (APPROVAL, "PRIMARY KEY (session_key=? AND call_id=?)"),
        ] {
            assert_uses(&connection, sql, index);
        }
    }
}
