//! What each route is about. A route that is not named here is handled by the server it reaches; a
//! test compares this table with the API document, so that none is forgotten.

use axum::http::Method;

/// Where a request says what it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// About nothing that lives on one server only: rows of the database, or this server itself.
    Local,
    /// The project that the path names.
    Project,
    /// The project of the session that the path names.
    ProjectOfSession,
    /// The project that the body names, else the user's default project.
    ProjectInBody,
    /// The runtime session that the path names.
    Session,
    /// The runtime session that the body names.
    SessionInBody,
    /// The project of an MCP tool call: its arguments name it, or a session of it.
    ProjectOfToolCall,
    /// The project of the authorization whose state the query has.
    ProjectOfState,
    /// The one global Chat.
    Chat,
}

use Subject::{
    Chat, Local, Project, ProjectInBody, ProjectOfSession, ProjectOfState, ProjectOfToolCall,
    Session, SessionInBody,
};

/// Method, route, subject.
const TABLE: &[(&str, &str, Subject)] = &[
    ("GET", "/", Local),
    ("GET", "/docs", Local),
    ("GET", "/openapi.json", Local),
    ("GET", "/health", Local),
    ("GET", "/health/live", Local),
    ("GET", "/health/ready", Local),
    ("GET", "/metrics", Local),
    ("POST", "/login", Local),
    ("POST", "/logout", Local),
    ("POST", "/cluster/drain", Local),
    ("GET", "/oauth/callback", ProjectOfState),
    // The runtime API.
    ("POST", "/agent/message/stream", SessionInBody),
    ("GET", "/agents", Local),
    ("GET", "/agents/{session_id}/current", Session),
    ("GET", "/sessions", Local),
    ("POST", "/sessions", SessionInBody),
    ("DELETE", "/sessions/{session_id}", Session),
    ("GET", "/sessions/{session_id}/agent-history", Session),
    ("GET", "/sessions/{session_id}/audit", Session),
    ("POST", "/sessions/{session_id}/cancel", Session),
    ("GET", "/sessions/{session_id}/events", Session),
    ("GET", "/sessions/{session_id}/history", Session),
    ("GET", "/sessions/{session_id}/pending-approvals", Session),
    ("POST", "/sessions/{session_id}/reset", Session),
    ("POST", "/sessions/{session_id}/restore", Session),
    // The global Chat.
    ("POST", "/chat/agent_message", Chat),
    ("POST", "/chat/ask_user", Chat),
    ("POST", "/chat/cancel", Chat),
    ("GET", "/chat/history", Chat),
    ("GET", "/chat/stream", Chat),
    ("POST", "/chat/user_message", Chat),
    // What a user has in all projects.
    ("GET", "/my/approvals", Local),
    ("GET", "/my/waiting", Local),
    ("GET", "/my/events", Local),
    ("GET", "/my/usage", Local),
    ("GET", "/my/models", Local),
    ("POST", "/my/models/test", Local),
    ("POST", "/mcp", ProjectOfToolCall),
    // Projects. Reading rows needs no owner.
    ("GET", "/my/projects", Local),
    ("POST", "/my/projects", Local),
    ("GET", "/my/projects/{project_id}", Local),
    ("PATCH", "/my/projects/{project_id}", Project),
    ("DELETE", "/my/projects/{project_id}", Project),
    ("GET", "/my/projects/{project_id}/agents", Local),
    ("POST", "/my/projects/{project_id}/agents", Project),
    ("GET", "/my/projects/{project_id}/agents/{agent_id}", Local),
    (
        "PATCH",
        "/my/projects/{project_id}/agents/{agent_id}",
        Project,
    ),
    (
        "DELETE",
        "/my/projects/{project_id}/agents/{agent_id}",
        Project,
    ),
    (
        "GET",
        "/my/projects/{project_id}/agents/{agent_id}/context",
        Local,
    ),
    (
        "POST",
        "/my/projects/{project_id}/agents/{agent_id}/context",
        Project,
    ),
    (
        "DELETE",
        "/my/projects/{project_id}/agents/{agent_id}/context",
        Project,
    ),
    (
        "POST",
        "/my/projects/{project_id}/agents/{agent_id}/context/search",
        Project,
    ),
    (
        "DELETE",
        "/my/projects/{project_id}/agents/{agent_id}/context/{context_id}",
        Project,
    ),
    (
        "POST",
        "/my/projects/{project_id}/agents/{agent_id}/deregister",
        Project,
    ),
    (
        "POST",
        "/my/projects/{project_id}/agents/{agent_id}/invalidate",
        Project,
    ),
    (
        "GET",
        "/my/projects/{project_id}/agents/{agent_id}/metrics",
        Project,
    ),
    (
        "POST",
        "/my/projects/{project_id}/agents/{agent_id}/register",
        Project,
    ),
    (
        "GET",
        "/my/projects/{project_id}/agents/{agent_id}/status",
        Project,
    ),
    ("GET", "/my/projects/{project_id}/clients", Project),
    ("POST", "/my/projects/{project_id}/clients", Project),
    (
        "DELETE",
        "/my/projects/{project_id}/clients/{client_id}",
        Project,
    ),
    (
        "GET",
        "/my/projects/{project_id}/clients/{client_id}/instructions",
        Project,
    ),
    (
        "PUT",
        "/my/projects/{project_id}/clients/{client_id}/instructions",
        Project,
    ),
    (
        "POST",
        "/my/projects/{project_id}/clients/{client_id}/instructions",
        Project,
    ),
    (
        "PUT",
        "/my/projects/{project_id}/clients/{client_id}/mcp",
        Project,
    ),
    (
        "GET",
        "/my/projects/{project_id}/clients/{client_id}/trust",
        Project,
    ),
    (
        "POST",
        "/my/projects/{project_id}/clients/{client_id}/trust",
        Project,
    ),
    ("GET", "/my/projects/{project_id}/mcp", Project),
    ("POST", "/my/projects/{project_id}/mcp", Project),
    ("GET", "/my/projects/{project_id}/mcp/{name}", Project),
    ("PATCH", "/my/projects/{project_id}/mcp/{name}", Project),
    ("DELETE", "/my/projects/{project_id}/mcp/{name}", Project),
    (
        "POST",
        "/my/projects/{project_id}/mcp/{name}/accept",
        Project,
    ),
    (
        "POST",
        "/my/projects/{project_id}/mcp/{name}/authorize",
        Project,
    ),
    (
        "DELETE",
        "/my/projects/{project_id}/mcp/{name}/authorize",
        Project,
    ),
    (
        "POST",
        "/my/projects/{project_id}/mcp/{name}/permission",
        Project,
    ),
    ("POST", "/my/projects/{project_id}/mcp/{name}/test", Project),
    ("GET", "/my/projects/{project_id}/plans", Local),
    ("GET", "/my/projects/{project_id}/worker-space", Project),
    (
        "DELETE",
        "/my/projects/{project_id}/worker-space/cache",
        Project,
    ),
    (
        "POST",
        "/my/projects/{project_id}/worker-space/cleanup",
        Project,
    ),
    (
        "GET",
        "/my/projects/{project_id}/worker-space/health",
        Project,
    ),
    (
        "POST",
        "/my/projects/{project_id}/worker-space/reset",
        Project,
    ),
    // Sessions of projects.
    ("GET", "/my/chat/sessions", Local),
    ("POST", "/my/chat/sessions", ProjectInBody),
    ("GET", "/my/chat/sessions/{session_id}", ProjectOfSession),
    ("PATCH", "/my/chat/sessions/{session_id}", ProjectOfSession),
    ("DELETE", "/my/chat/sessions/{session_id}", ProjectOfSession),
    ("GET", "/my/chat/sessions/{session_id}/export", Local),
    ("GET", "/my/chat/{session_id}/approvals", ProjectOfSession),
    (
        "POST",
        "/my/chat/{session_id}/approvals/{call_id}/decision",
        ProjectOfSession,
    ),
    (
        "POST",
        "/my/chat/{session_id}/approvals/{call_id}/renew",
        ProjectOfSession,
    ),
    (
        "PUT",
        "/my/chat/{session_id}/approvals/{call_id}/preview",
        ProjectOfSession,
    ),
    ("GET", "/my/chat/{session_id}/attachments/{digest}", Local),
    ("GET", "/my/chat/{session_id}/audit", ProjectOfSession),
    ("POST", "/my/chat/{session_id}/cancel", ProjectOfSession),
    ("POST", "/my/chat/{session_id}/compact", ProjectOfSession),
    ("GET", "/my/chat/{session_id}/events", ProjectOfSession),
    ("POST", "/my/chat/{session_id}/fork", ProjectOfSession),
    ("POST", "/my/chat/{session_id}/message", ProjectOfSession),
    ("GET", "/my/chat/{session_id}/messages", ProjectOfSession),
    ("GET", "/my/chat/{session_id}/plans", ProjectOfSession),
    (
        "GET",
        "/my/chat/{session_id}/plans/{plan_id}",
        ProjectOfSession,
    ),
    (
        "POST",
        "/my/chat/{session_id}/plans/{plan_id}/decision",
        ProjectOfSession,
    ),
    (
        "POST",
        "/my/chat/{session_id}/plans/{plan_id}/retry",
        ProjectOfSession,
    ),
    (
        "GET",
        "/my/chat/{session_id}/plans/{plan_id}/tasks/{task_id}/messages",
        ProjectOfSession,
    ),
    (
        "POST",
        "/my/chat/{session_id}/questions/{call_id}/answer",
        ProjectOfSession,
    ),
    (
        "PATCH",
        "/my/chat/{session_id}/queue/{message_id}",
        ProjectOfSession,
    ),
    (
        "DELETE",
        "/my/chat/{session_id}/queue/{message_id}",
        ProjectOfSession,
    ),
    ("GET", "/my/chat/{session_id}/remembered", ProjectOfSession),
    (
        "DELETE",
        "/my/chat/{session_id}/remembered/{remembered_id}",
        ProjectOfSession,
    ),
    ("POST", "/my/chat/{session_id}/rewind", ProjectOfSession),
    ("POST", "/my/chat/{session_id}/retry", ProjectOfSession),
    (
        "POST",
        "/my/chat/{session_id}/tool_calls/{call_id}/claim",
        ProjectOfSession,
    ),
    (
        "POST",
        "/my/chat/{session_id}/tool_calls/{call_id}/result",
        ProjectOfSession,
    ),
    (
        "POST",
        "/my/chat/{session_id}/tool_calls/{call_id}/progress",
        ProjectOfSession,
    ),
    (
        "POST",
        "/my/chat/{session_id}/tool_calls/{call_id}/elicit",
        ProjectOfSession,
    ),
    (
        "POST",
        "/my/chat/{session_id}/tool_calls/{call_id}/ask_again",
        ProjectOfSession,
    ),
];

