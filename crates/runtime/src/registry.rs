//! Which sessions are live, and the way to their owners.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use codelab_protocol::{SessionId, SessionKind};
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
    /// Mail is boxed: a mailbox makes room for many at once, and seldom holds more than one.
    owners: HashMap<SessionName, mpsc::Sender<Box<Mail>>>,
    /// Feeds outlive owners while somebody reads.
    feeds: HashMap<SessionName, Weak<Feed>>,
    stopping: bool,
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
        match owner.try_send(mail) {
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
        state.owners.insert(name.clone(), sender);
        runtime.metrics.live_sessions.set(state.owners.len() as i64);
        drop(state);
        tokio::spawn(Owner::new(Arc::clone(runtime), name.clone(), mailbox, feed).run());
        Ok(())
    }

    pub fn feed(&self, name: &SessionName) -> Arc<Feed> {
        self.lock().feed(name)
    }

    pub fn is_live(&self, name: &SessionName) -> bool {
        self.lock()
            .owners
            .get(name)
            .is_some_and(|owner| !owner.is_closed())
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
        mailbox: &mpsc::Receiver<Box<Mail>>,
    ) -> bool {
        let mut state = self.lock();
        if !mailbox.is_empty() {
            return false;
        }
        state.owners.remove(name);
        runtime.metrics.live_sessions.set(state.owners.len() as i64);
        true
    }

    /// Forgets feeds that nobody reads any more.
    pub fn sweep(&self) {
        self.lock().feeds.retain(|_, feed| feed.strong_count() > 0);
    }

    /// From now on no mail is taken. Readers of sessions that nobody works on end; the others end
    /// with the session's owner, so that they see how a turn ends that is finished within the
    /// grace.
    pub fn stop(&self) {
        let mut state = self.lock();
        state.stopping = true;
        let is_live = |name: &SessionName| {
            state
                .owners
                .get(name)
                .is_some_and(|owner| !owner.is_closed())
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
            .filter(|owner| !owner.is_closed())
            .count()
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
