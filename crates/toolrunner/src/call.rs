//! One call, from the offer to the result: claim it, check it, ask the person at this machine where
//! needed, run it.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use codelab_client::{Backoff, ClientError};
use codelab_policy::Verdict;
use codelab_protocol::{
    CalledTool, ClaimCall, McpCall, SessionId, Tool, ToolArguments, ToolCallChunk, ToolCallEvent,
    arguments_digest,
};
use codelab_workspace::{
    Call, CallKey, JournalClaim, JournalError, ReadingAgent, RunOutcome, WriteQuestion,
};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{
    CallInfo, RunnerQuestion, RunnerState, RunningCall, ServedCalls, ToolRunnerEvent, client_tool,
    follow, lock,
};

/// Calls in progress at once, including those that wait for a slot.
const MAX_ACCEPTED: usize = 256;
/// How long a tool runner of a whole project waits before it claims a session's first call. The
/// first claim binds the session to a folder, so a tool runner that serves this session goes first.
pub(super) const YIELD_TO_NAMED: Duration = Duration::from_millis(300);
/// Sessions remembered as served.
const MAX_SERVED: usize = 10_000;
/// Attempts to claim a call while the server is unavailable.
const CLAIM_ATTEMPTS: u32 = 5;
/// How often a lease is renewed before it would end.
const RENEWALS_PER_LEASE: u64 = 3;
const RENEWAL_RETRY: Duration = Duration::from_secs(1);

/// How a claimed call ended here.
enum CallOutcome {
    Ran(Value),
    /// Nothing was run. The server gets the reason.
    NotRun(String),
    /// Nothing was written. A person must see the call again.
    Asks(Box<WriteQuestion>),
    /// The server closed the call before it started.
    Closed,
}

/// A call as it was offered, and who calls.
struct OfferedCall {
    call: ToolCallChunk,
    reader: ReadingAgent,
}

/// What is left to do after the work on a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkEnd {
    Over,
    /// The call waits for a person again, and may be offered again.
    GaveBack,
}

/// A call that was checked.
enum CheckedCall {
    BuiltIn(ToolArguments),
    Named(McpCall),
}

/// Why a call may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Permission {
    /// A person approved the call, at the server or here.
    Approved,
    NotNeeded,
}

impl RunnerState {
    /// Accepts a call that waits for a tool runner, unless it was accepted before.
    pub(super) fn offer(self: &Arc<Self>, session: &SessionId, call: ToolCallEvent) {
        let ToolCallEvent { call, origin, .. } = call;
        let Some(tool) = client_tool(&call) else {
            return;
        };
        // Another tool runner of the project may have the server. A session that is bound to this
        // one gets its answer here, whatever it is.
        if let Some(mcp) = tool.mcp()
            && !self.mcp.knows(&mcp.id.server)
            && !lock(&self.served).contains(session)
        {
            return tracing::debug!(server = %mcp.id.server, "tool call not claimed, its MCP server does not run here");
        }
        let key = CallKey {
            session_id: session.clone(),
            call_id: call.tool_call.call_id.clone(),
        };
        let stop = self.stop.child_token();
        {
            let mut running = lock(&self.running);
            if let Some(known) = running.get_mut(&key) {
                known.is_offered_again = true;
                return;
            }
            if self.journal.knows(&key) {
                return;
            }
            if running.len() >= MAX_ACCEPTED {
                tracing::warn!(call = %key.call_id, "tool call not accepted, too many calls in progress");
                self.has_unclaimed.store(true, Ordering::Release);
                return;
            }
            let known = RunningCall {
                stop: stop.clone(),
                is_offered_again: false,
            };
            running.insert(key.clone(), known);
        }
        let shared = Arc::clone(self);
        self.tasks.spawn(async move {
            let reader = ReadingAgent::new(&key.session_id, &origin, &call.agent);
            let offered = OfferedCall { call, reader };
            let end = shared
                .work_on(CallInfo::of(&key, tool), offered, &stop)
                .await;
            let known = lock(&shared.running).remove(&key);
            let is_offered_again = known.is_some_and(|known| known.is_offered_again);
            // The log says what was approved, if anything was: an offer can be older than that.
            if end == WorkEnd::GaveBack && is_offered_again {
                follow::catch_up_with(shared, key.session_id).await;
            }
        });
    }

