-- Rewinds. Messages and memories that one took back keep its id. `did` is what a tool call changed: a path, a command, or the
-- tool of an MCP server.
ALTER TABLE messages ADD COLUMN rewound TEXT;
ALTER TABLE task_messages ADD COLUMN rewound TEXT;
ALTER TABLE interactions ADD COLUMN turn BIGINT;
ALTER TABLE interactions ADD COLUMN rewound TEXT;
ALTER TABLE session_texts ADD COLUMN hidden BIGINT NOT NULL DEFAULT 0;
ALTER TABLE tool_calls ADD COLUMN did TEXT;
