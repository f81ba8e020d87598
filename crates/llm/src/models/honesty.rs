//! Finds what a server did without saying so: it cut the prompt, or the model wrote a tool call as
//! text.

mod calls_in_text;

use codelab_protocol::{FileContent, ModelMessage, ModelOutput, ModelRequest};

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
    let plausible = read.saturating_mul(MAX_CHARS_PER_TOKEN);
    let bytes: usize = texts(request).map(str::len).sum();
    // Servers that do not count report 0. There are never more characters than bytes, so most
    // prompts need no counting.
    if read == 0 || bytes < MIN_CHECKED_CHARS || bytes as u64 <= plausible {
        return None;
    }
    let sent: usize = texts(request).map(|text| text.chars().count()).sum();
    let is_cut = sent >= MIN_CHECKED_CHARS && sent as u64 > plausible;
    is_cut.then(|| {
        format!(
            "The model server read only {read} tokens of a prompt of {sent} characters. It may have \
             cut the prompt: check its context length (num_ctx for Ollama, --ctx-size for llama.cpp)."
        )
    })
}

/// All texts of the prompt, also of files.
fn texts(request: &ModelRequest) -> impl Iterator<Item = &str> {
    request.messages.iter().flat_map(|message| {
        let files = message
            .files()
            .iter()
            .filter_map(|file| match &file.content {
                FileContent::Text(text) => Some(&**text),
                FileContent::Image(_) | FileContent::NotLoaded => None,
            });
        std::iter::once(text(message)).chain(files)
    })
}

fn text(message: &ModelMessage) -> &str {
    match message {
        ModelMessage::System { content }
        | ModelMessage::User { content, .. }
        | ModelMessage::Assistant { content, .. }
        | ModelMessage::Tool { content, .. } => content,
    }
}
