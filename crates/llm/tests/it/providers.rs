//! Several providers and models: who is asked, and who answers instead.

use std::time::Duration;

use codelab_fakemodel::{FakeModel, Fault, Reply};
use codelab_llm::{
    Model, ModelAuth, Models, ModelsConfig, ProviderConfig, ProviderKind, ProviderSettings,
};
use codelab_protocol::{ModelFailureKind, ModelRequest};

use crate::harness::{Outcome, SHORT, call, call_with, config, request};

fn provider(server: &FakeModel) -> ProviderConfig {
    let settings = ProviderSettings {
        kind: ProviderKind::Openai,
        url: server.url(),
        key_env: Some("KEY".to_owned()),
        key_file: None,
        thinking: None,
    };
    let key = |_: &str| Some("k-second".to_owned());
    settings.resolve("second", key).expect("usable settings")
}

/// The default provider, and one named `second`.
fn two(default: &FakeModel, second: &FakeModel) -> ModelsConfig {
    let mut config = config(default);
    config
        .providers
        .insert("second".to_owned(), provider(second));
    config
}

fn of(model: &str, fallbacks: &[&str]) -> ModelRequest {
    ModelRequest {
        model: model.to_owned(),
        fallback_models: fallbacks.iter().map(|&name| name.to_owned()).collect(),
        ..request()
    }
}

fn called(server: &FakeModel) -> Vec<String> {
    let requests = server.requests();
    let names = requests.iter().map(|sent| sent.body["model"].as_str());
    names.map(|name| name.expect("a name").to_owned()).collect()
}

fn answered_by(outcome: Outcome) -> String {
    let usage = outcome.result.expect("an answer").usage;
    usage.and_then(|usage| usage.model).expect("a model")
}

#[tokio::test]
async fn the_head_of_a_name_chooses_the_provider() {
    let (default, second) = (FakeModel::start().await, FakeModel::start().await);
    for server in [&default, &second] {
        server.default_reply(Reply::text("ok"));
    }
    let mut config = two(&default, &second);
    config
        .model_map
        .insert("gpt-4".to_owned(), "second/claude".to_owned());
    let models = Models::new(config).unwrap();
    for (asked, shown) in [
        ("second/llama/8b", "second/llama/8b"),
        ("other/llama", "other/llama"),
        ("default/plain", "default/plain"),
        ("gpt-4", "gpt-4"),
    ] {
        let outcome = call_with(&models, &of(asked, &[])).await;
        assert_eq!(answered_by(outcome), shown);
    }
    assert_eq!(called(&default), ["other/llama", "plain"]);
    assert_eq!(called(&second), ["llama/8b", "claude"]);
    let key = second.requests()[0]
        .header("authorization")
        .map(str::to_owned);
    assert_eq!(key.as_deref(), Some("Bearer k-second"));
}

#[tokio::test]
async fn without_a_default_provider_every_name_needs_one() {
    let second = FakeModel::start().await;
    second.default_reply(Reply::text("ok"));
    let mut config = ModelsConfig::default();
    config
        .providers
        .insert("second".to_owned(), provider(&second));
    let named = |model: &str| ModelsConfig {
        default_model: Some(model.to_owned()),
        ..config.clone()
    };
    let error = Models::new(config.clone()).err().unwrap().to_string();
    assert!(error.starts_with("LLM_MODEL must be set"), "{error}");
    let error = Models::new(named("gpt-4")).err().unwrap().to_string();
    assert!(error.starts_with("LLM_MODEL is \"gpt-4\""), "{error}");
    let models = Models::new(named("second/a")).unwrap();
    assert!(
        call_with(&models, &of("second/b", &[]))
            .await
            .result
            .is_ok()
    );
    let failure = call_with(&models, &of("gpt-4", &[]))
        .await
        .result
        .unwrap_err();
    assert_eq!(failure.kind, Some(ModelFailureKind::UnknownModel));
    assert!(failure.message.contains("names no provider"), "{failure:?}");
    let outcome = call_with(&models, &of("gpt-4", &["second/b"])).await;
    let (from, to) = ("gpt-4".to_owned(), "second/b".to_owned());
    let said = (from, to, ModelFailureKind::UnknownModel);
    assert_eq!(outcome.fallbacks, [said], "a fallback does not hide it");
    assert_eq!(
        outcome.result.unwrap().warnings,
        ["\"gpt-4\" names no provider; \"second/b\" answered instead."]
    );
    let forced = ModelsConfig {
        model_override: Some("second/c".to_owned()),
        ..config
    };
    let outcome = call(forced, &of("gpt-4", &[])).await;
    assert!(outcome.fallbacks.is_empty(), "nobody asked for gpt-4");
    assert_eq!(outcome.result.unwrap().warnings, Vec::<String>::new());
}

