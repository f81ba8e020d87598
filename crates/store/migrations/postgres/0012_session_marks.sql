-- What a person marks a session with. Lists leave archived sessions out.
ALTER TABLE sessions ADD COLUMN pinned BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN archived BIGINT NOT NULL DEFAULT 0;
