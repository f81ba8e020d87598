-- The words of each title (`ord` 0) and message of project sessions, as `search.rs` cuts and writes them. PostgreSQL's
-- parser would cut paths, addresses and numbers in its own way, so the lexemes are made without it. The index and the
-- reference to `sessions` are made after the table is filled.
CREATE TABLE session_texts (
    id          BIGINT NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session_key BIGINT NOT NULL,
    ord         BIGINT NOT NULL,
    words       TEXT   NOT NULL,
    lexemes     TSVECTOR NOT NULL GENERATED ALWAYS AS (ARRAY_TO_TSVECTOR(STRING_TO_ARRAY(words, ' '))) STORED,
    UNIQUE (session_key, ord)
);
