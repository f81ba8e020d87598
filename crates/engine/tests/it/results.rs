//! Long answers of tasks: whole for the user, shortened and marked for whoever goes on from them.

use codelab_engine::{
    Budget, Effect, EventBody, Input, ModelCallId, Purpose, Session, UserMessage,
};
use codelab_protocol::{ModelOutput, Reasoning, Role, SessionEventBody};
use serde_json::json;

use super::kit::{Stage, project_session};

/// Past what a plan keeps of a result.
const LONG: usize = 40_000;
/// What one prompt may be given of results, and a little for what stands around them.
const MAX_PROMPT_BYTES: usize = 80_000;

struct Play {
    stage: Stage,
    session: Session,
}

impl Play {
    /// A request whose plan has these tasks, each with what it needs.
    fn new(tasks: &[(&str, &[&str])]) -> Self {
        let mut play = Self {
            stage: Stage::project(),
            session: project_session(Budget::default()),
        };
        play.stage.limits.plan_approval_tasks = usize::MAX;
        play.stage.space.price_usd = Some(0.0);
        play.stage.space.default_limit = tasks.len();
        let (text, agent, client_message_id, caller) =
            ("go".to_owned(), None, None, Default::default());
        play.apply(Input::UserMessage(UserMessage {
            text,
            agent,
            client_message_id,
            caller,
            attachments: Vec::new(),
            delivery: codelab_protocol::Delivery::Queue,
        }));
        let tasks = tasks.iter().map(
            |(id, needs)| json!({ "id": id, "agent": "agent_coder", "description": format!("do {id}"), "depends_on": needs }),
        );
        let plan = json!({ "tasks": tasks.collect::<Vec<_>>() }).to_string();
        play.model(plan);
        play
    }

    fn apply(&mut self, input: Input) -> Vec<Effect> {
        self.stage.apply(&mut self.session, input).unwrap().effects
    }

    /// The model call that was made first is answered.
    fn model(&mut self, text: String) -> Vec<Effect> {
        self.answer(ModelOutput {
            text,
            ..ModelOutput::default()
        })
    }

    fn answer(&mut self, output: ModelOutput) -> Vec<Effect> {
        let calls = self.session.turn().unwrap().model_calls();
        let call: ModelCallId = calls.first().expect("a model call is under way").0;
        self.apply(Input::ModelFinished {
            call,
            outcome: Ok(output),
            recalled: Vec::new(),
        })
    }
}

fn long(end: &str) -> String {
    // Two bytes a letter, so that a cut could fall into one.
    format!("{}{end}", "д".repeat(LONG / 2))
}

fn said(effects: &[Effect], role: Role) -> Vec<&str> {
    let said = effects.iter().filter_map(|effect| match effect {
        Effect::Message(record) if record.message.role == role => {
            Some(record.message.content.as_str())
        }
        _ => None,
    });
    said.collect()
}

#[test]
fn the_answer_of_a_one_task_plan_is_all_of_it() {
    let mut play = Play::new(&[("a", &[])]);
    let answer = long("THE END");
    let effects = play.model(answer.clone());
    assert_eq!(
        said(&effects, Role::Assistant),
        [answer.as_str(), answer.as_str()],
        "the task's thread, the session"
    );
    let responses: Vec<&str> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Event(event) => match &event.body {
                EventBody::Project(SessionEventBody::TaskCompleted(done)) => {
                    Some(done.response.as_str())
                }
                EventBody::Project(SessionEventBody::WorkflowCompleted(done)) => {
                    Some(done.response.as_str())
                }
                _ => None,
            },
            _ => None,
        })
        .collect();
    assert_eq!(responses, [answer.as_str(), answer.as_str()]);
    let kept = effects.iter().rev().find_map(|effect| match effect {
        Effect::PlanSaved { plan, .. } => plan.tasks[0].result.clone(),
        _ => None,
    });
    let kept = kept.expect("the plan shows a result");
    assert!(
        kept.len() < LONG / 2 && kept.contains("bytes left out"),
        "{} bytes",
        kept.len()
    );
}

#[test]
fn results_that_are_handed_on_share_what_a_prompt_may_hold() {
    let many: Vec<String> = (0..10).map(|n| format!("m{n}")).collect();
    let before: Vec<&str> = many.iter().map(String::as_str).chain(["short"]).collect();
    let mut tasks: Vec<(&str, &[&str])> = before.iter().map(|id| (*id, &[][..])).collect();
    tasks.push(("after", before.as_slice()));
    let mut play = Play::new(&tasks);
    let mut brief = String::new();
    for id in &before {
        let text = if *id == "short" {
            "brief but whole".to_owned()
        } else {
            long("")
        };
        let effects = play.model(text);
        brief = said(&effects, Role::User).concat();
    }
    assert!(
        brief.starts_with("do after") && brief.len() < MAX_PROMPT_BYTES,
        "{} bytes",
        brief.len()
    );
    assert!(brief.contains("brief but whole"), "a short result is whole");
    assert!(
        before.iter().all(|id| brief.contains(&format!("[{id} by"))),
        "each has its part"
    );
    let effects = play.model(long(""));
    let joined = effects.iter().find_map(|effect| match effect {
        Effect::CallModel(call) => match &call.purpose {
            Purpose::Join { results, .. } => Some(results.clone()),
            _ => None,
        },
        _ => None,
    });
    let joined = joined.expect("the results are joined");
    assert_eq!(joined.len(), tasks.len());
    assert!(
        joined.concat().len() < MAX_PROMPT_BYTES,
        "{} bytes",
        joined.concat().len()
    );
}

/// Providers want reasoning back within the turn only, and not more than a limit.
#[test]
fn reasoning_is_bounded_and_forgotten_with_its_turn() {
    let forgets = |effects: &[Effect]| {
        let is_forgetting = |effect: &&Effect| matches!(effect, Effect::ForgetReasoning { .. });
        effects.iter().filter(is_forgetting).count()
    };
    for (bytes, is_kept) in [(100, true), (513 * 1024, false)] {
        let mut play = Play::new(&[("a", &[]), ("b", &[])]);
        let reasoning = Box::new(Reasoning {
            text: "hm".to_owned(),
            provider: "claude".to_owned(),
            model: Some("sonnet".to_owned()),
            opaque: json!({ "signature": "s".repeat(bytes) }),
        });
        let effects = play.answer(ModelOutput {
            text: "done".to_owned(),
            reasoning: Some(reasoning.clone()),
            ..ModelOutput::default()
        });
        assert_eq!(forgets(&effects), 0, "the turn goes on");
        let kept = effects.iter().find_map(|effect| match effect {
            Effect::Message(record) => record.message.reasoning.clone(),
            _ => None,
        });
        let kept = kept.unwrap();
        assert_eq!(kept.text, "hm");
        assert_eq!(kept.opaque == reasoning.opaque, is_kept);
        assert_eq!(kept.opaque.is_null(), !is_kept);
        let warned = effects.iter().any(|effect| {
            matches!(effect, Effect::Message(record)
                if record.message.warnings.iter().any(|said| said.contains("too long")))
        });
        assert_eq!(warned, !is_kept);
        play.model("done".to_owned());
        let effects = play.model("Both are done.".to_owned());
        assert!(play.session.turn().is_none());
        assert_eq!(forgets(&effects), usize::from(is_kept));
    }
}
