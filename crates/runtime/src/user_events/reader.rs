//! One reader of all of a user's sessions. It hands over each session's events in order and
//! without a hole, whatever its sources tell it: what is missing is read from the store first.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use codelab_protocol::{Gap, SessionId, Timestamp, UserId};
use codelab_store::{SessionKey, SessionLogRow, Store, StoreError, StoredEvent, UserStore};

use super::cursor::UserCursor;
use super::{LargeEvent, Listening, Told, UserEvents, Wants};
use crate::clock::now;
use crate::metrics::{Metrics, OpenGauge};
use crate::pieces::{EventPieces, MAX_WHOLE_BYTES};

/// Events read from the store at once.
const PAGE: u64 = 64;
/// Sessions that are looked at at once.
const LOG_PAGE: u64 = 256;
/// Missed events that are read at once. The sessions whose turn has not come by then get a gap.
const MAX_MISSED_EVENTS: u64 = 10_000;
/// Events are pruned after whole days. So whatever is missing in a log is older than this.
const SHORTEST_RETENTION_MS: i64 = 24 * 60 * 60 * 1000;

/// What a reader of all sessions shows. `cursor` is the id to come back with.
#[derive(Debug, Clone)]
pub enum UserItem {
    Event {
        event: Arc<StoredEvent>,
        cursor: String,
    },
    /// These events of the session are not shown. Its own log may have them.
    Gap {
        session: SessionId,
        gap: Gap,
        cursor: String,
    },
    /// A large event begins; then come its pieces and its end, and nothing between.
    LargeBegins {
        kind: Cow<'static, str>,
        cursor: String,
    },
    LargePiece(String),
    LargeEnds,
}

pub struct UserReader {
    store: Store,
    mine: UserStore,
    listening: Listening,
    /// Other servers have events too, and not everything is heard of.
    is_merged: bool,
    cursor: UserCursor,
    ready: VecDeque<Ready>,
    /// What is being read of one session.
    span: Option<Span>,
    /// The sessions that are looked at for missed events.
    catch_up: Option<CatchUp>,
    /// How many missed events may still be read.
    room: u64,
    /// What was told last, until everything before it was handed over.
    told: Option<Told>,
    /// The large event that is being handed over.
    large: Option<EventPieces>,
    _open: OpenGauge,
}

/// What is handed over next.
enum Ready {
    Event {
        key: SessionKey,
        event: Arc<StoredEvent>,
    },
    Large(LargeEvent),
    Gap {
        key: SessionKey,
        session: SessionId,
        gap: Gap,
        /// The last number of the session that counts as handed over.
        then: u64,
    },
}

/// Events of one session: those after `after`, up to `to`.
#[derive(Clone, Copy)]
struct Span {
    key: SessionKey,
    after: u64,
    to: u64,
}

struct CatchUp {
    since: Timestamp,
    logs: VecDeque<SessionLogRow>,
    /// The last session of the pages so far.
    after: Option<SessionKey>,
    is_last_page: bool,
}

impl UserReader {
    /// With what happened after the cursor, or from now on. It listens before it returns, and all
    /// that happens afterwards is shown. `is_merged`: other servers' events are told as well.
    pub async fn open(
        events: &UserEvents,
        store: &Store,
        metrics: &Metrics,
        (user, after): (UserId, Option<UserCursor>),
        is_merged: bool,
    ) -> Result<Self, StoreError> {
        let time = now();
        let mine = store.of(user);
        // Before the store is read, so that nothing falls between.
        let listening = events.listen(user, Wants::Events);
        let catch_up = after.as_ref().map(CatchUp::new);
        let cursor = match after {
            Some(cursor) => cursor,
            None => from_now_on(&mine, UserCursor::starting(user, time)).await?,
        };
        Ok(Self {
            store: store.clone(),
            mine,
            listening,
            is_merged,
            cursor,
            ready: VecDeque::new(),
            span: None,
            catch_up,
            room: MAX_MISSED_EVENTS,
            told: None,
            large: None,
            _open: OpenGauge::stream(metrics),
        })
    }

    /// The id to come back with before anything was shown.
    pub fn cursor(&self) -> String {
        self.cursor.text()
    }

