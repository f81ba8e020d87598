//! A plan of fifty tasks, killed and cancelled on its way: no task begins before what it needs is
//! done, none twice in a run, cancelling is quick, and what is left can be run to the end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use codelab_fakemodel::{Gate, Reply};
use codelab_testkit::eventually;
use serde_json::{Value, json};

use crate::chat::{Chat, is_planning, task};
use crate::lab::Lab;

const TASKS: usize = 50;
/// Tasks of one layer do not need each other.
const LAYER: usize = 5;
const CANCEL_WITHIN: Duration = Duration::from_secs(2);

/// Task `n` needs two tasks of the layer before it.
fn plan() -> Vec<Value> {
    let agents = ["coder", "writer", "analyzer", "researcher"];
    let planned = |number: usize| {
        let above = (number / LAYER).checked_sub(1).map(|layer| layer * LAYER);
        let needs = above.map(|first| {
            vec![
                name(first + number % LAYER),
                name(first + (number + 1) % LAYER),
            ]
        });
        let needs = needs.unwrap_or_default();
        let needs: Vec<&str> = needs.iter().map(String::as_str).collect();
        task(
            &name(number),
            agents[number % agents.len()],
            &format!("Do {}.", name(number)),
            &needs,
        )
    };
    (0..TASKS).map(planned).collect()
}

fn name(number: usize) -> String {
    format!("t{number}")
}

/// What the event log says of the tasks: each begins once in a run, and only when what it needs is
/// done.
fn check(events: &[Value]) -> usize {
    let needs: BTreeMap<String, Vec<String>> = plan()
        .iter()
        .map(|task| {
            let needs = task["depends_on"].as_array().unwrap().iter();
            (
                task["id"].as_str().unwrap().to_owned(),
                needs.map(|id| id.as_str().unwrap().to_owned()).collect(),
            )
        })
        .collect();
    let (mut done, mut begun) = (BTreeSet::new(), BTreeSet::new());
    let mut runs = 0;
    for event in events {
        let task = event["data"]["task_id"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        match event["type"].as_str().unwrap_or_default() {
            "workflow_completed" => {
                runs += 1;
                begun.clear();
            }
            "task_started" => {
                assert!(begun.insert(task.clone()), "{task} begins twice in one run");
                assert!(
                    !done.contains(&task),
                    "{task} begins again although it is done"
                );
                let missing: Vec<_> = needs[&task]
                    .iter()
                    .filter(|id| !done.contains(*id))
                    .collect();
                assert!(missing.is_empty(), "{task} begins before {missing:?}");
            }
            "task_completed" => {
                assert!(begun.contains(&task), "{task} ends without having begun");
                assert!(done.insert(task.clone()), "{task} ends twice");
            }
            "task_failed" => drop(begun.insert(task)),
            _ => {}
        }
    }
    runs
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_of_fifty_tasks_survives_kills_and_cancels() {
    let mut lab = Lab::start().await;
    lab.model.on(
        is_planning,
        Reply::text(json!({ "tasks": plan() }).to_string()),
    );
    let pace = Duration::from_millis(15);
    lab.model
        .default_reply(Reply::text("It is done now, all of it.").with_delay_per_delta(pace));
    let chat = Chat::new(&lab).await;
    let accepted = chat
        .post(&lab, "message/", json!({ "content": "Build everything" }))
        .await;
    let plan = chat.plan_that_is(&lab, &["awaiting_approval"]).await;
    assert_eq!(plan["workflow_id"], accepted["workflow_id"]);

    // Killed while it waits for a person, it waits on.
    lab.crash().await;
    let plan = chat.plan_that_is(&lab, &["awaiting_approval"]).await;
    let path = format!("plans/{}", plan["plan_id"].as_str().unwrap());
    chat.post(
        &lab,
        &format!("{path}/decision/"),
        json!({ "decision": "approve" }),
    )
    .await;

    let done = |plan: &Value| {
        plan["tasks"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|task| task["status"] == "completed")
            .count()
    };
    let mut kills = 0;
    let mut cancels = 0;
    let mut slowest = Duration::ZERO;
    let mut before = 0;
    loop {
        // Some more tasks end, then something happens to the plan.
        eventually("the plan goes on", async || {
            let plan = chat.plan(&lab).await;
            let ended = plan["status"] != "running" || done(&plan) >= before + 4;
            if ended { Ok(()) } else { Err(done(&plan)) }
        })
        .await;
        let plan = chat.plan(&lab).await;
        before = done(&plan);
        match plan["status"].as_str().unwrap() {
            "completed" => break,
            "running" if (kills + cancels) % 2 == 0 => {
                kills += 1;
                lab.crash().await;
                check(&chat.log(&lab).await);
            }
            "running" => {
                let asked = Instant::now();
                let answer = chat.post(&lab, "cancel/", json!({})).await;
                lab.model.wait_until_in_flight(0).await;
                // The plan can have ended in the meantime.
                if answer["cancelled"] == true {
                    cancels += 1;
                    slowest = slowest.max(asked.elapsed());
                }
            }
            _ => {
                let again = chat.post(&lab, &format!("{path}/retry/"), json!({})).await;
                assert_eq!(again["plan_id"], plan["plan_id"]);
            }
        }
        assert!(kills + cancels < 100, "the plan never ends");
    }
    let events = chat.log(&lab).await;
    let runs = check(&events);
    let completed = events
        .iter()
        .filter(|event| event["type"] == "task_completed")
        .count();
    assert_eq!(completed, TASKS);
    assert!(
        kills >= 3 && cancels >= 3 && runs >= 6,
        "{kills} kills, {cancels} cancels, {runs} runs"
    );
    assert!(slowest < CANCEL_WITHIN, "cancelling took {slowest:?}");
    println!(
        "{TASKS} tasks, {kills} kills, {cancels} cancels (slowest {slowest:?}), {runs} runs, {} events",
        events.len()
    );
}

#[tokio::test]
async fn a_cancel_reaches_tasks_that_run_after_a_kill() {
    let mut lab = Lab::start().await;
    let tasks = [
        task("a", "coder", "Do a.", &[]),
        task("b", "writer", "Do b.", &[]),
    ];
    lab.model.on(
        is_planning,
        Reply::text(json!({ "tasks": tasks }).to_string()),
    );
    let gate = Gate::new();
    lab.model.default_reply(Reply::text("Done.").hold(&gate));
    let chat = Chat::new(&lab).await;
    chat.post(&lab, "message/", json!({ "content": "Build" }))
        .await;
    lab.model.wait_until_in_flight(2).await;
    lab.crash().await;
    // Both were inside a model call: they have failed, and nobody runs them again unasked.
    let plan = chat.plan_that_is(&lab, &["failed"]).await;
    assert_eq!(plan["tasks"][0]["error"]["error_code"], "LLM_ERROR");
    chat.post(
        &lab,
        &format!("plans/{}/retry/", plan["plan_id"].as_str().unwrap()),
        json!({}),
    )
    .await;
    lab.model.wait_until_in_flight(2).await;
    let asked = Instant::now();
    assert_eq!(
        chat.post(&lab, "cancel/", json!({})).await["cancelled"],
        true
    );
    lab.model.wait_until_in_flight(0).await;
    assert!(asked.elapsed() < CANCEL_WITHIN, "{:?}", asked.elapsed());
    assert_eq!(chat.plan(&lab).await["status"], "cancelled");
}
