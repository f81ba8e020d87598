//! Where a reader of all of a user's sessions is. Any server of the installation can go on from it.
//!
//! Sessions have no common numbering, and their events are stored by several servers, whose clocks
//! differ. So a cursor holds a time, and for each session with an event shortly before that time
//! the number of the last event that was handed over. Of any other session everything up to
//! [`WINDOW_MS`] before that time was handed over, and nothing after it.

use std::collections::HashMap;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use codelab_protocol::{Timestamp, UserId};
use codelab_store::SessionKey;

/// How much later than others an event may be stored or heard of, and how far clocks may differ.
pub(super) const WINDOW_MS: i64 = 120_000;
/// Sessions that the text of a cursor names. The ones that were quiet for longest drop out, and a
/// reader that comes back gets their events of the window again.
pub(super) const MAX_NAMED_SESSIONS: usize = 64;
/// Sessions that an open reader remembers.
const MAX_KNOWN_SESSIONS: usize = 1024;
/// 64 sessions with large numbers need less.
const MAX_TEXT_BYTES: usize = 2048;
const VERSION: u8 = 1;

/// What a reader has of its user's sessions. Its text is opaque to readers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserCursor {
    user: UserId,
    newest: Timestamp,
    /// The newest event that was handed over. `newest` stays behind it while older events of other
    /// sessions are still to be read.
    reached: Timestamp,
    sessions: HashMap<SessionKey, Seen>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    seq: u64,
    at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCursor {
    #[error("it is not an id of this stream")]
    Malformed,
    #[error("it is an id of another user's stream")]
    OtherUser,
}

impl UserCursor {
    /// Nothing was handed over, and nothing older is wanted than what `note` says.
    pub(super) fn starting(user: UserId, now: Timestamp) -> Self {
        Self {
            user,
            newest: now,
            reached: now,
            sessions: HashMap::new(),
        }
    }

    /// Reads the id of an event. `now` bounds its time, so that a clock that was wrong hides
    /// nothing.
    pub fn parse(text: &str, user: UserId, now: Timestamp) -> Result<Self, InvalidCursor> {
        let cursor = Self::decode(text, now).ok_or(InvalidCursor::Malformed)?;
        match cursor.user == user {
            true => Ok(cursor),
            false => Err(InvalidCursor::OtherUser),
        }
    }

    fn decode(text: &str, now: Timestamp) -> Option<Self> {
        if text.len() > MAX_TEXT_BYTES {
            return None;
        }
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
        let (version, mut rest) = bytes.split_first()?;
        if *version != VERSION {
            return None;
        }
        let user = UserId::new(take_number(&mut rest)?)?;
        let newest = Timestamp::from_millis(take_number(&mut rest)?).min(now);
        let count = usize::try_from(take_number(&mut rest)?).ok()?;
        if count > MAX_NAMED_SESSIONS {
            return None;
        }
        let mut sessions = HashMap::with_capacity(count);
        let mut key = 0_i64;
        for _ in 0..count {
            let step = take_number(&mut rest)?;
            key = key.checked_add(step).filter(|_| step > 0)?;
            let seq = u64::try_from(take_number(&mut rest)?).ok()?;
            let seen = Seen { seq, at: newest };
            sessions.insert(SessionKey::from_raw(key), seen);
        }
        rest.is_empty().then_some(Self {
            user,
            newest,
            reached: newest,
            sessions,
        })
    }