    /// The next thing to show; `None` when the reader fell too far behind or the server stops.
    /// Waiting is cancel-safe: a step changes nothing before its last wait is over.
    pub async fn next(&mut self) -> Result<Option<UserItem>, StoreError> {
        loop {
            if let Some(large) = &mut self.large {
                let piece = large.next().await?;
                if piece.is_none() {
                    self.large = None;
                }
                return Ok(Some(
                    piece.map_or(UserItem::LargeEnds, UserItem::LargePiece),
                ));
            }
            if let Some(ready) = self.ready.pop_front() {
                return Ok(Some(self.hand_over(ready)));
            }
            if let Some(span) = self.span {
                self.read_span(span).await?;
            } else if self.catch_up.is_some() {
                self.look_at_next_log().await?;
            } else if self.told.is_some() {
                self.look_at_told().await?;
            } else {
                let Some(told) = self.listening.next().await else {
                    return Ok(None);
                };
                self.told = Some(told);
            }
        }
    }

    /// What can be shown without waiting.
    pub fn ready(&mut self) -> Option<UserItem> {
        if self.large.is_some() || matches!(self.ready.front(), Some(Ready::Large(_))) {
            return None;
        }
        let ready = self.ready.pop_front()?;
        Some(self.hand_over(ready))
    }

    fn hand_over(&mut self, ready: Ready) -> UserItem {
        match ready {
            Ready::Event { key, event } => UserItem::Event {
                cursor: self.note(key, event.seq, event.timestamp),
                event,
            },
            Ready::Large(LargeEvent { key, seq, kind, at }) => {
                self.large = Some(EventPieces::new(self.store.clone(), key, seq));
                let cursor = self.note(key, seq, at);
                UserItem::LargeBegins { kind, cursor }
            }
            Ready::Gap {
                key,
                session,
                gap,
                then,
            } => {
                self.cursor.pass_over(key, then);
                let cursor = self.cursor.text();
                UserItem::Gap {
                    session,
                    gap,
                    cursor,
                }
            }
        }
    }

    fn note(&mut self, key: SessionKey, seq: u64, at: Timestamp) -> String {
        self.cursor.note(key, seq, at);
        // Older events of other sessions may still be to be read.
        if self.catch_up.is_none() {
            self.cursor.advance(now());
        }
        self.cursor.text()
    }

    /// Puts what was told in line, or what has to come before it.
    async fn look_at_told(&mut self) -> Result<(), StoreError> {
        let (key, seq) = match &self.told {
            Some(Told::Whole { key, event }) => (*key, event.seq),
            Some(Told::Large(large)) => (large.key, large.seq),
            Some(Told::UpTo(reference)) => (reference.key, reference.seq),
            Some(Told::Missed) => {
                self.told = None;
                self.catch_up = Some(CatchUp::new(&self.cursor));
                self.room = MAX_MISSED_EVENTS;
                return Ok(());
            }
            None => return Ok(()),
        };
        let is_reference = matches!(self.told, Some(Told::UpTo(_)));
        let before = seq.saturating_sub(1);
        let seen = match self.cursor.seen(key) {
            Some(seen) => seen,
            // This server tells everything, so what it told last is where this session begins.
            None if !self.is_merged => before,
            None => match self.mine.log(key).await? {
                Some(log) => self.start_of(&log, before).await?,
                None if is_reference => seq,
                None => before,
            },
        };
        let to = if is_reference { seq } else { before };
        if seen < to {
            self.room = MAX_MISSED_EVENTS;
            let after = seen;
            self.span = Some(Span { key, after, to });
            return Ok(());
        }
        match self.told.take() {
            _ if seq <= seen => {}
            Some(Told::Whole { key, event }) => self.ready.push_back(Ready::Event { key, event }),
            Some(Told::Large(large)) => self.ready.push_back(Ready::Large(large)),
            Some(Told::UpTo(_) | Told::Missed) | None => {}
        }
        Ok(())
    }

