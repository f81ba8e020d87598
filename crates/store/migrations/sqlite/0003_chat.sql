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

-- One row per model call. A cost that is not known is NULL.
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
CREATE INDEX spendings_by_user ON spendings (user_id, project_id);
CREATE INDEX spendings_by_agent ON spendings (project_id, agent, id);
CREATE INDEX spendings_by_session ON spendings (session_key);

-- What an agent can remember: the source of its index, which says `indexed` about each. Numbers are never used twice:
-- the index names what it holds by them.
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
CREATE INDEX interactions_by_agent ON interactions (project_id, agent, id);
CREATE INDEX interactions_by_session ON interactions (session_key) WHERE session_key IS NOT NULL;
CREATE INDEX interactions_unindexed ON interactions (id) WHERE indexed = 0;

CREATE INDEX sessions_by_user ON sessions (user_id, last_activity) WHERE realm = 'project' AND deleted_at IS NULL;

-- Whether the agent takes tasks; a person can take it out of service.
ALTER TABLE project_agents ADD COLUMN registered BIGINT NOT NULL DEFAULT 1;
