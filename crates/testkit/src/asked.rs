//! What the server asked of the model, in the words of a test.

use codelab_fakemodel::RecordedRequest;
use serde_json::Value;

/// A chat request, read the way its model would.
pub trait Asked {
    fn is_classification(&self) -> bool;
    /// The first message, which says who the agent is and what it should know.
    fn system_prompt(&self) -> &str;
    /// The whole message at this place, counted from the end if negative.
    fn wire_message(&self, index: isize) -> &Value;
    fn roles(&self) -> Vec<&str>;
    fn tool_names(&self) -> Vec<&str>;
    /// Rounded, because a temperature may have gone through a 32-bit number.
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

    fn wire_message(&self, index: isize) -> &Value {
        let messages = self.body["messages"]
            .as_array()
            .expect("a chat request has messages");
        let place = if index < 0 {
            messages.len().checked_add_signed(index)
        } else {
            usize::try_from(index).ok()
        };
        place
            .and_then(|place| messages.get(place))
            .unwrap_or_else(|| panic!("no message {index}: {:#}", self.body))
    }

    fn roles(&self) -> Vec<&str> {
        let messages = self.body["messages"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        messages
            .iter()
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
