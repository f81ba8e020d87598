//! One reader of a session's events: contiguous, resumable, as fast as it likes.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use codelab_engine::EventRange;
use codelab_protocol::{AgentName, MessageId, TaskOrigin, ToolProgress, TurnStatus};
use codelab_store::{SessionKey, SessionRow, Store, StoreError, StoredEvent};

use crate::cluster::ServerLease;
use crate::feed::{Feed, FeedState, PartialAnswer};
use crate::metrics::OpenGauge;
use crate::pieces::{EventPieces, MAX_WHOLE_BYTES};

/// The event of a message that leaves the queue.
const MESSAGE_DEQUEUED: &str = "message_dequeued";
/// Events read from the store at once.
const PAGE: usize = 64;
/// What is handed over at once of the answers being written.
const MAX_TEXT_BYTES: usize = 64 * 1024;

#[derive(Debug, Clone)]
pub enum ReaderItem {
    Event(Arc<StoredEvent>),
    Delta(AnswerDelta),
    /// How far a tool call is.
    Progress(ToolProgress),
    /// The turn ended or suspended here.
    Settled(TurnStatus),
    /// These numbers were pruned and can no longer be read.
    Gap {
        from: u64,
        to: u64,
    },
    /// The reader came with the number `to`, but this log has nothing from `from` on: the reader
    /// knows another log of the same name. This one follows from its start.
    StartOver {
        from: u64,
        to: u64,
    },
    /// What was done last could not be stored, and is tried again. The stream of a turn ends here,
    /// as failed.
    NotStored(StoreError),
    /// A large event begins, for readers that take it in pieces; then come its pieces and its end,
    /// and nothing between.
    LargeBegins {
        seq: u64,
        kind: Cow<'static, str>,
    },
    LargePiece(String),
    LargeEnds,
}

/// A piece of an answer that is being written.
#[derive(Debug, Clone)]
pub struct AnswerDelta {
    pub part: AnswerPart,
    pub content: String,
    pub agent: AgentName,
    pub message_id: MessageId,
    pub attempt: u32,
    /// Where `content` starts, in bytes.
    pub offset: u64,
    pub origin: TaskOrigin,
}

/// Which text of an answer a piece belongs to; each has offsets of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerPart {
    Reasoning,
    Text,
}

/// What all readers of a server need.
pub(crate) struct ReaderParts {
    pub store: Store,
    /// Nothing is shown while the server is paused.
    pub lease: Arc<ServerLease>,
    /// Counts it among the open streams.
    pub _open: OpenGauge,
}

pub struct Reader {
    parts: ReaderParts,
    feed: Arc<Feed>,
    key: SessionKey,
    scope: ReaderScope,
    /// The number of the last event that was passed on or skipped.
    cursor: u64,
    ready: VecDeque<ReaderItem>,
    shown: Vec<Shown>,
    /// The number of the progress that was passed on last.
    shown_progress: u64,
    /// Whether it was looked at how the turn stood at the number the reader came with.
    resumed: bool,
    finished: bool,
    /// The trouble that was told last.
    told_trouble: Option<u64>,
    takes_pieces: bool,
    /// The large event that is being handed over.
    large: Option<EventPieces>,
    /// Which of several answers gets its text first; they take turns.
    first_answer: usize,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum ReaderScope {
    /// The whole log; `follow` waits for more.
    Log { follow: bool },
    /// One turn, until it settles.
    Turn(EventRange),
    /// Nothing but this status.
    Status(TurnStatus),
}

/// How much of the answer being written was passed on.
struct Shown {
    message_id: MessageId,
    attempt: u32,
    bytes: usize,
    reasoning_bytes: usize,
}

enum Look {
    Found,
    /// What comes next is only in the store.
    Behind,
    AtTheEnd,
}

impl Reader {
    pub(crate) fn new(
        parts: ReaderParts,
        feed: Arc<Feed>,
        key: SessionKey,
        scope: ReaderScope,
        after_seq: u64,
    ) -> Self {
        Self {
            parts,
            feed,
            key,
            scope,
            cursor: after_seq,
            ready: VecDeque::new(),
            shown: Vec::new(),
            shown_progress: 0,
            resumed: after_seq == 0,
            finished: false,
            told_trouble: None,
            takes_pieces: false,
            large: None,
            first_answer: 0,
        }
    }