    async fn work_on(
        &self,
        info: CallInfo,
        offered: OfferedCall,
        stop: &CancellationToken,
    ) -> WorkEnd {
        let (key, call) = (info.key(), &offered.call);
        let version = ClaimCall {
            client_id: self.client_id.clone(),
            digest: Some(call.digest.clone()),
            base: call.base.clone(),
        };
        if !lock(&self.served).contains(&key.session_id) {
            sleep(YIELD_TO_NAMED).await;
        }
        let lease_seconds = match self.claim(&key, &version, stop).await {
            Ok(seconds) => seconds,
            Err(error) => {
                if error.is_passing() {
                    self.has_unclaimed.store(true, Ordering::Release);
                }
                tracing::debug!(call = %key.call_id, %error, "tool call not claimed");
                return WorkEnd::Over;
            }
        };
        self.failpoint.pass("call_claimed");
        self.serving(&key.session_id);
        self.tell_approve(&key.session_id).await;
        let claim = JournalClaim {
            tool: info.tool.clone(),
            digest: call.digest.clone(),
        };
        let claimed_key = key.clone();
        if let Err(error) = self
            .on_disk(move |journal| journal.claim(&claimed_key, claim))
            .await
        {
            self.journal_failed(&info, &error).await;
            return WorkEnd::Over;
        }
        self.failpoint.pass("call_noted");
        let work = self.perform(&info, &offered, stop);
        match self.hold(&key, (&version, lease_seconds), stop, work).await {
            CallOutcome::Asks(question) => return self.ask_again(info, *question).await,
            CallOutcome::Ran(result) => self.ran(info, result).await,
            CallOutcome::NotRun(reason) => {
                self.emit(ToolRunnerEvent::Refused {
                    call: info,
                    reason: reason.clone(),
                });
                self.deliver(&key, failure(&reason)).await;
            }
            CallOutcome::Closed => {
                self.emit(ToolRunnerEvent::Closed { call: info });
                self.acknowledge(&key).await;
            }
        }
        WorkEnd::Over
    }

    fn serving(&self, session: &SessionId) {
        let mut served = lock(&self.served);
        if served.len() >= MAX_SERVED && self.serves == ServedCalls::Project {
            served.clear();
        }
        served.insert(session.clone());
    }

    async fn ran(&self, info: CallInfo, result: Value) {
        let key = info.key();
        let (finished_key, stored) = (key.clone(), result.clone());
        if let Err(error) = self
            .on_disk(move |journal| journal.finish(&finished_key, stored))
            .await
        {
            tracing::error!(%error, call = %key.call_id, "writing the result to the journal failed, it is sent anyway");
        }
        self.failpoint.pass("call_finished");
        let error = result
            .get("error")
            .and_then(Value::as_str)
            .map(str::to_owned);
        let success = result.get("success") == Some(&Value::Bool(true));
        self.may_have_brought(&info.tool);
        self.emit(ToolRunnerEvent::Finished {
            call: info,
            success,
            error,
        });
        self.deliver(&key, result).await;
    }

    /// A call that is not in the journal is not run: after a crash nobody could tell whether it ran.
    async fn journal_failed(&self, info: &CallInfo, error: &JournalError) {
        if let JournalError::Known { .. } = error {
            return;
        }
        tracing::error!(%error, call = %info.call_id, "writing to the journal failed, the call is not run");
        let reason = format!("the client cannot write its journal, so nothing was run: {error}");
        self.emit(ToolRunnerEvent::Refused {
            call: info.clone(),
            reason: reason.clone(),
        });
        self.send(&info.key(), failure(&reason)).await;
    }

