-- What a provider wants back of its model's reasoning. It is only needed until the turn ends, and it can be long, so it
-- has a column of its own that is emptied then.
ALTER TABLE messages ADD COLUMN opaque_reasoning TEXT;
ALTER TABLE task_messages ADD COLUMN opaque_reasoning TEXT;
CREATE INDEX task_messages_with_reasoning ON task_messages (session_key, turn) WHERE opaque_reasoning IS NOT NULL;
