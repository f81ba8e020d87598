//! Summaries of long sessions. When the messages since the last summary pass a limit, the model
//! sums the session up at the end of a turn, beside whatever the session does next. Messages stay
//! as they are. Prompts contain the summary of what they no longer show. The prompts of the agent
//! and of the session are never summed up.

use codelab_protocol::{
    AgentName, HistoryCompacted, Message, ModelFailure, ModelOutput, Plan, Role, SessionEventBody,
    SessionKind, Task, TurnId,
};
use serde::{Deserialize, Serialize};

use crate::output::Output;
use crate::prompt::{MAX_SUMMARIZED_TOKENS, SUMMARY_MAX_TOKENS, estimated_size};
use crate::session::Transition;
use crate::turn::{Reservation, cut};
use crate::world::{MAX_ATTEMPTS, MAX_PLAN_STATE_BYTES, MAX_SUMMARY_BYTES};
use crate::{
    AgentSpending, CallerAnswer, Effect, Lane, ModelCall, ModelCallId, PromptLimits, Purpose,
    Session, orchestrator,
};

/// How far a session's history is summed up.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Compaction {
    summary: Option<Summary>,
    /// Size of the session's own messages that the summary does not cover, by the estimate.
    tokens: u64,
    /// Messages of the session's own history; those of tasks are not among them.
    said: u64,
    running: Option<Running>,
    /// The agent that answered last. Its model is the one that the history must fit.
    #[serde(default)]
    reader: Option<AgentName>,
    /// The last plan as it ended, word for word.
    plan: Option<String>,
}

/// A summary that prompts show instead of the older part of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub text: String,
    /// What is carried on word for word: the first request, decisions of people.
    pub kept: Vec<String>,
    /// The first message that it does not cover.
    pub before: u64,
}

/// A summary on its way.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Running {
    /// The turn at whose end it began.
    turn: TurnId,
    before: u64,
    said: u64,
    tokens: u64,
    attempt: u32,
}

impl Compaction {
    /// Messages of the session's own history.
    pub(crate) fn said(&self) -> u64 {
        self.said
    }
}

impl Running {
    fn call_id(&self) -> ModelCallId {
        ModelCallId {
            turn: self.turn,
            lane: Lane::ASIDE,
            step: 0,
            attempt: self.attempt,
        }
    }
}

impl Session {
    /// The older part of the session, if it was summed up.
    pub fn summary(&self) -> Option<&Summary> {
        self.compaction.summary.as_ref()
    }

    /// The last plan as it ended, where histories are summed up.
    pub(crate) fn plan_state(&self) -> Option<&str> {
        self.compaction.plan.as_deref()
    }

    pub(crate) fn compacting_call(&self) -> Option<ModelCallId> {
        self.compaction.running.as_ref().map(Running::call_id)
    }

    pub(crate) fn count_said(&mut self, message: &Message) {
        let compaction = &mut self.compaction;
        compaction.said += 1;
        if message.role == Role::Assistant {
            compaction.reader.clone_from(&message.agent_id);
        }
        compaction.tokens = compaction
            .tokens
            .saturating_add(estimated_size(message) as u64);
    }
}

impl Compaction {
    fn call_for_summary(&self, max_tokens: Option<u32>, output: &mut Output) {
        let Compaction {
            summary, running, ..
        } = self;
        let Some(running) = running else {
            never!("a summary is asked for that nobody wants");
            return;
        };
        let from = summary.as_ref().map_or(0, |summary| summary.before);
        let purpose = Purpose::Summarize {
            from,
            before: running.before,
        };
        let call = ModelCall {
            id: running.call_id(),
            agent: orchestrator(),
            purpose,
            max_tokens,
            recall: None,
        };
        output.push(Effect::CallModel(call));
    }

    /// The call was lost with the server; it has no side effect.
    pub(crate) fn recovered(&mut self, output: &mut Output) {
        // No summary was under way.
        let Some(running) = &mut self.running else {
            return;
        };
        running.attempt += 1;
        match running.attempt > MAX_ATTEMPTS {
            true => self.running = None,
            false => self.call_for_summary(None, output),
        }
    }
}

