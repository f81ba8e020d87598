//! What a person decides in a user's sessions: plans, approvals, questions; and the audit of it.

use codelab_protocol::{
    AnswerQuestion, ApprovalList, AuditList, CallId, HitlDecision, MessageList, OpenApproval, Plan,
    PlanDecision, PlanId, PlanList, ProjectSessionAck, SessionEvent, SessionId, TaskId,
};
use http::Method;

use crate::stream::StreamEnd;
use crate::{Client, ClientError, EventStream};

impl Client {
    /// Oldest first.
    pub async fn plans(
        &self,
        session: &SessionId,
        limit: u64,
        offset: u64,
    ) -> Result<PlanList, ClientError> {
        self.get(&format!(
            "/my/chat/{session}/plans?limit={limit}&offset={offset}"
        ))
        .await
    }

    pub async fn newest_plan(&self, session: &SessionId) -> Result<Option<Plan>, ClientError> {
        let oldest = self.plans(session, 1, 0).await?;
        let newest = if oldest.total > 1 {
            self.plans(session, 1, oldest.total - 1).await?
        } else {
            oldest
        };
        Ok(newest.plans.into_iter().next_back())
    }

    pub async fn plan(&self, session: &SessionId, plan: &PlanId) -> Result<Plan, ClientError> {
        self.get(&format!("/my/chat/{session}/plans/{plan}")).await
    }

    pub async fn decide_plan(
        &self,
        session: &SessionId,
        plan: &PlanId,
        decision: &PlanDecision,
    ) -> Result<Plan, ClientError> {
        let path = format!("/my/chat/{session}/plans/{plan}/decision");
        self.json(self.transport.json_request(Method::POST, &path, decision)?)
            .await
    }

    /// Runs failed and skipped tasks again; finished ones are not repeated.
    pub async fn retry_plan(
        &self,
        session: &SessionId,
        plan: &PlanId,
    ) -> Result<Plan, ClientError> {
        self.act(&format!("/my/chat/{session}/plans/{plan}/retry"))
            .await
    }

    /// The thread of one task, oldest first.
    pub async fn task_messages(
        &self,
        session: &SessionId,
        plan: &PlanId,
        task: &TaskId,
        limit: u64,
        offset: u64,
    ) -> Result<MessageList, ClientError> {
        let path = format!(
            "/my/chat/{session}/plans/{plan}/tasks/{task}/messages?limit={limit}&offset={offset}"
        );
        self.get(&path).await
    }

    /// What waits for a decision in one session, in the order it was asked.
    pub async fn project_session_approvals(
        &self,
        session: &SessionId,
        limit: u64,
        offset: u64,
    ) -> Result<ApprovalList, ClientError> {
        self.get(&format!(
            "/my/chat/{session}/approvals?limit={limit}&offset={offset}"
        ))
        .await
    }

    /// What waits for a decision in all of the user's sessions.
    pub async fn my_approvals(&self, limit: u64, offset: u64) -> Result<ApprovalList, ClientError> {
        self.get(&format!("/my/approvals?limit={limit}&offset={offset}"))
            .await
    }

    /// Decides about a tool call, a plan or a budget.
    pub async fn decide(
        &self,
        session: &SessionId,
        call: &CallId,
        decision: &HitlDecision,
    ) -> Result<ProjectSessionAck, ClientError> {
        let path = format!("/my/chat/{session}/approvals/{call}/decision");
        self.json(self.transport.json_request(Method::POST, &path, decision)?)
            .await
    }

    /// Gives an approval its full time again. A plan that expired waits again.
    pub async fn renew_approval(
        &self,
        session: &SessionId,
        call: &CallId,
    ) -> Result<OpenApproval, ClientError> {
        self.act(&format!("/my/chat/{session}/approvals/{call}/renew"))
            .await
    }

    /// Answers a question and follows the events until the turn ends or suspends. The stream's
    /// start says that the answer is kept.
    pub async fn answer_question(
        &self,
        session: &SessionId,
        call: &CallId,
        answer: &str,
    ) -> Result<EventStream<SessionEvent>, ClientError> {
        let path = format!("/my/chat/{session}/questions/{call}/answer");
        let body = AnswerQuestion {
            answer: Some(answer.to_owned()),
        };
        self.stream(
            self.transport.json_request(Method::POST, &path, &body)?,
            StreamEnd::FirstDone,
        )
        .await
    }

    pub async fn project_session_audit(
        &self,
        session: &SessionId,
    ) -> Result<AuditList, ClientError> {
        self.get(&format!("/my/chat/{session}/audit")).await
    }
}
