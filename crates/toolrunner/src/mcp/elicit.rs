//! Questions of a server to the person, during a call. CodeLab's server asks the person; the answer
//! comes back in the stream of events, perhaps before the request for it has ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use codelab_client::{Backoff, Client, ClientError};
use codelab_mcp::ElicitReply;
use codelab_protocol::{CallId, ClientId, ElicitAnswer, SessionId, elicited_content};
use codelab_workspace::CallKey;
use serde_json::{Map, Value};
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::lock;

/// Answers that are kept while the requests for them have not ended.
const MAX_EARLY: usize = 64;
/// Attempts to ask while the server is unavailable.
const ASK_ATTEMPTS: u32 = 5;

/// Answers of people on their way to the calls that wait for them.
#[derive(Default)]
pub(crate) struct Answers(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    /// Sessions in which something is being asked, and how often.
    asking: HashMap<SessionId, usize>,
    /// By the id of the question.
    waiting: HashMap<CallKey, oneshot::Sender<Option<String>>>,
    early: HashMap<CallKey, Option<String>>,
}

/// While it lives, answers of its session are kept.
struct Asking {
    answers: Arc<Answers>,
    session: SessionId,
}

impl Answers {
    /// A question was answered, or closed without an answer.
    pub fn arrived(&self, session: &SessionId, question: &CallId, answer: Option<&str>) {
        let mut state = lock(&self.0);
        if !state.asking.contains_key(session) {
            return;
        }
        let key = key_of(session, question);
        let answer = answer.map(str::to_owned);
        match state.waiting.remove(&key) {
            // The call may have ended meanwhile.
            Some(waiting) => drop(waiting.send(answer)),
            // The answer comes before the question is closed, and counts.
            None if state.early.len() < MAX_EARLY => {
                state.early.entry(key).or_insert(answer);
            }
            None => tracing::debug!("answer dropped, too many of them wait"),
        }
    }

    fn begin(self: &Arc<Self>, session: &SessionId) -> Asking {
        *lock(&self.0).asking.entry(session.clone()).or_default() += 1;
        Asking {
            answers: Arc::clone(self),
            session: session.clone(),
        }
    }
}

impl Asking {
    fn wait_for(&self, question: &CallId) -> oneshot::Receiver<Option<String>> {
        let key = key_of(&self.session, question);
        let (sender, answer) = oneshot::channel();
        let mut state = lock(&self.answers.0);
        match state.early.remove(&key) {
            Some(early) => drop(sender.send(early)),
            None => drop(state.waiting.insert(key, sender)),
        }
        answer
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        let mut state = lock(&self.answers.0);
        let Some(asking) = state.asking.get_mut(&self.session) else {
            return;
        };
        *asking -= 1;
        if *asking == 0 {
            let session = &self.session;
            state.asking.remove(session);
            state.waiting.retain(|key, _| key.session_id != *session);
            state.early.retain(|key, _| key.session_id != *session);
        }
    }
}

/// A question of the server that works on a call.
pub(super) struct ElicitedQuestion {
    pub client: Client,
    pub client_id: ClientId,
    pub call: CallKey,
    /// Which one of the call's questions it is.
    pub question_key: u32,
    pub message: String,
    pub requested_schema: Map<String, Value>,
}

impl ElicitedQuestion {
    /// Asks the person and waits for the answer. Without one the server is told that the person
    /// gave none.
    pub async fn ask(self, answers: Arc<Answers>) -> ElicitReply {
        let asking = answers.begin(&self.call.session_id);
        let asked = match self.send().await {
            Ok(asked) => asked,
            Err(error) => {
                tracing::warn!(%error, call = %self.call.call_id, "question of an MCP server not asked");
                return ElicitReply::Cancel;
            }
        };
        match asking.wait_for(&asked).await {
            Ok(Some(answer)) => match elicited_content(&self.requested_schema, &answer) {
                Ok(Some(content)) => ElicitReply::Accept(content),
                // The server checks answers before it accepts them, so none is wrong here.
                Ok(None) | Err(_) => ElicitReply::Decline,
            },
            Ok(None) | Err(_) => ElicitReply::Cancel,
        }
    }

    async fn send(&self) -> Result<CallId, ClientError> {
        let body = ElicitAnswer {
            client_id: self.client_id.clone(),
            question_key: Some(self.question_key),
            message: self.message.clone(),
            requested_schema: self.requested_schema.clone(),
        };
        let mut attempt = 0;
        loop {
            let (session, call) = (&self.call.session_id, &self.call.call_id);
            let asked = self.client.elicit_answer(session, call, &body).await;
            attempt += 1;
            match asked {
                Ok(asked) => return Ok(asked),
                Err(error) if !error.is_passing() || attempt >= ASK_ATTEMPTS => return Err(error),
                Err(_) => sleep(Backoff::default().delay(attempt)).await,
            }
        }
    }
}

fn key_of(session: &SessionId, question: &CallId) -> CallKey {
    CallKey {
        session_id: session.clone(),
        call_id: question.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(text: &str) -> SessionId {
        SessionId::parse(text).unwrap()
    }

    fn call(text: &str) -> CallId {
        CallId::parse(text).unwrap()
    }

    #[tokio::test]
    async fn an_answer_is_found_whether_it_comes_before_or_after() {
        let answers = Arc::new(Answers::default());
        let (one, other) = (session("one"), session("other"));
        answers.arrived(&one, &call("q0"), Some("nobody asked"));
        let asking = answers.begin(&one);
        assert!(
            lock(&answers.0).asking.contains_key(&one)
                && !lock(&answers.0).asking.contains_key(&other)
        );
        answers.arrived(&one, &call("q1"), Some("early"));
        answers.arrived(&one, &call("q1"), None);
        answers.arrived(&other, &call("q1"), Some("another session"));
        let early = asking.wait_for(&call("q1")).await.unwrap();
        assert_eq!(early.as_deref(), Some("early"));
        let later = asking.wait_for(&call("q2"));
        let closed = asking.wait_for(&call("q3"));
        answers.arrived(&one, &call("q2"), Some("later"));
        answers.arrived(&one, &call("q3"), None);
        assert_eq!(later.await.unwrap().as_deref(), Some("later"));
        assert_eq!(closed.await.unwrap(), None);
        let never = asking.wait_for(&call("q4"));
        drop(asking);
        assert!(never.await.is_err());
        assert!(!lock(&answers.0).asking.contains_key(&one) && lock(&answers.0).early.is_empty());
    }
}
