//! Messages of people to project sessions.

use codelab_engine::{CallerAnswer, EventRange, Session, Turn, UserMessage};
use codelab_protocol::{AgentName, AttachedFile, CallerContext, ClientMessageId, Delivery};
use codelab_store::{OwnedSession, Schedule};

use crate::owner::Command;
use crate::project_sessions::name;
use crate::runtime::Runtime;
use crate::space::{CallMode, SpaceKey};
use crate::{Reader, RuntimeError};

/// A message to a project's session.
#[derive(Debug, Clone)]
pub struct ProjectMessage {
    pub text: String,
    /// An agent's id, its name, or its name without the `agent_` prefix; absent = planned.
    pub target: Option<String>,
    pub client_message_id: Option<ClientMessageId>,
    pub caller: CallerContext,
    pub attachments: Vec<AttachedFile>,
    /// What happens to it while a turn runs.
    pub delivery: Delivery,
}

/// A message that was accepted.
pub struct AcceptedMessage {
    /// The events of its turn.
    pub reader: Reader,
    /// The agent whose answer the caller may wait for.
    pub agent: Option<AgentName>,
}

impl Runtime {
    /// `handle_message` of a worker space: direct when an agent is named, else planned.
    pub async fn project_message(
        &self,
        session: &OwnedSession,
        message: ProjectMessage,
    ) -> Result<AcceptedMessage, RuntimeError> {
        let (space, id) = (self.space(SpaceKey::of_session(session)), session.id());
        let ProjectMessage {
            text,
            target,
            client_message_id,
            caller,
            attachments,
            delivery,
        } = message;
        let agent = match target {
            Some(target) => match self.target(&space, &target).await {
                Ok(agent) => Some(agent),
                Err(error) => {
                    let Ok(agent) = AgentName::parse(target.trim()) else {
                        return Err(error);
                    };
                    return self
                        .repeated(session, client_message_id.as_ref(), Some(agent))
                        .await?
                        .ok_or(error);
                }
            },
            None => None,
        };
        let addressee = match &agent {
            Some(_) => agent.clone(),
            None => {
                let team = space.team_snapshot().await;
                let team = team.map_err(RuntimeError::of_project_session)?;
                crate::state_of(session)?.addressee(None, &team.team)
            }
        };
        let steered = match delivery {
            Delivery::Steer => steered_agent(&crate::state_of(session)?),
            Delivery::Queue => None,
        };
        let agent_that_reads = steered.or_else(|| addressee.clone());
        if attachments.iter().any(|file| file.about.is_image())
            && let Err(refused) = self
                .check_takes_images(session, &space, agent_that_reads.as_ref())
                .await
        {
            return self
                .repeated(session, client_message_id.as_ref(), addressee)
                .await?
                .ok_or(refused);
        }
        let message = UserMessage {
            text,
            agent,
            client_message_id,
            caller,
            attachments,
            delivery,
        };
        let _coming = self.inner.user_shares.turn(space.user(), id)?;
        let feed = self.inner.registry.feed(&name(id));
        let accepted = self.input(&name(id), Command::UserMessage(message)).await?;
        let reader = self.reader(feed, accepted.key, accepted.answer);
        // The answer to a question and what steers are part of a call, and a repeat is none.
        let is_part = matches!(
            accepted.answer,
            CallerAnswer::Answered(_) | CallerAnswer::Steers(_)
        );
        let agent = addressee.filter(|_| !is_part);
        if matches!(accepted.answer, CallerAnswer::Span(_)) {
            self.call_began(
                &space,
                id,
                if agent.is_some() {
                    CallMode::Direct
                } else {
                    CallMode::Orchestrated
                },
            );
        }
        Ok(AcceptedMessage { reader, agent })
    }

    /// What came of the same message before, when the agent that it names was still there, or its
    /// model took images.
    async fn repeated(
        &self,
        session: &OwnedSession,
        client_message_id: Option<&ClientMessageId>,
        agent: Option<AgentName>,
    ) -> Result<Option<AcceptedMessage>, RuntimeError> {
        let Some(id) = client_message_id else {
            return Ok(None);
        };
        let Some(known) = self.inner.store.input(session.key, id).await? else {
            return Ok(None);
        };
        let span = EventRange {
            turn: known.turn,
            after_seq: known.after_seq,
        };
        let feed = self.inner.registry.feed(&name(session.id()));
        feed.found(
            session.key,
            session.last_seq,
            session.schedule == Schedule::default(),
        );
        Ok(Some(AcceptedMessage {
            reader: self.reader(feed, session.key, CallerAnswer::Repeat(span)),
            agent,
        }))
    }
}

/// The agent that is told what steers a direct call; the tasks of a plan get files by their names
/// where their models do not take them.
fn steered_agent(session: &Session) -> Option<AgentName> {
    let turn = session.turn().filter(|turn| turn.workflow().is_none());
    let mut threads = turn.into_iter().flat_map(Turn::threads);
    threads.next().map(|thread| thread.agent().clone())
}
