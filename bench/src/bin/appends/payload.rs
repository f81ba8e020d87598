//! The content of an append, as large as the event of a short answer and a session's state.

const EVENT_TEXT_BYTES: usize = 200;
const STATE_TEXT_BYTES: usize = 400;

pub fn event_body(seq: u64) -> String {
    let text = "x".repeat(EVENT_TEXT_BYTES);
    format!("{{\"type\":\"assistant_message\",\"data\":{{\"content\":\"{text}\",\"n\":{seq}}}}}")
}

pub fn state(seq: u64) -> String {
    let text = "y".repeat(STATE_TEXT_BYTES);
    format!("{{\"last_seq\":{seq},\"turn\":\"{text}\"}}")
}
