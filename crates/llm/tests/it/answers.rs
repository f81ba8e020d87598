//! What comes back when things go well.

use std::time::Duration;

use codelab_fakemodel::{FakeModel, Gate, Reply};
use codelab_llm::{Model, Models, StreamedPart};
use codelab_protocol::ModelFailureKind;
use serde_json::json;
use tokio::sync::mpsc;

use crate::harness::{SHORT, call, call_with, config, request};

#[tokio::test]
async fn text_arrives_piece_by_piece_before_the_end() {
    let server = FakeModel::start().await;
    let gate = Gate::new();
    server.reply(Reply::text("one two three").hold_after_deltas(3, &gate));
    let model = Models::new(config(&server)).unwrap();
    let request = request();
    let (shown, mut pieces) = mpsc::unbounded_channel();
    let mut hear = |heard: StreamedPart<'_>| match heard {
        StreamedPart::Text(text) => shown.send(text.to_owned()).unwrap(),
        other => panic!("{other:?}"),
    };
    let watch = async {
        let mut seen = String::new();
        while seen != "one two " {
            seen.push_str(&pieces.recv().await.unwrap());
        }
        gate.open();
    };
    let (output, ()) = tokio::join!(model.call(&request, &mut hear), watch);
    assert_eq!(output.unwrap().text, "one two three");
}

#[tokio::test]
async fn usage_is_priced() {
    for (reply, cost) in [
        (Reply::text_with_usage("a", 1000, 500), Some(0.06)),
        (
            Reply::text_with_usage("a", 1000, 500).not_streamed_json(),
            Some(0.06),
        ),
        (Reply::text("a").without_usage(), None),
    ] {
        let server = FakeModel::start().await;
        server.reply(reply);
        let outcome = call(config(&server), &request()).await;
        assert_eq!(outcome.shown, "a");
        assert_eq!(
            outcome
                .result
                .unwrap()
                .usage
                .and_then(|usage| usage.cost_usd),
            cost
        );
    }
}

#[tokio::test]
async fn tool_calls_come_back_as_the_model_wrote_them() {
    let arguments = json!({"path": "a.md", "content": "її\n"});
    for reply in [
        Reply::tool_call("write_file", arguments.clone()),
        Reply::tool_call("write_file", arguments.clone()).split_arguments(7),
        Reply::tool_call("write_file", arguments.clone()).not_streamed_json(),
    ] {
        let server = FakeModel::start().await;
        server.reply(reply.with_text("Writing it."));
        let output = call(config(&server), &request()).await.result.unwrap();
        assert_eq!(output.text, "Writing it.");
        let [call] = output.tool_calls.as_slice() else {
            panic!("{output:?}")
        };
        assert_eq!(
            (call.name.as_str(), call.arguments.as_str()),
            ("write_file", arguments.to_string().as_str())
        );
    }
    let server = FakeModel::start().await;
    server.reply(Reply::tool_calls(vec![("a", json!({})), ("b", json!({}))]));
    assert_eq!(
        call(config(&server), &request())
            .await
            .result
            .unwrap()
            .tool_calls
            .len(),
        2
    );
}

#[tokio::test]
async fn an_answer_cut_by_its_token_limit_says_so() {
    let server = FakeModel::start().await;
    server.reply(Reply::text("half of").with_finish_reason("length"));
    let output = call(config(&server), &request()).await.result.unwrap();
    assert!(output.warnings[0].contains("token limit"), "{output:?}");
}

#[tokio::test]
async fn a_finished_answer_does_not_wait_for_its_end_mark() {
    let finished = json!({"choices": [{"delta": {"content": "all"}, "finish_reason": "stop"}]});
    let event = format!("data: {finished}\n\n");
    for reply in [
        Reply::raw([event.clone()]),
        Reply::raw([event.clone(), "data: never".to_owned()]).hang_after_deltas(1),
        Reply::raw([event.clone(), "data: never".to_owned()]).cut_after_deltas(1),
    ] {
        let server = FakeModel::start().await;
        server.reply(reply);
        // Far less than the idle limit, which would end the wait as well.
        let answer =
            tokio::time::timeout(Duration::from_secs(20), call(config(&server), &request()))
                .await
                .unwrap();
        assert_eq!(answer.result.unwrap().text, "all");
    }
}

#[tokio::test]
async fn dropping_the_call_hangs_up() {
    for reply in [Reply::hang(), Reply::text("one two").hang_after_deltas(2)] {
        let server = FakeModel::start().await;
        server.reply(reply);
        let model = Models::new(config(&server)).unwrap();
        let request = request();
        let mut hear = |_: StreamedPart<'_>| {};
        tokio::select! {
            outcome = model.call(&request, &mut hear) => panic!("{outcome:?}"),
            () = server.wait_until_in_flight(1) => {}
        }
        server.wait_until_in_flight(0).await;
    }
}

