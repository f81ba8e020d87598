//! Builds the statements of a commit. The session's own row comes first. It checks the epoch, and
//! on PostgreSQL its lock serializes commits of one session.

use codelab_protocol::{ApprovalInfo, AttachedFile};

use super::{AuditAppended, Commit, NewSessionRow, SharedAttachment};
use crate::StoreError;
use crate::row::{AuditRow, MessageNotes, StoredEvent, StoredMessage};
use crate::statement::{Expect, Param, Stmt};

const INSERT_SESSION: &str = "INSERT INTO sessions (id, realm, session_id, user_id, project_id, title, \
     system_prompt, created_at, last_activity, message_count, last_seq, first_seq, owner, epoch, wake_at, running, \
     state, last_event_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 1, $12, $13, $14, $15, $16, $17) \
     ON CONFLICT DO NOTHING";

// The columns that have an index are only named when they change: naming one rewrites its index
// entry. That a session is not deleted is asked in a form that no index answers: while a table is
// new, PostgreSQL plans this with an index of all sessions that are not deleted, and keeps to it
// when there are many.
macro_rules! update_session {
    ($columns:literal, $id:literal, $epoch:literal, $before:literal) => {
        concat!(
            "UPDATE sessions SET last_seq = COALESCE($1, last_seq), message_count = message_count + $2, ",
            "state = COALESCE($3, state), last_event_at = COALESCE($4, last_event_at)",
            $columns,
            " WHERE id = $",
            $id,
            " AND epoch = $",
            $epoch,
            " AND last_seq = COALESCE($",
            $before,
            ", last_seq) AND COALESCE(deleted_at, 0) = 0"
        )
    };
}
const UPDATE_SESSION: &str = update_session!("", "5", "6", "7");
const UPDATE_SESSION_ACTIVITY: &str = update_session!(", last_activity = $5", "6", "7", "8");
const UPDATE_SESSION_SCHEDULE: &str =
    update_session!(", wake_at = $5, running = $6", "7", "8", "9");
const UPDATE_SESSION_BOTH: &str = update_session!(
    ", wake_at = $5, running = $6, last_activity = $7",
    "8",
    "9",
    "10"
);

const UPDATE_TITLE: &str = "UPDATE sessions SET title = COALESCE(title, $1) WHERE id = $2";

const INSERT_MESSAGE: &str = "INSERT INTO messages (session_key, ord, turn, message_id, role, agent_id, name, \
     tool_call_id, timestamp, error, usage, tool_calls, notes, opaque_reasoning, content) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) ON CONFLICT DO NOTHING";

const INSERT_TASK_MESSAGE: &str = "INSERT INTO task_messages (session_key, plan_id, task_id, ord, turn, message_id, \
     role, agent_id, name, tool_call_id, timestamp, error, usage, tool_calls, notes, opaque_reasoning, content) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17) ON CONFLICT DO NOTHING";

// Stored once. An update of what is there locks the row until the reference is stored as well.
const INSERT_ATTACHMENT: &str = "INSERT INTO attachments (digest, size, content) VALUES ($1, $2, $3) \
     ON CONFLICT (digest) DO UPDATE SET size = excluded.size";

const INSERT_SESSION_ATTACHMENT: &str = "INSERT INTO session_attachments (session_key, digest, name, media_type) \
     VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";

// Locks the content until the reference is stored, or finds that it was removed.
const HOLD_ATTACHMENT: &str = "UPDATE attachments SET size = size WHERE digest = $1";

// A session that has the file already keeps its own name for it.
const SHARE_ATTACHMENT: &str = "INSERT INTO session_attachments (session_key, digest, name, media_type) \
     SELECT CAST($1 AS BIGINT), digest, name, media_type FROM session_attachments \
     WHERE session_key = $2 AND digest = $3 \
     ON CONFLICT (session_key, digest) DO UPDATE SET name = session_attachments.name";

const FORGET_REASONING: [&str; 2] = [
    "UPDATE messages SET opaque_reasoning = NULL \
     WHERE session_key = $1 AND turn = $2 AND opaque_reasoning IS NOT NULL",
    "UPDATE task_messages SET opaque_reasoning = NULL \
     WHERE session_key = $1 AND turn = $2 AND opaque_reasoning IS NOT NULL",
];

const INSERT_EVENT: &str = "INSERT INTO events (session_key, seq, turn, kind, settled, created_at, body) \
     VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING";

