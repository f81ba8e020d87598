//! Which model calls search an agent's memory first, and what for.

use codelab_engine::{
    AgentMode, Applied, Budget, Downtime, Effect, Input, ModelCallId, RecallAbout, Session,
    UserMessage,
};
use codelab_protocol::{ModelOutput, RawToolCall, Role, TaskOrigin};
use serde_json::json;

use super::kit::{Stage, project_session, restored, session};

fn message(text: &str, agent: Option<&str>) -> Input {
    Input::UserMessage(UserMessage {
        text: text.to_owned(),
        agent: agent.map(|agent| agent.parse().unwrap()),
        client_message_id: None,
        caller: Default::default(),
        attachments: Vec::new(),
        delivery: codelab_protocol::Delivery::Queue,
    })
}

fn finished(call: ModelCallId, output: ModelOutput) -> Input {
    Input::ModelFinished {
        call,
        outcome: Ok(output),
        recalled: Vec::new(),
    }
}

fn tool(name: &str, arguments: serde_json::Value) -> ModelOutput {
    ModelOutput {
        tool_calls: vec![RawToolCall {
            name: name.to_owned(),
            arguments: arguments.to_string(),
        }],
        ..ModelOutput::default()
    }
}

/// The one model call that was made, and what its agent is reminded of.
fn made(applied: &Applied) -> (ModelCallId, Option<RecallAbout>) {
    let calls: Vec<_> = applied
        .effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::CallModel(call) => Some((call.id, call.recall.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(calls.len(), 1, "{calls:?}");
    calls.into_iter().next().unwrap()
}

fn recovered(session: &Session, stage: &Stage) -> Input {
    Input::Recovered {
        down: Downtime {
            ms: 0,
            back_at: stage.now,
        },
        epoch: session.epoch() + 1,
    }
}

#[test]
fn an_agent_is_reminded_once_when_it_begins() {
    let (mut stage, mut session) = (Stage::project(), project_session(Budget::default()));
    let applied = stage
        .apply(&mut session, message("go", Some("agent_coder")))
        .unwrap();
    let asked = applied.effects.iter().find_map(|effect| match effect {
        Effect::Message(record) if record.message.role == Role::User => {
            Some(record.message.message_id.clone())
        }
        _ => None,
    });
    let request = Some(RecallAbout::Request(asked.unwrap()));
    let (call, recall) = made(&applied);
    assert_eq!(recall, request);

    // A call that was lost with the server recalls again.
    session = restored(&session);
    stage.space.lose_slots();
    let input = recovered(&session, &stage);
    let (again, recall) = made(&stage.apply(&mut session, input).unwrap());
    assert_eq!((again.attempt, recall), (call.attempt + 1, request.clone()));

    let echo = tool("echo", json!({ "text": "hi" }));
    let (second, recall) = made(&stage.apply(&mut session, finished(again, echo)).unwrap());
    assert_eq!((second.step, recall), (2, None));

    // The next agent has a memory of its own.
    let switch = tool(
        "switch_mode",
        json!({ "agent": "agent_writer", "reason": "words" }),
    );
    let applied = stage.apply(&mut session, finished(second, switch)).unwrap();
    assert_eq!(made(&applied).1, request);
}

#[test]
fn a_task_is_reminded_of_what_it_was_told() {
    let (mut stage, mut session) = (Stage::project(), project_session(Budget::default()));
    let (call, recall) = made(&stage.apply(&mut session, message("go", None)).unwrap());
    assert_eq!(recall, None, "the planner remembers nothing");
    let tasks = json!([{ "id": "a", "agent": "agent_coder", "description": "do a", "estimated_tokens": 1 }]);
    let plan = ModelOutput {
        text: json!({ "tasks": tasks }).to_string(),
        ..ModelOutput::default()
    };
    let (_, recall) = made(&stage.apply(&mut session, finished(call, plan)).unwrap());
    let workflow = session.turn().unwrap().workflow().unwrap();
    let origin = TaskOrigin {
        plan_id: Some(workflow.plan_id().clone()),
        task_id: Some("a".parse().unwrap()),
    };
    assert_eq!(recall, Some(RecallAbout::Task(origin)));
}

#[test]
fn outside_of_projects_nobody_is_reminded() {
    let (mut stage, mut session) = (Stage::new(AgentMode::Multi), session());
    let applied = stage
        .apply(&mut session, message("go", Some("coder")))
        .unwrap();
    assert_eq!(made(&applied).1, None);
}
