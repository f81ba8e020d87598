//! What the user of a session does on their own account: messages, repeats, cancels, switches.

use std::time::Duration;

use codelab_client::EventStream;
use codelab_protocol::{AgentName, AgentStreamRequest, CallId, ClientMessageId};
use tokio::task::JoinSet;

use super::{Reach, Visit, blank};
use crate::workload::ledger::{Answered, Choice, Outcome};
use crate::workload::rng::Rng;

/// New messages of one session in one run of the server.
const MAX_NEW_MESSAGES: usize = 4;
const MAX_PAUSE_MS: u64 = 12;
/// With several servers, a visit lasts until they have recovered.
const MAX_BALANCED_PAUSE_MS: u64 = 200;
/// How many of a hundred unanswered messages are never sent again.
const ABANDONED: u64 = 25;
const AGENTS: [&str; 4] = ["coder", "coder", "debug", "orchestrator"];

impl Visit {
    pub(super) async fn speak(&self, rng: &mut Rng, tasks: &mut JoinSet<()>) {
        self.send_again(rng).await;
        let mut left = MAX_NEW_MESSAGES;
        let max_pause_ms = match self.reach {
            Reach::OneServer => MAX_PAUSE_MS,
            Reach::Balanced => MAX_BALANCED_PAUSE_MS,
        };
        while !self.is_over() {
            let pause = Duration::from_millis(rng.below(max_pause_ms));
            let (choice, detail) = (rng.below(100), rng.next());
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.ended() => return,
            }
            let exists = self.watched.ledger().exists();
            let mut rng = Rng::of(&[detail]);
            match choice {
                0..45 if left > 0 => {
                    left -= 1;
                    self.new_words(&mut rng, tasks).await;
                }
                45..49 if exists => self.cancel(rng.percent(30)).await,
                49..57 => {
                    self.switch(rng.pick(&AGENTS)).await;
                }
                57..70 => self.repeat_message(&mut rng, tasks),
                70..88 => self.repeat_result(&mut rng).await,
                88..95 => self.decide_again(&mut rng).await,
                _ => {}
            }
        }
    }

    /// Messages whose fate is unknown are sent again under the same id, or given up for good.
    pub(super) async fn send_again(&self, rng: &mut Rng) {
        let unknown: Vec<usize> = {
            let ledger = self.watched.ledger();
            let open = |number: &usize| {
                let sent = &ledger.messages[*number];
                !sent.is_abandoned && sent.outcome() == Outcome::Unknown
            };
            (0..ledger.messages.len()).filter(open).collect()
        };
        for number in unknown {
            match rng.percent(ABANDONED) && !self.settles() {
                true => self.watched.ledger().messages[number].is_abandoned = true,
                false => self.say(number, false).await,
            }
        }
    }

    /// A new message: awaited or not, once or twice at the same time.
    async fn new_words(&self, rng: &mut Rng, tasks: &mut JoinSet<()>) {
        let number = self.new_message(rng);
        let copies = if rng.percent(15) { 2 } else { 1 };
        let (waits, reads) = (rng.percent(50), rng.percent(50));
        if waits && copies == 1 {
            return self.say(number, false).await;
        }
        for _ in 0..copies {
            let visit = self.clone();
            tasks.spawn(async move { visit.say(number, reads).await });
        }
    }

    pub(super) async fn say(&self, number: usize, reads: bool) {
        loop {
            let (answered, stream) = self.say_once(number).await;
            if let Some(stream) = stream.filter(|_| reads) {
                self.read(stream).await;
            }
            if !self.tries_again(answered).await {
                return;
            }
        }
    }

    async fn say_once(&self, number: usize) -> (Answered, Option<EventStream>) {
        let (attempt, text, label) = {
            let mut ledger = self.watched.ledger();
            let attempt = ledger.begin_message(number);
            let plan = &ledger.messages[number].plan;
            (attempt, plan.text(), plan.label.clone())
        };
        let request = AgentStreamRequest {
            message: Some(text),
            client_message_id: ClientMessageId::parse(&label).ok(),
            ..blank(&self.watched.id)
        };
        let (answered, stream) = self.send(&request).await;
        self.watched.ledger().end_message(number, attempt, answered);
        (answered, stream)
    }

    async fn cancel(&self, drops_queue: bool) {
        let number = self.watched.ledger().begin_cancel(drops_queue);
        let (answered, had_turn) = match self.client.cancel(&self.watched.id, drops_queue).await {
            Ok(ack) => (
                Answered::Taken,
                ack.status == codelab_protocol::AckStatus::Cancelled,
            ),
            Err(error) => (self.refused(&error), false),
        };
        self.watched.ledger().end_cancel(number, answered, had_turn);
    }

    /// The stream of a switch may last as long as the turn that runs.
    pub(super) async fn switch(&self, agent: &str) -> Option<EventStream> {
        let number = self
            .watched
            .ledger()
            .begin_switch(AgentName::parse(agent).ok()?);
        let request = AgentStreamRequest {
            message_type: Some(codelab_protocol::MessageType::SwitchAgent.into()),
            agent_type: Some(agent.to_owned()),
            ..blank(&self.watched.id)
        };
        let (answered, stream) = self.send(&request).await;
        self.watched.ledger().end_switch(number, answered);
        stream
    }

    /// A repeat of an acknowledged message must be acknowledged and start nothing.
    fn repeat_message(&self, rng: &mut Rng, tasks: &mut JoinSet<()>) {
        let taken: Vec<usize> = {
            let ledger = self.watched.ledger();
            (0..ledger.messages.len())
                .filter(|number| ledger.messages[*number].outcome().is_taken())
                .collect()
        };
        if taken.is_empty() {
            return;
        }
        let (number, reads) = (rng.pick(&taken), rng.percent(50));
        let visit = self.clone();
        tasks.spawn(async move { visit.say(number, reads).await });
    }

    /// The same result again, or a different one for a call that has its result.
    async fn repeat_result(&self, rng: &mut Rng) {
        let answered: Vec<CallId> = {
            let ledger = self.watched.ledger();
            ledger
                .calls
                .iter()
                .filter(|(_, call)| call.answered().is_taken())
                .map(|(id, _)| id.clone())
                .collect()
        };
        if answered.is_empty() {
            return;
        }
        let call_id = answered[rng.below(answered.len() as u64) as usize].clone();
        self.give_result(&call_id, rng.percent(70)).await;
    }

    /// A decision about a call that was decided already; it must be refused.
    async fn decide_again(&self, rng: &mut Rng) {
        let decided: Vec<CallId> = {
            let ledger = self.watched.ledger();
            ledger
                .calls
                .iter()
                .filter(|(_, call)| call.decided().is_taken())
                .map(|(id, _)| id.clone())
                .collect()
        };
        if decided.is_empty() {
            return;
        }
        let call_id = decided[rng.below(decided.len() as u64) as usize].clone();
        let choice = if rng.percent(50) {
            Choice::Reject
        } else {
            Choice::Approve { remember: false }
        };
        self.decide(&call_id, choice).await;
    }
}