const INSERT_SWITCH: &str = "INSERT INTO agent_switches (session_key, ord, from_agent, to_agent, reason, confidence, \
     switched_at) VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING";

const UPSERT_CONTEXT: &str = "INSERT INTO agent_contexts (session_key, current_agent, switch_count, metadata, \
     created_at, last_switch_at) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (session_key) DO UPDATE SET \
     current_agent = excluded.current_agent, switch_count = excluded.switch_count, metadata = excluded.metadata, \
     last_switch_at = excluded.last_switch_at";

const INSERT_APPROVAL: &str = "INSERT INTO pending_approvals (session_key, call_id, kind, tool_name, arguments, \
     digest, parts, reason, status, created_at, expires_at, timeout_seconds, mcp, preview) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'pending', $9, $10, $11, $12, $13) ON CONFLICT (session_key, call_id) DO UPDATE \
     SET status = 'pending', arguments = excluded.arguments, digest = excluded.digest, parts = excluded.parts, \
     reason = excluded.reason, created_at = excluded.created_at, decided_at = NULL, \
     expires_at = excluded.expires_at, timeout_seconds = excluded.timeout_seconds, preview = excluded.preview \
     WHERE pending_approvals.status IN ('expired', 'approved', 'edited')";

const PREVIEW_APPROVAL: &str = "UPDATE pending_approvals SET preview = $1 \
     WHERE session_key = $2 AND call_id = $3 AND status = 'pending'";

const EXTEND_APPROVAL: &str = "UPDATE pending_approvals SET expires_at = $1 \
     WHERE session_key = $2 AND call_id = $3 AND status = 'pending'";

const CLOSE_APPROVAL: &str = "UPDATE pending_approvals SET status = $1, decided_at = $2 \
     WHERE session_key = $3 AND call_id = $4 AND status = 'pending'";

const INSERT_TOOL_CALL: &str = "INSERT INTO tool_calls (session_key, call_id, turn, tool_name, status) \
     VALUES ($1, $2, $3, $4, 'open') ON CONFLICT DO NOTHING";

const CLOSE_TOOL_CALL: &str = "UPDATE tool_calls SET status = $1, result_digest = $2, after_seq = $3, did = $4 \
     WHERE session_key = $5 AND call_id = $6 AND status IN ('open', 'unknown')";

const INSERT_INPUT: &str = "INSERT INTO inputs (session_key, client_message_id, turn, after_seq) \
     VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";

const INSERT_AUDIT: &str = "INSERT INTO audit_logs (session_key, ord, call_id, tool_name, original_args, \
     original_digest, modified_args, modified_digest, decision, decided_by, reason, reason_digest, timestamp, hash) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ON CONFLICT DO NOTHING";

const INSERT_AUDIT_HEAD: &str = "INSERT INTO audit_heads (session_key, realm, session_id, count, head, seal, \
     keyed_from) VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING";

const MOVE_AUDIT_HEAD: &str =
    "UPDATE audit_heads SET count = $1, head = $2, seal = $3 WHERE session_key = $4 AND count = $5";

