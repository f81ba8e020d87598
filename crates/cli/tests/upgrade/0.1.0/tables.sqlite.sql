CREATE TABLE agent_contexts (
    session_key    BIGINT NOT NULL PRIMARY KEY,
    current_agent  TEXT   NOT NULL,
    switch_count   BIGINT NOT NULL,
    metadata       TEXT   NOT NULL,
    created_at     BIGINT NOT NULL,
    last_switch_at BIGINT
) WITHOUT ROWID;
CREATE TABLE agent_switches (
    session_key BIGINT NOT NULL,
    ord         BIGINT NOT NULL,
    from_agent  TEXT   NOT NULL,
    to_agent    TEXT   NOT NULL,
    reason      TEXT   NOT NULL,
    confidence  TEXT,
    switched_at BIGINT NOT NULL,
    PRIMARY KEY (session_key, ord)
) WITHOUT ROWID;
CREATE TABLE audit_heads (
    session_key BIGINT NOT NULL PRIMARY KEY,
    realm       TEXT   NOT NULL,
    session_id  TEXT   NOT NULL,
    count       BIGINT NOT NULL,
    head        TEXT   NOT NULL
, keyed_from BIGINT, seal TEXT) WITHOUT ROWID;
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
    hash            TEXT   NOT NULL, reason_digest TEXT,
    PRIMARY KEY (session_key, ord)
) WITHOUT ROWID;
CREATE TABLE audit_seals (
    id        BIGINT NOT NULL PRIMARY KEY,
    sealed_at BIGINT NOT NULL,
    seal      TEXT   NOT NULL
) WITHOUT ROWID;
CREATE TABLE counters (
    name  TEXT   NOT NULL PRIMARY KEY,
    value BIGINT NOT NULL
) WITHOUT ROWID;
CREATE TABLE "events" (
    session_key BIGINT NOT NULL,
    seq         BIGINT NOT NULL,
    turn        BIGINT NOT NULL,
    kind        TEXT   NOT NULL,
    settled     TEXT,
    created_at  BIGINT NOT NULL,
    body        TEXT   NOT NULL,
    PRIMARY KEY (session_key, seq)
);
CREATE TABLE inputs (
    session_key       BIGINT NOT NULL,
    client_message_id TEXT   NOT NULL,
    turn              BIGINT NOT NULL,
    after_seq         BIGINT NOT NULL,
    PRIMARY KEY (session_key, client_message_id)
) WITHOUT ROWID;
CREATE TABLE interactions (
    id          INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    user_id     BIGINT  NOT NULL,
    project_id  BIGINT  NOT NULL,
    agent       TEXT    NOT NULL,
    session_key BIGINT,
    task_id     TEXT,
    type        TEXT    NOT NULL,
    success     BIGINT,
    text        TEXT    NOT NULL,
    metadata    TEXT    NOT NULL,
    created_at  BIGINT  NOT NULL,
    indexed     BIGINT  NOT NULL DEFAULT 0
);
CREATE TABLE login_tickets (
    hash       TEXT   NOT NULL PRIMARY KEY,
    user_id    BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
) WITHOUT ROWID;
CREATE TABLE memory_erasures (
    id         BIGINT NOT NULL PRIMARY KEY,
    user_id    BIGINT NOT NULL,
    project_id BIGINT NOT NULL,
    agent      TEXT   NOT NULL
) WITHOUT ROWID;
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
    content      TEXT   NOT NULL, notes TEXT,
    PRIMARY KEY (session_key, ord)
) WITHOUT ROWID;
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
) WITHOUT ROWID;
CREATE TABLE plans (
    session_key BIGINT NOT NULL,
    plan_id     TEXT   NOT NULL,
    turn        BIGINT NOT NULL,
    status      TEXT   NOT NULL,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    body        TEXT   NOT NULL,
    PRIMARY KEY (session_key, plan_id)
) WITHOUT ROWID;
CREATE TABLE project_agents (
    id                INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    project_id        BIGINT  NOT NULL,
    agent_id          TEXT    NOT NULL UNIQUE,
    name              TEXT    NOT NULL,
    role              TEXT    NOT NULL,
    description       TEXT    NOT NULL,
    model             TEXT    NOT NULL,
    temperature       TEXT,
    max_tokens        BIGINT,
    system_prompt     TEXT    NOT NULL,
    allowed_tools     TEXT    NOT NULL,
    file_restrictions TEXT    NOT NULL,
    concurrency_limit BIGINT  NOT NULL,
    created_at        BIGINT  NOT NULL,
    updated_at        BIGINT  NOT NULL, registered BIGINT NOT NULL DEFAULT 1,
    UNIQUE (project_id, name)
);
CREATE TABLE projects (
    id               INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    nonce            TEXT    NOT NULL UNIQUE,
    user_id          BIGINT  NOT NULL,
    name             TEXT    NOT NULL,
    description      TEXT,
    budget_micro_usd BIGINT,
    budget_tokens    BIGINT,
    is_default       BIGINT  NOT NULL,
    created_at       BIGINT  NOT NULL,
    updated_at       BIGINT  NOT NULL
, granted_micro_usd BIGINT NOT NULL DEFAULT 0, granted_tokens BIGINT NOT NULL DEFAULT 0);
CREATE TABLE schema_migrations (version BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE servers (
    server_id        TEXT   NOT NULL PRIMARY KEY,
    started_at       BIGINT NOT NULL,
    lease_expires_at BIGINT NOT NULL
) WITHOUT ROWID;
CREATE TABLE sessions (
    id            INTEGER NOT NULL PRIMARY KEY,
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
);
CREATE TABLE spendings (
    id                INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    session_key       BIGINT  NOT NULL,
    user_id           BIGINT  NOT NULL,
    project_id        BIGINT  NOT NULL,
    agent             TEXT    NOT NULL,
    turn              BIGINT  NOT NULL,
    task_id           TEXT,
    prompt_tokens     BIGINT  NOT NULL,
    completion_tokens BIGINT  NOT NULL,
    total_tokens      BIGINT  NOT NULL,
    cost_micro_usd    BIGINT,
    created_at        BIGINT  NOT NULL
);
CREATE TABLE task_messages (
    session_key  BIGINT NOT NULL,
    plan_id      TEXT   NOT NULL,
    task_id      TEXT   NOT NULL,
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
    content      TEXT   NOT NULL, notes TEXT,
    PRIMARY KEY (session_key, plan_id, task_id, ord)
) WITHOUT ROWID;
CREATE TABLE tool_calls (
    session_key   BIGINT NOT NULL,
    call_id       TEXT   NOT NULL,
    turn          BIGINT NOT NULL,
    tool_name     TEXT   NOT NULL,
    status        TEXT   NOT NULL,
    result_digest TEXT,
    after_seq     BIGINT,
    PRIMARY KEY (session_key, call_id)
) WITHOUT ROWID;
CREATE TABLE web_sessions (
    hash       TEXT   NOT NULL PRIMARY KEY,
    user_id    BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
) WITHOUT ROWID;
CREATE INDEX interactions_by_agent ON interactions (project_id, agent, id);
CREATE INDEX interactions_by_session ON interactions (session_key) WHERE session_key IS NOT NULL;
CREATE INDEX interactions_unindexed ON interactions (id) WHERE indexed = 0;
CREATE INDEX login_tickets_by_expiry ON login_tickets (expires_at);
CREATE INDEX messages_by_turn ON messages (session_key, turn, ord);
CREATE INDEX pending_approvals_open ON pending_approvals (session_key) WHERE status = 'pending';
CREATE INDEX projects_by_user ON projects (user_id, id);
CREATE UNIQUE INDEX projects_default ON projects (user_id) WHERE is_default = 1;
CREATE INDEX sessions_by_activity ON sessions (realm, last_activity) WHERE deleted_at IS NULL;
CREATE INDEX sessions_by_project ON sessions (project_id, last_activity) WHERE project_id IS NOT NULL;
CREATE INDEX sessions_by_user ON sessions (user_id, last_activity) WHERE realm = 'project' AND deleted_at IS NULL;
CREATE INDEX sessions_by_wake ON sessions (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX sessions_running ON sessions (id) WHERE running = 1;
CREATE INDEX spendings_by_agent ON spendings (project_id, agent, id);
CREATE INDEX spendings_by_session ON spendings (session_key);
CREATE INDEX spendings_by_user ON spendings (user_id, project_id);
CREATE INDEX tool_calls_open ON tool_calls (session_key) WHERE status = 'open';
CREATE INDEX web_sessions_by_expiry ON web_sessions (expires_at);
ANALYZE sqlite_schema;
INSERT INTO sqlite_sequence (name, seq) VALUES ('interactions', 14);
INSERT INTO sqlite_sequence (name, seq) VALUES ('project_agents', 9);
INSERT INTO sqlite_sequence (name, seq) VALUES ('projects', 2);
INSERT INTO sqlite_sequence (name, seq) VALUES ('spendings', 29);
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('events', 'sqlite_autoindex_events_1', '1000000 1000 1');
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('messages', 'messages', '1000000 1000 1');
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('messages', 'messages_by_turn', '1000000 1000 10 1');
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('pending_approvals', 'pending_approvals', '10000 100 1');
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('pending_approvals', 'pending_approvals_open', '100 2');
