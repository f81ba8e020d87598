//! One call against one scripted server, with limits small enough for a test.

use std::time::Duration;

use codelab_fakemodel::FakeModel;
use codelab_llm::{Model, OpenAiConfig, OpenAiModel, StreamedPart};
use codelab_protocol::{ModelFailure, ModelMessage, ModelOutput, ModelRequest, Tool};

/// Long enough for a loaded machine to answer, short enough to wait for.
pub const SHORT: Duration = Duration::from_millis(300);

pub struct Outcome {
    pub result: Result<ModelOutput, ModelFailure>,
    pub shown: String,
    /// Waits that the server announced.
    pub waits: Vec<Duration>,
}

pub fn config(server: &FakeModel) -> OpenAiConfig {
    let mut config = OpenAiConfig::new(server.url());
    config.retry_delay = Duration::from_millis(1);
    config.max_retries = 2;
    config
}

pub fn request() -> ModelRequest {
    ModelRequest {
        agent: "coder".to_owned(),
        model: "gpt-4".to_owned(),
        messages: vec![
            ModelMessage::System {
                content: "You are the coder.".to_owned(),
            },
            ModelMessage::User {
                content: "Привет".to_owned(),
            },
        ],
        tools: vec![Tool::ReadFile.spec()],
        temperature: Some(0.3),
        max_tokens: Some(200),
        schema: None,
    }
}

pub async fn call(config: OpenAiConfig, request: &ModelRequest) -> Outcome {
    call_with(&OpenAiModel::new(config).expect("usable settings"), request).await
}

pub async fn call_with(model: &OpenAiModel, request: &ModelRequest) -> Outcome {
    let mut shown = String::new();
    let mut waits = Vec::new();
    let mut hear = |heard: StreamedPart<'_>| match heard {
        StreamedPart::Text(text) => shown.push_str(text),
        StreamedPart::Waiting(wait) => waits.push(wait),
    };
    let result = model.call(request, &mut hear).await;
    Outcome {
        result,
        shown,
        waits,
    }
}
