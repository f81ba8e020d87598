//! What a message makes the model do, step by step, and what the history must hold of it.

use std::time::Duration;

use codelab_fakemodel::{FakeModel, Reply, is_classification};
use serde_json::{Map, Value, json};

use crate::workload::rng::Rng;

/// One model answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A client tool that nobody is asked about.
    Read,
    /// Client tools that a person is asked about; a yes to `Write` can be remembered.
    Write,
    Run,
    Ask,
    /// Server tools.
    Echo,
    HandOver,
    /// Two calls at once, which are both refused.
    Twice,
    /// The two ways to end.
    Say,
    Finish,
}

const WORK: [Step; 12] = [
    Step::Read,
    Step::Read,
    Step::Write,
    Step::Write,
    Step::Run,
    Step::Run,
    Step::Run,
    Step::Ask,
    Step::Ask,
    Step::Echo,
    Step::HandOver,
    Step::Twice,
];

/// The script of one user message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Unique in the whole run.
    pub label: String,
    pub steps: Vec<Step>,
}

/// What the model says at one step.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    pub text: String,
    pub calls: Vec<(&'static str, Map<String, Value>)>,
}

/// Where a reply stops for good, if it does: the model call is then under way when the server dies.
pub const STALL_AFTER_DELTAS: usize = 2;
const DELTA_DELAY: Duration = Duration::from_millis(1);
const SLOW_DELTA_DELAY: Duration = Duration::from_millis(60);

/// How fast the model follows a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    Quick,
    /// Slow enough for a fault to find the answer under way.
    Slow,
    /// The answer to this step never ends.
    StallsAt(usize),
}

impl Plan {
    pub fn random(label: String, rng: &mut Rng) -> Self {
        let work = rng.below(4);
        let mut steps: Vec<Step> = (0..work).map(|_| rng.pick(&WORK)).collect();
        steps.push(rng.pick(&[Step::Say, Step::Finish]));
        Self { label, steps }
    }

    /// What the user says.
    pub fn text(&self) -> String {
        format!("Please do {}", self.label)
    }

    pub fn said(&self, index: usize) -> Option<Said> {
        let name = format!("{}.{index}", self.label);
        let said = |text: &str, calls: Vec<(&'static str, Value)>| {
            let object = |value: Value| value.as_object().cloned().unwrap_or_default();
            Some(Said {
                text: text.to_owned(),
                calls: calls
                    .into_iter()
                    .map(|(tool, arguments)| (tool, object(arguments)))
                    .collect(),
            })
        };
        match self.steps.get(index)? {
            Step::Read => said(
                "",
                vec![("read_file", json!({"path": format!("{name}.txt")}))],
            ),
            Step::Write => {
                let file =
                    json!({"path": format!("{name}.txt"), "content": format!("text of {name}")});
                said(
                    &format!("Writing {name} to a file."),
                    vec![("write_file", file)],
                )
            }
            Step::Run => said(
                "",
                vec![(
                    "execute_command",
                    json!({"command": format!("rm -rf {name}")}),
                )],
            ),
            Step::Ask => said(
                "",
                vec![(
                    "ask_followup_question",
                    json!({"question": format!("How about {name}?")}),
                )],
            ),
            Step::Echo => said(
                "",
                vec![("echo", json!({"text": format!("echo of {name}")}))],
            ),
            Step::HandOver => said(
                "",
                vec![("switch_mode", json!({"agent": "debug", "reason": name}))],
            ),
            Step::Twice => {
                let read = |part: &str| ("read_file", json!({"path": format!("{name}.{part}")}));
                said("", vec![read("a"), read("b")])
            }
            Step::Say => said(&format!("The answer to {name} is ready now."), Vec::new()),
            Step::Finish => said(
                "",
                vec![(
                    "attempt_completion",
                    json!({"result": format!("Finished {name}.")}),
                )],
            ),
        }
    }

    /// The content and the calls that the history keeps of a step. The call that ends a turn is
    /// kept as its result.
    pub fn kept(&self, index: usize) -> Option<Said> {
        let mut said = self.said(index)?;
        if self.steps.get(index) == Some(&Step::Finish) {
            let result = said
                .calls
                .pop()
                .and_then(|(_, mut arguments)| arguments.remove("result"));
            said.text = result
                .and_then(|text| text.as_str().map(str::to_owned))
                .unwrap_or_default();
        }
        Some(said)
    }

    /// Makes the model follow the plan.
    pub fn teach(&self, model: &FakeModel, pace: Pace) {
        for index in 0..self.steps.len() {
            let Some(said) = self.said(index) else {
                continue;
            };
            let calls = said
                .calls
                .into_iter()
                .map(|(tool, arguments)| (tool, Value::Object(arguments)))
                .collect();
            let reply = match said.text.as_str() {
                "" => Reply::tool_calls(calls),
                text => Reply::tool_calls(calls).with_text(text),
            };
            let reply = match pace {
                Pace::StallsAt(step) if step == index => {
                    reply.hang_after_deltas(STALL_AFTER_DELTAS)
                }
                Pace::Slow => reply.with_delay_per_delta(SLOW_DELTA_DELAY),
                Pace::Quick | Pace::StallsAt(_) => reply.with_delay_per_delta(DELTA_DELAY),
            };
            let text = self.text();
            model.on(
                move |body| {
                    asked_step(body).is_some_and(|(asked, step)| asked == text && step == index)
                },
                reply,
            );
        }
    }
}

/// Which message a request works on, and which of its steps it asks for.
pub fn asked_step(body: &Value) -> Option<(&str, usize)> {
    if is_classification(body) {
        return None;
    }
    let messages = body["messages"].as_array()?;
    let start = messages
        .iter()
        .rposition(|message| message["role"] == "user")?;
    let steps = messages[start..]
        .iter()
        .filter(|message| message["role"] == "assistant")
        .count();
    Some((messages[start]["content"].as_str()?, steps))
}
