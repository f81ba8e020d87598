//! Model requests of the server, as a test reads them.

use codelab_fakemodel::RecordedRequest;
use serde_json::Value;

/// A chat request, read as the model reads it.
pub trait Asked {
    fn is_classification(&self) -> bool;
    /// The first message, which says who the agent is.
    fn system_prompt(&self) -> &str;
    /// Everything that the system says: who the agent is, then facts and memory.
    fn told(&self) -> String;
    /// The whole message at this index; a negative index counts from the end. The message of facts
    /// and memory does not count.
    fn wire_message(&self, index: isize) -> &Value;
    /// Without the message of facts and memory.
    fn roles(&self) -> Vec<&str>;
    fn tool_names(&self) -> Vec<&str>;
    /// Rounded, because the temperature may have been a 32-bit number in between.
    fn temperature(&self) -> f64;
}

impl Asked for RecordedRequest {
    fn is_classification(&self) -> bool {
        codelab_fakemodel::is_classification(&self.body)
    }

    fn system_prompt(&self) -> &str {
        let first = self.wire_message(0);
        assert_eq!(first["role"], "system", "{:#}", self.body);
        first["content"].as_str().unwrap()
    }

    fn told(&self) -> String {
        let messages = self.body["messages"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        let told = messages
            .iter()
            .filter(|message| message["role"] == "system")
            .filter_map(|message| message["content"].as_str());
        told.collect::<Vec<_>>().join("\n\n")
    }

    fn wire_message(&self, index: isize) -> &Value {
        let messages = self.body["messages"]
            .as_array()
            .expect("a chat request has messages");
        let messages: Vec<&Value> = messages
            .iter()
            .filter(|message| !is_context(message))
            .collect();
        let place = if index < 0 {
            messages.len().checked_add_signed(index)
        } else {
            usize::try_from(index).ok()
        };
        place
            .and_then(|place| messages.get(place).copied())
            .unwrap_or_else(|| panic!("no message {index}: {:#}", self.body))
    }

    fn roles(&self) -> Vec<&str> {
        let messages = self.body["messages"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        messages
            .iter()
            .filter(|message| !is_context(message))
            .filter_map(|message| message["role"].as_str())
            .collect()
    }

    fn tool_names(&self) -> Vec<&str> {
        let tools = self.body["tools"].as_array().map_or(&[][..], Vec::as_slice);
        tools
            .iter()
            .filter_map(|tool| tool["function"]["name"].as_str())
            .collect()
    }

    fn temperature(&self) -> f64 {
        let exact = self.body["temperature"]
            .as_f64()
            .expect("a temperature is sent");
        (exact * 1000.0).round() / 1000.0
    }
}

/// Whether the message holds what changes from turn to turn.
fn is_context(message: &Value) -> bool {
    let content = message["content"].as_str().unwrap_or_default();
    message["role"] == "system"
        && ["Context (facts", "From your memory"]
            .iter()
            .any(|head| content.starts_with(head))
}