    /// The log of a session after a number that the reader brings, or from its start if the log
    /// never got that far: the session was purged and made anew, or a backup was restored.
    pub(crate) fn of_log(
        parts: ReaderParts,
        feed: Arc<Feed>,
        row: &SessionRow,
        follow: bool,
        after_seq: u64,
    ) -> Self {
        let scope = ReaderScope::Log { follow };
        if after_seq <= row.last_seq {
            return Self::new(parts, feed, row.key, scope, after_seq);
        }
        let mut reader = Self::new(parts, feed, row.key, scope, 0);
        reader.ready.push_back(ReaderItem::StartOver {
            from: row.last_seq + 1,
            to: after_seq,
        });
        reader
    }

    /// For readers that may stall: a large event is not held for them, but read and handed over
    /// piece by piece.
    pub fn in_pieces(self) -> Self {
        Self {
            takes_pieces: true,
            ..self
        }
    }

    /// The next thing to show; `None` at the end. Waiting is cancel-safe.
    pub async fn next(&mut self) -> Result<Option<ReaderItem>, StoreError> {
        if let ReaderScope::Status(status) = self.scope
            && !std::mem::replace(&mut self.finished, true)
        {
            return Ok(Some(ReaderItem::Settled(status)));
        }
        loop {
            self.parts.lease.resumed().await;
            if let Some(large) = &mut self.large {
                let piece = large.next().await?;
                if piece.is_none() {
                    self.large = None;
                }
                return Ok(Some(
                    piece.map_or(ReaderItem::LargeEnds, ReaderItem::LargePiece),
                ));
            }
            if let Some(item) = self.ready.pop_front() {
                if let ReaderItem::LargeBegins { seq, .. } = item {
                    self.large = Some(EventPieces::new(self.parts.store.clone(), self.key, seq));
                }
                return Ok(Some(item));
            }
            if self.finished {
                return Ok(None);
            }
            if matches!(self.scope, ReaderScope::Log { .. }) && !self.resumed {
                self.resume().await?;
                self.resumed = true;
                continue;
            }
            let feed = Arc::clone(&self.feed);
            // Registered before looking, so that nothing published in between is missed.
            let changed = feed.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let (look, idle, closed, last_seq, trouble) = {
                let state = feed.lock();
                if state.key.is_some_and(|key| key != self.key) {
                    // The session was purged, and another one has its name.
                    self.finished = true;
                    continue;
                }
                let closed = state.closed || state.stopped;
                (
                    self.look(&state),
                    state.idle,
                    closed,
                    state.last_seq,
                    state.trouble.clone(),
                )
            };
            match look {
                Look::Found => continue,
                Look::Behind => {
                    if self.read_page().await? || self.skip_pruned(last_seq) {
                        continue;
                    }
                }
                Look::AtTheEnd => {}
            }
            if self.tell(trouble) {
                continue;
            }
            let follow = match self.scope {
                ReaderScope::Log { follow } => follow,
                // A turn whose end is not in the log any more will not settle again.
                ReaderScope::Turn(_) => !idle,
                ReaderScope::Status(_) => false,
            };
            if closed || !follow {
                self.finished = true;
                continue;
            }
            changed.await;
        }
    }

    /// What can be shown without waiting.
    pub fn ready(&mut self) -> Option<ReaderItem> {
        if self.large.is_some()
            || matches!(self.ready.front(), Some(ReaderItem::LargeBegins { .. }))
        {
            return None;
        }
        self.ready.pop_front()
    }

