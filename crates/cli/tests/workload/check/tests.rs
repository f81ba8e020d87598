//! The check must be able to fail: a truthful session passes, and each way to tamper with it is
//! named.

use codelab_protocol::{
    AgentName, AssistantMessage, AuditEntry, AuditList, CallId, Chunk, ChunkBody, Completion,
    CompletionStatus, Digest, Message, MessageId, Role, SessionId, SwitchAgent, SwitchEntry,
    Timestamp, ToolCall, ToolCallChunk, arguments_digest,
};
use serde_json::{Map, Value, json};

use crate::workload::check::check;
use crate::workload::found::Found;
use crate::workload::ledger::{Answered, Choice, Ledger, result_of};
use crate::workload::plan::{Plan, Step};
use crate::workload::requests::{self, Told};

const AT: Timestamp = Timestamp::from_millis(0);

fn call_id(text: &str) -> CallId {
    CallId::parse(text).unwrap()
}

fn agent(name: &str) -> AgentName {
    AgentName::parse(name).unwrap()
}

fn plans() -> [Plan; 2] {
    let plan = |label: &str, steps: &[Step]| Plan {
        label: label.to_owned(),
        steps: steps.to_vec(),
    };
    [
        plan("m0", &[Step::Run, Step::Say]),
        plan("m1", &[Step::Read, Step::Finish]),
    ]
}

fn message(number: usize, role: Role, content: &str) -> Message {
    Message::new(
        MessageId::parse(&format!("msg-{number}")).unwrap(),
        role,
        content.to_owned(),
        AT,
    )
}

fn arguments(plan: &Plan) -> (&'static str, Map<String, Value>) {
    plan.said(0).unwrap().calls.remove(0)
}

/// Two turns: a command that a person approved, then a file that was read.
fn history() -> Vec<Message> {
    let mut messages = Vec::new();
    for (plan, id) in plans().iter().zip(["c0", "c1"]) {
        let (name, arguments) = arguments(plan);
        let calls = vec![ToolCall {
            call_id: call_id(id),
            name: name.to_owned(),
            arguments,
        }];
        let start = messages.len();
        messages.push(message(start, Role::User, &plan.text()));
        messages.push(Message {
            tool_calls: calls,
            ..message(start + 1, Role::Assistant, "")
        });
        let result = result_of(&call_id(id));
        messages.push(Message {
            tool_call_id: Some(call_id(id)),
            ..message(start + 2, Role::Tool, &result)
        });
        messages.push(message(
            start + 3,
            Role::Assistant,
            &plan.kept(1).unwrap().text,
        ));
    }
    messages
}

fn shown_call(plan: &Plan, id: &str, requires_approval: bool) -> ChunkBody {
    let (name, arguments) = arguments(plan);
    ChunkBody::ToolCall(ToolCallChunk {
        digest: arguments_digest(name, &arguments),
        mcp: None,
        tool_call: ToolCall {
            call_id: call_id(id),
            name: name.to_owned(),
            arguments,
        },
        requires_approval,
        approved: false,
        reason: None,
        parts: Vec::new(),
        expires_at: None,
        base: None,
        agent: agent("coder"),
        user_id: None,
    })
}

fn switched(from: &str, to: &str) -> ChunkBody {
    ChunkBody::SwitchAgent(SwitchAgent {
        from_agent: agent(from),
        to_agent: agent(to),
        reason: String::new(),
        confidence: None,
        timestamp: AT,
    })
}

fn completed() -> ChunkBody {
    let (status, message) = (CompletionStatus::Success, String::new());
    ChunkBody::Completion(Completion {
        status,
        message,
        agent: agent("coder"),
    })
}

fn events() -> Vec<(u64, Chunk)> {
    let [first, second] = plans();
    let answer = ChunkBody::AssistantMessage(AssistantMessage {
        content: first.kept(1).unwrap().text,
        agent: agent("coder"),
        message_id: MessageId::parse("msg-3").unwrap(),
        timestamp: AT,
        usage: None,
        warnings: Vec::new(),
    });
    let bodies = [
        switched("orchestrator", "coder"),
        shown_call(&first, "c0", true),
        shown_call(&first, "c0", false),
        answer,
        switched("coder", "orchestrator"),
        completed(),
        switched("orchestrator", "coder"),
        shown_call(&second, "c1", false),
        switched("coder", "orchestrator"),
        completed(),
    ];
    (1..)
        .zip(bodies.map(|body| Chunk {
            body,
            timestamp: AT,
        }))
        .collect()
}

