//! Skills that an agent uses, and which nested instructions its calls brought up.

use std::sync::Arc;

use codelab_protocol::{CalledTool, ErrorCode};

use super::{OpenCall, PlannedCall, Thread, error_data};
use crate::instructions::{self, MAX_TOUCHED};
use crate::session::Transition;

impl Transition<'_, '_> {
    /// Gives the model the whole skill. Nothing else changes by it.
    pub(super) fn use_skill(&mut self, thread: Thread, call: &PlannedCall, name: &str) {
        let known = Arc::clone(&self.space.instructions);
        match known.skill(name) {
            Some(skill) => self.server_result(thread, call, instructions::used(skill)),
            None => {
                let names: Vec<&str> = known.skill_names().collect();
                let message = format!(
                    "There is no skill {name}. The skills are: {}",
                    names.join(", ")
                );
                let error = error_data(ErrorCode::InvalidToolArguments, &message);
                self.refuse_call(thread, call, error);
            }
        }
    }

    /// From the next model call on, the instructions of these folders are told as well.
    pub(super) fn note_touched(&mut self, call: &OpenCall) {
        let CalledTool::BuiltIn(tool) = call.tool else {
            return;
        };
        let folders = self.space.instructions.touched_by(tool, &call.arguments);
        for folder in folders {
            if self.session.touched.len() < MAX_TOUCHED {
                self.session.touched.insert(folder);
            }
        }
    }
}
