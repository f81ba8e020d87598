-- Times are milliseconds since 1970 (UTC), flags are 0 or 1, JSON is text.
-- No foreign keys: every child row is written behind the session's fence and purged with it, except the audit log,
-- which outlives its session.

CREATE TABLE servers (
    server_id        TEXT   NOT NULL PRIMARY KEY,
    started_at       BIGINT NOT NULL,
    lease_expires_at BIGINT NOT NULL
);

CREATE TABLE sessions (
    id            BIGINT  NOT NULL PRIMARY KEY,
    realm         TEXT    NOT NULL,
    session_id    TEXT    NOT NULL,
    user_id       BIGINT,
    project_id    BIGINT,
    title         TEXT,
    description   TEXT,
    system_prompt TEXT,
    created_at    BIGINT  NOT NULL,
    last_activity BIGINT  NOT NULL,
    is_active     BIGINT  NOT NULL DEFAULT 1,
    deleted_at    BIGINT,
    message_count BIGINT  NOT NULL DEFAULT 0,
    last_seq      BIGINT  NOT NULL DEFAULT 0,
    first_seq     BIGINT  NOT NULL DEFAULT 1,
    owner         TEXT,
    epoch         BIGINT  NOT NULL,
    wake_at       BIGINT,
    running       BIGINT  NOT NULL DEFAULT 0,
    state         TEXT    NOT NULL,
    UNIQUE (realm, session_id)
) WITH (fillfactor = 70); -- room on the page for the new version of a row that every commit writes
CREATE INDEX sessions_by_activity ON sessions (realm, last_activity) WHERE deleted_at IS NULL;
CREATE INDEX sessions_by_wake ON sessions (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX sessions_running ON sessions (id) WHERE running = 1;

CREATE TABLE messages (
    session_key  BIGINT NOT NULL,
    ord          BIGINT NOT NULL,
    turn         BIGINT NOT NULL,
    message_id   TEXT   NOT NULL,
    role         TEXT   NOT NULL,
    agent_id     TEXT,
    name         TEXT,
    tool_call_id TEXT,
    timestamp    BIGINT NOT NULL,
    error        BIGINT NOT NULL,
    usage        TEXT,
    tool_calls   TEXT,
    content      TEXT   NOT NULL,
    PRIMARY KEY (session_key, ord)
);
CREATE INDEX messages_by_turn ON messages (session_key, turn, ord);

CREATE TABLE agent_contexts (
    session_key    BIGINT NOT NULL PRIMARY KEY,
    current_agent  TEXT   NOT NULL,
    switch_count   BIGINT NOT NULL,
    metadata       TEXT   NOT NULL,
    created_at     BIGINT NOT NULL,
    last_switch_at BIGINT
);

CREATE TABLE agent_switches (
    session_key BIGINT NOT NULL,
    ord         BIGINT NOT NULL,
    from_agent  TEXT   NOT NULL,
    to_agent    TEXT   NOT NULL,
    reason      TEXT   NOT NULL,
    confidence  TEXT,
    switched_at BIGINT NOT NULL,
    PRIMARY KEY (session_key, ord)
);

CREATE TABLE pending_approvals (
    session_key     BIGINT NOT NULL,
    call_id         TEXT   NOT NULL,
    kind            TEXT   NOT NULL,
    tool_name       TEXT   NOT NULL,
    arguments       TEXT   NOT NULL,
    digest          TEXT   NOT NULL,
    parts           TEXT   NOT NULL,
    reason          TEXT   NOT NULL,
    status          TEXT   NOT NULL,
    created_at      BIGINT NOT NULL,
    expires_at      BIGINT,
    timeout_seconds BIGINT NOT NULL,
    decided_at      BIGINT,
    PRIMARY KEY (session_key, call_id)
);
CREATE INDEX pending_approvals_open ON pending_approvals (session_key) WHERE status = 'pending';

CREATE TABLE tool_calls (
    session_key   BIGINT NOT NULL,
    call_id       TEXT   NOT NULL,
    turn          BIGINT NOT NULL,
    tool_name     TEXT   NOT NULL,
    status        TEXT   NOT NULL,
    result_digest TEXT,
    after_seq     BIGINT,
    PRIMARY KEY (session_key, call_id)
);

CREATE TABLE audit_logs (
    session_key     BIGINT NOT NULL,
    ord             BIGINT NOT NULL,
    call_id         TEXT   NOT NULL,
    tool_name       TEXT   NOT NULL,
    original_args   TEXT,
    original_digest TEXT   NOT NULL,
    modified_args   TEXT,
    modified_digest TEXT,
    decision        TEXT   NOT NULL,
    decided_by      TEXT   NOT NULL,
    reason          TEXT,
    timestamp       BIGINT NOT NULL,
    hash            TEXT   NOT NULL,
    PRIMARY KEY (session_key, ord)
);

CREATE TABLE audit_heads (
    session_key BIGINT NOT NULL PRIMARY KEY,
    realm       TEXT   NOT NULL,
    session_id  TEXT   NOT NULL,
    count       BIGINT NOT NULL,
    head        TEXT   NOT NULL
);

CREATE TABLE inputs (
    session_key       BIGINT NOT NULL,
    client_message_id TEXT   NOT NULL,
    turn              BIGINT NOT NULL,
    after_seq         BIGINT NOT NULL,
    PRIMARY KEY (session_key, client_message_id)
);

CREATE TABLE events (
    session_key BIGINT NOT NULL,
    seq         BIGINT NOT NULL,
    turn        BIGINT NOT NULL,
    kind        TEXT   NOT NULL,
    settled     TEXT,
    created_at  BIGINT NOT NULL,
    body        TEXT   NOT NULL,
    PRIMARY KEY (session_key, seq)
);
CREATE INDEX events_by_turn ON events (session_key, turn, seq);
