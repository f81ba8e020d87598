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