pub(crate) fn build(mut commit: Commit) -> Result<Vec<Stmt>, StoreError> {
    check_events(&commit.events)?;
    let session_key = commit.key;
    let key = || Param::from(session_key);
    let mut stmts = Vec::with_capacity(2 + commit.messages.len() + commit.events.len());
    match commit.create.take() {
        Some(session) => {
            stmts.extend(super::project_session::hold_project(&session));
            stmts.push(insert_session(&mut commit, &session)?);
        }
        None => fence(&mut commit, &mut stmts),
    }
    super::project_session::insert_words(&commit, &mut stmts);
    for message in std::mem::take(&mut commit.messages) {
        stmts.push(insert_message(key(), message)?);
    }
    attachments(&mut commit, &mut stmts);
    for turn in &commit.reasoning_forgotten {
        let forget = |sql| Stmt::any(sql, vec![key(), turn.0.into()]);
        stmts.extend(FORGET_REASONING.map(forget));
    }
    for switch in &commit.switches {
        let entry = &switch.entry;
        stmts.push(Stmt::one(
            INSERT_SWITCH,
            vec![
                key(),
                switch.ord.into(),
                Param::text(entry.from_agent.as_str()),
                Param::text(entry.to_agent.as_str()),
                Param::text(&entry.reason),
                Param::optional_text(entry.confidence.as_deref()),
                entry.timestamp.into(),
            ],
        ));
    }
    if let Some(context) = &commit.context {
        stmts.push(Stmt::one(
            UPSERT_CONTEXT,
            vec![
                key(),
                Param::text(context.current_agent.as_str()),
                context.switch_count.into(),
                Param::text(&context.metadata),
                context.created_at.into(),
                Param::optional(context.last_switch_at),
            ],
        ));
    }
    approvals(&commit, &mut stmts)?;
    tool_calls(&commit, &mut stmts);
    for new in &commit.inputs {
        let id = Param::text(new.client_message_id.as_str());
        let params = vec![
            key(),
            id,
            new.input.turn.0.into(),
            new.input.after_seq.into(),
        ];
        stmts.push(Stmt::one(INSERT_INPUT, params));
    }
    if let Some(audit) = &commit.audit {
        append_audit(&commit, audit, &mut stmts)?;
    }
    super::project_session::append(&mut commit, &mut stmts)?;
    super::rewind::append(commit.key, &commit.history_changes, &mut stmts);
    stmts.extend(
        commit
            .events
            .into_iter()
            .map(|event| insert_event(key(), event)),
    );
    Ok(stmts)
}

fn check_events(events: &[StoredEvent]) -> Result<(), StoreError> {
    let contiguous = events.windows(2).all(|pair| pair[1].seq == pair[0].seq + 1);
    if contiguous && events.first().is_none_or(|first| first.seq > 0) {
        return Ok(());
    }
    Err(StoreError::Invalid(
        "the events of a commit must be numbered without a gap".to_owned(),
    ))
}

fn insert_session(commit: &mut Commit, session: &NewSessionRow) -> Result<Stmt, StoreError> {
    let Some(state) = commit.state.take() else {
        return Err(StoreError::Invalid(
            "a new session needs a state".to_owned(),
        ));
    };
    if commit.events.first().is_some_and(|first| first.seq != 1) {
        return Err(StoreError::Invalid(
            "the events of a new session start at 1".to_owned(),
        ));
    }
    let schedule = commit.schedule.unwrap_or_default();
    let params = vec![
        commit.key.into(),
        session.kind.as_str().into(),
        Param::text(session.session_id.as_str()),
        Param::optional(session.user_id.map(|user| user.get())),
        Param::optional(session.project_id),
        Param::optional_text(commit.title.as_deref()),
        Param::optional_text(session.system_prompt.as_deref()),
        session.created_at.into(),
        commit.last_activity.unwrap_or(session.created_at).into(),
        own_messages(commit).into(),
        commit.events.last().map_or(0, |last| last.seq).into(),
        Param::optional_text(session.owner.as_deref()),
        commit.epoch.0.into(),
        Param::optional(schedule.wake_at),
        schedule.running.into(),
        state.into(),
        newest_event_at(commit),
    ];
    Ok(Stmt {
        sql: INSERT_SESSION,
        params,
        expect: Expect::New,
    })
}

fn fence(commit: &mut Commit, stmts: &mut Vec<Stmt>) {
    let mut params = Vec::with_capacity(10);
    params.push(Param::optional(commit.events.last().map(|last| last.seq)));
    params.push(own_messages(commit).into());
    params.push(Param::optional(commit.state.take()));
    params.push(newest_event_at(commit));
    if let Some(schedule) = commit.schedule {
        params.extend([Param::optional(schedule.wake_at), schedule.running.into()]);
    }
    params.extend(commit.last_activity.map(Param::from));
    params.extend([commit.key.into(), commit.epoch.0.into()]);
    params.push(Param::optional(
        commit.events.first().map(|first| first.seq - 1),
    ));
    let sql = match (commit.schedule.is_some(), commit.last_activity.is_some()) {
        (false, false) => UPDATE_SESSION,
        (false, true) => UPDATE_SESSION_ACTIVITY,
        (true, false) => UPDATE_SESSION_SCHEDULE,
        (true, true) => UPDATE_SESSION_BOTH,
    };
    stmts.push(Stmt::one(sql, params));
    if let Some(title) = &commit.title {
        stmts.push(Stmt::one(
            UPDATE_TITLE,
            vec![Param::text(title), commit.key.into()],
        ));
    }
}

