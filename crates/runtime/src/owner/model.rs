//! The model call of a session: started after its commit, its outcome an input again.

use std::sync::Arc;
use std::time::Instant;

use codelab_engine::{Input, ModelCall, ModelCallId, Purpose, classification_request, step_request};
use codelab_protocol::{ErrorCode, ModelFailure, ModelOutput, ModelRequest};
use codelab_store::StoreError;
use tokio::task::JoinHandle;

use super::Owner;
use crate::feed::{Answer, Feed};
use crate::history::Recent;
use crate::metrics::Metrics;
use crate::runtime::Inner;

/// A model call under way; dropping it aborts the call.
pub(crate) struct ModelTask {
    id: ModelCallId,
    task: JoinHandle<Result<ModelOutput, ModelFailure>>,
}

impl ModelTask {
    /// Waits for the outcome; forever when no call is under way.
    pub async fn finished(task: &mut Option<Self>) -> Input {
        let Some(Self { id, task }) = task else { return std::future::pending().await };
        let outcome = task.await.unwrap_or_else(|error| {
            tracing::error!(%error, "a model call ended abnormally");
            Err(failure(ErrorCode::LlmError, "The model call ended abnormally"))
        });
        Input::ModelFinished { call: *id, outcome }
    }
}

impl Drop for ModelTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Owner {
    pub(super) async fn call_model(&mut self, call: ModelCall) {
        if self.runtime.stopping.is_cancelled() {
            // It is made when the server is back; nothing about it was promised yet.
            return;
        }
        let request = self.request(&call).await;
        let runtime = Arc::clone(&self.runtime);
        let feed = Arc::clone(&self.feed);
        let id = call.id;
        if let Purpose::Step { message_id } = &call.purpose {
            feed.begin_answer(Answer {
                turn: id.turn,
                message_id: message_id.clone(),
                agent: call.agent.clone(),
                attempt: id.attempt,
                text: String::new(),
            });
        }
        tracing::debug!(session = %self.name.id, turn = %id.turn, step = id.step, agent = %call.agent, "calling the model");
        let task = tokio::spawn(async move {
            match request {
                Ok(request) => perform(&runtime, &feed, &call, request).await,
                Err(failure) => Err(failure),
            }
        });
        self.model = Some(ModelTask { id, task });
    }

    async fn request(&mut self, call: &ModelCall) -> Result<ModelRequest, ModelFailure> {
        let runtime = Arc::clone(&self.runtime);
        let unreadable = |error: StoreError| {
            tracing::error!(%error, "the history could not be read");
            failure(ErrorCode::DbReadError, "The session's history could not be read")
        };
        let loaded = self.loaded.as_mut().ok_or_else(|| unreadable(StoreError::NotFound))?;
        if let Purpose::Classify { text } = &call.purpose {
            return Ok(classification_request(&runtime.team, &runtime.default_model, text));
        }
        let recent = match &mut loaded.recent {
            Some(recent) => recent,
            none => {
                let turn = Some(call.id.turn);
                let recent = Recent::load(&runtime.store, loaded.key, turn, &runtime.prompt).await;
                none.insert(recent.map_err(unreadable)?)
            }
        };
        let agent = runtime.team.get(&call.agent).ok_or_else(|| {
            failure(ErrorCode::AgentNotFound, &format!("Agent {} is not part of the team any more", call.agent))
        })?;
        let prompt = loaded.system_prompt.as_deref().unwrap_or_default();
        Ok(step_request(
            &loaded.session,
            agent,
            &runtime.team,
            &runtime.default_model,
            prompt,
            &recent.history(),
            &runtime.prompt,
        ))
    }
}

async fn perform(
    runtime: &Inner,
    feed: &Feed,
    call: &ModelCall,
    request: ModelRequest,
) -> Result<ModelOutput, ModelFailure> {
    let started = Instant::now();
    let mut show = |text: &str| {
        if let Purpose::Step { message_id } = &call.purpose {
            feed.push_text(message_id, call.id.attempt, text);
        }
    };
    let outcome = runtime.model.call(&request, &mut show).await;
    let metrics = &runtime.metrics;
    metrics.model_call_duration.observe(started.elapsed().as_secs_f64());
    match &outcome {
        Ok(output) => {
            Metrics::count(&metrics.model_calls, "answered");
            metrics.tokens.inc_by(output.usage.map_or(0, |usage| usage.total_tokens));
        }
        Err(failure) => Metrics::count(&metrics.model_calls, failure.code.as_str()),
    }
    outcome
}

fn failure(code: ErrorCode, message: &str) -> ModelFailure {
    ModelFailure { code, message: message.to_owned(), details: Default::default() }
}
