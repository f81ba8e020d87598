-- Several servers as one installation.

-- The address under which the others reach a server; none where it is alone.
ALTER TABLE servers ADD COLUMN address TEXT;
-- 1 once it owns nothing any more: it stopped, or others took over after its lease.
ALTER TABLE servers ADD COLUMN ended BIGINT NOT NULL DEFAULT 0;
-- 1 while it hands over what it owns.
ALTER TABLE servers ADD COLUMN draining BIGINT NOT NULL DEFAULT 0;

-- Which server owns a worker space ('project' and its number) or the Chat ('chat', 0). The owner of a session of the
-- runtime kind is in its own row.
CREATE TABLE owners (
    kind   TEXT NOT NULL,
    number BIGINT NOT NULL,
    owner  TEXT,
    epoch  BIGINT NOT NULL,
    PRIMARY KEY (kind, number)
);

-- What all servers must agree on, by name.
CREATE TABLE installation (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);
INSERT INTO installation (name, value) VALUES ('joining', '');
