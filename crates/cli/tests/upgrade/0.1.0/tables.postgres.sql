CREATE TABLE schema_migrations (version BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL);
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
-- What belongs to users: ways to log in, projects, the agents of projects.
-- Tickets and cookies are kept as SHA-256 only: whoever reads the database cannot log in with what is in it.

CREATE TABLE login_tickets (
    hash       TEXT   NOT NULL PRIMARY KEY,
    user_id    BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX login_tickets_by_expiry ON login_tickets (expires_at);

CREATE TABLE web_sessions (
    hash       TEXT   NOT NULL PRIMARY KEY,
    user_id    BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX web_sessions_by_expiry ON web_sessions (expires_at);

-- Numbers are never used twice: a stale link must not lead to somebody else's project.
-- `nonce` names a project in the statements that create it, before its number is known.
CREATE TABLE projects (
    id               BIGINT  NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    nonce            TEXT    NOT NULL UNIQUE,
    user_id          BIGINT  NOT NULL,
    name             TEXT    NOT NULL,
    description      TEXT,
    budget_micro_usd BIGINT,
    budget_tokens    BIGINT,
    is_default       BIGINT  NOT NULL,
    created_at       BIGINT  NOT NULL,
    updated_at       BIGINT  NOT NULL
);
CREATE INDEX projects_by_user ON projects (user_id, id);
CREATE UNIQUE INDEX projects_default ON projects (user_id) WHERE is_default = 1;

CREATE TABLE project_agents (
    id                BIGINT  NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
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
    updated_at        BIGINT  NOT NULL,
    UNIQUE (project_id, name)
);

CREATE INDEX sessions_by_project ON sessions (project_id, last_activity) WHERE project_id IS NOT NULL;
-- What a project's sessions have beyond other sessions: plans, the threads of their tasks, what agents spent and remember.
-- All of it goes with its session, except what was spent: that is the user's history, and goes with the project.

-- Apart from the session's own history, so that no question about the history has to pass over them.
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
    content      TEXT   NOT NULL,
    PRIMARY KEY (session_key, plan_id, task_id, ord)
);

CREATE TABLE plans (
    session_key BIGINT NOT NULL,
    plan_id     TEXT   NOT NULL,
    turn        BIGINT NOT NULL,
    status      TEXT   NOT NULL,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    body        TEXT   NOT NULL,
    PRIMARY KEY (session_key, plan_id)
);

-- One row per model call. A cost that is not known is NULL.
CREATE TABLE spendings (
    id                BIGINT  NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
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
CREATE INDEX spendings_by_user ON spendings (user_id, project_id);
CREATE INDEX spendings_by_agent ON spendings (project_id, agent, id);
CREATE INDEX spendings_by_session ON spendings (session_key);

-- What an agent can remember: the source of its index, which says `indexed` about each. Numbers are never used twice:
-- the index names what it holds by them.
CREATE TABLE interactions (
    id          BIGINT  NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
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
CREATE INDEX interactions_by_agent ON interactions (project_id, agent, id);
CREATE INDEX interactions_by_session ON interactions (session_key) WHERE session_key IS NOT NULL;
CREATE INDEX interactions_unindexed ON interactions (id) WHERE indexed = 0;

CREATE INDEX sessions_by_user ON sessions (user_id, last_activity) WHERE realm = 'project' AND deleted_at IS NULL;

-- Whether the agent takes tasks; a person can take it out of service.
ALTER TABLE project_agents ADD COLUMN registered BIGINT NOT NULL DEFAULT 1;
-- Events are read by their place alone.
DROP INDEX events_by_turn;
-- Decisions are chained with a key that is not in the database, so that whoever writes to it cannot make a chain that
-- holds. Rows from `keyed_from` on are keyed, and `seal` covers where the chain ends. A chain from before gets both when
-- the server starts with its key for the first time; `audit_seals` then says that this was done.
ALTER TABLE audit_heads ADD COLUMN keyed_from BIGINT;
ALTER TABLE audit_heads ADD COLUMN seal TEXT;
CREATE TABLE audit_seals (
    id        BIGINT NOT NULL PRIMARY KEY,
    sealed_at BIGINT NOT NULL,
    seal      TEXT   NOT NULL
);

-- A keyed row covers its reason by this digest, so that a purge can blank the reason like the arguments.
ALTER TABLE audit_logs ADD COLUMN reason_digest TEXT;

-- Numbers that only grow: `chat_ids` is the highest id that the global Chat has reserved.
CREATE TABLE counters (
    name  TEXT   NOT NULL PRIMARY KEY,
    value BIGINT NOT NULL
);

-- Interactions that were deleted here and may still be in the files of the memory engine.
CREATE TABLE memory_erasures (
    id         BIGINT NOT NULL PRIMARY KEY,
    user_id    BIGINT NOT NULL,
    project_id BIGINT NOT NULL,
    agent      TEXT   NOT NULL
);
-- What few messages say beside their text, as JSON: the question that one answers, warnings about an answer.
ALTER TABLE messages ADD COLUMN notes TEXT;
ALTER TABLE task_messages ADD COLUMN notes TEXT;

-- How much of a project's budget approvals added since a person last set it: an approval adds what the person set.
ALTER TABLE projects ADD COLUMN granted_micro_usd BIGINT NOT NULL DEFAULT 0;
ALTER TABLE projects ADD COLUMN granted_tokens BIGINT NOT NULL DEFAULT 0;

-- Which sessions wait for an answer is asked for every list of sessions.
CREATE INDEX tool_calls_open ON tool_calls (session_key) WHERE status = 'open';
