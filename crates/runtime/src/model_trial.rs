//! Tries a model with one short call, so that a person sees whether it is connected.

use std::time::Duration;

use codelab_engine::orchestrator;
use codelab_protocol::{
    ErrorCode, ModelFailure, ModelFailureKind, ModelMessage, ModelRequest, ModelTried, UserId,
};
use serde_json::Map;
use tokio::time::timeout;

use crate::RuntimeError;
use crate::runtime::Runtime;

const WITHIN: Duration = Duration::from_secs(30);
const MAX_ANSWER_TOKENS: u32 = 16;
const QUESTION: &str = "Answer with the word ok.";

impl Runtime {
    /// Makes one attempt at this model and at no other. It counts among the user's trials and model
    /// calls.
    pub async fn try_model(&self, user: UserId, model: String) -> Result<ModelTried, RuntimeError> {
        self.inner.user_shares.model_trial(user)?;
        let _slot = self.inner.user_shares.model_call(user).await;
        let request = ModelRequest {
            agent: orchestrator().to_string(),
            fallback_models: Vec::new(),
            messages: vec![ModelMessage::user(QUESTION)],
            tools: Vec::new(),
            temperature: None,
            max_tokens: Some(MAX_ANSWER_TOKENS),
            schema: None,
            model,
        };
        let tried = timeout(WITHIN, self.inner.model.try_once(&request)).await;
        let error = match tried {
            Ok(Ok(())) => None,
            Ok(Err(failure)) => Some(failure.into_error()),
            Err(_) => Some(no_answer(&request.model).into_error()),
        };
        Ok(ModelTried {
            ok: error.is_none(),
            detail: error.as_ref().map(|error| error.message.clone()),
            details: error.map(|error| error.details),
        })
    }
}

fn no_answer(model: &str) -> ModelFailure {
    ModelFailure {
        code: ErrorCode::LlmTimeout,
        message: format!("No answer within {} seconds", WITHIN.as_secs()),
        kind: Some(ModelFailureKind::Timeout),
        provider_message: None,
        details: Map::from_iter([("model".to_owned(), model.into())]),
    }
}
