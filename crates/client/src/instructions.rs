//! What the workspace of a tool runner brings, and what a person trusts of it.

use codelab_protocol::{
    ClientId, ClientInstructions, Digest, InstructionsReport, MissingTexts, ProjectId, SendTexts,
    TrustContent, TrustDecisions, WaitingContent,
};
use http::Method;

use crate::{Client, ClientError};

impl Client {
    /// Replaces what the server knows about the workspace of a tool runner. Returns the texts that
    /// it does not have.
    pub async fn report_instructions(
        &self,
        project: ProjectId,
        client: &ClientId,
        report: &InstructionsReport,
    ) -> Result<Vec<Digest>, ClientError> {
        let path = format!("/my/projects/{project}/clients/{client}/instructions");
        let request = self.transport.json_request(Method::PUT, &path, report)?;
        let missing: MissingTexts = self.json(request).await?;
        Ok(missing.missing)
    }

    /// Sends texts that were missing. Returns those that still are.
    pub async fn send_texts(
        &self,
        project: ProjectId,
        client: &ClientId,
        texts: &SendTexts,
    ) -> Result<Vec<Digest>, ClientError> {
        let path = format!("/my/projects/{project}/clients/{client}/instructions");
        let request = self.transport.json_request(Method::POST, &path, texts)?;
        let missing: MissingTexts = self.json(request).await?;
        Ok(missing.missing)
    }

    pub async fn client_instructions(
        &self,
        project: ProjectId,
        client: &ClientId,
    ) -> Result<ClientInstructions, ClientError> {
        self.get(&format!(
            "/my/projects/{project}/clients/{client}/instructions"
        ))
        .await
    }

    /// Trusts a content that waits at a tool runner, which takes that up within seconds.
    pub async fn trust_content(
        &self,
        project: ProjectId,
        client: &ClientId,
        content: &TrustContent,
    ) -> Result<WaitingContent, ClientError> {
        let path = format!("/my/projects/{project}/clients/{client}/trust");
        self.json(self.transport.json_request(Method::POST, &path, content)?)
            .await
    }

    /// What people trusted in the page.
    pub async fn trust_decisions(
        &self,
        project: ProjectId,
        client: &ClientId,
    ) -> Result<Vec<TrustContent>, ClientError> {
        let path = format!("/my/projects/{project}/clients/{client}/trust");
        let decisions: TrustDecisions = self.get(&path).await?;
        Ok(decisions.decisions)
    }
}