fn found() -> Found {
    let (tool_name, original) = arguments(&plans()[0]);
    let switch = |from: &str, to: &str| SwitchEntry {
        from_agent: agent(from),
        to_agent: agent(to),
        reason: String::new(),
        confidence: None,
        timestamp: AT,
    };
    let row = AuditEntry {
        call_id: call_id("c0"),
        tool_name: tool_name.to_owned(),
        original_args: Some(original),
        modified_args: None,
        decision: codelab_protocol::AuditDecision::Approve.into(),
        decided_by: "1".to_owned(),
        reason: None,
        timestamp: AT,
        hash: Digest::of_bytes(b""),
    };
    let there_and_back = [
        switch("orchestrator", "coder"),
        switch("coder", "orchestrator"),
    ];
    Found {
        events: events(),
        history: history(),
        audit: AuditList {
            session_id: SessionId::parse("s").unwrap(),
            audit: vec![row],
            verified: true,
        },
        pending: Vec::new(),
        switches: [there_and_back.clone(), there_and_back].concat(),
        current_agent: agent("orchestrator"),
    }
}

fn ledger() -> Ledger {
    let mut ledger = Ledger::new(SessionId::parse("s").unwrap());
    for plan in plans() {
        let number = ledger.add_message(plan);
        let attempt = ledger.begin_message(number);
        ledger.end_message(number, attempt, Answered::Taken);
    }
    events()
        .iter()
        .for_each(|(id, chunk)| ledger.saw(*id, chunk));
    let (number, person) =
        ledger.begin_decision(&call_id("c0"), Choice::Approve { remember: false });
    assert_eq!(person, 1);
    ledger.end_decision(&call_id("c0"), number, Answered::Taken);
    for id in ["c0", "c1"] {
        let number = ledger.begin_result(&call_id(id), true);
        ledger.end_result(&call_id(id), number, Answered::Taken);
    }
    ledger
}

#[test]
fn a_truthful_session_passes() {
    let told = Told::from([("c0".to_owned(), result_of(&call_id("c0")))]);
    assert_eq!(check(&ledger(), &found(), &told), Vec::<String>::new());
}

type Tamper = fn(&mut Ledger, &mut Found, &mut Told);
type Act = fn(&mut Ledger, Answered);

const TAMPERED: [(&str, &str, Tamper); 27] = [
    (
        "an acknowledged message is lost",
        "0 times",
        |_, found, _| found.history.truncate(4),
    ),
    ("a message is there twice", "2 times", |_, found, _| {
        found.history.extend(history().split_off(4))
    }),
    (
        "queued messages changed places",
        "m1 came before m0",
        |_, found, _| found.history.rotate_left(4),
    ),
    (
        "a turn that nobody asked for",
        "nobody began",
        |_, found, _| {
            found.history.push(message(9, Role::User, "hello"));
        },
    ),
    (
        "a refused message was taken",
        "Refused and is in the history 1 times",
        |ledger, _, _| {
            ledger.messages[1].attempts[0].outcome = crate::workload::ledger::Outcome::Refused;
        },
    ),
    (
        "an event in the middle is lost",
        "event 4 is missing",
        |_, found, _| drop(found.events.remove(3)),
    ),
    (
        "the last event is lost",
        "event 10 was seen and is lost",
        |_, found, _| drop(found.events.pop()),
    ),
    ("an event changed", "event 4 was", |_, found, _| {
        found.events[3].1.timestamp = Timestamp::from_millis(1)
    }),
    (
        "a turn did not end",
        "1 were completed",
        |ledger, found, _| {
            ledger.events.clear();
            found.events.pop();
        },
    ),
    (
        "an error that nobody was told",
        "1 turns met the error LLM_ERROR",
        |_, found, _| {
            let error = json!({"type": "error", "data": {"message": "", "error_code": "LLM_ERROR"}, "timestamp": AT});
            found
                .events
                .push((11, serde_json::from_value(error).unwrap()));
        },
    ),
    (
        "a partial answer stands beside the whole one",
        "step 1 of m0",
        |_, found, _| {
            found
                .history
                .insert(3, message(8, Role::Assistant, "The answer"));
        },
    ),
    (
        "a partial answer instead of the whole one",
        "step 1 of m0",
        |_, found, _| {
            found.history[3].content = "The answer".to_owned();
        },
    ),
    ("an answer is there twice", "step 2 of m0", |_, found, _| {
        found.history.insert(4, found.history[3].clone());
    }),
    (
        "an answer was shown twice",
        "was shown as",
        |_, found, _| found.events.push((11, found.events[3].1.clone())),
    ),
    (
        "a call has two results",
        "one result too many",
        |_, found, _| {
            found.history.insert(3, found.history[2].clone());
        },
    ),
    ("a call has no result", "c0 has no result", |_, found, _| {
        drop(found.history.remove(2))
    }),
    (
        "another result than the acknowledged one",
        "the result of c0",
        |_, found, _| {
            found.history[2].content = "something else".to_owned();
        },
    ),
    (
        "an acknowledged result was taken as cancelled",
        "the result of c1",
        |ledger, found, _| {
            ledger.begin_cancel(false);
            found.history[6].content = super::CANCELLED.to_owned();
        },
    ),
    (
        "a call was dispatched twice",
        "c0 was dispatched 2 times",
        |_, found, _| {
            found.events.push((11, found.events[2].1.clone()));
        },
    ),
    (
        "something else was dispatched",
        "nobody agreed to",
        |_, found, _| {
            found.events[2].1.body = shown_call(
                &Plan {
                    label: "x".to_owned(),
                    ..plans()[0].clone()
                },
                "c0",
                false,
            );
        },
    ),
    (
        "an acknowledged decision is lost",
        "was lost",
        |_, found, _| found.audit.audit.clear(),
    ),
    (
        "a decision is there twice",
        "2 audit rows",
        |_, found, _| {
            found.audit.audit.push(found.audit.audit[0].clone());
        },
    ),
    (
        "somebody else decided",
        "and the audit says",
        |_, found, _| {
            found.audit.audit[0].decided_by = "2".to_owned();
        },
    ),
    (
        "the audit chain is broken",
        "chain is broken",
        |_, found, _| found.audit.verified = false,
    ),
    (
        "the model was told something else",
        "the model was told",
        |_, _, told| {
            told.insert("c1".to_owned(), "something else".to_owned());
        },
    ),
    (
        "an acknowledged switch is lost",
        "was asked for",
        |ledger, _, _| {
            let number = ledger.begin_switch(agent("debug"));
            ledger.end_switch(number, Answered::Taken);
        },
    ),
    ("a switch is lost", "the events show", |_, found, _| {
        drop(found.switches.pop())
    }),
];