/// `usage.model`, the event and the warning all use the name that the person wrote.
#[tokio::test]
async fn a_mapped_model_keeps_its_configured_name() {
    let (default, second) = (FakeModel::start().await, FakeModel::start().await);
    default.default_reply(Reply::fault(Fault::Quota));
    second.default_reply(Reply::text_with_usage("hello", 1, 1));
    let mut config = two(&default, &second);
    for (name, called) in [("smart", "deployment-1"), ("spare", "second/deployment-2")] {
        config.model_map.insert(name.to_owned(), called.to_owned());
    }
    let outcome = call(config, &of("smart", &["spare"])).await;
    let said = (
        "smart".to_owned(),
        "spare".to_owned(),
        ModelFailureKind::Quota,
    );
    assert_eq!(outcome.fallbacks, [said]);
    let output = outcome.result.unwrap();
    assert_eq!(output.usage.unwrap().model.as_deref(), Some("spare"));
    assert_eq!(
        output.warnings,
        ["\"smart\" could not answer (quota); \"spare\" answered instead."]
    );
    assert_eq!(second.requests()[0].body["model"], "deployment-2");
}

#[tokio::test]
async fn another_model_answers_when_one_cannot() {
    for (fault, kind) in [
        (Reply::fault(Fault::RateLimit), ModelFailureKind::RateLimit),
        (Reply::fault(Fault::Quota), ModelFailureKind::Quota),
        (
            Reply::fault(Fault::Overloaded),
            ModelFailureKind::Overloaded,
        ),
        (
            Reply::fault(Fault::ServerError),
            ModelFailureKind::ServerError,
        ),
        (Reply::fault(Fault::Timeout), ModelFailureKind::Timeout),
        (Reply::hang(), ModelFailureKind::Timeout),
        (
            Reply::text("a b").cut_after_deltas(1),
            ModelFailureKind::ServerError,
        ),
        (
            Reply::text("a b").fault_after_deltas(1, Fault::Overloaded),
            ModelFailureKind::Overloaded,
        ),
    ] {
        let (default, second) = (FakeModel::start().await, FakeModel::start().await);
        default.default_reply(fault);
        second.default_reply(Reply::text_with_usage("hello", 1_000_000, 0));
        let mut config = two(&default, &second);
        config.limits.idle_timeout = SHORT;
        let outcome = call(config, &of("gpt-4", &["second/gpt-4o"])).await;
        assert_eq!(default.request_count(), 1, "{kind:?}: it is not retried");
        let fallback = ("gpt-4".to_owned(), "second/gpt-4o".to_owned(), kind);
        assert_eq!(outcome.fallbacks, [fallback]);
        assert_eq!(outcome.shown, "hello");
        let output = outcome.result.unwrap();
        assert!(output.warnings[0].contains("second/gpt-4o"), "{output:?}");
        let usage = output.usage.unwrap();
        assert_eq!(usage.model.as_deref(), Some("second/gpt-4o"));
        assert_eq!(
            usage.cost_usd,
            Some(2.5),
            "the price of the one that answered"
        );
    }
}

#[tokio::test]
async fn a_provider_that_is_gone_falls_back_and_the_settings_name_who_answers() {
    let second = FakeModel::start().await;
    second.default_reply(Reply::text("hello"));
    let gone = FakeModel::start().await.url();
    let mut config = ModelsConfig {
        fallback_models: vec!["second/b".to_owned()],
        ..ModelsConfig::new(gone, ModelAuth::None)
    };
    config
        .providers
        .insert("second".to_owned(), provider(&second));
    let outcome = call(config, &request()).await;
    assert_eq!(outcome.fallbacks[0].2, ModelFailureKind::Unreachable);
    assert_eq!(answered_by(outcome), "second/b");
}

#[tokio::test]
async fn what_another_model_would_not_mend_does_not_fall_back() {
    for fault in [Fault::WrongKey, Fault::ContextTooLong, Fault::ContentFilter] {
        let server = FakeModel::start().await;
        server.default_reply(Reply::fault(fault.clone()));
        let outcome = call(config(&server), &of("gpt-4", &["gpt-4o"])).await;
        assert!(
            outcome.result.is_err() && outcome.fallbacks.is_empty(),
            "{fault:?}"
        );
        assert_eq!(called(&server), ["gpt-4"]);
    }
    // Once something was shown, another model cannot take it back.
    let server = FakeModel::start().await;
    server.default_reply(Reply::text("one two").fault_after_deltas(2, Fault::Overloaded));
    let outcome = call(config(&server), &of("gpt-4", &["gpt-4o"])).await;
    let failure = outcome.result.unwrap_err();
    assert_eq!(failure.kind, Some(ModelFailureKind::Overloaded));
    assert_eq!(
        (outcome.shown.as_str(), server.request_count()),
        ("one ", 1)
    );
}

