//! Calls of MCP servers' tools: which are allowed, which the server makes itself, and the search for
//! tools.

use codelab_protocol::{AttachedFile, CallId, CallOutcome, Digest, McpPermission, Message, Role};
use serde_json::Value;

use super::call::text_of;
use super::{OpenCall, PlannedCall, Thread, ThreadPhase};
use crate::named::keep_found;
use crate::session::Transition;
use crate::{CallStatus, CallerAnswer, Effect, NamedTool, ToolEnd};

/// How the audit log names the permission that a project gives to a tool.
const ALLOWED_IN_PROJECT: &str = "allowed in the project";

impl Transition<'_, '_> {
    pub(super) fn named_call(&mut self, thread: Thread, call: OpenCall, tool: &NamedTool) {
        self.output
            .open_call(&thread, &call.call_id, &call.tool.name());
        let ask = self.world.policy.review_mcp(&tool.call.id);
        match (tool.permission, self.session.remembered(&ask)) {
            (McpPermission::Allow, _) => {
                self.pass_remembered(thread, call, ask, ALLOWED_IN_PROJECT.to_owned());
            }
            (McpPermission::Ask | McpPermission::Forbid, Some(rule)) => {
                self.pass_remembered(thread, call, ask, rule);
            }
            (McpPermission::Ask | McpPermission::Forbid, None) => {
                self.request_approval(thread, call, ask);
            }
        }
    }

    pub(super) fn search_tools(&mut self, mut thread: Thread, call: &PlannedCall, query: &str) {
        let team = self.world.team;
        let Some(agent) = team.get(&thread.agent) else {
            never!("an agent searches tools that is not in the team");
            return self.server_result(thread, call, Value::Null);
        };
        let tools = std::sync::Arc::clone(&self.space.named_tools);
        let hits = tools.search(agent, query);
        keep_found(&mut thread.found_tools, &hits);
        let shown = tools.shown_hits(agent, &hits);
        self.server_result(thread, call, shown);
    }

    /// Has the server make the call. It waits for nobody outside, but it is not the agent's work.
    pub(super) fn make_named_call(&mut self, mut thread: Thread, call: OpenCall) {
        self.leave(&mut thread, None);
        let begun = !self.world.stopping;
        if begun {
            self.push_named_call(&call);
        }
        thread.phase = ThreadPhase::Calling { call, begun };
        self.session.put(thread);
    }

    fn push_named_call(&mut self, call: &OpenCall) {
        let Some(mcp) = call.tool.mcp() else {
            never!("the server calls a tool that is built in");
            return;
        };
        self.output.push(Effect::CallTool {
            call_id: call.call_id.clone(),
            tool: mcp.id.clone(),
            arguments: call.arguments.clone(),
        });
    }

    /// A server took the session over. A call that was made may have had its effect, so it is not
    /// made again.
    pub(super) fn named_call_recovered(&mut self, thread: Thread) {
        let ThreadPhase::Calling { call, begun } = thread.phase.clone() else {
            never!("a call is recovered that is not under way");
            return self.session.put(thread);
        };
        match begun {
            true => {
                let why = "The server stopped while the call was under way";
                self.named_call_unknown(thread, &call, why);
            }
            false => self.make_named_call(thread, call),
        }
    }

    pub(crate) fn named_call_ended(&mut self, call_id: &CallId, end: ToolEnd) -> CallerAnswer {
        let is_made = |thread: &&Thread| matches!(&thread.phase, ThreadPhase::Calling { call, begun: true } if call.call_id == *call_id);
        let turn = self.session.turn.as_ref();
        let lane = turn.and_then(|turn| turn.threads().find(is_made).map(Thread::lane));
        // The turn can have ended, or the call been cancelled, while it was under way.
        let Some(thread) = lane.and_then(|lane| self.session.take_thread(lane)) else {
            return CallerAnswer::Nothing;
        };
        let ThreadPhase::Calling { call, .. } = thread.phase.clone() else {
            never!("a call ends that is not under way");
            self.session.put(thread);
            return CallerAnswer::Nothing;
        };
        match end {
            ToolEnd::Result { result, images } => {
                self.named_call_result(thread, &call, result, images);
            }
            ToolEnd::Unknown(why) => self.named_call_unknown(thread, &call, &why),
        }
        CallerAnswer::Nothing
    }

    fn named_call_result(
        &mut self,
        thread: Thread,
        call: &OpenCall,
        result: Value,
        images: Vec<AttachedFile>,
    ) {
        self.withdraw_elicitation(&thread, call);
        let digest = Digest::of_json(&result);
        self.output.push(Effect::CallClosed {
            call_id: call.call_id.clone(),
            status: CallStatus::Finished,
            result_digest: Some(digest),
            span: None,
            did: call.about(),
        });
        self.session.note_result(call, &result);
        let text = call.told(&result);
        let name = call.tool.name();
        self.view()
            .show_result(&thread, &call.call_id, &name, result, false);
        let message = Message {
            attachments: self.output.attach(images),
            ..self.new_message(Role::Tool, text)
        };
        self.result_message(&thread, &call.call_id, &name, message);
        self.next_call(thread);
    }

    fn named_call_unknown(&mut self, thread: Thread, call: &OpenCall, why: &str) {
        self.withdraw_elicitation(&thread, call);
        let name = call.tool.name();
        let did = call.may_have_done();
        self.output
            .close_call_that_did(&call.call_id, CallStatus::TimedOut, did);
        self.view()
            .show_closed(&thread, &call.call_id, CallOutcome::Unknown);
        let message = format!("{why}. {name} may or may not have run: look before you repeat it");
        self.session.note_error(&message);
        let told = format!("Outcome unknown. {message}");
        self.tool_message(&thread, &call.call_id, &name, told);
        self.next_call(thread);
    }
}

impl OpenCall {
    /// What the model reads of the result.
    pub(super) fn told(&self, result: &Value) -> String {
        match self.edited {
            true => super::call::edited_result(result, &self.arguments),
            false => text_of(result),
        }
    }
}