    /// The id of the event that was handed over last.
    pub fn text(&self) -> String {
        let mut named: Vec<_> = self.sessions.iter().collect();
        if named.len() > MAX_NAMED_SESSIONS {
            named.select_nth_unstable_by_key(MAX_NAMED_SESSIONS, |(key, seen)| {
                std::cmp::Reverse((seen.at, **key))
            });
            named.truncate(MAX_NAMED_SESSIONS);
        }
        named.sort_unstable_by_key(|(key, _)| **key);
        let mut bytes = vec![VERSION];
        put_number(&mut bytes, self.user.get());
        put_number(&mut bytes, self.newest.as_millis());
        put_number(&mut bytes, named.len() as i64);
        let mut before = 0;
        for (key, seen) in named {
            put_number(&mut bytes, key.get() - before);
            put_number(&mut bytes, i64::try_from(seen.seq).unwrap_or(i64::MAX));
            before = key.get();
        }
        BASE64_URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Of a session that it does not know, events after this time are wanted.
    pub(super) fn since(&self) -> Timestamp {
        self.newest.plus_millis(-WINDOW_MS)
    }

    pub(super) fn seen(&self, key: SessionKey) -> Option<u64> {
        self.sessions.get(&key).map(|seen| seen.seq)
    }

    /// Everything of the session up to this number was handed over.
    pub(super) fn note(&mut self, key: SessionKey, seq: u64, at: Timestamp) {
        self.reached = self.reached.max(at);
        self.sessions.insert(key, Seen { seq, at });
        if self.sessions.len() > MAX_KNOWN_SESSIONS {
            let others = self.sessions.iter().filter(|(other, _)| **other != key);
            let quiet = others.min_by_key(|(_, seen)| seen.at);
            if let Some(key) = quiet.map(|(key, _)| *key) {
                self.sessions.remove(&key);
            }
        }
    }

    /// Nothing of the session up to this number will be handed over.
    pub(super) fn pass_over(&mut self, key: SessionKey, seq: u64) {
        self.note(key, seq, self.reached);
    }

    /// Nothing older than what was handed over is still to be read. A clock that runs ahead of this
    /// server's must not move the window past events of others.
    pub(super) fn advance(&mut self, now: Timestamp) {
        let newest = self.reached.min(now);
        if newest > self.newest {
            self.newest = newest;
            let since = self.since();
            self.sessions.retain(|_, seen| seen.at >= since);
        }
    }
}

/// Seven bits per byte, the lowest first; the highest bit says that more follow. Never negative.
fn put_number(bytes: &mut Vec<u8>, number: i64) {
    let mut left = number.max(0).unsigned_abs();
    while left >= 0x80 {
        bytes.push((left & 0x7f) as u8 | 0x80);
        left >>= 7;
    }
    bytes.push(left as u8);
}

fn take_number(bytes: &mut &[u8]) -> Option<i64> {
    let mut number = 0_i64;
    // Nine bytes hold 63 bits.
    for shift in (0..63).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= i64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn user(number: i64) -> UserId {
        UserId::new(number).expect("a user")
    }

    fn key(number: i64) -> SessionKey {
        SessionKey::from_raw(number)
    }

    const NOW: i64 = 1_768_334_400_000;

    #[test]
    fn a_cursor_comes_back_from_its_text() {
        let mut cursor = UserCursor::starting(user(7), at(NOW));
        for (session, seq) in [(i64::MAX, 1), (5, i64::MAX as u64), (6, 300)] {
            cursor.note(key(session), seq, at(NOW));
        }
        let text = cursor.text();
        assert_eq!(UserCursor::parse(&text, user(7), at(NOW)), Ok(cursor));
        let alphabet = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        assert!(text.bytes().all(alphabet), "{text}");
    }

    #[test]
    fn what_is_no_cursor_of_the_user_is_refused() {
        let mut cursor = UserCursor::starting(user(7), at(NOW));
        cursor.note(key(5), 3, at(NOW));
        let text = cursor.text();
        let parse = |text: &str, number| UserCursor::parse(text, user(number), at(NOW));
        assert_eq!(parse(&text, 8), Err(InvalidCursor::OtherUser));
        let encode = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        let wrong = [
            String::new(),
            "17".to_owned(),
            "not base64!".to_owned(),
            text[..text.len() - 2].to_owned(),
            format!("{text}AA"),
            encode(&[2, 7, 1, 0]),
            // No such user; a session twice; an endless number; more sessions than a cursor has.
            encode(&[1, 0, 1, 0]),
            encode(&[1, 7, 1, 2, 5, 1, 0, 1]),
            encode(&[[1].as_slice(), &[0xff; 10]].concat()),
            encode(&[[1, 7, 1, 65].as_slice(), &[1; 130]].concat()),
            "A".repeat(MAX_TEXT_BYTES + 1),
        ];
        for text in wrong {
            assert_eq!(parse(&text, 7), Err(InvalidCursor::Malformed), "{text}");
        }
    }

    #[test]
    fn the_sessions_that_were_quiet_for_longest_drop_out() {
        let mut cursor = UserCursor::starting(user(7), at(NOW));
        for session in 1..=100 {
            cursor.note(key(session), 9, at(NOW - session));
        }
        let text = cursor.text();
        assert!(text.len() < MAX_TEXT_BYTES);
        let read = UserCursor::parse(&text, user(7), at(NOW)).expect("its own text");
        assert_eq!((read.seen(key(64)), read.seen(key(65))), (Some(9), None));
        assert_eq!(cursor.seen(key(65)), Some(9), "an open reader still knows");
        for session in 1..=2000 {
            cursor.note(key(session), 9, at(NOW + session));
        }
        assert_eq!(cursor.sessions.len(), MAX_KNOWN_SESSIONS);
        assert_eq!(cursor.seen(key(2000)), Some(9));
    }

    #[test]
    fn time_moves_only_when_nothing_older_is_left_to_read() {
        let mut cursor = UserCursor::starting(user(7), at(NOW));
        cursor.note(key(1), 4, at(NOW + 1));
        cursor.note(key(2), 1, at(NOW + WINDOW_MS + 2));
        assert_eq!(cursor.since(), at(NOW - WINDOW_MS));
        cursor.advance(at(NOW + WINDOW_MS + 1));
        assert_eq!(cursor.since(), at(NOW + 1), "not past this server's clock");
        assert_eq!(cursor.seen(key(1)), Some(4), "still within the window");
        cursor.advance(at(i64::MAX));
        assert_eq!((cursor.seen(key(1)), cursor.seen(key(2))), (None, Some(1)));
        let ahead = UserCursor::parse(&cursor.text(), user(7), at(NOW)).expect("its own text");
        assert_eq!(ahead.since(), at(NOW - WINDOW_MS));
    }
}