    async fn claim(
        &self,
        key: &CallKey,
        version: &ClaimCall,
        stop: &CancellationToken,
    ) -> Result<u64, ClientError> {
        let mut attempt = 0;
        loop {
            let claimed = self
                .client
                .claim_version(&key.session_id, &key.call_id, version)
                .await;
            attempt += 1;
            match claimed {
                Ok(claimed) => return Ok(claimed.lease_seconds),
                Err(error)
                    if !error.is_passing() || attempt >= CLAIM_ATTEMPTS || stop.is_cancelled() =>
                {
                    return Err(error);
                }
                Err(_) => sleep(Backoff::default().delay(attempt)).await,
            }
        }
    }

    /// Renews the lease while `work` runs. Stops the work when the server refuses the renewal.
    async fn hold<T>(
        &self,
        key: &CallKey,
        (version, lease_seconds): (&ClaimCall, u64),
        stop: &CancellationToken,
        work: impl Future<Output = T>,
    ) -> T {
        tokio::select! {
            done = work => done,
            never = self.renew(key, (version, lease_seconds), stop) => match never {},
        }
    }

    async fn renew(
        &self,
        key: &CallKey,
        (version, lease_seconds): (&ClaimCall, u64),
        stop: &CancellationToken,
    ) -> Infallible {
        let pause = Duration::from_secs((lease_seconds / RENEWALS_PER_LEASE).max(1));
        let mut next = pause;
        loop {
            sleep(next).await;
            next = match self
                .client
                .claim_version(&key.session_id, &key.call_id, version)
                .await
            {
                Ok(_) => pause,
                Err(error) if error.is_passing() => RENEWAL_RETRY,
                Err(_) => {
                    stop.cancel();
                    return pending().await;
                }
            };
        }
    }

    async fn perform(
        &self,
        info: &CallInfo,
        offered: &OfferedCall,
        stop: &CancellationToken,
    ) -> CallOutcome {
        let call = &offered.call;
        let checked = match &info.tool {
            CalledTool::BuiltIn(tool) => self.check(*tool, call).map(CheckedCall::BuiltIn),
            CalledTool::Named(mcp) => self
                .check_named(mcp, call)
                .map(|()| CheckedCall::Named(mcp.as_ref().clone())),
        };
        let checked = match checked {
            Ok(checked) => checked,
            Err(reason) => return CallOutcome::NotRun(reason),
        };
        let lane = Arc::clone(lock(&self.lanes).entry(offered.reader.clone()).or_default());
        let slots = async {
            let alone = lane.lock().await;
            (alone, self.slots.acquire().await)
        };
        let outcome = match stop.run_until_cancelled(slots).await {
            None => self.interrupted(),
            Some(_held) => self.run(info, offered, checked, stop).await,
        };
        drop(lane);
        lock(&self.lanes).retain(|_, lane| Arc::strong_count(lane) > 1);
        outcome
    }

