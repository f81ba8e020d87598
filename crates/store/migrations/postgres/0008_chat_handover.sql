-- The Chat on its way from one owner to the next, as JSON. The new owner takes it away. One row at most.
CREATE TABLE chat_handovers (
    id       BIGINT NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    saved_at BIGINT NOT NULL,
    body     TEXT   NOT NULL
);
