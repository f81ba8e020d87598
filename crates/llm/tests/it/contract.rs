//! What every wire must do. Each case runs once for each wire, from the same script.

use std::time::Duration;

use codelab_fakemodel::{FakeModel, Fault, Gate, ModelWire, RecordedRequest, Reply};
use codelab_llm::{
    DEFAULT_PROVIDER, Model, ModelAuth, Models, ModelsConfig, ProviderKind, Secret, StreamedPart,
};
use codelab_protocol::{
    CallId, ModelFailureKind, ModelMessage, ModelRequest, ModelToolCall, Reasoning,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::harness::{Outcome, SHORT, call_with, config, request};

/// More than any limit of these tests.
const HUNG: Duration = Duration::from_secs(20);
const KINDS: [(ProviderKind, ModelWire); 2] = [
    (ProviderKind::Openai, ModelWire::OpenAi),
    (ProviderKind::Anthropic, ModelWire::Anthropic),
];

/// One scripted server, and a client that speaks to it over one wire.
struct Bench {
    server: FakeModel,
    config: ModelsConfig,
    wire: ModelWire,
}

impl Bench {
    async fn each() -> Vec<Self> {
        let mut benches = Vec::new();
        for (kind, wire) in KINDS {
            let server = FakeModel::start().await;
            let mut config = config(&server);
            let provider = config.providers.get_mut(DEFAULT_PROVIDER).unwrap();
            provider.kind = kind;
            provider.auth = ModelAuth::Key(Secret::new("k1"));
            benches.push(Self {
                server,
                config,
                wire,
            });
        }
        benches
    }

    fn models(&self) -> Models {
        Models::new(self.config.clone()).expect("usable settings")
    }

    async fn call(&self, request: &ModelRequest) -> Outcome {
        tokio::time::timeout(HUNG, call_with(&self.models(), request))
            .await
            .expect("the call hung")
    }

    async fn answer_to(&self, reply: Reply) -> Outcome {
        self.server.reply(reply);
        self.call(&request()).await
    }

    fn last_request(&self) -> RecordedRequest {
        self.server.requests().pop().expect("a request")
    }
}

#[tokio::test]
async fn text_arrives_piece_by_piece_before_the_end() {
    for bench in Bench::each().await {
        let gate = Gate::new();
        let reply = Reply::text("one two three").with_reasoning("well now", 2);
        bench.server.reply(reply.hold_after_deltas(5, &gate));
        let (heard, mut parts) = mpsc::unbounded_channel();
        let mut hear = |part: StreamedPart<'_>| match part {
            StreamedPart::Text(text) => heard.send(text.to_owned()).unwrap(),
            StreamedPart::Reasoning(text) => heard.send(format!("({text})")).unwrap(),
            StreamedPart::ToolCall => {}
            other => panic!("{other:?}"),
        };
        let watch = async {
            let mut seen = String::new();
            while !seen.replace(")(", "").ends_with("(well now)one two ") {
                seen.push_str(&parts.recv().await.unwrap());
            }
            gate.open();
        };
        let (models, request) = (bench.models(), request());
        let (output, ()) = tokio::join!(models.call(&request, &mut hear), watch);
        let output = output.unwrap();
        assert_eq!(output.text, "one two three", "{:?}", bench.wire);
        assert_eq!(output.reasoning.unwrap().text, "well now");
        assert_eq!(bench.last_request().wire, bench.wire);
    }
}

