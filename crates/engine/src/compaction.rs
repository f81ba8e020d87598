//! Summaries of long sessions. When the messages since the last summary pass a limit, the model
//! sums the session up at the end of a turn, beside whatever the session does next. Messages stay
//! as they are. Prompts contain the summary of what they no longer show. The prompts of the agent
//! and of the session are never summed up. A person can ask for a summary at any time between turns;
//! it takes the place of what was said before it.

use codelab_protocol::{
    AgentName, ErrorCode, ErrorData, HistoryCompacted, HistoryCompacting, Message, ModelFailure,
    ModelOutput, Plan, Role, SessionEventBody, SessionKind, Task, TurnId,
};
use serde::{Deserialize, Serialize};

use crate::output::Output;
use crate::prompt::{MAX_SUMMARIZED_TOKENS, SUMMARY_MAX_TOKENS, estimated_size};
use crate::session::Transition;
use crate::turn::{Reservation, cut, error_data};
use crate::world::{MAX_ATTEMPTS, MAX_PLAN_STATE_BYTES, MAX_SUMMARY_BYTES};
use crate::{
    AgentSpending, CallerAnswer, Effect, Lane, MessageRecord, ModelCall, ModelCallId, PromptLimits,
    Purpose, Refusal, Session, orchestrator,
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
    /// Summaries that were begun.
    #[serde(default)]
    begun: u32,
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
    /// Messages of the session's own history that a person wanted to be replaced: prompts do not
    /// show them any more. None where it was written because the history had grown long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<u64>,
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
    /// Tells apart the summaries that begin in one turn.
    #[serde(default)]
    number: u32,
    /// A person asked for it, and is told when it fails.
    #[serde(default)]
    asked_for: bool,
}

impl Compaction {
    /// Messages of the session's own history.
    pub(crate) fn said(&self) -> u64 {
        self.said
    }

    /// Messages of the session's own history that prompts may show: those since the summary that a
    /// person asked for. None where nobody did.
    pub(crate) fn shown(&self) -> Option<u64> {
        let replaces = self.summary.as_ref().and_then(|summary| summary.replaces);
        replaces.map(|replaced| self.said.saturating_sub(replaced))
    }
}

/// What prompts showed of a history before a part of it was taken back.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct HiddenSummary {
    /// A summary that tells of what was taken back.
    summary: Option<Summary>,
    tokens: u64,
    plan: Option<String>,
    /// The first message that was taken back.
    ord: u64,
    /// The size of what was left.
    tokens_left: u64,
}

