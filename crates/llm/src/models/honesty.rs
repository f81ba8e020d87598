//! Finds what a server did without saying so: it cut the prompt, or the model wrote a tool call as
//! text.

mod calls_in_text;

use codelab_protocol::{ModelMessage, ModelOutput, ModelRequest};

/// Shorter prompts are not checked: the estimate is too rough for them.
const MIN_CHECKED_CHARS: usize = 16_000;
/// English text has about 4 characters per token, other text has fewer. A prompt with more than
/// this many was not read whole.
const MAX_CHARS_PER_TOKEN: u64 = 8;

/// Repairs the output where that is safe, and adds warnings.
pub fn check(request: &ModelRequest, output: &mut ModelOutput) {
    if let Some(warning) = cut_prompt(request, output) {
        output.warnings.push(warning);
    }
    if output.tool_calls.is_empty() && !request.tools.is_empty() {
        let is_tool = |name: &str| request.tools.iter().any(|tool| tool.name == name);
        calls_in_text::repair(output, is_tool);
    }
}

fn cut_prompt(request: &ModelRequest, output: &ModelOutput) -> Option<String> {
    let read = output.usage.as_ref()?.prompt_tokens;
    let sent: usize = request.messages.iter().map(characters).sum();
    // Servers that do not count report 0.
    if read == 0 || sent < MIN_CHECKED_CHARS {
        return None;
    }
    let is_cut = read.saturating_mul(MAX_CHARS_PER_TOKEN) < sent as u64;
    is_cut.then(|| {
        format!(
            "The model server read only {read} tokens of a prompt of {sent} characters. It may have \
             cut the prompt: check its context length (num_ctx for Ollama, --ctx-size for llama.cpp)."
        )
    })
}

fn characters(message: &ModelMessage) -> usize {
    let text = match message {
        ModelMessage::System { content }
        | ModelMessage::User { content }
        | ModelMessage::Assistant { content, .. }
        | ModelMessage::Tool { content, .. } => content,
    };
    text.chars().count()
}