#[tokio::test]
async fn tool_calls_come_back_as_the_model_wrote_them() {
    let arguments = json!({"path": "a.md", "content": "її\n"});
    for bench in Bench::each().await {
        let write = || Reply::tool_call("write_file", arguments.clone()).with_text("Writing it.");
        for reply in [
            write(),
            write().split_arguments(7),
            write().not_streamed_json(),
        ] {
            let outcome = bench.answer_to(reply).await;
            let output = outcome.result.unwrap();
            assert_eq!(outcome.shown, "Writing it.", "{:?}", bench.wire);
            let [call] = output.tool_calls.as_slice() else {
                panic!("{output:?}")
            };
            let written: Value = serde_json::from_str(&call.arguments).unwrap();
            assert_eq!((call.name.as_str(), &written), ("write_file", &arguments));
        }
        let calls = Reply::tool_calls(vec![("a", json!({})), ("b", json!({"x": 1}))]);
        let output = bench.answer_to(calls).await.result.unwrap();
        let calls: Vec<_> = output
            .tool_calls
            .iter()
            .map(|call| (call.name.as_str(), call.arguments.as_str()))
            .collect();
        assert_eq!(
            calls,
            [("a", "{}"), ("b", r#"{"x":1}"#)],
            "{:?}",
            bench.wire
        );
        let broken = Reply::tool_call_raw("a", "{\"x\": ");
        let output = bench.answer_to(broken).await.result.unwrap();
        assert_eq!(
            output.tool_calls[0].arguments, "{\"x\": ",
            "the model's words"
        );
    }
}

#[tokio::test]
async fn usage_counts_cached_tokens_as_a_part_of_the_prompt() {
    for bench in Bench::each().await {
        for reply in [
            Reply::text_with_usage("a", 1000, 500).with_cached(600, 300),
            Reply::text_with_usage("a", 1000, 500)
                .with_cached(600, 300)
                .not_streamed_json(),
        ] {
            let usage = bench.answer_to(reply).await.result.unwrap().usage.unwrap();
            let counts = (
                usage.prompt_tokens,
                usage.cached_tokens,
                usage.completion_tokens,
                usage.total_tokens,
            );
            assert_eq!(counts, (1000, 600, 500, 1500), "{:?}", bench.wire);
            let written = match bench.wire {
                // OpenAI does not tell it.
                ModelWire::OpenAi => 0,
                ModelWire::Anthropic => 300,
            };
            assert_eq!(usage.cache_write_tokens, written);
            assert!(usage.cost_usd.is_some_and(|cost| cost > 0.0), "{usage:?}");
        }
        let output = bench
            .answer_to(Reply::text("a").without_usage())
            .await
            .result
            .unwrap();
        assert_eq!(output.usage, None, "{:?}", bench.wire);
    }
}

#[tokio::test]
async fn reasoning_goes_back_unchanged_to_its_model_only() {
    for bench in Bench::each().await {
        let thoughtful = Reply::tool_call("read_file", json!({"path": "a.md"}))
            .with_reasoning("look at it", 3)
            .with_text("Reading.");
        let outcome = bench.answer_to(thoughtful).await;
        let output = outcome.result.unwrap();
        assert_eq!(
            (outcome.reasoning.as_str(), outcome.shown.as_str()),
            ("look at it", "Reading.")
        );
        let kept = output.reasoning.expect("reasoning is kept");
        let stranger = Box::new(Reasoning {
            provider: "stranger".to_owned(),
            ..Reasoning::clone(&kept)
        });
        let other_model = Box::new(Reasoning {
            model: Some("another".to_owned()),
            ..Reasoning::clone(&kept)
        });
        for (reasoning, comes) in [
            (Some(kept), true),
            (Some(stranger), false),
            (Some(other_model), false),
            (None, false),
        ] {
            bench.server.reply(Reply::text("done"));
            bench
                .call(&after_a_tool_call(reasoning))
                .await
                .result
                .unwrap();
            let body = bench.last_request().body;
            let answer = body["messages"]
                .as_array()
                .unwrap()
                .iter()
                .find(|message| message["role"] == "assistant")
                .unwrap();
            let sent = match bench.wire {
                ModelWire::OpenAi => answer["reasoning_content"] == "look at it",
                ModelWire::Anthropic => {
                    let first = &answer["content"][0];
                    first["type"] == "thinking"
                        && first["thinking"] == "look at it"
                        && first["signature"]
                            .as_str()
                            .is_some_and(|text| !text.is_empty())
                }
            };
            assert_eq!(sent, comes, "{:?}: {body:#}", bench.wire);
            assert_eq!(body.to_string().contains("look at it"), comes, "{body:#}");
        }
    }
}

fn after_a_tool_call(reasoning: Option<Box<Reasoning>>) -> ModelRequest {
    let mut request = request();
    let call_id = CallId::parse("c1").unwrap();
    request.messages.push(ModelMessage::Assistant {
        content: "Reading.".to_owned(),
        tool_calls: vec![ModelToolCall {
            call_id: call_id.clone(),
            name: "read_file".to_owned(),
            arguments: json!({"path": "a.md"}).as_object().unwrap().clone(),
        }],
        reasoning,
    });
    request.messages.push(ModelMessage::Tool {
        call_id,
        content: "text".to_owned(),
        files: Vec::new(),
    });
    request
}

#[tokio::test]
async fn every_fault_has_its_kind_and_the_words_of_the_provider() {
    use ModelFailureKind as Kind;
    for bench in Bench::each().await {
        for (fault, kind, requests, said) in [
            (Fault::WrongKey, Kind::WrongKey, 1, "key"),
            (
                Fault::UnknownModel("gpt-4".to_owned()),
                Kind::UnknownModel,
                1,
                "gpt-4",
            ),
            (Fault::ContextTooLong, Kind::ContextTooLong, 1, "maximum"),
            (Fault::ContentFilter, Kind::ContentFilter, 1, "filter"),
            (Fault::RateLimit, Kind::RateLimit, 3, "per minute"),
            (Fault::Quota, Kind::Quota, 1, "illing"),
            (Fault::Overloaded, Kind::Overloaded, 3, "verloaded"),
            (Fault::ServerError, Kind::ServerError, 3, "erver"),
            (Fault::Timeout, Kind::Timeout, 3, "timed out"),
        ] {
            bench.server.reset();
            bench.server.default_reply(Reply::fault(fault.clone()));
            let before = bench.server.request_count();
            let failure = bench.call(&request()).await.result.unwrap_err();
            let context = format!("{:?} {fault:?}: {failure:?}", bench.wire);
            assert_eq!(failure.kind, Some(kind), "{context}");
            assert_eq!(bench.server.request_count() - before, requests, "{context}");
            assert!(
                failure
                    .provider_message
                    .as_ref()
                    .is_some_and(|words| words.contains(said)),
                "{context}"
            );
            assert!(failure.message.contains(said), "{context}");
            // What a person reads has no key.
            assert!(!failure.message.contains("k1"), "{context}");
        }
    }
}

#[tokio::test]
async fn an_error_in_a_stream_that_began_well_is_told() {
    for bench in Bench::each().await {
        let broken = || Reply::text("one two three").fault_after_deltas(2, Fault::Overloaded);
        let outcome = bench.answer_to(broken()).await;
        let failure = outcome.result.unwrap_err();
        let context = format!("{:?}: {failure:?}", bench.wire);
        assert_eq!(
            failure.kind,
            Some(ModelFailureKind::Overloaded),
            "{context}"
        );
        assert!(failure.message.contains("verloaded"), "{context}");
        assert_eq!(outcome.shown, "one ", "{context}");
        assert_eq!(
            bench.server.request_count(),
            1,
            "what was shown cannot be taken back"
        );

        // Nothing was shown yet, so another attempt hurts nobody.
        bench
            .server
            .reply(Reply::text("one").fault_after_deltas(1, Fault::Overloaded));
        let outcome = bench.answer_to(Reply::text("now")).await;
        assert_eq!(outcome.result.unwrap().text, "now", "{:?}", bench.wire);
        assert_eq!(bench.server.request_count(), 3);
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_anywhere_is_an_error() {
    /// Every byte is cut in the tests of the parsers. Here a few go over the network.
    const STEP: usize = 61;
    for bench in Bench::each().await {
        let whole = || {
            Reply::tool_call("write_file", json!({"path": "a.md"}))
                .with_reasoning("so so", 2)
                .with_text("Так і є.")
                .split_arguments(3)
        };
        let mut cuts = 0;
        for cut in (0..900).step_by(STEP) {
            let outcome = bench.answer_to(whole().cut_after_bytes(cut)).await;
            let failure = outcome.result.expect_err("a cut stream is no answer");
            assert_eq!(
                failure.message, "The model's answer was cut off.",
                "{:?} {cut}",
                bench.wire
            );
            assert!(
                "Так і є.".starts_with(&outcome.shown),
                "{cut}: {}",
                outcome.shown
            );
            cuts += 1;
        }
        assert!(cuts > 10);
        let outcome = bench.answer_to(whole()).await;
        assert_eq!(outcome.result.unwrap().text, "Так і є.");
    }
}

#[tokio::test]
async fn silence_ends_in_time_and_dropping_a_call_hangs_up() {
    for mut bench in Bench::each().await {
        bench.config.limits.idle_timeout = SHORT;
        let outcome = bench
            .answer_to(Reply::text("one two").hang_after_deltas(2))
            .await;
        let failure = outcome.result.unwrap_err();
        assert_eq!(
            (failure.code.as_str(), outcome.shown.as_str()),
            ("LLM_TIMEOUT", "one ")
        );

        bench.server.reply(Reply::hang());
        let (models, request) = (bench.models(), request());
        let mut hear = |_: StreamedPart<'_>| {};
        tokio::select! {
            outcome = models.call(&request, &mut hear) => panic!("{outcome:?}"),
            () = bench.server.wait_until_in_flight(1) => {}
        }
        bench.server.wait_until_in_flight(0).await;
    }
}

#[tokio::test]
async fn cut_and_refused_answers_say_so() {
    for bench in Bench::each().await {
        let cut = Reply::text("half of").with_finish_reason("length");
        let output = bench.answer_to(cut).await.result.unwrap();
        assert!(
            output.cut.is_some() && !output.warnings.is_empty(),
            "{output:?}"
        );
        let refused = Reply::refusal("I will not.");
        let output = bench.answer_to(refused).await.result.unwrap();
        assert_eq!(output.text, "I will not.", "{:?}", bench.wire);
    }
}

#[tokio::test]
async fn the_key_goes_where_the_provider_looks_for_it_and_models_are_listed() {
    for bench in Bench::each().await {
        bench.answer_to(Reply::text("ok")).await.result.unwrap();
        let sent = bench.last_request();
        let keys = (sent.header("authorization"), sent.header("x-api-key"));
        let wanted = match bench.wire {
            ModelWire::OpenAi => (Some("Bearer k1"), None),
            ModelWire::Anthropic => (None, Some("k1")),
        };
        assert_eq!(keys, wanted);
        bench.server.offer(&["m1", "m2"]);
        let list = bench.models().models().await;
        let names: Vec<&str> = list
            .models
            .iter()
            .map(|model| model.model.as_str())
            .collect();
        assert_eq!(names, ["m1", "m2"], "{:?}: {list:?}", bench.wire);
    }
}
