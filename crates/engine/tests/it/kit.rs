//! A world that a test controls.

use std::sync::LazyLock;

use codelab_engine::{
    Agent, AgentMode, Applied, Budget, Ids, Input, Refusal, Session, SessionLimits,
    StreamedAnswers, Team, World,
};
use codelab_policy::Policy;
use codelab_protocol::{
    CallId, MessageId, PlanId, RewindId, SessionId, SessionKind, Timestamp, WorkflowId,
};

use super::space::TestSpace;

pub struct CountedIds {
    pub next: u64,
}

impl Ids for CountedIds {
    fn call_id(&mut self) -> CallId {
        self.next += 1;
        CallId::parse(&format!("call-{}", self.next)).unwrap()
    }

    fn message_id(&mut self) -> MessageId {
        self.next += 1;
        MessageId::parse(&format!("msg-{}", self.next)).unwrap()
    }

    fn plan_id(&mut self) -> PlanId {
        self.next += 1;
        PlanId::parse(&format!("plan-{}", self.next)).unwrap()
    }

    fn workflow_id(&mut self) -> WorkflowId {
        self.next += 1;
        WorkflowId::parse(&format!("workflow-{}", self.next)).unwrap()
    }

    fn rewind_id(&mut self) -> RewindId {
        self.next += 1;
        RewindId::parse(&format!("rewind-{}", self.next)).unwrap()
    }
}

/// The same text for each call; a crash forgets it.
#[derive(Default)]
pub struct StreamedSoFar(pub Option<String>);

impl StreamedAnswers for StreamedSoFar {
    fn text(&self, _: &MessageId, _: u32) -> Option<String> {
        self.0.clone()
    }
}

pub struct Stage {
    pub now: Timestamp,
    pub ids: CountedIds,
    pub team: Team,
    pub limits: SessionLimits,
    pub policy: &'static Policy,
    pub space: TestSpace,
    pub stopping: bool,
    /// What each model call under way has streamed so far.
    pub streamed: StreamedSoFar,
}

impl Stage {
    pub fn new(mode: AgentMode) -> Self {
        Self {
            now: Timestamp::from_millis(1_768_334_400_000),
            ids: CountedIds { next: 0 },
            team: team(mode),
            limits: SessionLimits::default(),
            policy: &POLICY,
            space: TestSpace::new(),
            stopping: false,
            streamed: StreamedSoFar::default(),
        }
    }

    /// A project with four agents.
    pub fn project() -> Self {
        Self {
            team: PROJECT_TEAM.clone(),
            ..Self::new(AgentMode::Multi)
        }
    }

    pub fn world(&mut self) -> World<'_> {
        World {
            now: self.now,
            ids: &mut self.ids,
            team: &self.team,
            limits: &self.limits,
            policy: self.policy,
            space: self.space.snapshot(&self.team),
            stopping: self.stopping,
            streamed: &self.streamed,
        }
    }
}

impl Stage {
    /// Lets the session decide, and performs on the worker space what it decided.
    pub fn apply(&mut self, session: &mut Session, input: Input) -> Result<Applied, Refusal> {
        let applied = session.apply(input, &mut self.world())?;
        for effect in &applied.effects {
            self.space.perform(effect);
        }
        Ok(applied)
    }
}

static POLICY: LazyLock<Policy> = LazyLock::new(Policy::default);

/// Parsed once: a simulation needs a team for each of its lives.
fn team(mode: AgentMode) -> Team {
    static TEAMS: LazyLock<[Team; 2]> =
        LazyLock::new(|| [AgentMode::Multi, AgentMode::Single].map(|m| Team::built_in(m).unwrap()));
    TEAMS
        .iter()
        .find(|team| team.mode() == mode)
        .unwrap()
        .clone()
}

static PROJECT_TEAM: LazyLock<Team> = LazyLock::new(|| {
    let read = "read_file, list_files, search_in_code, attempt_completion, ask_followup_question";
    let all =
        format!("{read}, write_file, create_directory, execute_command, switch_mode, echo, mcp__*");
    let connected = format!("{read}, mcp__*");
    let agents = [
        ("coder", all.as_str()),
        ("analyzer", read),
        ("writer", read),
        ("researcher", connected.as_str()),
    ];
    let parsed = agents.map(|(name, tools)| {
        let text = format!("---\nname: agent_{name}\ndescription: d\nmax_tokens: 1000\ntools: [{tools}]\n---\nprompt");
        Agent::parse(&text).unwrap()
    });
    Team::of_project(parsed.into())
});

pub fn session() -> Session {
    Session::new(
        SessionId::parse("s").unwrap(),
        SessionKind::Runtime,
        Budget::default(),
        1,
    )
}

pub fn project_session(budget: Budget) -> Session {
    Session::new(
        SessionId::parse("s").unwrap(),
        SessionKind::Project,
        budget,
        1,
    )
}

/// What a crash leaves: the snapshot, read back.
pub fn restored(session: &Session) -> Session {
    serde_json::from_str(&serde_json::to_string(session).unwrap()).unwrap()
}
