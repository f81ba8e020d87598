-- Decisions are chained with a key that is not in the database, so that whoever writes to it cannot make a chain that
-- holds. Rows from `keyed_from` on are keyed, and `seal` covers where the chain ends. A chain from before gets both when
-- the server starts with its key for the first time; `audit_seals` then says that this was done.
ALTER TABLE audit_heads ADD COLUMN keyed_from BIGINT;
ALTER TABLE audit_heads ADD COLUMN seal TEXT;
CREATE TABLE audit_seals (
    id        BIGINT NOT NULL PRIMARY KEY,
    sealed_at BIGINT NOT NULL,
    seal      TEXT   NOT NULL
) WITHOUT ROWID;

-- A keyed row covers its reason by this digest, so that a purge can blank the reason like the arguments.
ALTER TABLE audit_logs ADD COLUMN reason_digest TEXT;

-- Numbers that only grow: `chat_ids` is the highest id that the global Chat has reserved; `erase_due` says that deleted
-- text may still be in the file.
CREATE TABLE counters (
    name  TEXT   NOT NULL PRIMARY KEY,
    value BIGINT NOT NULL
) WITHOUT ROWID;

-- Interactions that were deleted here and may still be in the files of the memory engine.
CREATE TABLE memory_erasures (
    id         BIGINT NOT NULL PRIMARY KEY,
    user_id    BIGINT NOT NULL,
    project_id BIGINT NOT NULL,
    agent      TEXT   NOT NULL
) WITHOUT ROWID;
