-- The Chat on its way from one owner to the next, as JSON. The new owner takes it away. One row at most.
CREATE TABLE chat_handovers (
    id       INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    saved_at BIGINT  NOT NULL,
    body     TEXT    NOT NULL
);
