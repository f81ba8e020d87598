//! The Chat moves between two servers that share a database.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use codelab_engine::{AgentMode, ChatLimits, IdBlock, Region, Team};
use codelab_llm::{Model, ModelDescription, Price, StreamListener};
use codelab_memory::{EmbeddedOptions, Memory};
use codelab_policy::Policy;
use codelab_protocol::{
    GlobalMessage, GlobalMeta, ModelFailure, ModelList, ModelMessage, ModelOutput, ModelRequest,
    RawToolCall,
};
use codelab_runtime::{
    AgentCache, ChatNews, ChatReader, ClusterOptions, GlobalChat, Metrics, NoAnswer, Runtime,
    RuntimeError, RuntimeParts, now,
};
use codelab_store::{DatabaseUrl, Store, StoreOptions};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::{mpsc, oneshot};

const SOON: Duration = Duration::from_secs(30);

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, what).await.expect("in time")
}

/// A call that waits until the test answers it. Its sender is closed when the call is given up.
struct WaitingCall {
    request: String,
    answer: oneshot::Sender<ModelOutput>,
}

impl WaitingCall {
    fn say(self, text: &str) {
        self.answer_with(ModelOutput {
            text: text.to_owned(),
            ..ModelOutput::default()
        });
    }

    fn ask(self, question: &str) {
        let name = "ask_followup_question".to_owned();
        let arguments = json!({ "question": question }).to_string();
        self.answer_with(ModelOutput {
            tool_calls: vec![RawToolCall { name, arguments }],
            ..ModelOutput::default()
        });
    }

    fn answer_with(self, output: ModelOutput) {
        assert!(self.answer.send(output).is_ok(), "the call still runs");
    }
}

struct ByHand(mpsc::UnboundedSender<WaitingCall>);

impl Model for ByHand {
    fn call<'a>(
        &'a self,
        request: &'a ModelRequest,
        _: &'a mut StreamListener<'a>,
    ) -> BoxFuture<'a, Result<ModelOutput, ModelFailure>> {
        let (answer, answered) = oneshot::channel();
        let request = match request.messages.last() {
            Some(ModelMessage::User { content, .. }) => content.clone(),
            other => format!("{other:?}"),
        };
        let _ = self.0.send(WaitingCall { request, answer });
        async { Ok(answered.await.unwrap()) }.boxed()
    }

    fn try_once<'a>(
        &'a self,
        _request: &'a ModelRequest,
    ) -> BoxFuture<'a, Result<(), ModelFailure>> {
        Box::pin(async { Ok(()) })
    }

    fn price(&self, _: &str) -> Option<Price> {
        None
    }

    fn window(&self, _: &str) -> Option<u64> {
        None
    }

    fn takes_images(&self, _: &str) -> bool {
        true
    }

    fn models(&self) -> BoxFuture<'_, ModelList> {
        std::future::ready(ModelList::default()).boxed()
    }

    fn describe(&self) -> ModelDescription {
        ModelDescription {
            label: "by hand".to_owned(),
            demo: false,
        }
    }
}

struct Server {
    runtime: Runtime,
    calls: mpsc::UnboundedReceiver<WaitingCall>,
}

impl Server {
    async fn start(store: &Store, folder: &TempDir, name: &str) -> Self {
        let (model, calls) = mpsc::unbounded_channel();
        let memory = EmbeddedOptions::new(folder.path().join(name));
        let runtime = Runtime::start(RuntimeParts {
            store: store.clone(),
            model: Arc::new(ByHand(model)),
            team: Team::built_in(AgentMode::Single).unwrap(),
            limits: Default::default(),
            prompt: Default::default(),
            region: Region::default(),
            log_prompts: false,
            policy: Policy::default(),
            default_model: "by hand".to_owned(),
            metrics: Metrics::new(),
            live: Default::default(),
            server_id: name.to_owned(),
            cluster: ClusterOptions {
                address: Some(format!("http://{name}")),
                fingerprint: None,
            },
            failpoint: Default::default(),
            retention: Default::default(),
            cache: AgentCache::memory(Default::default()),
            memory: Memory::embedded(memory, None),
            bus: Default::default(),
            mcp: Default::default(),
            space_idle_seconds: 1800,
            chat: ChatLimits::default(),
            shares: Default::default(),
        });
        Self {
            runtime: runtime.await.unwrap(),
            calls,
        }
    }

    fn chat(&self) -> &Arc<GlobalChat> {
        self.runtime.global_chat()
    }

    fn tell(&self, text: &str) -> i64 {
        let told = self.chat().post_agent("ci", text, GlobalMeta::default());
        told.unwrap().get()
    }

    fn say(&self, text: &str) -> i64 {
        self.chat().post_user(text, None).unwrap().get()
    }

