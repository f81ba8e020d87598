//! A world that a test controls.

use std::sync::LazyLock;

use codelab_engine::{Ids, Limits, Mode, Session, Team, World};
use codelab_policy::Policy;
use codelab_protocol::{CallId, MessageId, SessionId, Timestamp};

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
}

pub struct Stage {
    pub now: Timestamp,
    pub ids: CountedIds,
    pub team: Team,
    pub limits: Limits,
    pub policy: &'static Policy,
}

impl Stage {
    pub fn new(mode: Mode) -> Self {
        Self {
            now: Timestamp::from_millis(1_768_334_400_000),
            ids: CountedIds { next: 0 },
            team: team(mode),
            limits: Limits::default(),
            policy: &POLICY,
        }
    }

    pub fn world(&mut self) -> World<'_> {
        World { now: self.now, ids: &mut self.ids, team: &self.team, limits: &self.limits, policy: self.policy }
    }
}

static POLICY: LazyLock<Policy> = LazyLock::new(Policy::default);

/// Parsed once: a simulation needs a team for each of its lives.
fn team(mode: Mode) -> Team {
    static TEAMS: LazyLock<[Team; 2]> =
        LazyLock::new(|| [Mode::Multi, Mode::Single].map(|m| Team::built_in(m).unwrap()));
    TEAMS.iter().find(|team| team.mode() == mode).unwrap().clone()
}

pub fn session() -> Session {
    Session::new(SessionId::parse("s").unwrap(), 1)
}

/// What a crash leaves: the snapshot, read back.
pub fn restored(session: &Session) -> Session {
    serde_json::from_str(&serde_json::to_string(session).unwrap()).unwrap()
}
