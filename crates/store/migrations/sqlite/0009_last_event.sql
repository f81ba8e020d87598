-- When the newest event of a session happened. The stream of all of a user's sessions finds by it the ones that a
-- reader who comes back has missed something of. It has no index: every commit changes it.
ALTER TABLE sessions ADD COLUMN last_event_at BIGINT;
