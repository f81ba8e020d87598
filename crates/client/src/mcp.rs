//! The MCP servers of a project: what a tool runner says about its own, and what a person decides
//! about them.

use codelab_protocol::{
    AcceptMcpTools, CallId, ClientId, ElicitAnswer, ElicitationAsked, McpReport, McpServer,
    McpServerList, McpServerName, PermitMcpTool, ProjectId, ReportProgress, SessionId,
};
use http::Method;

use crate::http::accepted;
use crate::{Client, ClientError};

/// What the server gives at once.
const PAGE: u64 = 1000;

impl Client {
    /// Replaces what the server knows about the MCP servers of a tool runner.
    pub async fn report_mcp(
        &self,
        project: ProjectId,
        client: &ClientId,
        report: &McpReport,
    ) -> Result<(), ClientError> {
        let path = format!("/my/projects/{project}/clients/{client}/mcp");
        let request = self.transport.json_request(Method::PUT, &path, report)?;
        accepted(self.transport.exchange(request).await?).map(drop)
    }

    pub async fn report_progress(
        &self,
        session: &SessionId,
        call: &CallId,
        body: &ReportProgress,
    ) -> Result<(), ClientError> {
        let path = format!("/my/chat/{session}/tool_calls/{call}/progress");
        let request = self.transport.json_request(Method::POST, &path, body)?;
        accepted(self.transport.exchange(request).await?).map(drop)
    }

    /// Asks the person something on behalf of the MCP server that works on a call. The answer is a
    /// message that `answers` the returned id.
    pub async fn elicit_answer(
        &self,
        session: &SessionId,
        call: &CallId,
        body: &ElicitAnswer,
    ) -> Result<CallId, ClientError> {
        let path = format!("/my/chat/{session}/tool_calls/{call}/elicit");
        let request = self.transport.json_request(Method::POST, &path, body)?;
        let asked: ElicitationAsked = self.json(request).await?;
        Ok(asked.call_id)
    }

    /// The servers whose tools the agents of a project can use.
    pub async fn mcp_servers(&self, project: ProjectId) -> Result<Vec<McpServer>, ClientError> {
        let list: McpServerList = self
            .get(&format!("/my/projects/{project}/mcp?limit={PAGE}"))
            .await?;
        Ok(list.servers)
    }

    /// The present definitions count from now on.
    pub async fn accept_mcp_tools(
        &self,
        project: ProjectId,
        server: &McpServerName,
        body: &AcceptMcpTools,
    ) -> Result<McpServer, ClientError> {
        let path = format!("/my/projects/{project}/mcp/{server}/accept");
        self.json(self.transport.json_request(Method::POST, &path, body)?)
            .await
    }

    pub async fn permit_mcp_tool(
        &self,
        project: ProjectId,
        server: &McpServerName,
        body: &PermitMcpTool,
    ) -> Result<McpServer, ClientError> {
        let path = format!("/my/projects/{project}/mcp/{server}/permission");
        self.json(self.transport.json_request(Method::POST, &path, body)?)
            .await
    }
}