    /// Whether there is a trouble that this reader has not heard of. Whoever waits for one turn
    /// waits in vain for now.
    fn tell(&mut self, trouble: Option<(u64, StoreError)>) -> bool {
        let news = trouble.filter(|(number, _)| self.told_trouble != Some(*number));
        let (Some((number, error)), false) = (
            news,
            matches!(self.scope, ReaderScope::Log { follow: false }),
        ) else {
            return false;
        };
        self.told_trouble = Some(number);
        self.ready.push_back(ReaderItem::NotStored(error));
        if matches!(self.scope, ReaderScope::Turn(_)) {
            // Every stream of a turn ends with a status. What becomes of the turn is in the
            // session's log later.
            self.ready
                .push_back(ReaderItem::Settled(TurnStatus::Failed));
            self.finished = true;
        }
        true
    }

    fn look(&mut self, state: &FeedState) -> Look {
        let next = self.cursor + 1;
        let buffered = state.recent.front().is_some_and(|event| event.seq <= next);
        let up_to_date = state.last_seq == Some(self.cursor);
        if !buffered && !up_to_date {
            return Look::Behind;
        }
        let skip = state
            .recent
            .front()
            .map_or(0, |event| next.saturating_sub(event.seq) as usize);
        let newer: Vec<Arc<StoredEvent>> = state.recent.iter().skip(skip).cloned().collect();
        for event in newer {
            self.pass(event);
        }
        // Without following, the log is all there is to show.
        if !self.finished && !matches!(self.scope, ReaderScope::Log { follow: false }) {
            self.pass_text(state);
            self.pass_progress(state);
        }
        if self.ready.is_empty() && !self.finished {
            Look::AtTheEnd
        } else {
            Look::Found
        }
    }

    /// A reader that saw the last event of a turn may have missed that the turn settled there.
    async fn resume(&mut self) -> Result<(), StoreError> {
        let page = self
            .parts
            .store
            .events(self.key, self.cursor - 1, 2)
            .await?;
        if let [event] = page.as_slice()
            && event.seq == self.cursor
        {
            let settled = self.settled(event);
            self.ready.extend(settled.map(ReaderItem::Settled));
        }
        Ok(())
    }

    /// Events that exist by number but are no longer stored.
    fn skip_pruned(&mut self, last_seq: Option<u64>) -> bool {
        let Some(to) = last_seq.filter(|last| *last > self.cursor) else {
            return false;
        };
        self.ready.push_back(ReaderItem::Gap {
            from: self.cursor + 1,
            to,
        });
        self.cursor = to;
        true
    }

    /// Whether the store had anything newer.
    async fn read_page(&mut self) -> Result<bool, StoreError> {
        let page = self.parts.store.events(self.key, self.cursor, PAGE).await?;
        let more = !page.is_empty();
        for event in page {
            let from = self.cursor + 1;
            if event.seq > from && !self.finished {
                self.ready.push_back(ReaderItem::Gap {
                    from,
                    to: event.seq - 1,
                });
            }
            self.pass(Arc::new(event));
        }
        Ok(more)
    }

    /// A message that leaves the queue ends the wait for its turn. For readers of the whole log
    /// nothing ends: the turn before it may still run.
    fn settled(&self, event: &StoredEvent) -> Option<TurnStatus> {
        let is_of_turn = matches!(self.scope, ReaderScope::Turn(_));
        let is_dequeued = event.kind == MESSAGE_DEQUEUED;
        event.settled.filter(|_| is_of_turn || !is_dequeued)
    }

    fn pass(&mut self, event: Arc<StoredEvent>) {
        if self.finished {
            return;
        }
        self.cursor = event.seq;
        let settled = self.settled(&event);
        match self.scope {
            ReaderScope::Turn(span) if span.turn != event.turn => return,
            ReaderScope::Turn(_) => self.finished = settled.is_some(),
            ReaderScope::Log { .. } | ReaderScope::Status(_) => {}
        }
        self.ready.push_back(
            match self.takes_pieces && event.body.len() > MAX_WHOLE_BYTES {
                true => ReaderItem::LargeBegins {
                    seq: event.seq,
                    kind: event.kind.clone(),
                },
                false => ReaderItem::Event(event),
            },
        );
        self.ready.extend(settled.map(ReaderItem::Settled));
    }

