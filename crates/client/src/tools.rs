//! What a tool runner needs: attach to a project, claim tool calls, send their results.

use codelab_protocol::{
    AskAgain, AttachClient, AttachedClient, CallClaimed, CallId, CallResult, ClaimCall, ClientId,
    ClientList, ProjectId, ProjectSessionAck, ResultAck, SendPreview, SessionId,
};
use http::Method;

use crate::{Client, ClientError};

/// What the server gives at once.
const PAGE: u64 = 1000;

impl Client {
    /// Attaches a client, or says that it is still there.
    pub async fn attach_client(
        &self,
        project: ProjectId,
        body: &AttachClient,
    ) -> Result<AttachedClient, ClientError> {
        let path = format!("/my/projects/{project}/clients");
        self.json(self.transport.json_request(Method::POST, &path, body)?)
            .await
    }

    /// The clients of a project, also those that were silent for a while.
    pub async fn clients(&self, project: ProjectId) -> Result<Vec<AttachedClient>, ClientError> {
        let list: ClientList = self
            .get(&format!("/my/projects/{project}/clients?limit={PAGE}"))
            .await?;
        Ok(list.clients)
    }

    /// Lets a client go; calls it was running have an unknown outcome.
    pub async fn detach_client(
        &self,
        project: ProjectId,
        client: &ClientId,
    ) -> Result<(), ClientError> {
        self.without_answer(
            Method::DELETE,
            &format!("/my/projects/{project}/clients/{client}"),
        )
        .await
    }

    /// Takes a call, or keeps it for another lease.
    pub async fn claim_call(
        &self,
        session: &SessionId,
        call: &CallId,
        client: &ClientId,
    ) -> Result<CallClaimed, ClientError> {
        let body = ClaimCall {
            client_id: client.clone(),
            digest: None,
            base: None,
        };
        self.claim_version(session, call, &body).await
    }

    /// The same for this version of the call: if a person approved another one since, it is refused.
    pub async fn claim_version(
        &self,
        session: &SessionId,
        call: &CallId,
        body: &ClaimCall,
    ) -> Result<CallClaimed, ClientError> {
        let path = format!("/my/chat/{session}/tool_calls/{call}/claim");
        self.json(self.transport.json_request(Method::POST, &path, body)?)
            .await
    }

    /// Tells what a write that waits for a person would do to the file as it is now.
    pub async fn send_preview(
        &self,
        session: &SessionId,
        call: &CallId,
        body: &SendPreview,
    ) -> Result<(), ClientError> {
        let path = format!("/my/chat/{session}/approvals/{call}/preview");
        let request = self.transport.json_request(Method::PUT, &path, body)?;
        self.json::<ProjectSessionAck>(request).await.map(drop)
    }

    /// Gives a claimed write back, so that a person sees it again. Sending it again is harmless.
    pub async fn ask_again(
        &self,
        session: &SessionId,
        call: &CallId,
        body: &AskAgain,
    ) -> Result<ProjectSessionAck, ClientError> {
        let path = format!("/my/chat/{session}/tool_calls/{call}/ask_again");
        self.json(self.transport.json_request(Method::POST, &path, body)?)
            .await
    }

    /// Sending the same result again is harmless.
    pub async fn send_result(
        &self,
        session: &SessionId,
        call: &CallId,
        result: &CallResult,
    ) -> Result<ResultAck, ClientError> {
        let path = format!("/my/chat/{session}/tool_calls/{call}/result");
        self.json(self.transport.json_request(Method::POST, &path, result)?)
            .await
    }
}