fn newest_event_at(commit: &Commit) -> Param {
    Param::optional(commit.events.last().map(|last| last.timestamp))
}

/// Each task has its own thread, which is not part of the session's history.
fn own_messages(commit: &Commit) -> u64 {
    commit
        .messages
        .iter()
        .filter(|message| message.is_own())
        .count() as u64
}

fn insert_message(key: Param, stored: StoredMessage) -> Result<Stmt, StoreError> {
    let thread = stored.thread()?;
    let message = stored.message;
    let notes = MessageNotes::of(&message).map_or(Ok(Param::Null), |notes| json(&notes))?;
    let opaque = message.reasoning.as_ref().map(|kept| &kept.opaque);
    let opaque = opaque.filter(|opaque| !opaque.is_null());
    let tool_calls = match message.tool_calls.as_slice() {
        [] => Param::Null,
        calls => json(&calls)?,
    };
    let (sql, mut params) = match thread {
        None => (INSERT_MESSAGE, vec![key]),
        Some((plan, task)) => (
            INSERT_TASK_MESSAGE,
            vec![key, Param::text(plan.as_str()), Param::text(task.as_str())],
        ),
    };
    params.extend([
        stored.ord.into(),
        stored.turn.0.into(),
        Param::text(message.message_id.as_str()),
        message.role.as_str().into(),
        Param::optional_text(message.agent_id.as_ref().map(|agent| agent.as_str())),
        Param::optional_text(message.name.as_deref()),
        Param::optional_text(message.tool_call_id.as_ref().map(|call| call.as_str())),
        message.timestamp.into(),
        message.error.into(),
        message.usage.as_ref().map_or(Ok(Param::Null), json)?,
        tool_calls,
        notes,
        opaque.map_or(Ok(Param::Null), json)?,
        message.content.into(),
    ]);
    Ok(Stmt::one(sql, params))
}

/// In the order of their digests, so that two commits that share files do not wait for each other.
fn attachments(commit: &mut Commit, stmts: &mut Vec<Stmt>) {
    let mut files = std::mem::take(&mut commit.attachments);
    files.sort_by(|a, b| a.about.digest.as_str().cmp(b.about.digest.as_str()));
    for AttachedFile { about, content } in files {
        let digest = || Param::from(&about.digest);
        stmts.push(Stmt::one(
            INSERT_ATTACHMENT,
            vec![digest(), about.size.into(), Param::Bytes(content)],
        ));
        let params = vec![
            commit.key.into(),
            digest(),
            Param::text(&about.name),
            Param::text(&about.media_type),
        ];
        stmts.push(Stmt::any(INSERT_SESSION_ATTACHMENT, params));
    }
    let mut shared = std::mem::take(&mut commit.attachments_shared);
    shared.sort_by(|a, b| a.digest.as_str().cmp(b.digest.as_str()));
    shared.dedup();
    for SharedAttachment { from, digest } in shared {
        stmts.push(Stmt::one(HOLD_ATTACHMENT, vec![Param::from(&digest)]));
        let params = vec![commit.key.into(), from.into(), Param::from(&digest)];
        stmts.push(Stmt::one(SHARE_ATTACHMENT, params));
    }
}

fn insert_event(key: Param, event: StoredEvent) -> Stmt {
    let params = vec![
        key,
        event.seq.into(),
        event.turn.0.into(),
        Param::Text(event.kind),
        Param::optional(event.settled.map(|status| status.as_str())),
        event.timestamp.into(),
        Param::Shared(event.body),
    ];
    Stmt::one(INSERT_EVENT, params)
}

fn approvals(commit: &Commit, stmts: &mut Vec<Stmt>) -> Result<(), StoreError> {
    for info in &commit.approvals_opened {
        stmts.push(insert_approval(commit.key.into(), info)?);
    }
    for extended in &commit.approvals_extended {
        let call = Param::text(extended.call_id.as_str());
        stmts.push(Stmt::one(
            EXTEND_APPROVAL,
            vec![
                Param::optional(extended.expires_at),
                commit.key.into(),
                call,
            ],
        ));
    }
    for previewed in &commit.approvals_previewed {
        let call = Param::text(previewed.call_id.as_str());
        stmts.push(Stmt::one(
            PREVIEW_APPROVAL,
            vec![json(&previewed.preview)?, commit.key.into(), call],
        ));
    }
    for closed in &commit.approvals_closed {
        let call = Param::text(closed.call_id.as_str());
        let params = vec![
            closed.status.as_str().into(),
            closed.decided_at.into(),
            commit.key.into(),
            call,
        ];
        stmts.push(Stmt::one(CLOSE_APPROVAL, params));
    }
    Ok(())
}