    fn pass_progress(&mut self, state: &FeedState) {
        for told in &state.progress {
            let is_other = matches!(self.scope, ReaderScope::Turn(span) if span.turn != told.turn);
            if told.number > self.shown_progress && !is_other {
                self.ready
                    .push_back(ReaderItem::Progress(told.progress.clone()));
            }
        }
        let newest = state.progress.last().map_or(0, |told| told.number);
        self.shown_progress = self.shown_progress.max(newest);
    }

    fn pass_text(&mut self, state: &FeedState) {
        self.shown
            .retain(|shown| state.answers.iter().any(|answer| shown.is_of(answer)));
        let count = state.answers.len();
        let mut room_bytes = MAX_TEXT_BYTES;
        self.first_answer = (self.first_answer + 1) % count.max(1);
        for answer in state
            .answers
            .iter()
            .cycle()
            .skip(self.first_answer)
            .take(count)
        {
            if matches!(self.scope, ReaderScope::Turn(span) if span.turn != answer.turn) {
                continue;
            }
            let place = self
                .shown
                .iter()
                .position(|shown| shown.is_of(answer))
                .unwrap_or_else(|| {
                    let (message_id, attempt) = (answer.message_id.clone(), answer.attempt);
                    self.shown.push(Shown {
                        message_id,
                        attempt,
                        bytes: 0,
                        reasoning_bytes: 0,
                    });
                    self.shown.len() - 1
                });
            let Some(shown) = self.shown.get_mut(place) else {
                continue;
            };
            for (part, text, shown_bytes) in [
                (
                    AnswerPart::Reasoning,
                    &answer.reasoning,
                    &mut shown.reasoning_bytes,
                ),
                (AnswerPart::Text, &answer.text, &mut shown.bytes),
            ] {
                let text = text.get(*shown_bytes..).unwrap_or_default();
                let content = &text[..text.floor_char_boundary(room_bytes)];
                if content.is_empty() {
                    continue;
                }
                room_bytes -= content.len();
                self.ready.push_back(ReaderItem::Delta(AnswerDelta {
                    part,
                    content: content.to_owned(),
                    agent: answer.agent.clone(),
                    message_id: answer.message_id.clone(),
                    attempt: answer.attempt,
                    offset: *shown_bytes as u64,
                    origin: answer.origin.clone(),
                }));
                *shown_bytes += content.len();
            }
        }
    }
}

impl Shown {
    fn is_of(&self, answer: &PartialAnswer) -> bool {
        self.message_id == answer.message_id && self.attempt == answer.attempt
    }
}

#[cfg(test)]
mod tests {
    use codelab_protocol::{Timestamp, TurnId};
    use codelab_store::{DatabaseUrl, StoreOptions};

    use super::*;
    use crate::metrics::Metrics;

    #[tokio::test]
    async fn a_reader_sees_nothing_of_another_session_with_the_same_name() {
        let store = Store::open(StoreOptions::new(DatabaseUrl::SqliteMemory))
            .await
            .expect("a store");
        let metrics = Metrics::new();
        let (purged, made_again) = (SessionKey::from_raw(1), SessionKey::from_raw(2));
        let feed = Arc::new(Feed::default());
        feed.opened(purged, 1, true);
        let reader = |key, after| {
            let scope = ReaderScope::Log { follow: true };
            let parts = ReaderParts {
                store: store.clone(),
                lease: Arc::new(ServerLease::new(tokio::time::Instant::now(), false)),
                _open: OpenGauge::stream(&metrics),
            };
            Reader::new(parts, Arc::clone(&feed), key, scope, after)
        };
        // It was slow, and looks only when the name is another session's.
        let mut slow = reader(purged, 1);
        feed.close();
        feed.opened(made_again, 0, true);
        let event = |seq| {
            let (turn, timestamp) = (TurnId(1), Timestamp::from_millis(0));
            Arc::new(StoredEvent {
                seq,
                turn,
                kind: "message".into(),
                body: "{}".into(),
                settled: None,
                timestamp,
            })
        };
        feed.publish(&[event(1), event(2)], true, &[]);
        assert!(slow.next().await.expect("it can read").is_none());
        let mut new = reader(made_again, 0);
        for _ in 0..2 {
            assert!(matches!(new.next().await, Ok(Some(ReaderItem::Event(_)))));
        }
    }
}
