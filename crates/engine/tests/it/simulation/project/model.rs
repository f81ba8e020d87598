//! What models answer: plans of every shape, tool calls, nonsense, nothing.

use codelab_engine::{Input, ModelCallId};
use codelab_protocol::{ErrorCode, ModelFailure, ModelOutput, RawToolCall, Usage};
use serde_json::{Value, json};

use super::{AGENTS, Life};

/// Some lie beneath others; one is no path that a person may write.
const PATHS: [&str; 7] = ["a", "a/b", "a/b/c.rs", "ab", "d", "e/*.rs", "/etc/passwd"];

impl Life {
    pub(super) fn model_finished(&mut self, call: ModelCallId) -> Input {
        let turn = self.session.turn().filter(|turn| turn.id == call.turn);
        let of_workflow =
            call.lane.task().is_none() && turn.is_some_and(|turn| turn.workflow().is_some());
        let text = match (of_workflow, call.step) {
            (true, 1 | 2) => self.plan_text(),
            (true, _) => "joined".to_owned(),
            (false, _) => String::new(),
        };
        let outcome = match self.rng.one_in(10) {
            true => Err(ModelFailure::not_called(ErrorCode::LlmError, "down")),
            false if text.is_empty() => Ok(self.step_output()),
            false => Ok(ModelOutput {
                text,
                ..ModelOutput::default()
            }),
        };
        let outcome = outcome.map(|output| ModelOutput {
            usage: self.usage(),
            ..output
        });
        Input::ModelFinished {
            call,
            outcome,
            recalled: Vec::new(),
        }
    }

    fn usage(&mut self) -> Option<Usage> {
        // Answers that keep to what was set aside for them.
        let (prompt_tokens, total_tokens) =
            (self.rng.below(200) as u64, 200 + self.rng.below(50) as u64);
        (!self.rng.one_in(10)).then(|| Usage {
            prompt_tokens,
            total_tokens,
            ..Usage::default()
        })
    }

    fn plan_text(&mut self) -> String {
        let tasks = match self.rng.below(12) {
            0 => return "no plan".to_owned(),
            1 => vec![json!({ "id": "a", "agent": "nobody", "description": "d" })],
            2 => {
                let task = |id, needs| json!({ "id": id, "agent": "coder", "description": "d", "depends_on": [needs] });
                vec![task("a", "b"), task("b", "a")]
            }
            _ => self.graph(),
        };
        json!({ "tasks": tasks }).to_string()
    }

    /// The planner's answer.
    pub(super) fn planned(call: ModelCallId, tasks: &[Value]) -> Input {
        let text = json!({ "tasks": tasks }).to_string();
        Input::ModelFinished {
            call,
            outcome: Ok(ModelOutput {
                text,
                ..ModelOutput::default()
            }),
            recalled: Vec::new(),
        }
    }

    pub(super) fn graph(&mut self) -> Vec<Value> {
        let count = 1 + self.rng.below(self.max_tasks);
        self.graph_of(count)
    }

    /// Each task needs up to three of those before it.
    pub(super) fn graph_of(&mut self, count: usize) -> Vec<Value> {
        let mut tasks = Vec::with_capacity(count);
        for index in 0..count {
            let needs: Vec<String> = match index {
                0 => Vec::new(),
                _ => (0..self.rng.below(4))
                    .map(|_| format!("t{}", self.rng.below(index)))
                    .collect(),
            };
            let agent = self.rng.pick(&AGENTS).unwrap();
            let paths: Vec<&str> = (0..self.rng.below(3))
                .filter_map(|_| self.rng.pick(&PATHS).copied())
                .collect();
            tasks.push(json!({ "id": format!("t{index}"), "agent": agent, "description": "d", "depends_on": needs,
                               "paths": paths }));
        }
        tasks
    }

    fn step_output(&mut self) -> ModelOutput {
        let call = |name: &str, arguments: Value| RawToolCall {
            name: name.to_owned(),
            arguments: arguments.to_string(),
        };
        let calls = |tool_calls| ModelOutput {
            tool_calls,
            ..ModelOutput::default()
        };
        let text = |text: &str| ModelOutput {
            text: text.to_owned(),
            ..ModelOutput::default()
        };
        let read = call(
            "read_file",
            json!({ "path": format!("f{}", self.rng.below(3)) }),
        );
        let write = call("write_file", json!({ "path": "w", "content": "x" }));
        let ask = call("ask_followup_question", json!({ "question": "Which?" }));
        let named = *self
            .rng
            .pick(&[
                "mcp__near__tool",
                "mcp__far__tool",
                "mcp__near__free",
                "mcp__far__free",
            ])
            .unwrap();
        let named = call(named, json!({ "n": self.rng.below(3) }));
        match self.rng.below(21) {
            0..=5 => text("an answer"),
            6 => text(""),
            7..=9 => calls(vec![read]),
            10 | 11 => calls(vec![write]),
            12 => calls(vec![ask]),
            13 => calls(vec![call(
                "attempt_completion",
                json!({ "result": "done" }),
            )]),
            14 => calls(vec![call(
                "switch_mode",
                json!({ "agent": self.agent(), "reason": "r" }),
            )]),
            15 => calls(vec![call("echo", json!({ "text": "e" })), read, write]),
            16 => calls(vec![RawToolCall {
                name: "read_file".to_owned(),
                arguments: "{".to_owned(),
            }]),
            17 | 18 => calls(vec![named]),
            19 => calls(vec![named, write]),
            _ => calls(vec![
                read,
                ask,
                write,
                call("attempt_completion", json!({ "result": "" })),
            ]),
        }
    }
}