fn insert_approval(key: Param, info: &ApprovalInfo) -> Result<Stmt, StoreError> {
    let params = vec![
        key,
        Param::text(info.call_id.as_str()),
        Param::text(info.kind.as_str()),
        Param::text(&info.tool_name),
        json(&info.arguments)?,
        (&info.digest).into(),
        json(&info.parts)?,
        Param::text(&info.reason),
        info.created_at.into(),
        Param::optional(info.expires_at),
        info.timeout_seconds.into(),
        Param::optional(info.mcp.as_ref().map(json).transpose()?),
        Param::optional(info.preview.as_ref().map(json).transpose()?),
    ];
    Ok(Stmt::one(INSERT_APPROVAL, params))
}

fn tool_calls(commit: &Commit, stmts: &mut Vec<Stmt>) {
    for opened in &commit.tool_calls_opened {
        let call = Param::text(opened.call_id.as_str());
        let params = vec![
            commit.key.into(),
            call,
            opened.turn.0.into(),
            Param::text(&opened.tool_name),
        ];
        stmts.push(Stmt::one(INSERT_TOOL_CALL, params));
    }
    for closed in &commit.tool_calls_closed {
        stmts.push(Stmt::one(
            CLOSE_TOOL_CALL,
            vec![
                closed.status.as_str().into(),
                Param::optional(closed.result_digest.as_ref()),
                Param::optional(closed.after_seq),
                Param::optional_text(closed.did.as_deref()),
                commit.key.into(),
                Param::text(closed.call_id.as_str()),
            ],
        ));
    }
}

fn append_audit(
    commit: &Commit,
    audit: &AuditAppended,
    stmts: &mut Vec<Stmt>,
) -> Result<(), StoreError> {
    let before = match audit.head.count.checked_sub(audit.rows.len() as u64) {
        Some(before) if !audit.rows.is_empty() => before,
        _ => {
            return Err(StoreError::Invalid(
                "the audit head does not count the added rows".to_owned(),
            ));
        }
    };
    for row in &audit.rows {
        stmts.push(insert_audit(commit.key.into(), row)?);
    }
    let seal = Param::optional(audit.seal.as_ref());
    let end = [
        Param::from(audit.head.count),
        Param::from(&audit.head.head),
        seal,
    ];
    stmts.push(if before == 0 {
        let name = [
            commit.key.into(),
            audit.kind.as_str().into(),
            Param::text(audit.session_id.as_str()),
        ];
        let params = name
            .into_iter()
            .chain(end)
            .chain([audit.head.keyed_from.into()])
            .collect();
        Stmt::one(INSERT_AUDIT_HEAD, params)
    } else {
        let params = end
            .into_iter()
            .chain([commit.key.into(), before.into()])
            .collect();
        Stmt::one(MOVE_AUDIT_HEAD, params)
    });
    Ok(())
}

fn insert_audit(key: Param, row: &AuditRow) -> Result<Stmt, StoreError> {
    let record = &row.record;
    let params = vec![
        key,
        row.ord.into(),
        Param::text(record.call_id.as_str()),
        Param::text(&record.tool_name),
        record
            .original_args
            .as_ref()
            .map_or(Ok(Param::Null), json)?,
        (&record.original_digest).into(),
        record
            .modified_args
            .as_ref()
            .map_or(Ok(Param::Null), json)?,
        Param::optional(record.modified_digest.as_ref()),
        Param::text(&record.decision),
        Param::text(&record.decided_by),
        Param::optional_text(record.reason.as_deref()),
        Param::optional(record.reason_digest.as_ref()),
        record.timestamp.into(),
        (&row.hash).into(),
    ];
    Ok(Stmt::one(INSERT_AUDIT, params))
}

pub(super) fn json<T: serde::Serialize + ?Sized>(value: &T) -> Result<Param, StoreError> {
    let text = serde_json::to_string(value);
    text.map(Param::from)
        .map_err(|_| StoreError::Invalid("a value has no JSON form".to_owned()))
}
