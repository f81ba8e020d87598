//! One call against one scripted server, with limits small enough for a test.

use std::time::Duration;

use codelab_fakemodel::FakeModel;
use codelab_llm::{
    DEFAULT_PROVIDER, Model, ModelAuth, Models, ModelsConfig, ProviderKind, Secret, StreamedPart,
};
use codelab_protocol::{
    ModelFailure, ModelFailureKind, ModelMessage, ModelOutput, ModelRequest, Tool,
};

/// Long enough for a loaded machine to answer, short enough to wait for.
pub const SHORT: Duration = Duration::from_millis(300);

pub struct Outcome {
    pub result: Result<ModelOutput, ModelFailure>,
    pub shown: String,
    pub reasoning: String,
    /// Waits that the server announced.
    pub waits: Vec<Duration>,
    /// From, to, why.
    pub fallbacks: Vec<(String, String, ModelFailureKind)>,
}

pub fn config(server: &FakeModel) -> ModelsConfig {
    let mut config = ModelsConfig::new(server.url(), ModelAuth::None);
    config.limits.retry_delay = Duration::from_millis(1);
    config.limits.max_retries = 2;
    config
}

/// The same server, spoken to as Anthropic's.
pub fn anthropic(server: &FakeModel) -> ModelsConfig {
    let mut config = with_auth(config(server), ModelAuth::Key(Secret::new("k1")));
    let provider = config.providers.get_mut(DEFAULT_PROVIDER);
    provider.expect("one is configured").kind = ProviderKind::Anthropic;
    config
}

pub fn with_auth(mut config: ModelsConfig, auth: ModelAuth) -> ModelsConfig {
    let provider = config.providers.get_mut(DEFAULT_PROVIDER);
    provider.expect("one is configured").auth = auth;
    config
}

pub fn request() -> ModelRequest {
    ModelRequest {
        agent: "coder".to_owned(),
        model: "gpt-4".to_owned(),
        fallback_models: Vec::new(),
        messages: vec![
            ModelMessage::System {
                content: "You are the coder.".to_owned(),
            },
            ModelMessage::User {
                content: "Привет".to_owned(),
                files: Vec::new(),
            },
        ],
        tools: vec![Tool::ReadFile.spec()],
        temperature: Some(0.3),
        max_tokens: Some(200),
        schema: None,
    }
}

pub async fn call(config: ModelsConfig, request: &ModelRequest) -> Outcome {
    call_with(&Models::new(config).expect("usable settings"), request).await
}

pub async fn call_with(model: &Models, request: &ModelRequest) -> Outcome {
    let mut shown = String::new();
    let mut reasoning = String::new();
    let (mut waits, mut fallbacks) = (Vec::new(), Vec::new());
    let mut hear = |heard: StreamedPart<'_>| match heard {
        StreamedPart::Text(text) => shown.push_str(text),
        StreamedPart::Reasoning(text) => reasoning.push_str(text),
        StreamedPart::ToolCall => {}
        StreamedPart::Waiting { wait, .. } => waits.push(wait),
        StreamedPart::Fallback { from, to, kind } => {
            fallbacks.push((from.to_owned(), to.to_owned(), kind));
        }
    };
    let result = model.call(request, &mut hear).await;
    Outcome {
        result,
        shown,
        reasoning,
        waits,
        fallbacks,
    }
}
