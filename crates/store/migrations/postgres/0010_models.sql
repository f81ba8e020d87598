-- A project's agent without a model of its own follows the server's default model: its `model` is empty. The agents of
-- the starter pack were made with the default of that time; so nobody chose it.
ALTER TABLE project_agents ADD COLUMN fallback_models TEXT NOT NULL DEFAULT '[]';
UPDATE project_agents SET model = '' WHERE model = 'gpt-4'
    AND name IN ('agent_coder', 'agent_analyzer', 'agent_writer', 'agent_researcher');

-- Their prompts ended with the history. It changes with every turn, so nothing of such a request could be cached; now
-- it is sent as messages.
UPDATE project_agents SET system_prompt = REPLACE(system_prompt, '

The conversation so far:
{{messageHistory}}', '') WHERE name IN ('agent_coder', 'agent_analyzer', 'agent_writer', 'agent_researcher');

-- What of a call's tokens came from the provider's cache, what was spent on thinking, and which model answered.
ALTER TABLE spendings ADD COLUMN cached_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE spendings ADD COLUMN reasoning_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE spendings ADD COLUMN model TEXT;