impl Running {
    fn call_id(&self) -> ModelCallId {
        ModelCallId {
            turn: self.turn,
            lane: Lane::ASIDE,
            step: self.number,
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

    /// How many of these first messages of the session the summary covers; none where it covers
    /// later ones too, so that it says what they do not.
    pub(crate) fn covered(&self, messages: &[MessageRecord]) -> Option<usize> {
        let before = self.compaction.summary.as_ref()?.before;
        let is_whole = messages.last().is_some_and(|last| last.ord + 1 >= before);
        let covered = messages.iter().filter(|record| record.ord < before);
        is_whole.then(|| covered.count())
    }

    /// Takes over the summary of the messages that were copied so far; returns its text.
    pub(crate) fn copy_summary(&mut self, original: &Self, covered: u64) -> Option<String> {
        let summary = original.compaction.summary.clone()?;
        let text = summary.text.clone();
        self.compaction.tokens = 0;
        self.compaction.summary = Some(Summary {
            before: covered,
            replaces: summary.replaces.map(|replaced| replaced.min(covered)),
            ..summary
        });
        Some(text)
    }

    /// The last plan, if the copy is as long as the original.
    pub(crate) fn copy_plan_state(&mut self, original: &Self, is_whole: bool) {
        let plan = original.compaction.plan.clone();
        self.compaction.plan = plan.filter(|_| is_whole);
    }

    pub(crate) fn compacting_call(&self) -> Option<ModelCallId> {
        self.compaction.running.as_ref().map(Running::call_id)
    }

    /// Whether a summary is being written that a person asked for.
    pub fn is_compacting(&self) -> bool {
        let running = self.compaction.running.as_ref();
        running.is_some_and(|running| running.asked_for)
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
            ref running,
            ..
        } = self.session.compaction;
        if running.is_some() || tokens <= limit {
            return;
        }
        // Without room in the budget it is not worth a question to a person.
        self.begin_summary(turn, false);
    }

    /// A person wants the history summed up, however long it is.
    pub(crate) fn compact(&mut self) -> Result<CallerAnswer, Refusal> {
        let conflict = |why: &str| Refusal::new(ErrorCode::Conflict, why);
        if !self.session.is_idle() {
            let why = "The session is busy; compact when its turn has ended";
            return Err(conflict(why).with("reason", "busy"));
        }
        let compaction = &mut self.session.compaction;
        if let Some(running) = &mut compaction.running {
            // The one that is on its way is what is wanted.
            if !std::mem::replace(&mut running.asked_for, true) {
                self.tell_compacting();
            }
            return Ok(CallerAnswer::Nothing);
        }
        if compaction.said == 0 || compaction.shown() == Some(0) {
            let why =
                "There is nothing to compact: nothing was said, or nothing since the last summary";
            return Err(conflict(why).with("reason", "nothing_to_compact"));
        }
        if self.summary_replaces_all() {
            return Ok(CallerAnswer::Nothing);
        }
        if !self.begin_summary(TurnId(self.session.last_turn), true) {
            let why = "The budget has no room for a summary now; raise it, or wait for the calls \
                       that are under way";
            return Err(conflict(why).with("reason", "budget"));
        }
        self.tell_compacting();
        Ok(CallerAnswer::Nothing)
    }

    fn tell_compacting(&mut self) {
        self.output.mark_changed();
        let running = self.session.compaction.running.as_ref();
        let begun = running.map(|running| (running.turn, running.said));
        if let Some((turn, messages)) = begun.filter(|_| self.session.kind == SessionKind::Project)
        {
            let compacting = SessionEventBody::HistoryCompacting(HistoryCompacting { messages });
            self.log().event(turn, compacting);
        }
    }

    /// A part of the history is taken back: `messages` from the number `ord` on, with their size and
    /// that of what stays. A summary that tells of them goes with them.
    pub(crate) fn hide_summary(
        &mut self,
        ord: u64,
        messages: u64,
        (tokens, kept_tokens): (u64, u64),
    ) -> HiddenSummary {
        let why = "A part of the history was taken back; the rest stays as it is";
        self.drop_summary(error_data(ErrorCode::Cancelled, why));
        let compaction = &mut self.session.compaction;
        let before = compaction.tokens;
        compaction.said = compaction.said.saturating_sub(messages);
        let summary = compaction.summary.take_if(|summary| summary.before > ord);
        compaction.tokens = match &summary {
            Some(_) => kept_tokens,
            None => before.saturating_sub(tokens),
        };
        HiddenSummary {
            summary,
            tokens: before,
            plan: compaction.plan.take(),
            ord,
            tokens_left: compaction.tokens,
        }
    }

    /// The part is there again.
    pub(crate) fn show_summary(&mut self, hidden: HiddenSummary, messages: u64) {
        let why = "A part of the history was given back; the rest stays as it is";
        self.drop_summary(error_data(ErrorCode::Cancelled, why));
        let compaction = &mut self.session.compaction;
        compaction.said = compaction.said.saturating_add(messages);
        let since = compaction.tokens.saturating_sub(hidden.tokens_left);
        compaction.tokens = hidden.tokens.saturating_add(since);
        compaction.plan = compaction.plan.take().or(hidden.plan);
        // One that was written since does not tell of what is there again.
        let is_blind = |summary: &mut Summary| summary.before > hidden.ord;
        if hidden.summary.is_some() || compaction.summary.take_if(is_blind).is_some() {
            compaction.summary = hidden.summary;
        }
    }

    /// The call was lost with the server; it has no side effect.
    pub(crate) fn summary_recovered(&mut self) {
        let compaction = &mut self.session.compaction;
        // No summary was under way.
        let Some(running) = &mut compaction.running else {
            return;
        };
        running.attempt += 1;
        if running.attempt <= MAX_ATTEMPTS {
            return compaction.call_for_summary(None, &mut self.output);
        }
        let why = "The server stopped each time this summary was awaited";
        self.drop_summary(error_data(ErrorCode::LlmError, why));
    }

    /// Whether there was a summary to stop. One that nobody asked for goes on.
    pub(crate) fn stop_compacting(&mut self) -> bool {
        let stops = self.session.is_compacting();
        if stops {
            let why = "The summary was stopped; the history stays as it is";
            self.drop_summary(error_data(ErrorCode::Cancelled, why));
        }
        stops
    }

    fn drop_summary(&mut self, why: ErrorData) {
        if let Some(running) = self.session.compaction.running.take() {
            self.output.mark_changed();
            self.space_spends(Lane::ASIDE, None);
            self.tell_failed(&running, why);
        }
    }

    /// Only who asked for a summary is told that there is none.
    fn tell_failed(&mut self, running: &Running, why: ErrorData) {
        if running.asked_for && self.session.kind == SessionKind::Project {
            self.log()
                .event(running.turn, SessionEventBody::CompactionFailed(why));
        }
    }

    /// Whether the last summary covers everything, so that no other one is needed.
    fn summary_replaces_all(&mut self) -> bool {
        let Session {
            message_count,
            ref mut compaction,
            ..
        } = *self.session;
        let summary = compaction.summary.as_mut();
        let Some(summary) = summary.filter(|summary| summary.before >= message_count) else {
            return false;
        };
        summary.replaces = Some(compaction.said);
        let (text, said) = (summary.text.clone(), compaction.said);
        self.tell_compacted(TurnId(self.session.last_turn), said, text);
        true
    }

    fn tell_compacted(&mut self, turn: TurnId, messages: u64, summary: String) {
        self.output.mark_changed();
        if self.session.kind == SessionKind::Project {
            let compacted = HistoryCompacted { messages, summary };
            self.log()
                .event(turn, SessionEventBody::HistoryCompacted(compacted));
        }
    }

    /// Whether the budgets have room for it.
    fn begin_summary(&mut self, turn: TurnId, asked_for: bool) -> bool {
        let Compaction { tokens, said, .. } = self.session.compaction;
        let mut funds = self.funds();
        let read = tokens.min(MAX_SUMMARIZED_TOKENS as u64);
        let size = funds.size(&orchestrator(), read, SUMMARY_MAX_TOKENS.into());
        let Reservation::Granted(granted) = funds.set_aside(Lane::ASIDE, &orchestrator(), size)
        else {
            return false;
        };
        let before = self.session.message_count;
        let compaction = &mut self.session.compaction;
        let number = compaction.begun;
        compaction.begun = number.wrapping_add(1);
        compaction.running = Some(Running {
            turn,
            before,
            said,
            tokens,
            attempt: 0,
            number,
            asked_for,
        });
        compaction.call_for_summary(granted.max_tokens, &mut self.output);
        true
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
        let text = match outcome {
            Ok(output) => cut(output.text.trim(), MAX_SUMMARY_BYTES).to_owned(),
            // One that nobody asked for is tried again at the end of the next turn.
            Err(failure) => {
                self.tell_failed(&running, failure.into_error());
                return CallerAnswer::Nothing;
            }
        };
        if text.is_empty() {
            let why = "The model answered with an empty summary; the history stays as it is";
            self.tell_failed(&running, error_data(ErrorCode::LlmError, why));
            return CallerAnswer::Nothing;
        }
        let compaction = &mut self.session.compaction;
        compaction.tokens = compaction.tokens.saturating_sub(running.tokens);
        // What a person wanted to be gone from prompts does not come back.
        let before = compaction.summary.as_ref();
        let replaced = before.and_then(|summary| summary.replaces);
        let replaces = match running.asked_for {
            true => Some(running.said),
            false => replaced,
        };
        compaction.summary = Some(Summary {
            text: text.clone(),
            kept,
            before: running.before,
            replaces,
        });
        self.tell_compacted(running.turn, running.said, text);
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