    async fn run(
        &self,
        info: &CallInfo,
        offered: &OfferedCall,
        checked: CheckedCall,
        stop: &CancellationToken,
    ) -> CallOutcome {
        let call = &offered.call;
        let permitted = match &checked {
            CheckedCall::BuiltIn(arguments) => {
                stop.run_until_cancelled(self.permit(info, call, arguments))
                    .await
            }
            // It was approved at the server, or it was refused above.
            CheckedCall::Named(_) => Some(Ok(Permission::Approved)),
        };
        let is_approved = match permitted {
            None => return self.interrupted(),
            Some(Err(reason)) => return CallOutcome::NotRun(reason),
            Some(Ok(permission)) => permission == Permission::Approved,
        };
        let key = info.key();
        let in_workspace = match &checked {
            CheckedCall::BuiltIn(arguments) => Some(Call {
                user_id: call.user_id,
                arguments,
                is_approved,
                reader: Some(&offered.reader),
                base: call.base.as_ref(),
                key: Some(&key),
            }),
            CheckedCall::Named(_) => None,
        };
        if let Some(call) = in_workspace
            && let Some(question) = self.workspace.question(call).await
        {
            return CallOutcome::Asks(Box::new(question));
        }
        if stop.is_cancelled() {
            return self.interrupted();
        }
        let started = key.clone();
        if let Err(error) = self.on_disk(move |journal| journal.start(&started)).await {
            return CallOutcome::NotRun(format!(
                "the client cannot write its journal, so nothing was run: {error}"
            ));
        }
        self.failpoint.pass("call_started");
        self.emit(ToolRunnerEvent::Started {
            call: info.clone(),
            arguments: call.tool_call.arguments.clone(),
        });
        match (in_workspace, &checked) {
            (_, CheckedCall::Named(mcp)) => CallOutcome::Ran(
                self.call_named(info, mcp, &call.tool_call.arguments, stop)
                    .await,
            ),
            (Some(call), CheckedCall::BuiltIn(_)) => {
                match self.workspace.run_or_ask(call, stop.clone()).await {
                    RunOutcome::Done(result) => CallOutcome::Ran(result),
                    RunOutcome::Asks(question) => CallOutcome::Asks(question),
                }
            }
            (None, CheckedCall::BuiltIn(_)) => {
                CallOutcome::Ran(failure("the call was not prepared"))
            }
        }
    }

    /// The call was stopped before it started: by the server, or because this client ends.
    fn interrupted(&self) -> CallOutcome {
        match self.stop.is_cancelled() {
            true => CallOutcome::NotRun(
                "the client was stopped; nothing of this call was run".to_owned(),
            ),
            false => CallOutcome::Closed,
        }
    }

    pub(super) fn check_user(&self, call: &ToolCallChunk) -> Result<(), String> {
        match (call.user_id, self.user_id) {
            (Some(named), Some(own)) if named != own => Err(format!(
                "User {named} is not authorized to access this path"
            )),
            _ => Ok(()),
        }
    }

    /// Checks that the call is for this user, that its arguments have the approved digest, and that
    /// they are valid for the tool.
    fn check(&self, tool: Tool, call: &ToolCallChunk) -> Result<ToolArguments, String> {
        self.check_user(call)?;
        let arguments = &call.tool_call.arguments;
        if arguments_digest(&call.tool_call.name, arguments) != call.digest {
            return Err("the arguments do not match their digest; nothing was run".to_owned());
        }
        tool.check(arguments)
            .map_err(|error| format!("Invalid arguments for {}: {}", tool.as_str(), error.0))
    }

    /// Asks the person at this machine, if its policy needs that and nobody approved the call yet.
    async fn permit(
        &self,
        info: &CallInfo,
        call: &ToolCallChunk,
        arguments: &ToolArguments,
    ) -> Result<Permission, String> {
        if call.approved {
            return Ok(Permission::Approved);
        }
        let (workspace, reviewed) = (self.workspace.clone(), arguments.clone());
        let verdict = tokio::task::spawn_blocking(move || workspace.review(&reviewed)).await;
        let ask =
            match verdict.map_err(|error| format!("the call could not be reviewed: {error}"))? {
                Verdict::Allow => return Ok(Permission::NotNeeded),
                Verdict::Ask(ask) => ask,
            };
        let (reply, answer) = oneshot::channel();
        let question = RunnerQuestion {
            call: info.clone(),
            arguments: call.tool_call.arguments.clone(),
            reason: ask.reason.clone(),
            parts: ask.parts,
            reply,
        };
        let nobody = || format!("{}, and nobody is at the client to give it", ask.reason);
        let person = self.ask.as_ref().ok_or_else(nobody)?;
        person.send(question).await.map_err(|_| nobody())?;
        match answer.await {
            Ok(true) => Ok(Permission::Approved),
            Ok(false) => Err(format!(
                "{}, and the person at the client refused",
                ask.reason
            )),
            Err(_) => Err(nobody()),
        }
    }
}

pub(super) fn failure(reason: &str) -> Value {
    json!({"success": false, "error": reason})
}
