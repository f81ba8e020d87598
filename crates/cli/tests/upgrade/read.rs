//! What the present program answers about sessions that an earlier one stored.

use codelab_client::Method;
use rusqlite::Connection;
use serde_json::Value;

use crate::fixture::SessionNote;
use crate::lab::{Caller, Lab};
use crate::make::project_status;

/// Sessions of the fixture that a request no longer finds.
pub const DELETED: [&str; 2] = ["deleted", "rt-deleted"];
const PAGE: usize = 200;

/// A session of a fixture, and who may ask for it.
pub struct Known {
    pub note: SessionNote,
    pub caller: Caller,
}

impl Known {
    pub fn is_runtime(&self) -> bool {
        self.note.user_id.is_none()
    }

    pub fn is_deleted(&self) -> bool {
        DELETED.contains(&self.note.label.as_str())
    }

    fn base(&self) -> String {
        let id = &self.note.session_id;
        if self.is_runtime() {
            format!("/sessions/{id}")
        } else {
            format!("/my/chat/{id}")
        }
    }

    /// All stored events, which must be numbered 1, 2, 3, …
    pub async fn events(&self, lab: &Lab) -> Vec<Value> {
        let path = format!("{}/events?follow=false", self.base());
        let frames = lab.get(&self.caller, &path).await;
        let numbered: Vec<Value> = frames
            .as_array()
            .unwrap_or_else(|| panic!("{}: no events but {frames}", self.note.label))
            .iter()
            .filter(|frame| !frame["id"].is_null())
            .cloned()
            .collect();
        for (index, frame) in numbered.iter().enumerate() {
            assert_eq!(frame["id"], index as u64 + 1, "{}", self.note.label);
        }
        numbered
    }

    pub async fn messages(&self, lab: &Lab) -> Vec<Value> {
        let path = if self.is_runtime() {
            format!("{}/history", self.base())
        } else {
            format!("{}/messages/?limit={PAGE}", self.base())
        };
        let found = lab.get(&self.caller, &path).await;
        found["messages"].as_array().unwrap().clone()
    }
}

/// Every session has its events and messages as they were stored, and those that a restart does
/// not change have the status that the earlier version showed.
pub async fn check(lab: &Lab, sessions: &[Known], stored: &Connection) {
    for session in sessions {
        let label = &session.note.label;
        if session.is_deleted() {
            let path = format!("{}/events?follow=false", session.base());
            let (status, answer) = lab
                .ask(&session.caller, Method::GET, &path, Value::Null)
                .await;
            assert_eq!(status, 404, "{label}: {answer}");
            continue;
        }
        let served = session.events(lab).await;
        let wanted = stored_events(stored, session);
        assert!(served.len() >= wanted.len(), "{label}: events are missing");
        for (frame, (seq, kind, body)) in served.iter().zip(&wanted) {
            let event = &frame["data"];
            assert_eq!((&frame["id"], &event["type"]), (seq, kind), "{label}");
            assert!(
                covers(event, body),
                "{label}, event {seq}: stored {body}, served {event}"
            );
        }
        let messages = session.messages(lab).await;
        let said: Vec<(&str, &str)> = messages
            .iter()
            .map(|message| {
                let text = |name: &str| message[name].as_str().unwrap_or_default();
                (text("message_id"), text("content"))
            })
            .collect();
        let wanted = stored_messages(stored, session);
        for (index, (id, content)) in wanted.iter().enumerate() {
            assert_eq!(
                said.get(index),
                Some(&(id.as_str(), content.as_str())),
                "{label}"
            );
        }
        check_status(lab, session).await;
        if let (false, Some((_, content))) = (session.is_runtime(), wanted.first()) {
            check_search(lab, session, content).await;
        }
    }
}

/// The search finds what earlier versions stored, although they had none.
async fn check_search(lab: &Lab, session: &Known, content: &str) {
    let mut words = content.split(|c: char| !c.is_ascii_alphanumeric());
    let word = words.find(|word| !word.is_empty()).unwrap();
    let path = format!("/my/chat/sessions/?q={word}");
    let found = lab.get(&session.caller, &path).await;
    let found = found["sessions"].as_array().unwrap();
    let ids: Vec<_> = found.iter().map(|found| &found["session_id"]).collect();
    let label = &session.note.label;
    assert!(
        ids.contains(&&Value::from(session.note.session_id.as_str())),
        "{label}: {word} is not found"
    );
}

async fn check_status(lab: &Lab, session: &Known) {
    let Some(status) = &session.note.status else {
        return;
    };
    if !session.is_runtime() {
        let shown = project_status(lab, &session.caller, &session.note.session_id).await;
        assert_eq!(shown, *status, "{}", session.note.label);
    }
}

const OF_SESSION: &str =
    "(SELECT id FROM sessions WHERE session_id = ?1 AND (user_id IS NULL) = ?2)";

/// Number, type and content of each stored event.
fn stored_events(stored: &Connection, session: &Known) -> Vec<(Value, Value, Value)> {
    let sql =
        format!("SELECT seq, kind, body FROM events WHERE session_key = {OF_SESSION} ORDER BY seq");
    let mut statement = stored.prepare(&sql).unwrap();
    let key = (&session.note.session_id, session.is_runtime());
    let rows = statement.query_map(key, |row| {
        let (seq, kind): (i64, String) = (row.get(0)?, row.get(1)?);
        let body = serde_json::from_str(&row.get::<_, String>(2)?).unwrap();
        Ok((Value::from(seq), Value::from(kind), body))
    });
    rows.unwrap().map(|row| row.unwrap()).collect()
}

/// Whether everything stored is served. A later version may add fields.
fn covers(served: &Value, stored: &Value) -> bool {
    match (served, stored) {
        (Value::Object(served), Value::Object(stored)) => stored.iter().all(|(name, value)| {
            value.is_null() || served.get(name).is_some_and(|found| covers(found, value))
        }),
        (Value::Array(served), Value::Array(stored)) => {
            let mut pairs = served.iter().zip(stored);
            served.len() == stored.len() && pairs.all(|(served, stored)| covers(served, stored))
        }
        (served, stored) => served == stored,
    }
}

fn stored_messages(stored: &Connection, session: &Known) -> Vec<(String, String)> {
    let sql = format!(
        "SELECT message_id, content FROM messages WHERE session_key = {OF_SESSION} ORDER BY ord"
    );
    let mut statement = stored.prepare(&sql).unwrap();
    let key = (&session.note.session_id, session.is_runtime());
    let rows = statement.query_map(key, |row| Ok((row.get(0)?, row.get(1)?)));
    rows.unwrap().map(|row| row.unwrap()).collect()
}
