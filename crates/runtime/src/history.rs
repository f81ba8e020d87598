//! The messages a prompt may need, kept beside the session so that a step reads nothing from the
//! store.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use codelab_engine::{
    History, MessageRecord, PromptLimits, for_prompts, is_known_as_result, without_files,
};
use codelab_protocol::{
    Attachment, Message, MessageId, PlanId, Role, TaskId, TaskOrigin, TurnId, UserId,
};
use codelab_store::{MessageRange, SessionKey, Store, StoreError, StoredMessage};

pub(crate) struct Recent {
    turn: Option<TurnId>,
    earlier: Vec<Message>,
    current: Vec<Message>,
    /// Messages kept of earlier turns.
    keep: usize,
    /// The threads of the current turn's tasks, as far as they were needed.
    tasks: HashMap<(PlanId, TaskId), Vec<Message>>,
    /// What was said in the session itself, as the last task's step saw it.
    said: Vec<Message>,
    /// The request that the last task's step belonged to, and its files.
    request: Option<(MessageId, Vec<Attachment>)>,
}

impl Recent {
    /// A session without messages.
    pub fn empty(keep: usize) -> Self {
        Self {
            turn: None,
            earlier: Vec::new(),
            current: Vec::new(),
            keep,
            tasks: HashMap::new(),
            said: Vec::new(),
            request: None,
        }
    }

    pub async fn load(
        store: &Store,
        key: SessionKey,
        turn: Option<TurnId>,
        limits: &PromptLimits,
    ) -> Result<Self, StoreError> {
        let keep = limits.messages;
        let current = match turn {
            Some(turn) => store.messages(key, MessageRange::FromTurn(turn)).await?,
            None => Vec::new(),
        };
        let before = current.first().map(|stored| stored.ord);
        let earlier = store
            .messages(
                key,
                MessageRange::Last {
                    before,
                    limit: keep,
                },
            )
            .await?;
        let messages = |stored: Vec<StoredMessage>| -> Vec<_> {
            let told = stored
                .iter()
                .filter(|stored| !is_known_as_result(&stored.message, None));
            told.map(|stored| for_prompts(&stored.message, limits))
                .collect()
        };
        let mut earlier = messages(earlier);
        forget_reasoning(&mut earlier);
        Ok(Self {
            turn,
            earlier,
            current: messages(current),
            ..Self::empty(keep)
        })
    }

    /// Makes what a task's step sees available; its thread is read unless it is there already.
    pub async fn load_task(
        &mut self,
        store: &Store,
        key: SessionKey,
        plan: &PlanId,
        task: &TaskId,
        limits: &PromptLimits,
    ) -> Result<(), StoreError> {
        if let Entry::Vacant(place) = self.tasks.entry((plan.clone(), task.clone())) {
            let range = MessageRange::Task {
                plan: plan.clone(),
                task: task.clone(),
            };
            let stored = store.messages(key, range).await?;
            place.insert(
                stored
                    .iter()
                    .map(|stored| for_prompts(&stored.message, limits))
                    .collect(),
            );
        }
        // What steered this turn is in the thread itself.
        let current = self.current.iter().filter(|message| !message.steered);
        let said = self.earlier.iter().chain(current);
        self.said = said
            .filter(|message| !is_known_as_result(message, Some((plan, task))))
            .cloned()
            .collect();
        Ok(())
    }

    /// Finds the files of the request that a plan was made for. A plan that is run again can belong
    /// to a message that is not among the newest any more.
    pub async fn load_request(
        &mut self,
        store: &Store,
        whose: (UserId, SessionKey),
        plan: &PlanId,
        request: &MessageId,
    ) -> Result<(), StoreError> {
        if self.request.as_ref().is_some_and(|(id, _)| id == request) {
            return Ok(());
        }
        let mut at_hand = self.earlier.iter().chain(&self.current);
        let files = match at_hand.find(|message| message.message_id == *request) {
            Some(message) => message.attachments.clone(),
            None => stored_files(store, whose, plan, request).await?,
        };
        self.request = Some((request.clone(), files));
        Ok(())
    }

    /// Gives the files of the request to the task itself: what was said before a thread can be
    /// trimmed, and the files belong to the work.
    pub fn pass_files(&mut self, plan: &PlanId, task: &TaskId) {
        let request = self.request.as_ref();
        let Some((request, files)) = request.filter(|(_, files)| !files.is_empty()) else {
            return;
        };
        let thread = self.tasks.get_mut(&(plan.clone(), task.clone()));
        let told = thread.and_then(|thread| {
            let mut thread = thread.iter_mut();
            thread.find(|message| message.role == Role::User)
        });
        if let Some(told) = told {
            told.attachments.clone_from(files);
            let mut said = self.said.iter_mut();
            if let Some(said) = said.find(|message| message.message_id == *request) {
                *said = without_files(said.clone());
            }
        }
    }

    pub fn push(&mut self, record: &MessageRecord, limits: &PromptLimits) {
        // What comes late from an earlier turn is news to the current one.
        if self.turn.is_none_or(|turn| turn < record.turn) {
            self.turn = Some(record.turn);
            forget_reasoning(&mut self.current);
            self.earlier.append(&mut self.current);
            let surplus = self.earlier.len().saturating_sub(self.keep);
            self.earlier.drain(..surplus);
            self.tasks.clear();
        }
        if record.task.is_none() && is_known_as_result(&record.message, None) {
            return;
        }
        let message = for_prompts(&record.message, limits);
        match record.task.as_ref().map(thread_of) {
            None => self.current.push(message),
            // A thread that no step needed yet is read when one does.
            Some(thread) => {
                let thread = thread.and_then(|thread| self.tasks.get_mut(&thread));
                thread
                    .into_iter()
                    .for_each(|thread| thread.push(message.clone()));
            }
        }
    }

    pub fn history(&self) -> History<'_> {
        History {
            earlier: &self.earlier,
            current: &self.current,
        }
    }

    /// What a thread of the turn sees: its own messages, and before them what was said in the
    /// session.
    pub fn history_of(&self, origin: &TaskOrigin) -> History<'_> {
        match thread_of(origin).and_then(|thread| self.tasks.get(&thread)) {
            Some(thread) => History {
                earlier: &self.said,
                current: thread,
            },
            None => self.history(),
        }
    }
}

async fn stored_files(
    store: &Store,
    (user, key): (UserId, SessionKey),
    plan: &PlanId,
    request: &MessageId,
) -> Result<Vec<Attachment>, StoreError> {
    let mine = store.of(user);
    let Some(plan) = mine.plan(key, plan).await? else {
        return Ok(Vec::new());
    };
    let asked = mine.request(key, plan.turn).await?;
    let asked = asked.filter(|asked| asked.message.message_id == *request);
    Ok(asked
        .map(|asked| asked.message.attachments)
        .unwrap_or_default())
}

/// Two plans of a session can use the same task id.
fn thread_of(origin: &TaskOrigin) -> Option<(PlanId, TaskId)> {
    origin.plan_id.clone().zip(origin.task_id.clone())
}

/// Providers want reasoning back only within the turn.
fn forget_reasoning(messages: &mut [Message]) {
    messages
        .iter_mut()
        .for_each(|message| message.reasoning = None);
}
