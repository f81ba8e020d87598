-- The files of messages. Each is stored once, whoever sent it; a session reads only those that it refers to.
CREATE TABLE attachments (
    digest  TEXT PRIMARY KEY,
    size    BIGINT NOT NULL,
    content BLOB NOT NULL
);
CREATE TABLE session_attachments (
    session_key BIGINT NOT NULL,
    digest      TEXT NOT NULL,
    name        TEXT NOT NULL,
    media_type  TEXT NOT NULL,
    PRIMARY KEY (session_key, digest)
);
CREATE INDEX session_attachments_by_digest ON session_attachments (digest);
