//! What a stream showed, in the words of a test.

use codelab_client::{EventData, EventStream, StreamEvent};
use codelab_protocol::{CallId, ChunkBody, ErrorData, ToolCallChunk, TurnStatus};

/// All events of one stream, in order.
#[derive(Debug)]
pub struct Seen {
    pub events: Vec<StreamEvent>,
}

impl Seen {
    pub async fn all(stream: EventStream) -> Self {
        Self { events: stream.collect().await.expect("the stream ends well") }
    }

    /// One word per stored event, e.g. `switch_agent coder`, `tool_call write_file?` (asks), `error LLM_ERROR`.
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
        let deltas = self.chunks().filter_map(|chunk| match chunk {
            ChunkBody::AssistantDelta(delta) => Some(delta.content.as_str()),
            _ => None,
        });
        deltas.collect()
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
        ChunkBody::AssistantDelta(_) => return None,
        ChunkBody::ToolCall(call) => {
            let asks = if call.requires_approval { "?" } else { "" };
            format!("tool_call {}{asks}", call.tool_call.name)
        }
        ChunkBody::ToolResult(result) => format!("tool_result {}", result.tool_name),
        ChunkBody::SwitchAgent(switch) => format!("switch_agent {}", switch.to_agent),
        ChunkBody::Question(_) => "question".to_owned(),
        ChunkBody::Error(error) => format!("error {}", error.error_code.as_str()),
        ChunkBody::Completion(_) => "completion".to_owned(),
        ChunkBody::Gap(gap) => format!("gap {}-{}", gap.from, gap.to),
    })
}
