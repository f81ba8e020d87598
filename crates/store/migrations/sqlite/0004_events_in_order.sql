-- Events are kept in the order they are stored, whatever their session: what a transaction adds then lies together on a
-- few pages. In a table that is sorted by session each event changed a page of its own, and often that page's
-- neighbours. They are read by their place alone, so the index by turn goes too.
CREATE TABLE events_in_order (
    session_key BIGINT NOT NULL,
    seq         BIGINT NOT NULL,
    turn        BIGINT NOT NULL,
    kind        TEXT   NOT NULL,
    settled     TEXT,
    created_at  BIGINT NOT NULL,
    body        TEXT   NOT NULL,
    PRIMARY KEY (session_key, seq)
);
INSERT INTO events_in_order SELECT session_key, seq, turn, kind, settled, created_at, body
    FROM events ORDER BY created_at, session_key, seq;
DROP TABLE events;
ALTER TABLE events_in_order RENAME TO events;

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('events', 'sqlite_autoindex_events_1', '1000000 1000 1');
ANALYZE sqlite_schema;
