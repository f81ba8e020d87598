//! The history, read as turns that follow their plans.

use codelab_protocol::{CallId, Message, Role};

use crate::workload::ledger::Ledger;
use crate::workload::plan::{Plan, Step};

/// One user message and what came of it.
pub struct TurnFound<'a> {
    /// The last planned answer is there.
    pub is_complete: bool,
    pub calls: Vec<CallFound<'a>>,
}

/// A call and its one result.
pub struct CallFound<'a> {
    pub call_id: &'a CallId,
    pub step: Step,
    pub step_index: usize,
    pub content: &'a str,
}

impl CallFound<'_> {
    /// The code of the error that the model was told instead of a result.
    pub fn refused_with(&self) -> Option<&str> {
        let (code, _) = self.content.strip_prefix("Error ")?.split_once(':')?;
        Some(code)
    }
}

/// The turns, and where the history leaves their plans.
pub fn read<'a>(ledger: &Ledger, history: &'a [Message]) -> (Vec<TurnFound<'a>>, Vec<String>) {
    let mut turns = Vec::new();
    let mut problems = Vec::new();
    // The answer to a question begins no turn; it is the result of a call as well, and compared as
    // that.
    let history: Vec<&Message> = history
        .iter()
        .filter(|message| message.answers.is_none())
        .collect();
    let mut rest = history.as_slice();
    while let Some((first, after)) = rest.split_first() {
        let length = after
            .iter()
            .take_while(|message| message.role != Role::User)
            .count();
        let (work, later) = after.split_at(length);
        rest = later;
        let plan = ledger
            .messages
            .iter()
            .map(|sent| &sent.plan)
            .find(|plan| plan.text() == first.content);
        match plan.filter(|_| first.role == Role::User) {
            Some(plan) => turns.push(turn(plan, work, &mut problems)),
            None => problems.push(format!(
                "the history has a turn that nobody began: {:?}",
                first.content
            )),
        }
    }
    (turns, problems)
}

fn turn<'a>(plan: &Plan, work: &[&'a Message], problems: &mut Vec<String>) -> TurnFound<'a> {
    let mut calls = Vec::new();
    let mut step_index = 0;
    let mut rest = work.iter().copied().peekable();
    while let Some(answer) = rest.next() {
        let expected = plan.kept(step_index);
        let made: Vec<_> = answer
            .tool_calls
            .iter()
            .map(|call| (call.name.as_str(), &call.arguments))
            .collect();
        let is_planned = expected.as_ref().is_some_and(|said| {
            let planned: Vec<_> = said
                .calls
                .iter()
                .map(|(tool, arguments)| (*tool, arguments))
                .collect();
            answer.role == Role::Assistant && answer.content == said.text && made == planned
        });
        if !is_planned {
            let found = format!("{:?} {:?} {made:?}", answer.role, answer.content);
            problems.push(format!(
                "step {step_index} of {} should be {expected:?} and is {found}",
                plan.label
            ));
            break;
        }
        for call in &answer.tool_calls {
            let result =
                rest.next_if(|message| message.tool_call_id.as_ref() == Some(&call.call_id));
            match (result, plan.steps.get(step_index)) {
                (Some(result), Some(step)) => {
                    calls.push(CallFound {
                        call_id: &call.call_id,
                        step: *step,
                        step_index,
                        content: &result.content,
                    });
                }
                _ => problems.push(format!(
                    "step {step_index} of {}: {} has no result",
                    plan.label, call.call_id
                )),
            }
        }
        if let Some(second) = rest.next_if(|message| message.role == Role::Tool) {
            let id = second.tool_call_id.as_ref();
            problems.push(format!(
                "step {step_index} of {} has one result too many: {id:?} {second:?}",
                plan.label
            ));
        }
        step_index += 1;
    }
    TurnFound {
        is_complete: step_index == plan.steps.len(),
        calls,
    }
}
