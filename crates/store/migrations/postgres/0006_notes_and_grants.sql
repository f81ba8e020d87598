-- What few messages say beside their text, as JSON: the question that one answers, warnings about an answer.
ALTER TABLE messages ADD COLUMN notes TEXT;
ALTER TABLE task_messages ADD COLUMN notes TEXT;

-- How much of a project's budget approvals added since a person last set it: an approval adds what the person set.
ALTER TABLE projects ADD COLUMN granted_micro_usd BIGINT NOT NULL DEFAULT 0;
ALTER TABLE projects ADD COLUMN granted_tokens BIGINT NOT NULL DEFAULT 0;

-- Which sessions wait for an answer is asked for every list of sessions.
CREATE INDEX tool_calls_open ON tool_calls (session_key) WHERE status = 'open';
