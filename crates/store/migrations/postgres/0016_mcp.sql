-- MCP servers of projects. Headers, tokens and what an authorization needs later are encrypted with a key that is not
-- in the database.
CREATE TABLE mcp_servers (
    project_id BIGINT NOT NULL,
    name       TEXT   NOT NULL,
    url        TEXT   NOT NULL,
    headers    BYTEA,
    tokens     BYTEA,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, name)
);

-- The definitions of tools that count as accepted: the first one seen of each tool, and those that a person accepted.
CREATE TABLE mcp_definitions (
    project_id  BIGINT NOT NULL,
    server      TEXT   NOT NULL,
    tool        TEXT   NOT NULL,
    digest      TEXT   NOT NULL,
    definition  TEXT   NOT NULL,
    accepted_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, server, tool, digest)
);

-- What a person decided about a tool. A tool without a row asks.
CREATE TABLE mcp_permissions (
    project_id BIGINT NOT NULL,
    server     TEXT   NOT NULL,
    tool       TEXT   NOT NULL,
    permission TEXT   NOT NULL,
    PRIMARY KEY (project_id, server, tool)
);

-- Authorizations that a person has begun. The state that names one is kept as SHA-256 only.
CREATE TABLE mcp_authorizations (
    hash       TEXT   NOT NULL PRIMARY KEY,
    user_id    BIGINT NOT NULL,
    project_id BIGINT NOT NULL,
    server     TEXT   NOT NULL,
    pending    BYTEA NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX mcp_authorizations_by_project ON mcp_authorizations (project_id, server, expires_at);
CREATE INDEX mcp_authorizations_by_expiry ON mcp_authorizations (expires_at);