#[test]
fn what_was_tampered_with_is_found() {
    for (what, expected, tamper) in TAMPERED {
        let (mut ledger, mut found, mut told) = (ledger(), found(), Told::new());
        tamper(&mut ledger, &mut found, &mut told);
        let problems = check(&ledger, &found, &told);
        assert!(
            problems.iter().any(|problem| problem.contains(expected)),
            "{what}: {problems:#?}"
        );
    }
}

#[test]
fn what_contradicts_an_acknowledgement_at_once_is_noted() {
    let conflict = Answered::Refused(409, Some(codelab_protocol::ErrorCode::Conflict));
    let cases: [(&str, Act); 4] = [
        ("c0 was decided 2 times", |ledger, _| {
            let (number, _) = ledger.begin_decision(&call_id("c0"), Choice::Reject);
            ledger.end_decision(&call_id("c0"), number, Answered::Taken);
        }),
        (
            "the repeat of an acknowledged result",
            |ledger, conflict| {
                let number = ledger.begin_result(&call_id("c1"), true);
                ledger.end_result(&call_id("c1"), number, conflict);
            },
        ),
        ("a second, different result", |ledger, _| {
            let number = ledger.begin_result(&call_id("c1"), false);
            ledger.end_result(&call_id("c1"), number, Answered::Taken);
        }),
        (
            "m0 was acknowledged, and its repeat was refused",
            |ledger, conflict| {
                let attempt = ledger.begin_message(0);
                ledger.end_message(0, attempt, conflict);
            },
        ),
    ];
    for (expected, act) in cases {
        let mut ledger = ledger();
        act(&mut ledger, conflict);
        assert!(
            ledger
                .violations
                .iter()
                .any(|noted| noted.contains(expected)),
            "{expected}: {:?}",
            ledger.violations
        );
    }
}

#[test]
fn a_request_that_tells_the_model_wrongly_is_found() {
    let [plan, _] = plans();
    let call = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "c0"}]});
    let result = |content: &str| json!({"role": "tool", "tool_call_id": "c0", "content": content});
    let user = json!({"role": "user", "content": plan.text()});
    let cases = [
        (vec![&user, &call, &result("done")], None),
        (vec![&user, &call], Some("was not told of")),
        (
            vec![&user, &call, &result("done"), &result("done")],
            Some("told twice of c0"),
        ),
        (vec![&user, &result("done")], Some("did not call there")),
        (
            vec![&user, &call, &result("done"), &call, &result("done")],
            Some("used twice"),
        ),
        (vec![&user, &call, &result("other")], Some("then \"other\"")),
    ]
    .map(|(messages, expected)| {
        (
            messages.into_iter().cloned().collect::<Vec<Value>>(),
            expected,
        )
    });
    let known = [(plan.text(), plan)].into();
    for (messages, expected) in cases {
        let mut told = Told::from([("c0".to_owned(), "done".to_owned())]);
        let problems = requests::check(&json!({"messages": messages}), &known, &mut told);
        let is_found =
            expected.map(|expected| problems.iter().any(|problem| problem.contains(expected)));
        assert!(
            is_found.unwrap_or(problems.is_empty()),
            "{expected:?}: {problems:?}"
        );
    }
}
