//! A user's projects, their agents and what those remember.

use bytes::Bytes;
use codelab_protocol::{
    AddContext, AgentId, ChangeAgent, ContextAdded, ContextList, ContextResults, CreateAgent,
    CreateProject, ModelList, ModelTried, Project, ProjectAgent, ProjectAgentList, ProjectId,
    ProjectList, SavedAgent, SearchContext, TryModel,
};
use http::Method;

use crate::http::accepted;
use crate::{Client, ClientError};

/// What the server gives at once.
const PAGE: u64 = 1000;

impl Client {
    /// The user's projects, oldest first. A user who has none gets the default one.
    pub async fn projects(&self) -> Result<Vec<Project>, ClientError> {
        let list: ProjectList = self.get(&format!("/my/projects?limit={PAGE}")).await?;
        Ok(list.projects)
    }

    pub async fn project(&self, project: ProjectId) -> Result<Project, ClientError> {
        self.get(&format!("/my/projects/{project}")).await
    }

    pub async fn create_project(&self, body: &CreateProject) -> Result<Project, ClientError> {
        self.json(
            self.transport
                .json_request(Method::POST, "/my/projects", body)?,
        )
        .await
    }

    pub async fn project_agents(
        &self,
        project: ProjectId,
    ) -> Result<Vec<ProjectAgent>, ClientError> {
        let list: ProjectAgentList = self
            .get(&format!("/my/projects/{project}/agents?limit={PAGE}"))
            .await?;
        Ok(list.agents)
    }

    pub async fn create_project_agent(
        &self,
        project: ProjectId,
        body: &CreateAgent,
    ) -> Result<SavedAgent, ClientError> {
        let path = format!("/my/projects/{project}/agents");
        self.json(self.transport.json_request(Method::POST, &path, body)?)
            .await
    }

    pub async fn change_project_agent(
        &self,
        project: ProjectId,
        agent: &AgentId,
        body: &ChangeAgent,
    ) -> Result<SavedAgent, ClientError> {
        let path = format!("/my/projects/{project}/agents/{agent}");
        self.json(self.transport.json_request(Method::PATCH, &path, body)?)
            .await
    }

    /// The models that the server's providers offer.
    pub async fn models(&self) -> Result<ModelList, ClientError> {
        self.get("/my/models").await
    }

    /// One short call to a model. A failed one is no error of the request.
    pub async fn try_model(&self, model: &str) -> Result<ModelTried, ClientError> {
        let body = TryModel {
            model: Some(model.to_owned()),
        };
        let path = "/my/models/test";
        self.json(self.transport.json_request(Method::POST, path, &body)?)
            .await
    }

    /// What an agent remembers about something, best first.
    pub async fn search_context(
        &self,
        project: ProjectId,
        agent: &AgentId,
        body: &SearchContext,
    ) -> Result<ContextResults, ClientError> {
        let path = format!("/my/projects/{project}/agents/{agent}/context/search");
        self.json(self.transport.json_request(Method::POST, &path, body)?)
            .await
    }

    /// What an agent remembers, newest first.
    pub async fn context(
        &self,
        project: ProjectId,
        agent: &AgentId,
        limit: u64,
    ) -> Result<ContextList, ClientError> {
        let path = format!("/my/projects/{project}/agents/{agent}/context?limit={limit}");
        self.get(&path).await
    }

    /// Lets an agent forget everything.
    pub async fn clear_context(
        &self,
        project: ProjectId,
        agent: &AgentId,
    ) -> Result<(), ClientError> {
        let path = format!("/my/projects/{project}/agents/{agent}/context");
        let request = self
            .transport
            .request(Method::DELETE, &path, Bytes::new())?;
        accepted(self.transport.exchange(request).await?).map(drop)
    }

    pub async fn add_context(
        &self,
        project: ProjectId,
        agent: &AgentId,
        body: &AddContext,
    ) -> Result<ContextAdded, ClientError> {
        let path = format!("/my/projects/{project}/agents/{agent}/context");
        self.json(self.transport.json_request(Method::POST, &path, body)?)
            .await
    }
}
