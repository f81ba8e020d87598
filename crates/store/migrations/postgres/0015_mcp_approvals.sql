-- What people are told about the MCP tool of a call; NULL for built-in tools, plans and budgets.
ALTER TABLE pending_approvals ADD COLUMN mcp TEXT;
