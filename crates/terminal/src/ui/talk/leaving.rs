//! How a person leaves the chat, and what ends with it.

use std::time::Duration;

use tokio::time::Instant;

use super::{Leaving, Talk};
use crate::Text;
use crate::texts::CommandText;
use crate::ui::ChatEnd;
use crate::ui::requests::{self, QueueFate};
use crate::ui::state::PendingAsk;

/// How long a turn may take to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

impl Talk {
    /// A turn that ends with the server of this program is stopped first, so that what was written of
    /// its answer is kept. What waits for the person waits on.
    pub(super) fn leave(&mut self) {
        let mut asks = self.state.asks.iter();
        let waits = asks.any(|ask| !matches!(ask, PendingAsk::Local(_)));
        let is_stopped = matches!(self.is_over, Leaving::WhenStopped(_));
        let is_lost = self.is_own_server && self.state.is_working() && !waits && !is_stopped;
        let Some(session) = self.session.clone().filter(|_| is_lost) else {
            self.is_over = Leaving::Now;
            return;
        };
        self.say(CommandText::StoppingTurn, &[]);
        let queue = QueueFate::Dropped;
        self.requests
            .spawn(requests::cancel(self.client.clone(), session, queue));
        self.is_over = Leaving::WhenStopped(Instant::now() + STOP_TIMEOUT);
    }

    pub(super) fn leave_when_idle(&mut self) {
        if let Leaving::WhenStopped(until) = self.is_over
            && (!self.state.is_working() || Instant::now() >= until)
        {
            self.is_over = Leaving::Now;
        }
        let is_idle = self.is_idle();
        if self.is_over == Leaving::WhenIdle && (is_idle || !self.state.asks.is_empty()) {
            if let Some(ask) = self.state.asks.first() {
                let call = ask.call_id().clone();
                self.say(Text::NobodyDecides, &[call.as_str()]);
                self.end = ChatEnd::Undecided;
            }
            self.is_over = Leaving::Now;
        }
    }
}