#[tokio::test]
async fn temporary_refusals_are_tried_again() {
    for code in [429, 500, 502, 503] {
        let server = FakeModel::start().await;
        server.reply(Reply::status(code, "later"));
        server.reply(Reply::status_with_headers(
            code,
            &[("retry-after", "0")],
            "later",
        ));
        server.reply(Reply::text("now"));
        let outcome = call(config(&server), &request()).await;
        assert_eq!(outcome.result.unwrap().text, "now", "{code}");
        assert_eq!(server.request_count(), 3);
    }
}

#[tokio::test]
async fn a_wish_to_be_asked_later_is_respected() {
    let server = FakeModel::start().await;
    server.reply(Reply::status_with_headers(
        429,
        &[("retry-after", "0.2")],
        "later",
    ));
    server.reply(Reply::text("now"));
    let begun = std::time::Instant::now();
    let outcome = call(config(&server), &request()).await;
    assert!(begun.elapsed() >= Duration::from_millis(200));
    assert_eq!(
        (outcome.result.unwrap().text.as_str(), outcome.waits),
        ("now", vec![Duration::from_millis(200)])
    );

    server.reply(Reply::status_with_headers(
        429,
        &[("retry-after", "30")],
        "later than the call may take",
    ));
    let mut hasty = config(&server);
    hasty.limits.timeout = SHORT * 10;
    let failure = call(hasty, &request()).await.result.unwrap_err();
    assert_eq!(
        failure.code.as_str(),
        "LLM_ERROR",
        "a wait past the deadline is not begun"
    );
    assert_eq!(server.request_count(), 3);
}

#[tokio::test]
async fn a_long_rate_limit_fails_at_once_and_says_until_when() {
    let an_hour_ahead =
        httpdate::fmt_http_date(std::time::SystemTime::now() + Duration::from_secs(3600));
    for (name, value) in [
        ("retry-after", "3600"),
        ("retry-after", an_hour_ahead.as_str()),
        ("retry-after-ms", "3600000"),
        ("llm_provider-retry-after", "3600"),
        ("llm_provider-retry-after-ms", "3600000"),
    ] {
        let server = FakeModel::start().await;
        server.default_reply(Reply::status_with_headers(
            429,
            &[(name, value)],
            "much later",
        ));
        let begun = std::time::Instant::now();
        let outcome = call(config(&server), &request()).await;
        let failure = outcome.result.unwrap_err();
        assert!(begun.elapsed() < Duration::from_secs(20), "{name}: {value}");
        assert!(
            failure.message.contains("rate limited until 20"),
            "{failure:?}"
        );
        assert_eq!(failure.kind, Some(ModelFailureKind::RateLimit));
        let seconds = failure.details["retry_after_seconds"]
            .as_u64()
            .expect("a whole number, as in the header");
        assert!((3590..=3600).contains(&seconds), "{failure:?}");
        assert_eq!(
            (server.request_count(), outcome.waits.len()),
            (1, 0),
            "{name}: {value}"
        );
    }
    // Several short ones are together no longer than one may be.
    let server = FakeModel::start().await;
    server.default_reply(Reply::status_with_headers(
        429,
        &[("retry-after", "0.2")],
        "later",
    ));
    let mut hasty = config(&server);
    hasty.limits.rate_limit_wait = SHORT;
    let failure = call(hasty, &request()).await.result.unwrap_err();
    assert!(
        failure.message.contains("rate limited until"),
        "{failure:?}"
    );
    assert_eq!(server.request_count(), 2);
}

#[tokio::test]
async fn connections_are_used_again_even_if_the_body_ends_late() {
    const ROUNDS: usize = 20;
    let finished = json!({"choices": [{"delta": {"content": "all"}, "finish_reason": "stop"}]});
    let server = FakeModel::start().await;
    let model = Models::new(config(&server)).unwrap();
    for _ in 0..ROUNDS {
        let gate = Gate::new();
        let pieces = [
            format!("data: {finished}\n\ndata: [DONE]\n\n"),
            ": bye\n\n".to_owned(),
        ];
        server.reply(Reply::raw(pieces).hold_after_deltas(1, &gate));
        assert_eq!(
            call_with(&model, &request()).await.result.unwrap().text,
            "all"
        );
        gate.open();
        server.wait_until_in_flight(0).await;
    }
    // A call may come before the connection is back in the pool, but not every time.
    assert!(
        server.connection_count() <= ROUNDS / 2,
        "{} connections",
        server.connection_count()
    );
}