    fn said(&self) -> Vec<String> {
        texts(&self.chat().last(100).unwrap())
    }

    async fn call(&mut self, request: &str) -> WaitingCall {
        let call = soon(self.calls.recv()).await.unwrap();
        assert_eq!(call.request, request);
        call
    }
}

fn texts(messages: &[Arc<GlobalMessage>]) -> Vec<String> {
    messages
        .iter()
        .map(|message| message.text.clone())
        .collect()
}

/// The next messages. Pieces of an answer are left out.
async fn next_page(reader: &mut ChatReader) -> Option<Vec<Arc<GlobalMessage>>> {
    loop {
        if let ChatNews::Messages(page) = soon(reader.next()).await? {
            return Some(page);
        }
    }
}

async fn until_read(reader: &mut ChatReader, text: &str) -> Arc<GlobalMessage> {
    loop {
        let page = next_page(reader).await.expect("the Chat is here");
        if let Some(found) = page.iter().find(|message| message.text.contains(text)) {
            return Arc::clone(found);
        }
    }
}

/// Two servers. The first one owns the Chat.
async fn servers() -> (Store, Server, Server, TempDir) {
    let store = Store::open(StoreOptions::new(DatabaseUrl::SqliteMemory));
    let (store, folder) = (store.await.unwrap(), TempDir::new().unwrap());
    let first = Server::start(&store, &folder, "first").await;
    let second = Server::start(&store, &folder, "second").await;
    first.chat().take_over(&store).await.unwrap();
    (store, first, second, folder)
}

async fn move_chat(store: &Store, from: &Server, to: &Server) {
    from.chat().hand_over(store).await.unwrap();
    // Whoever does not have the Chat has nothing to hand over.
    from.chat().hand_over(store).await.unwrap();
    to.chat().take_over(store).await.unwrap();
}

#[tokio::test]
async fn what_was_said_and_asked_goes_along_and_readers_resume() {
    let (store, a, b, _folder) = servers().await;
    let mut reader = a.chat().read(None, 100).unwrap();
    let seen = a.tell("The build is green");
    assert_eq!(
        texts(&next_page(&mut reader).await.unwrap()),
        ["The build is green"]
    );
    let ask = |server: &Server, author: &str, text: &str| {
        let asked = server.chat().ask_user(author, text, GlobalMeta::default());
        asked.unwrap()
    };
    let shown = ask(&a, "deploy", "Now?");
    let queued = ask(&a, "backup", "Where to?");
    let given_up = soon(shown.wait_user(Some(SOON)));
    let ((), gave_up) = tokio::join!(move_chat(&store, &a, &b), given_up);
    assert_eq!(gave_up, Err(NoAnswer::Moved));
    assert_eq!(
        soon(queued.wait_user(None)).await,
        Err(NoAnswer::Moved),
        "also if it begins to wait only now"
    );
    assert!(next_page(&mut reader).await.is_none());

    assert_eq!(b.said(), ["The build is green", "Now?"]);
    let mut reader = b.chat().read(Some(seen), 0).unwrap();
    assert_eq!(texts(&next_page(&mut reader).await.unwrap()), ["Now?"]);
    let back = ask(&b, "deploy", "Now?");
    let answered = b.say("yes");
    assert_eq!(soon(back.wait_user(None)).await.unwrap().answer, "yes");
    assert_eq!(
        texts(&next_page(&mut reader).await.unwrap()),
        ["yes", "Where to?"]
    );
    assert!(answered > seen);

    // The user answers before the other asker is back, and the Chat moves once more.
    b.say("the moon");
    move_chat(&store, &b, &a).await;
    let back = ask(&a, "backup", "Where to?");
    assert_eq!(soon(back.wait_user(None)).await.unwrap().answer, "the moon");
    assert!(a.tell("The build is red") > answered);
    assert_eq!(a.said().len(), 6);
}

#[tokio::test]
async fn a_server_without_the_chat_says_so() {
    let (store, a, b, _folder) = servers().await;
    fn elsewhere<T>(answer: Result<T, RuntimeError>) -> bool {
        matches!(answer, Err(RuntimeError::Elsewhere))
    }
    let chat = b.chat();
    assert!(!chat.is_here() && a.chat().is_here());
    assert!(elsewhere(chat.post_user("hello", None)));
    assert!(elsewhere(chat.post_agent(
        "ci",
        "built",
        GlobalMeta::default()
    )));
    assert!(elsewhere(chat.ask_user(
        "ci",
        "Go on?",
        GlobalMeta::default()
    )));
    assert!(elsewhere(chat.last(1)));
    assert!(elsewhere(chat.after(0, 1)));
    assert!(elsewhere(chat.read(None, 1)));
    assert_eq!(chat.release(), None);
    // The owner before crashed: nothing was left, and ids grow all the same.
    let last = a.tell("lost");
    chat.take_over(&store).await.unwrap();
    assert_eq!(b.said(), Vec::<String>::new());
    assert!(b.tell("found") > last);
    let mut reader = chat.read(Some(last), 0).unwrap();
    assert_eq!(texts(&next_page(&mut reader).await.unwrap()), ["found"]);
}

