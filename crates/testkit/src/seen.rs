//! The events of a stream, as a test reads them.

use codelab_client::{EventData, EventStream, StreamEvent};
use codelab_protocol::{
    AssistantDelta, AssistantMessage, CallId, ChunkBody, Completion, ErrorData, Question,
    SwitchAgent, ToolCallChunk, TurnStatus,
};

/// All events of one stream, in order.
#[derive(Debug)]
pub struct SeenEvents {
    pub events: Vec<StreamEvent>,
}

impl SeenEvents {
    pub async fn all(stream: EventStream) -> Self {
        Self {
            events: stream.collect().await.expect("the stream ends well"),
        }
    }

    /// The events until a turn ends or suspends. The stream can be read further. A `done` that only
    /// repeats the status, for a reader that came back to the end of the log, is skipped.
    pub async fn until_done(stream: &mut EventStream) -> Self {
        loop {
            let seen = Self::until(stream, |event| matches!(event.data, EventData::Done(_))).await;
            if !seen.ids().is_empty() {
                return seen;
            }
        }
    }

    /// The events up to the first one of that kind, including it.
    pub async fn until(stream: &mut EventStream, last: impl Fn(&StreamEvent) -> bool) -> Self {
        let mut events = Vec::new();
        loop {
            let event = stream
                .next()
                .await
                .expect("the stream goes on")
                .expect("the stream can be read");
            let found = last(&event);
            events.push(event);
            if found {
                return Self { events };
            }
        }
    }

    /// The events up to the first text of an answer that is still being written.
    pub async fn until_delta(stream: &mut EventStream) -> Self {
        Self::until(stream, |event| {
            matches!(&event.data, EventData::Chunk(chunk) if matches!(chunk.body, ChunkBody::AssistantDelta(_)))
        })
        .await
    }

    /// One word per stored event, such as `switch_agent coder`, `tool_call write_file?` (asks) or
    /// `error LLM_ERROR`.
    pub fn story(&self) -> Vec<String> {
        self.chunks().filter_map(word).collect()
    }

    pub fn chunks(&self) -> impl Iterator<Item = &ChunkBody> {
        self.events.iter().filter_map(|event| match &event.data {
            EventData::Chunk(chunk) => Some(&chunk.body),
            _ => None,
        })
    }

    pub fn status(&self) -> TurnStatus {
        match self.events.last().map(|event| &event.data) {
            Some(EventData::Done(done)) => done.status,
            other => panic!("the stream ends with {other:?}"),
        }
    }

    /// The text of all deltas, as a client would show it.
    pub fn streamed_text(&self) -> String {
        self.deltas()
            .into_iter()
            .map(|delta| delta.content.as_str())
            .collect()
    }

    /// The statuses of all `done` frames.
    pub fn statuses(&self) -> Vec<TurnStatus> {
        let done = self.events.iter().filter_map(|event| match &event.data {
            EventData::Done(done) => Some(done.status),
            _ => None,
        });
        done.collect()
    }

    pub fn deltas(&self) -> Vec<&AssistantDelta> {
        let deltas = self.chunks().filter_map(|chunk| match chunk {
            ChunkBody::AssistantDelta(delta) => Some(delta),
            _ => None,
        });
        deltas.collect()
    }

    /// The last finished answer that was shown.
    pub fn answer(&self) -> &AssistantMessage {
        let answers = self.chunks().filter_map(|chunk| match chunk {
            ChunkBody::AssistantMessage(message) => Some(message),
            _ => None,
        });
        answers.last().expect("an answer was shown")
    }

    pub fn completion(&self) -> &Completion {
        let completions = self.chunks().filter_map(|chunk| match chunk {
            ChunkBody::Completion(completion) => Some(completion),
            _ => None,
        });
        completions.last().expect("a completion was shown")
    }

    pub fn question(&self) -> &Question {
        let questions = self.chunks().filter_map(|chunk| match chunk {
            ChunkBody::Question(question) => Some(question),
            _ => None,
        });
        questions.last().expect("a question was shown")
    }

    pub fn switches(&self) -> Vec<&SwitchAgent> {
        let switches = self.chunks().filter_map(|chunk| match chunk {
            ChunkBody::SwitchAgent(switch) => Some(switch),
            _ => None,
        });
        switches.collect()
    }

    /// The last tool call that was shown.
    pub fn tool_call(&self) -> &ToolCallChunk {
        let calls = self.chunks().filter_map(|chunk| match chunk {
            ChunkBody::ToolCall(call) => Some(call),
            _ => None,
        });
        calls.last().expect("a tool call was shown")
    }

    pub fn call_id(&self) -> CallId {
        self.tool_call().tool_call.call_id.clone()
    }

    pub fn error(&self) -> &ErrorData {
        let errors = self.chunks().filter_map(|chunk| match chunk {
            ChunkBody::Error(error) => Some(error),
            _ => None,
        });
        errors.last().expect("an error was shown")
    }

    /// The numbers of the stored events.
    pub fn ids(&self) -> Vec<u64> {
        self.events.iter().filter_map(|event| event.id).collect()
    }
}

fn word(chunk: &ChunkBody) -> Option<String> {
    Some(match chunk {
        ChunkBody::AssistantMessage(message) => format!("assistant_message {}", message.agent),
        ChunkBody::AssistantDelta(_) | ChunkBody::ReasoningDelta(_) => return None,
        ChunkBody::ToolCall(call) => {
            let asks = if call.requires_approval { "?" } else { "" };
            format!("tool_call {}{asks}", call.tool_call.name)
        }
        ChunkBody::ToolResult(result) => format!("tool_result {}", result.tool_name),
        ChunkBody::SwitchAgent(switch) => format!("switch_agent {}", switch.to_agent),
        ChunkBody::Question(_) => "question".to_owned(),
        ChunkBody::Error(error) => format!("error {}", error.error_code.as_str()),
        ChunkBody::Completion(_) => "completion".to_owned(),
        ChunkBody::ModelFallback(fallback) => format!("model_fallback {}", fallback.to),
        ChunkBody::ModelWaiting(waiting) => format!("model_waiting {}", waiting.kind.as_str()),
        ChunkBody::Gap(gap) => format!("gap {}-{}", gap.from, gap.to),
    })
}