    /// One session of those that may have news, or the next page of them.
    async fn look_at_next_log(&mut self) -> Result<(), StoreError> {
        let Some(catch_up) = &self.catch_up else {
            return Ok(());
        };
        let Some(log) = catch_up.logs.front() else {
            if catch_up.is_last_page {
                self.catch_up = None;
                self.cursor.advance(now());
                return Ok(());
            }
            let page = self
                .mine
                .logs_since(catch_up.since, catch_up.after, LOG_PAGE)
                .await?;
            if let Some(catch_up) = &mut self.catch_up {
                catch_up.turn_to(page);
            }
            return Ok(());
        };
        let seen = match self.cursor.seen(log.key) {
            Some(seen) => seen,
            None => self.start_of(log, log.last_seq).await?,
        };
        let Some(log) = self
            .catch_up
            .as_mut()
            .and_then(|catch_up| catch_up.logs.pop_front())
        else {
            return Ok(());
        };
        let (key, last) = (log.key, log.last_seq);
        if seen < last {
            self.span = Some(Span {
                key,
                after: seen,
                to: last,
            });
        } else if seen > last {
            // The reader knows another log of this session: a backup was restored.
            self.ready.push_back(Ready::Gap {
                key,
                session: log.session_id,
                gap: Gap {
                    from: last + 1,
                    to: seen,
                },
                then: last,
            });
        }
        Ok(())
    }

    /// The last event up to `up_to` that is not wanted, in a session that the cursor does not know.
    async fn start_of(&self, log: &SessionLogRow, up_to: u64) -> Result<u64, StoreError> {
        let since = self.cursor.since();
        if let Some(seq) = self.mine.last_seq_at(log.key, up_to, since).await? {
            return Ok(seq);
        }
        // All that is stored is wanted. What was pruned may have been wanted too if the reader was
        // away for long.
        let pruned = log.first_seq.saturating_sub(1).min(up_to);
        let is_long_ago = now().millis_since(since) >= SHORTEST_RETENTION_MS;
        Ok(if is_long_ago { 0 } else { pruned })
    }

    /// The next page of a span. Numbers that are not there, or that are too many, become a gap.
    async fn read_span(&mut self, span: Span) -> Result<(), StoreError> {
        let Span { key, after, to } = span;
        let limit = PAGE.min(self.room);
        let page = match limit {
            0 => Vec::new(),
            limit => self.mine.events(key, after, to, limit).await?,
        };
        let follows = |(before, event): (u64, &StoredEvent)| event.seq == before + 1;
        let is_whole = !page.is_empty() && (after..).zip(&page).all(follows);
        let log = match is_whole {
            true => None,
            false => self.mine.log(key).await?,
        };
        self.room -= page.len() as u64;
        let mut passed = after;
        let session = log.map(|log| log.session_id);
        let is_empty = page.is_empty();
        for event in page {
            self.put_gap(key, session.as_ref(), passed + 1, event.seq - 1);
            passed = event.seq;
            self.ready
                .push_back(match event.body.len() > MAX_WHOLE_BYTES {
                    true => Ready::Large(LargeEvent::of(key, &event)),
                    false => Ready::Event {
                        key,
                        event: Arc::new(event),
                    },
                });
        }
        if is_empty {
            self.put_gap(key, session.as_ref(), passed + 1, to);
            passed = to;
        }
        self.span = (passed < to).then_some(Span {
            after: passed,
            ..span
        });
        Ok(())
    }

    /// A session that was deleted meanwhile has nothing to show, and its numbers are passed over.
    fn put_gap(&mut self, key: SessionKey, session: Option<&SessionId>, from: u64, to: u64) {
        match session {
            _ if from > to => {}
            Some(session) => self.ready.push_back(Ready::Gap {
                key,
                session: session.clone(),
                gap: Gap { from, to },
                then: to,
            }),
            None => self.cursor.pass_over(key, to),
        }
    }
}

impl CatchUp {
    fn new(cursor: &UserCursor) -> Self {
        Self {
            since: cursor.since(),
            logs: VecDeque::new(),
            after: None,
            is_last_page: false,
        }
    }

    fn turn_to(&mut self, page: Vec<SessionLogRow>) {
        self.is_last_page = (page.len() as u64) < LOG_PAGE;
        self.after = page.last().map(|log| log.key).or(self.after);
        self.logs = page.into();
    }
}

/// The cursor of a reader that has everything which has happened.
async fn from_now_on(mine: &UserStore, mut cursor: UserCursor) -> Result<UserCursor, StoreError> {
    let mut pages = CatchUp::new(&cursor);
    while !pages.is_last_page {
        let page = mine.logs_since(pages.since, pages.after, LOG_PAGE).await?;
        for log in &page {
            let at = log.last_event_at.unwrap_or(pages.since);
            cursor.note(log.key, log.last_seq, at);
        }
        pages.turn_to(page);
    }
    Ok(cursor)
}
