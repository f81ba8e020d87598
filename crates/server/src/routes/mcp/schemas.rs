//! JSON schemas of what the tools take and give. Those of results name what a program needs; the
//! API document has all fields.

use serde_json::{Value, json};

fn project_id() -> Value {
    json!({
        "type": "integer",
        "minimum": 1,
        "description": "The project. Without it, the user's default project.",
    })
}

fn session_id(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn input(properties: Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn output(properties: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required })
}

pub(super) fn list_agents() -> Value {
    input(json!({ "project_id": project_id() }), &[])
}

pub(super) fn ask_agent() -> Value {
    let properties = json!({
        "agent": {
            "type": "string",
            "minLength": 1,
            "description": "The agent's name or id, as list_agents shows it.",
        },
        "message": { "type": "string", "minLength": 1 },
        "project_id": project_id(),
        "session_id": session_id("Goes on in this session. Without it, a new one begins."),
    });
    input(properties, &["agent", "message"])
}

pub(super) fn start_plan() -> Value {
    let properties = json!({
        "message": { "type": "string", "minLength": 1, "description": "What is to be done." },
        "project_id": project_id(),
        "session_id": session_id("Goes on in this session. Without it, a new one begins."),
    });
    input(properties, &["message"])
}

pub(super) fn get_session() -> Value {
    let properties = json!({ "session_id": session_id("The session.") });
    input(properties, &["session_id"])
}

pub(super) fn list_approvals() -> Value {
    input(json!({}), &[])
}

pub(super) fn decide_approval() -> Value {
    let properties = json!({
        "session_id": session_id("The session in which something waits."),
        "call_id": { "type": "string", "description": "What waits, as list_approvals shows it." },
        "decision": { "type": "string", "enum": ["approve", "reject", "edit"] },
        "feedback": {
            "type": "string",
            "description": "With reject: what the agent should do instead.",
        },
        "modified_args": {
            "type": "object",
            "description": "With edit: the arguments to use instead.",
        },
        "digest": {
            "type": "string",
            "description": "The digest that was shown. If it is another one by now, nothing is \
                            decided.",
        },
        "base": {
            "type": ["string", "null"],
            "description": "For a write with a preview: the base of the preview that was shown. If \
                            the file is another one by now, nothing is decided.",
        },
    });
    input(properties, &["session_id", "call_id", "decision"])
}

pub(super) fn agents() -> Value {
    let agent = output(
        json!({
            "agent_id": { "type": "string" },
            "name": { "type": "string" },
            "role": { "type": "string" },
            "description": { "type": "string" },
            "model": { "type": "string" },
        }),
        &["agent_id", "name", "role", "description", "model"],
    );
    output(
        json!({
            "project_id": { "type": "integer" },
            "agents": { "type": "array", "items": agent },
            "total": { "type": "integer" },
        }),
        &["project_id", "agents", "total"],
    )
}

pub(super) fn answer() -> Value {
    let properties = json!({
        "session_id": { "type": "string" },
        "message_id": { "type": "string", "description": "The message that was sent." },
        "status": {
            "type": "string",
            "enum": [
                "completed", "awaiting_approval", "awaiting_answer", "awaiting_tool_result",
                "failed", "cancelled", "queued", "accepted", "answered",
            ],
        },
        "agent": { "type": "string", "description": "Who answered last." },
        "response": { "type": "string", "description": "The answer, once there is one." },
        "pending": { "type": "object", "description": "What waits for somebody." },
        "next": { "type": "string", "description": "How to go on." },
        "workflow_id": { "type": "string" },
        "position": { "type": "integer", "description": "In the queue." },
        "warnings": { "type": "array", "items": { "type": "string" } },
        "error": { "type": "string" },
        "error_code": { "type": "string" },
    });
    output(properties, &["session_id", "status"])
}

pub(super) fn accepted() -> Value {
    let properties = json!({
        "session_id": { "type": "string" },
        "message_id": { "type": "string" },
        "workflow_id": { "type": "string" },
        "mode": { "type": "string", "enum": ["direct", "orchestrated"] },
        "status": { "type": "string", "enum": ["accepted", "queued", "answered"] },
        "position": { "type": "integer", "description": "In the queue." },
        "next": { "type": "string", "description": "How to go on." },
    });
    output(properties, &["session_id", "mode", "status"])
}

pub(super) fn session() -> Value {
    let message = output(
        json!({
            "message_id": { "type": "string" },
            "role": { "type": "string" },
            "content": { "type": "string" },
            "agent_id": { "type": "string" },
            "timestamp": { "type": "string" },
        }),
        &["message_id", "role", "content", "timestamp"],
    );
    let waiting = output(
        json!({
            "kind": { "type": "string", "enum": ["tool", "plan", "budget", "question"] },
            "call_id": { "type": "string" },
            "agent": { "type": "string" },
            "text": { "type": "string" },
        }),
        &["kind", "call_id", "agent", "text"],
    );
    let properties = json!({
        "session_id": { "type": "string" },
        "project_id": { "type": "integer" },
        "title": { "type": ["string", "null"] },
        "messages": {
            "type": "array",
            "items": message,
            "description": "The newest ones, oldest first.",
        },
        "busy": { "type": "boolean", "description": "Whether a turn is open." },
        "status": {
            "type": "string",
            "description": "What the open turn waits for. Absent while it works.",
        },
        "queued": { "type": "integer" },
        "waiting": {
            "type": "array",
            "items": waiting,
            "description": "What waits for a person.",
        },
    });
    let required = [
        "session_id",
        "project_id",
        "messages",
        "busy",
        "queued",
        "waiting",
    ];
    output(properties, &required)
}

pub(super) fn approvals() -> Value {
    let approval = output(
        json!({
            "session_id": { "type": "string" },
            "project_id": { "type": "integer" },
            "call_id": { "type": "string" },
            "kind": { "type": "string", "enum": ["tool", "plan", "budget"] },
            "tool_name": { "type": "string" },
            "arguments": { "type": "object" },
            "digest": { "type": "string" },
            "reason": { "type": "string" },
        }),
        &[
            "session_id",
            "call_id",
            "kind",
            "tool_name",
            "arguments",
            "digest",
        ],
    );
    output(
        json!({
            "approvals": { "type": "array", "items": approval },
            "total": { "type": "integer" },
        }),
        &["approvals", "total"],
    )
}

pub(super) fn decided() -> Value {
    let properties = json!({
        "session_id": { "type": "string" },
        "status": {
            "type": "string",
            "description": "What the turn waits for now. Absent while it works, and when it is over.",
        },
        "next": { "type": "string", "description": "How to go on." },
    });
    output(properties, &["session_id"])
}
