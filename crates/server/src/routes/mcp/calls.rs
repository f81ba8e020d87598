//! Runs a tool: reads its arguments and does what the route of the same purpose does.

use std::pin::Pin;

use axum::Json;
use axum::extract::State;
use codelab_protocol::{
    CallId, DecisionChoice, FileBase, HitlDecision, MaybeKnown, ProjectAgent, ProjectId, SessionId,
};
use codelab_runtime::{StreamSlot, state_of};
use rmcp::model::{CallToolResult, JsonObject};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::super::paging::Page;
use super::super::project_agents;
use super::super::project_sessions::{self, MySession, approvals, mine};
use super::super::projects::{MyProject, default_project};
use super::tools::OwnTool;
use super::{ask, outcome, shown};
use crate::app::App;
use crate::body::{self, JsonBody};
use crate::error::ApiResult;
use crate::path::{NamedInPath as _, PathId};
use crate::users::User;

/// As many as a page has where a caller says nothing.
const LISTED: u64 = 100;

/// A call whose tool is known.
pub(super) struct OwnToolCall {
    pub app: App,
    pub user: User,
    pub tool: OwnTool,
    pub arguments: JsonObject,
    /// Whether the caller is told of progress.
    pub tells: bool,
}

pub(super) type ResultFuture = Pin<Box<dyn Future<Output = CallToolResult> + Send>>;

pub(super) enum ToolAnswer {
    Now(Box<CallToolResult>),
    Later(WaitingCall),
}

/// A message was accepted, and its answer is waited for.
pub(super) struct WaitingCall {
    pub work: ResultFuture,
    /// What happens meanwhile.
    pub news: watch::Receiver<String>,
    /// Of a caller who is told of progress.
    pub slot: Option<StreamSlot>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListAgents {
    project_id: Option<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GetSession {
    session_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoArguments {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DecideApproval {
    session_id: String,
    call_id: String,
    decision: MaybeKnown<DecisionChoice>,
    feedback: Option<String>,
    modified_args: Option<Value>,
    digest: Option<String>,
    #[serde(default, deserialize_with = "codelab_protocol::given")]
    base: Option<FileBase>,
}

impl OwnToolCall {
    pub async fn run(self) -> ToolAnswer {
        let answer = match self.tool {
            OwnTool::ListAgents => self.list_agents().await,
            OwnTool::AskAgent => match ask::ask_agent(self).await {
                Ok(waiting) => return ToolAnswer::Later(waiting),
                Err(error) => Err(error),
            },
            OwnTool::StartPlan => ask::start_plan(self).await,
            OwnTool::GetSession => self.get_session().await,
            OwnTool::ListApprovals => self.list_approvals().await,
            OwnTool::DecideApproval => self.decide_approval().await,
        };
        ToolAnswer::Now(Box::new(answer.unwrap_or_else(outcome::refused)))
    }

    async fn list_agents(self) -> ApiResult<CallToolResult> {
        let Self { app, user, .. } = self;
        let given: ListAgents = body::arguments(self.arguments)?;
        let _slot = app.runtime.shares().read(user.id()).await?;
        let store = app.runtime.store().of(user.id());
        let project = match given.project_id.map(project_id).transpose()? {
            Some(id) => store.project(id).await?.ok_or_else(ProjectId::not_found)?,
            None => default_project(&app, &store).await?,
        };
        let project_id = project.id();
        let page = Page {
            limit: LISTED,
            offset: 0,
        };
        let Json(list) = project_agents::list(State(app), MyProject(project), page).await?;
        let agents: Vec<Value> = list.agents.into_iter().map(agent).collect();
        let found = json!({ "project_id": project_id, "agents": agents, "total": list.total });
        Ok(outcome::data(found))
    }

    async fn get_session(self) -> ApiResult<CallToolResult> {
        let Self { app, user, .. } = self;
        let given: GetSession = body::arguments(self.arguments)?;
        let _slot = app.runtime.shares().read(user.id()).await?;
        let session = named(&app, &user, &given.session_id).await?;
        let Json(detail) = project_sessions::get(State(app.clone()), session).await?;
        // Deadlines may have passed when it was read.
        let session = named(&app, &user, &given.session_id).await?;
        let waiting = state_of(&session.row)?.waiting();
        let mut found = shown(detail);
        found["waiting"] = shown(waiting);
        Ok(outcome::data(found))
    }

    async fn list_approvals(self) -> ApiResult<CallToolResult> {
        let Self { app, user, .. } = self;
        let NoArguments {} = body::arguments(self.arguments)?;
        let _slot = app.runtime.shares().read(user.id()).await?;
        let page = Page {
            limit: LISTED,
            offset: 0,
        };
        let Json(list) = mine::approvals(State(app), user, page).await?;
        let found = json!({ "approvals": list.approvals, "total": list.total });
        Ok(outcome::data(found))
    }

    async fn decide_approval(self) -> ApiResult<CallToolResult> {
        let given: DecideApproval = body::arguments(self.arguments)?;
        let session = named(&self.app, &self.user, &given.session_id).await?;
        let call_id = CallId::from_path(&given.call_id).ok_or_else(CallId::not_found)?;
        let decision = HitlDecision {
            decision: Some(given.decision),
            modified_args: given.modified_args,
            feedback: given.feedback,
            remember: None,
            digest: given.digest,
            base: given.base,
        };
        let (path, body) = (PathId(call_id), JsonBody(decision));
        let Json(ack) = approvals::decide(State(self.app), session, path, body).await?;
        Ok(outcome::decided(ack))
    }
}

/// What a caller needs to choose an agent.
fn agent(agent: ProjectAgent) -> Value {
    json!({
        "agent_id": agent.agent_id,
        "name": agent.name,
        "role": agent.role,
        "description": agent.description,
        "model": agent.model,
    })
}

/// A number that is no project's names one that does not exist.
pub(super) fn project_id(number: i64) -> ApiResult<ProjectId> {
    ProjectId::new(number).ok_or_else(ProjectId::not_found)
}

/// The user's session of this id.
pub(super) async fn named(app: &App, user: &User, id: &str) -> ApiResult<MySession> {
    let id = SessionId::from_path(id).ok_or_else(SessionId::not_found)?;
    MySession::named(app, user.clone(), &id).await
}