#[tokio::test]
async fn adaptive_agent_goes_on_at_the_new_owner() {
    let (store, mut a, mut b, _folder) = servers().await;
    a.say("one");
    let mut given_up = a.call("one").await;
    a.say("two");
    move_chat(&store, &a, &b).await;
    soon(given_up.answer.closed()).await;

    let mut reader = b.chat().read(None, 0).unwrap();
    b.call("one").await.say("1");
    until_read(&mut reader, "1").await;
    b.call("two").await.say("2");
    until_read(&mut reader, "2").await;
    b.say("three");
    let mut given_up = b.call("three").await;
    move_chat(&store, &b, &a).await;
    soon(given_up.answer.closed()).await;
    let mut reader = a.chat().read(None, 0).unwrap();
    a.call("three").await.say("3");
    until_read(&mut reader, "3").await;
    assert_eq!(a.said(), ["one", "two", "1", "2", "three", "3"]);
    a.say("four");
    a.call("four").await;
    assert!(b.calls.is_empty());
}

#[tokio::test]
async fn an_answer_that_was_stopped_is_not_begun_again_by_the_new_owner() {
    let (store, mut a, mut b, _folder) = servers().await;
    let stopped = "A program stopped the answer.";
    a.say("one");
    let mut given_up = a.call("one").await;
    assert!(a.chat().cancel(None).unwrap());
    move_chat(&store, &a, &b).await;
    soon(given_up.answer.closed()).await;
    assert_eq!(b.said(), ["one", stopped]);
    // It is stopped before its work begins.
    b.say("two");
    assert!(b.chat().cancel(None).unwrap());
    let mut reader = b.chat().read(None, 0).unwrap();
    until_read(&mut reader, stopped).await;
    b.say("three");
    b.call("three").await.say("3");
    until_read(&mut reader, "3").await;
    assert_eq!(b.said(), ["one", stopped, "two", stopped, "three", "3"]);
}

#[tokio::test]
async fn a_question_of_adaptive_agent_is_shown_once() {
    let (store, mut a, mut b, _folder) = servers().await;
    let mut reader = a.chat().read(None, 0).unwrap();
    a.say("Deploy it");
    a.call("Deploy it").await.ask("Where to?");
    until_read(&mut reader, "Where to?").await;
    move_chat(&store, &a, &b).await;
    let mut reader = b.chat().read(None, 0).unwrap();
    b.call("Deploy it").await.ask("Where to?");
    b.say("prod");
    let answered = soon(b.calls.recv()).await.unwrap();
    assert!(answered.request.contains("prod"), "{}", answered.request);
    answered.say("Deployed.");
    until_read(&mut reader, "Deployed.").await;
    assert_eq!(b.said(), ["Deploy it", "Where to?", "prod", "Deployed."]);
}

#[tokio::test]
async fn a_question_ends_when_its_asker_stays_away() {
    let (store, a, b, _folder) = servers().await;
    let last = a.tell("built");
    let handover = serde_json::from_value(json!({
        "shown": { "question_id": last, "author": "deploy", "text": "Now?", "expires_at": now() },
        "queued": [{ "author": "backup", "text": "Where to?" }],
    }));
    let (after, until) = store.reserve_chat_ids(0, 10_000).await.unwrap();
    b.chat()
        .begin(IdBlock { after, until }, Some(handover.unwrap()));
    let mut reader = b.chat().read(Some(last), 0).unwrap();
    let ended = until_read(&mut reader, "deploy gets no answer in time").await;
    let meta = ended.meta.clone().unwrap();
    assert_eq!(meta.reply_to.map(|id| id.get()), Some(last));
    assert_eq!(b.said()[1..], ["Where to?"]);
}

#[tokio::test]
async fn the_newest_messages_go_along_as_far_as_there_is_room() {
    let (store, a, b, _folder) = servers().await;
    let long = "x".repeat(32 * 1024 - 10);
    let told: Vec<i64> = (0..300).map(|n| a.tell(&format!("{n} {long}"))).collect();
    move_chat(&store, &a, &b).await;
    let kept = b.chat().after(0, 1000).unwrap();
    assert!((200..300).contains(&kept.len()), "{}", kept.len());
    let ids: Vec<i64> = kept.iter().map(|message| message.id.get()).collect();
    assert_eq!(ids, told[300 - kept.len()..]);
}
