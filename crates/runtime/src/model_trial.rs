//! Tries a model with one short call, so that a person sees whether it is connected.

use std::time::Duration;

use codelab_engine::orchestrator;
use codelab_llm::StreamedPart;
use codelab_protocol::{
    ErrorCode, ModelFailure, ModelFailureKind, ModelMessage, ModelRequest, ModelTried,
};
use serde_json::Map;
use tokio::time::timeout;

use crate::owner::measured_call;
use crate::runtime::Runtime;

/// How long the answer may take, with everything that the provider asks to wait for.
const WITHIN: Duration = Duration::from_secs(30);
const MAX_ANSWER_TOKENS: u32 = 16;
const QUESTION: &str = "Answer with the word ok.";

impl Runtime {
    /// Makes one call of a few tokens to this model and to no other.
    pub async fn try_model(&self, model: String) -> ModelTried {
        let request = ModelRequest {
            agent: orchestrator().to_string(),
            fallback_models: vec![model.clone()],
            messages: vec![ModelMessage::User {
                content: QUESTION.to_owned(),
            }],
            tools: Vec::new(),
            temperature: None,
            max_tokens: Some(MAX_ANSWER_TOKENS),
            schema: None,
            model,
        };
        let mut replaced = None;
        let mut hear = |part: StreamedPart<'_>| {
            if let StreamedPart::Fallback { kind, .. } = part {
                replaced = Some(kind);
            }
        };
        let answered = timeout(WITHIN, measured_call(&self.inner, &request, &mut hear)).await;
        let failed = |kind, why: String| {
            let facts = [("model".to_owned(), request.model.as_str().into())];
            ModelFailure {
                code: ErrorCode::LlmError,
                message: why,
                kind: Some(kind),
                provider_message: None,
                details: Map::from_iter(facts),
            }
        };
        let failure = match (answered, replaced) {
            (Ok(Ok(_)), None) => None,
            (Ok(Ok(_)), Some(kind)) => {
                let why = format!("The model server did not answer as \"{}\"", request.model);
                Some(failed(kind, why))
            }
            (Ok(Err(failure)), _) => Some(failure),
            (Err(_), _) => {
                let why = format!("No answer within {} seconds", WITHIN.as_secs());
                Some(failed(ModelFailureKind::Timeout, why))
            }
        };
        let error = failure.map(ModelFailure::into_error);
        ModelTried {
            ok: error.is_none(),
            detail: error.as_ref().map(|error| error.message.clone()),
            details: error.map(|error| error.details),
        }
    }
}