#[tokio::test]
async fn a_model_that_failed_rests_as_long_as_it_said() {
    let server = FakeModel::start().await;
    let is_first = |body: &serde_json::Value| body["model"] == "a";
    server.on(
        is_first,
        Reply::fault_with_headers(Fault::RateLimit, &[("retry-after", "3600")]),
    );
    server.default_reply(Reply::text("hello"));
    let models = Models::new(config(&server)).unwrap();
    let request = of("a", &["b", "c"]);
    for _ in 0..2 {
        let outcome = call_with(&models, &request).await;
        assert_eq!(outcome.fallbacks.len(), 1, "it is said each time");
        assert_eq!(answered_by(outcome), "b");
    }
    assert_eq!(called(&server), ["a", "b", "b"]);
}

#[tokio::test]
async fn the_last_model_is_retried_and_its_wait_is_told() {
    let server = FakeModel::start().await;
    server.reply(Reply::fault(Fault::Overloaded));
    server.reply(Reply::fault_with_headers(
        Fault::RateLimit,
        &[("retry-after-ms", "20")],
    ));
    server.reply(Reply::text("hello"));
    let outcome = call(config(&server), &of("a", &["b"])).await;
    assert_eq!(called(&server), ["a", "b", "b"]);
    assert_eq!(outcome.waits, [Duration::from_millis(20)]);
    assert_eq!(answered_by(outcome), "b");
}

#[tokio::test]
async fn a_model_that_is_not_known_is_not_tried_at_every_step() {
    let server = FakeModel::start().await;
    let is_unknown = |body: &serde_json::Value| body["model"] == "gpt-4";
    server.on(is_unknown, Reply::unknown_model("gpt-4"));
    server.default_reply(Reply::text("hello"));
    let models = Models::new(ModelsConfig {
        default_model: Some("llama3".to_owned()),
        ..config(&server)
    })
    .unwrap();
    for _ in 0..3 {
        let output = call_with(&models, &request()).await.result.unwrap();
        assert!(
            output.warnings[0].contains("does not know \"gpt-4\""),
            "{output:?}"
        );
    }
    assert_eq!(called(&server), ["gpt-4", "llama3", "llama3", "llama3"]);
    // Fallbacks are for models that cannot answer now.
    let answer = call_with(&models, &of("gpt-4", &["b"])).await;
    assert_eq!(answered_by(answer), "llama3");
}

#[tokio::test]
async fn what_a_provider_refused_is_not_sent_again() {
    let server = FakeModel::start().await;
    server.reply(Reply::status(
        400,
        r#"{"error":{"message":"Unsupported value: 'temperature' does not support 0.3"}}"#,
    ));
    server.default_reply(Reply::text("ok"));
    let models = Models::new(config(&server)).unwrap();
    for _ in 0..2 {
        call_with(&models, &request()).await.result.unwrap();
    }
    let requests = server.requests();
    let sent = requests
        .iter()
        .map(|sent| sent.body.get("temperature").is_some());
    assert_eq!(sent.collect::<Vec<_>>(), [true, false, false]);
}

#[tokio::test]
async fn providers_list_their_models_with_windows_and_prices() {
    let (default, second) = (FakeModel::start().await, FakeModel::start().await);
    default.offer(&["gpt-4o", "llama3"]);
    second.offer(&["gpt-3.5-turbo"]);
    let mut config = two(&default, &second);
    let gone = ProviderConfig {
        url: FakeModel::start().await.url(),
        ..provider(&default)
    };
    config.providers.insert("gone".to_owned(), gone);
    let list = Models::new(config).unwrap().models().await;
    let models: Vec<_> = list
        .models
        .iter()
        .map(|offered| {
            let price = offered.price.map(|price| price.input_per_million_usd);
            (
                offered.model.as_str(),
                offered.window,
                offered.images,
                price,
            )
        })
        .collect();
    assert_eq!(
        models,
        [
            ("gpt-4o", Some(128_000), Some(true), Some(2.5)),
            ("llama3", None, None, None),
            ("second/gpt-3.5-turbo", Some(16_385), Some(false), Some(0.5)),
        ]
    );
    let [gone] = list.unavailable.as_slice() else {
        panic!("{list:?}")
    };
    assert_eq!(
        (gone.provider.as_str(), gone.kind),
        ("gone", ModelFailureKind::Unreachable)
    );
}
