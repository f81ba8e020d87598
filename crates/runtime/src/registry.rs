//! Which sessions are live, and the way to their owners.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use codelab_protocol::{ProjectId, SessionId, SessionKind};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::RuntimeError;
use crate::feed::Feed;
use crate::owner::{Mail, Owner};
use crate::runtime::Inner;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SessionName {
    pub kind: SessionKind,
    pub id: SessionId,
}

#[derive(Default)]
pub(crate) struct Registry {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    owners: HashMap<SessionName, OwnerAddress>,
    /// Of the owner that was made last.
    last_number: u64,
    /// Feeds outlive owners while somebody reads.
    feeds: HashMap<SessionName, Weak<Feed>>,
    stopping: bool,
}

/// The way to one owner.
struct OwnerAddress {
    /// Tells it from an earlier owner of the same session.
    number: u64,
    /// Mail is boxed: a mailbox makes room for many at once, and seldom holds more than one.
    mailbox: mpsc::Sender<Box<Mail>>,
}

impl Registry {
    /// Hands mail to the session's owner, waking it up where it sleeps.
    ///
    /// Sending happens under the lock, so that an owner which finds its mailbox empty under the
    /// same lock can leave and no mail is lost.
    pub fn send(
        &self,
        runtime: &Arc<Inner>,
        name: &SessionName,
        mail: Mail,
    ) -> Result<(), RuntimeError> {
        let mail = Box::new(mail);
        let mut state = self.lock();
        if state.stopping {
            return Err(RuntimeError::Stopping);
        }
        let Some(owner) = state.owners.get(name) else {
            return self.spawn(runtime, name, mail, state);
        };
        match owner.mailbox.try_send(mail) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(_)) => Err(RuntimeError::Busy),
            // The owner died of a bug; the session goes on from what is stored.
            Err(TrySendError::Closed(mail)) => {
                state.owners.remove(name);
                self.spawn(runtime, name, mail, state)
            }
        }
    }

    fn spawn(
        &self,
        runtime: &Arc<Inner>,
        name: &SessionName,
        mail: Box<Mail>,
        mut state: MutexGuard<'_, State>,
    ) -> Result<(), RuntimeError> {
        if state.owners.len() >= runtime.live.max_sessions {
            return Err(RuntimeError::Busy);
        }
        let feed = state.feed(name);
        let (sender, mailbox) = mpsc::channel(runtime.live.mailbox);
        // A new mailbox has room.
        let _ = sender.try_send(mail);
        state.last_number += 1;
        let number = state.last_number;
        let address = OwnerAddress {
            number,
            mailbox: sender,
        };
        state.owners.insert(name.clone(), address);
        runtime.metrics.live_sessions.set(state.owners.len() as i64);
        drop(state);
        tokio::spawn(Owner::new(Arc::clone(runtime), name.clone(), number, mailbox, feed).run());
        Ok(())
    }

    pub fn feed(&self, name: &SessionName) -> Arc<Feed> {
        self.lock().feed(name)
    }

    pub fn is_live(&self, name: &SessionName) -> bool {
        self.lock()
            .owners
            .get(name)
            .is_some_and(|owner| !owner.mailbox.is_closed())
    }

    /// Whether anybody here works on the session or reads it.
    pub fn is_known(&self, name: &SessionName) -> bool {
        let state = self.lock();
        state.owners.contains_key(name)
            || state
                .feeds
                .get(name)
                .is_some_and(|feed| feed.strong_count() > 0)
    }

    /// Lets an owner go, unless mail has come.
    pub fn retire(
        &self,
        runtime: &Inner,
        name: &SessionName,
        number: u64,
        mailbox: &mpsc::Receiver<Box<Mail>>,
    ) -> bool {
        let mut state = self.lock();
        if !mailbox.is_empty() {
            return false;
        }
        if state
            .owners
            .get(name)
            .is_some_and(|owner| owner.number == number)
        {
            state.owners.remove(name);
        }
        runtime.metrics.live_sessions.set(state.owners.len() as i64);
        true
    }

    /// Forgets feeds that nobody reads any more.
    pub fn sweep(&self) {
        self.lock().feeds.retain(|_, feed| feed.strong_count() > 0);
    }

    /// From now on no mail is accepted. Readers of sessions that nobody works on end; the others end
    /// with the session's owner, so that they see how a turn ends that is finished within the
    /// grace.
    pub fn stop(&self) {
        let mut state = self.lock();
        state.stopping = true;
        let is_live = |name: &SessionName| {
            state
                .owners
                .get(name)
                .is_some_and(|owner| !owner.mailbox.is_closed())
        };
        let ended = state
            .feeds
            .iter()
            .filter(|(name, _)| !is_live(name))
            .filter_map(|(_, feed)| feed.upgrade());
        ended.for_each(|feed| feed.stop());
    }

    /// The owner of this feed is gone, and the server stops: nothing more will come of it.
    pub fn owner_left(&self, feed: &Feed) {
        if self.lock().stopping {
            feed.stop();
        }
    }

    pub fn owners(&self) -> usize {
        self.lock()
            .owners
            .values()
            .filter(|owner| !owner.mailbox.is_closed())
            .count()
    }

    /// How many sessions of a kind are in memory.
    pub fn live_of(&self, kind: SessionKind) -> usize {
        let state = self.lock();
        let live = state.owners.iter().filter(|(name, _)| name.kind == kind);
        live.count()
    }

    /// Other servers own everything now: owners are let go, and all readers end.
    pub fn abandon(&self) {
        let mut state = self.lock();
        state.owners.clear();
        for feed in state.feeds.drain().filter_map(|(_, feed)| feed.upgrade()) {
            feed.stop();
        }
    }

    /// A project moves to another server: readers of its sessions end, so that they resume there.
    pub fn end_readers_of(&self, project: ProjectId) {
        let mut state = self.lock();
        state.feeds.retain(|_, feed| {
            let Some(feed) = feed.upgrade() else {
                return false;
            };
            let moves = feed.project() == Some(project);
            if moves {
                feed.stop();
            }
            !moves
        });
    }

    /// A session that is not in memory moves to another server: its readers end. False if it is in
    /// memory.
    pub fn end_readers_of_sleeping(&self, name: &SessionName) -> bool {
        let mut state = self.lock();
        if state.owners.contains_key(name) {
            return false;
        }
        if let Some(feed) = state.feeds.remove(name).and_then(|feed| feed.upgrade()) {
            feed.stop();
        }
        true
    }

    /// Another server has the session: its readers here end, so that they resume there. Gives the
    /// feed of those who come back.
    pub fn moved_away(&self, name: &SessionName) -> Arc<Feed> {
        let mut state = self.lock();
        if let Some(feed) = state.feeds.remove(name).and_then(|feed| feed.upgrade()) {
            feed.stop();
        }
        state.feed(name)
    }

    /// Sessions of the runtime kind that are read here and not in memory.
    pub fn read_while_sleeping(&self) -> Vec<SessionName> {
        let state = self.lock();
        let read = state.feeds.iter().filter(|(name, feed)| {
            name.kind == SessionKind::Runtime
                && feed.strong_count() > 0
                && !state.owners.contains_key(name)
        });
        read.map(|(name, _)| name.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn feed(&mut self, name: &SessionName) -> Arc<Feed> {
        if let Some(feed) = self.feeds.get(name).and_then(Weak::upgrade) {
            return feed;
        }
        let feed = Arc::new(Feed::default());
        if self.stopping {
            feed.stop();
        }
        self.feeds.insert(name.clone(), Arc::downgrade(&feed));
        feed
    }
}