impl Transition<'_, '_> {
    /// Kept for prompts whose history was summed up.
    pub(crate) fn note_plan(&mut self, plan: &Plan) {
        if self.compacts_past().is_some() {
            self.session.compaction.plan =
                Some(cut(&plan_state(plan), MAX_PLAN_STATE_BYTES).to_owned());
        }
    }

    /// The size of history past which the session is summed up: as it is set, or by the window of the
    /// model that reads it.
    fn compacts_past(&self) -> Option<u64> {
        let limits = self.world.limits;
        let by_window = || {
            let reader = self.session.compaction.reader.clone();
            let window = reader.and_then(|reader| self.space.window_of(&reader));
            let window = window.or_else(|| self.space.window_of(&orchestrator()));
            window.map(PromptLimits::compacts_at)
        };
        match limits.prompt.by_window {
            true => limits.compact_tokens.or_else(by_window),
            false => limits.compact_tokens,
        }
    }

    pub(crate) fn compact_if_long(&mut self, turn: TurnId) {
        // Nothing is ever summed up.
        let Some(limit) = self.compacts_past() else {
            return;
        };
        let Compaction {
            tokens,
            said,
            ref running,
            ..
        } = self.session.compaction;
        if running.is_some() || tokens <= limit {
            return;
        }
        // It is not worth a question to a person.
        let mut funds = self.funds();
        let read = tokens.min(MAX_SUMMARIZED_TOKENS as u64);
        let size = funds.size(&orchestrator(), read, SUMMARY_MAX_TOKENS.into());
        let Reservation::Granted(granted) = funds.set_aside(Lane::ASIDE, &orchestrator(), size)
        else {
            return;
        };
        let before = self.session.message_count;
        self.session.compaction.running = Some(Running {
            turn,
            before,
            said,
            tokens,
            attempt: 0,
        });
        let compaction = &self.session.compaction;
        compaction.call_for_summary(granted.max_tokens, &mut self.output);
    }

    /// `kept` is what the runtime found to be carried on word for word.
    pub(crate) fn summarized(
        &mut self,
        call: ModelCallId,
        outcome: Result<ModelOutput, ModelFailure>,
        kept: Vec<String>,
    ) -> CallerAnswer {
        // A summary that was asked for again since, or whose session was reset.
        let Some(running) = self
            .session
            .compaction
            .running
            .take_if(|running| running.call_id() == call)
        else {
            return CallerAnswer::Nothing;
        };
        self.output.mark_changed();
        let usage = outcome
            .as_ref()
            .ok()
            .and_then(|output| output.usage.clone());
        self.space_spends(Lane::ASIDE, usage.as_ref());
        if let Some(usage) = usage {
            self.spent(AgentSpending {
                agent: orchestrator(),
                turn: running.turn,
                task: None,
                usage,
            });
        }
        // One that failed is asked for again at the end of the next turn.
        let Ok(output) = outcome else {
            return CallerAnswer::Nothing;
        };
        let text = cut(output.text.trim(), MAX_SUMMARY_BYTES).to_owned();
        if text.is_empty() {
            return CallerAnswer::Nothing;
        }
        let compaction = &mut self.session.compaction;
        compaction.tokens = compaction.tokens.saturating_sub(running.tokens);
        compaction.summary = Some(Summary {
            text: text.clone(),
            kept,
            before: running.before,
        });
        if self.session.kind == SessionKind::Project {
            let compacted = HistoryCompacted {
                messages: running.said,
                summary: text,
            };
            self.log()
                .event(running.turn, SessionEventBody::HistoryCompacted(compacted));
        }
        CallerAnswer::Nothing
    }
}

fn plan_state(plan: &Plan) -> String {
    let line = |task: &Task| {
        format!(
            "- [{}] {} ({}): {}",
            task.status.as_str(),
            task.id,
            task.agent,
            task.description
        )
    };
    let tasks: Vec<String> = plan.tasks.iter().map(line).collect();
    format!(
        "Plan {} ({}):\n{}",
        plan.plan_id,
        plan.status.as_str(),
        tasks.join("\n")
    )
}
