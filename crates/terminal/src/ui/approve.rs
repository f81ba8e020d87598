//! What passes without a question in a session: shown and chosen with `/approve`.

use codelab_client::{Client, ClientError};
use codelab_protocol::{ApproveMode, ChangeProjectSession, Patch, SessionId};

use crate::texts::CommandText;

use super::requests::RequestOutcome;
use super::talk::Talk;

impl Talk {
    /// Chooses, or says what was chosen.
    pub(super) fn approve(&mut self, wanted: Option<&str>) {
        let Some(wanted) = wanted else {
            return self.say_approve();
        };
        let Some(mode) = ApproveMode::parse(&wanted.to_ascii_lowercase()) else {
            return self.say(CommandText::NoSuchMode, &[wanted]);
        };
        match self.session.clone() {
            Some(session) => {
                let client = self.client.clone();
                self.requests.spawn(choose(client, session, mode));
            }
            // The session that the first message makes begins with it.
            None => self.approved(mode),
        }
    }

    pub(super) fn approved(&mut self, mode: ApproveMode) {
        self.state.approve = mode;
        self.say_approve();
    }

    fn say_approve(&mut self) {
        self.say(
            match self.state.approve {
                ApproveMode::Ask => CommandText::ModeAsk,
                ApproveMode::Edits => CommandText::ModeEdits,
            },
            &[],
        );
    }
}

async fn choose(client: Client, session: SessionId, mode: ApproveMode) -> RequestOutcome {
    match set(&client, &session, mode).await {
        Ok(()) => RequestOutcome::Approve(mode),
        Err(error) => RequestOutcome::Failed(error),
    }
}

pub(super) async fn set(
    client: &Client,
    session: &SessionId,
    mode: ApproveMode,
) -> Result<(), ClientError> {
    let body = ChangeProjectSession {
        approve: Patch::Value(mode),
        ..ChangeProjectSession::default()
    };
    let changed = client.change_project_session(session, &body).await;
    changed.map(drop)
}