/// What a request to this route is about. `HEAD` is about the same as `GET`.
pub(super) fn subject(method: &Method, route: &str) -> Subject {
    let method = match *method {
        Method::HEAD => "GET",
        _ => method.as_str(),
    };
    let named = TABLE
        .iter()
        .find(|(its_method, its_route, _)| *its_route == route && *its_method == method);
    named.map_or(Local, |(_, _, subject)| *subject)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::openapi::document;
    use crate::routes::operations;

    #[test]
    fn the_table_names_every_documented_route_and_no_other() {
        let mut documented = BTreeSet::new();
        for (path, item) in &mut document().paths.paths {
            for (method, operation) in operations(item) {
                if operation.is_some() {
                    documented.insert(format!("{} {path}", method.to_uppercase()));
                }
            }
        }
        let named: BTreeSet<String> = TABLE
            .iter()
            .map(|(method, route, _)| format!("{method} {route}"))
            .collect();
        assert_eq!(named.len(), TABLE.len(), "a route is named twice");
        let missing: Vec<_> = documented.difference(&named).collect();
        assert!(missing.is_empty(), "not in the table: {missing:#?}");
        let gone: Vec<_> = named.difference(&documented).collect();
        assert!(gone.is_empty(), "in the table only: {gone:#?}");
    }

    /// A route below a project or a session that is handled anywhere is so on purpose.
    #[test]
    fn only_reads_of_rows_are_local_below_a_project_or_session() {
        let local: Vec<String> = TABLE
            .iter()
            .filter(|(_, route, subject)| *subject == Local && route.contains('{'))
            .map(|(method, route, _)| format!("{method} {route}"))
            .collect();
        assert_eq!(
            local,
            [
                "GET /my/projects/{project_id}",
                "GET /my/projects/{project_id}/agents",
                "GET /my/projects/{project_id}/agents/{agent_id}",
                "GET /my/projects/{project_id}/agents/{agent_id}/context",
                "GET /my/projects/{project_id}/plans",
                "GET /my/chat/sessions/{session_id}/export",
                "GET /my/chat/{session_id}/attachments/{digest}",
            ]
        );
    }

    #[test]
    fn a_head_request_is_about_the_same_as_a_get_request() {
        assert_eq!(subject(&Method::HEAD, "/chat/history"), Chat);
        assert_eq!(subject(&Method::GET, "/chat/history"), Chat);
        assert_eq!(subject(&Method::DELETE, "/chat/history"), Local);
        assert_eq!(subject(&Method::GET, "/assets/x.js"), Local);
    }
}
