//! Makes a session of every state that can be stored, and stops the server in the middle of work.

use codelab_client::Method;
use codelab_fakemodel::Gate;
use codelab_testkit::eventually;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Map, Value, json};

use crate::fixture::{DATABASE, SessionNote};
use crate::lab::{Caller, Lab, ask, find};
use crate::script;

/// The client that holds a claimed tool call.
pub const CLIENT: &str = "laptop";
/// Model calls that are under way when the server is killed: a runtime session, a project session
/// and a task of a plan.
const HELD_CALLS: usize = 3;
/// Long enough that a few of them pass the limit of compaction.
const LONG_MESSAGE_WORDS: usize = 150;
const LONG_MESSAGES: usize = 6;

/// Makes everything on a running server, then kills it. Returns what the next version needs to
/// know of the sessions.
pub async fn make(lab: &mut Lab) -> Vec<SessionNote> {
    let gate = Gate::new();
    script::write(&lab.model, &gate);
    lab.start().await;
    let mut maker = Maker {
        lab,
        user: Caller::Internal,
        user_id: None,
        project: Value::Null,
        notes: Vec::new(),
    };
    maker.runtime_sessions().await;
    maker.project().await;
    maker.project_sessions().await;
    maker.plans().await;
    maker.deleted().await;
    maker.other_user().await;
    maker.work_under_way().await;
    let notes = maker.notes;
    lab.kill().await;
    notes
}

struct Maker<'a> {
    lab: &'a Lab,
    user: Caller,
    user_id: Option<u64>,
    project: Value,
    notes: Vec<SessionNote>,
}

impl Maker<'_> {
    // ---- the runtime realm ----

    async fn runtime_sessions(&mut self) {
        let created = json!({"session_id": "rt-created", "system_prompt": "Answer briefly."});
        self.lab.post(&Caller::Internal, "/sessions", created).await;
        self.note_runtime("rt-created", None);

        self.say("rt-idle", "Hello").await;
        self.say("rt-idle", &format!("Please {}", script::WRITE))
            .await;
        let call = self.pending("rt-idle").await;
        let decision = json!({"decision": "APPROVE", "remember": true});
        self.decide("rt-idle", &call, decision).await;
        self.result("rt-idle", &call).await;
        self.note_runtime("rt-idle", Some("completed"));

        self.suspended("rt-tool", script::READ, "awaiting_tool_result")
            .await;
        self.suspended("rt-approval", script::WRITE, "awaiting_approval")
            .await;
        self.suspended("rt-answer", script::ASK, "awaiting_answer")
            .await;

        self.say("rt-approved", &format!("Please {}", script::RUN))
            .await;
        let call = self.pending("rt-approved").await;
        self.decide("rt-approved", &call, json!({"decision": "APPROVE"}))
            .await;
        self.note_runtime("rt-approved", Some("awaiting_tool_result"));

        self.say("rt-edited", &format!("Please {}", script::RUN))
            .await;
        let call = self.pending("rt-edited").await;
        let edited =
            json!({"decision": "EDIT", "modified_args": {"command": "rm -rf build/cache"}});
        self.decide("rt-edited", &call, edited).await;
        self.result("rt-edited", &call).await;
        self.note_runtime("rt-edited", Some("completed"));

        self.say("rt-rejected", &format!("Please {}", script::RUN))
            .await;
        let call = self.pending("rt-rejected").await;
        let rejected = json!({"decision": "REJECT", "feedback": "Keep it."});
        self.decide("rt-rejected", &call, rejected).await;
        self.note_runtime("rt-rejected", Some("completed"));

        self.say("rt-queued", &format!("Please {}", script::WRITE))
            .await;
        for number in 1..=2 {
            let message = json!({"session_id": "rt-queued", "message": format!("Waiting {number}"),
                "client_message_id": format!("rt-queued-{number}")});
            self.send_and_leave(&Caller::Internal, "/agent/message/stream", message)
                .await;
        }
        self.note_runtime("rt-queued", Some("awaiting_approval"));

        self.say("rt-cancelled", &format!("Please {}", script::WRITE))
            .await;
        self.lab
            .post(
                &Caller::Internal,
                "/sessions/rt-cancelled/cancel",
                Value::Null,
            )
            .await;
        self.note_runtime("rt-cancelled", Some("cancelled"));
        self.say("rt-failed", &format!("Please {}", script::FAIL))
            .await;
        self.note_runtime("rt-failed", Some("failed"));

        let pinned = json!({"session_id": "rt-pinned", "message_type": "switch_agent", "agent_type": "architect"});
        self.lab
            .post(&Caller::Internal, "/agent/message/stream", pinned)
            .await;
        self.note_runtime("rt-pinned", None);
    }

    async fn suspended(&mut self, session: &str, request: &str, status: &str) {
        self.say(session, &format!("Please {request}")).await;
        self.note_runtime(session, Some(status));
    }

    /// The message goes to the classifier first, as most messages do.
    async fn say(&self, session: &str, text: &str) -> Value {
        let message = json!({"session_id": session, "message": text});
        self.lab
            .post(&Caller::Internal, "/agent/message/stream", message)
            .await
    }

    async fn pending(&self, session: &str) -> Value {
        let path = format!("/sessions/{session}/pending-approvals");
        let pending = self.lab.get(&Caller::Internal, &path).await;
        find(&pending, "call_id").expect("an approval is open")
    }

    async fn decide(&self, session: &str, call: &Value, decision: Value) {
        let body = json!({"session_id": session, "message_type": "hitl_decision",
            "tool_call_id": call, "hitl_decision": decision});
        self.lab
            .post(&Caller::Internal, "/agent/message/stream", body)
            .await;
    }

    async fn result(&self, session: &str, call: &Value) {
        let body = json!({"session_id": session, "message_type": "tool_result",
            "tool_call_id": call, "tool_result": {"success": true}});
        self.lab
            .post(&Caller::Internal, "/agent/message/stream", body)
            .await;
    }

    fn note_runtime(&mut self, session: &str, status: Option<&str>) {
        self.notes.push(SessionNote {
            label: session.to_owned(),
            session_id: session.to_owned(),
            user_id: None,
            status: status.map(str::to_owned),
        });
    }

    // ---- the project realm ----

    async fn project(&mut self) {
        self.user_id = Some(1);
        self.user = self.lab.user(1).await;
        let project = json!({"name": "Upgrade", "description": "Made for the next version", "budget_tokens": 5_000_000});
        let made = self.lab.post(&self.user, "/my/projects/", project).await;
        self.project = made["project_id"].clone();
        let agents = format!("/my/projects/{}/agents/", self.project);
        let custom = json!({"name": "agent_reviewer", "role": "reviewer", "description": "Reviews code",
            "system_prompt": "Review {{messageHistory}} at {{currentTime}}.", "temperature": 0.1,
            "allowed_tools": ["read_file"], "file_restrictions": ["\\.rs$"], "concurrency_limit": 2});
        let custom = self.lab.post(&self.user, &agents, custom).await;
        let custom = custom["agent_id"].as_str().unwrap().to_owned();
        let note = json!({"text": "The build needs Rust 1.95.", "type": "note", "success": true});
        let context = format!("{agents}{custom}/context/");
        self.lab.post(&self.user, &context, note).await;
        let out_of_service = format!("{agents}{custom}/deregister/");
        self.lab
            .post(&self.user, &out_of_service, Value::Null)
            .await;
        let chat = json!({"text": "A message in the global Chat"});
        self.lab.post(&self.user, "/chat/user_message", chat).await;
    }

    async fn project_sessions(&mut self) {
        let idle = self.session("idle", Map::new()).await;
        self.direct(&idle, "Hello").await;
        self.direct(&idle, &format!("Please {}", script::WRITE))
            .await;
        let call = self.approve(&idle, json!({"remember": true})).await;
        self.claim(&idle, &call).await;
        self.deliver(&idle, &call).await;
        self.settled("idle", &idle, "idle").await;

        for (label, request, status) in [
            ("unclaimed", script::READ, "awaiting_tool_result"),
            ("claimed", script::READ, "awaiting_tool_result"),
            ("approval", script::WRITE, "awaiting_approval"),
            ("approved", script::RUN, "awaiting_approval"),
            ("question", script::ASK, "awaiting_answer"),
            ("queued", script::ASK, "awaiting_answer"),
            ("cancelled", script::WRITE, "awaiting_approval"),
        ] {
            let session = self.session(label, Map::new()).await;
            let answer = self.direct(&session, &format!("Please {request}")).await;
            assert_eq!(answer["status"], status, "{label}: {answer}");
            let status = match label {
                "claimed" => {
                    let call = find(&answer, "call_id").expect("a tool call waits");
                    self.claim(&session, &call).await;
                    status
                }
                "approved" => {
                    self.approve(&session, json!({})).await;
                    "awaiting_tool_result"
                }
                "queued" => {
                    self.queue(&session).await;
                    status
                }
                "cancelled" => {
                    let path = format!("/my/chat/{session}/cancel/");
                    self.lab.post(&self.user, &path, Value::Null).await;
                    "idle"
                }
                _ => status,
            };
            self.settled(label, &session, status).await;
        }

        let failed = self.session("failed", Map::new()).await;
        let body = json!({"content": format!("Please {}", script::FAIL), "target_agent": "coder"});
        let path = format!("/my/chat/{failed}/message/");
        let (status, answer) = self.lab.ask(&self.user, Method::POST, &path, body).await;
        assert_eq!(status, 502, "{answer}");
        self.settled("failed", &failed, "idle").await;

        let small = Map::from_iter([("budget_tokens".to_owned(), json!(100))]);
        let budget = self.session("budget", small).await;
        let answer = self.direct(&budget, "Hello").await;
        assert_eq!(answer["status"], "awaiting_approval", "{answer}");
        self.settled("budget", &budget, "awaiting_approval").await;

        let compacted = self.session("compacted", Map::new()).await;
        for _ in 0..LONG_MESSAGES {
            self.direct(&compacted, &"word ".repeat(LONG_MESSAGE_WORDS))
                .await;
        }
        let log = format!("/my/chat/{compacted}/events/?follow=false");
        eventually("the history is compacted", async || {
            let log = self.lab.get(&self.user, &log).await;
            let compacted = log.to_string().contains("\"history_compacted\"");
            if compacted { Ok(()) } else { Err(log) }
        })
        .await;
        self.settled("compacted", &compacted, "idle").await;
    }

    async fn plans(&mut self) {
        let waiting = self.plan("plan-approval", script::PLAN_OF_THREE).await;
        self.planned(&waiting, "awaiting_approval").await;
        self.settled("plan-approval", &waiting, "awaiting_approval")
            .await;
        let done = self.plan("plan-done", script::PLAN_OF_ONE).await;
        self.planned(&done, "completed").await;
        self.settled("plan-done", &done, "idle").await;
        let partial = self.plan("plan-partial", script::PLAN_THAT_FAILS).await;
        self.planned(&partial, "partial").await;
        self.note_project("plan-partial", &partial, None);
    }

    async fn deleted(&mut self) {
        self.say("rt-deleted", &format!("Please {}", script::RUN))
            .await;
        let call = self.pending("rt-deleted").await;
        self.decide("rt-deleted", &call, json!({"decision": "APPROVE"}))
            .await;
        let path = "/sessions/rt-deleted";
        let (status, answer) = self
            .lab
            .ask(&Caller::Internal, Method::DELETE, path, Value::Null)
            .await;
        assert!(status < 300, "{status} {answer}");
        self.note_runtime("rt-deleted", None);

        // The decisions of a deleted session stay in the audit log.
        let deleted = self.session("deleted", Map::new()).await;
        self.direct(&deleted, &format!("Please {}", script::RUN))
            .await;
        self.approve(&deleted, json!({})).await;
        let path = format!("/my/chat/sessions/{deleted}");
        let (status, answer) = self
            .lab
            .ask(&self.user, Method::DELETE, &path, Value::Null)
            .await;
        assert_eq!(status, 204, "{answer}");
        self.note_project("deleted", &deleted, None);
    }

    /// Another user, whose session is in the default project.
    async fn other_user(&mut self) {
        let (first, project) = (self.user.clone(), self.project.take());
        self.user = self.lab.user(2).await;
        self.user_id = Some(2);
        let session = self.session("other-user", Map::new()).await;
        self.direct(&session, &format!("Please {}", script::WRITE))
            .await;
        self.settled("other-user", &session, "awaiting_approval")
            .await;
        (self.user, self.user_id, self.project) = (first, Some(1), project);
    }

    /// What runs when the server is killed.
    async fn work_under_way(&mut self) {
        let half = self.plan("plan-half", script::PLAN_WITH_ALL_STATES).await;
        let plan = self.planned(&half, "awaiting_approval").await;
        let path = format!(
            "/my/chat/{half}/plans/{}/decision/",
            plan["plan_id"].as_str().unwrap()
        );
        self.lab
            .post(&self.user, &path, json!({"decision": "approve"}))
            .await;
        let wanted = json!([
            "completed",
            "waiting",
            "waiting",
            "waiting",
            "running",
            "pending"
        ]);
        self.tasks_stand(&half, &wanted).await;
        self.note_project("plan-half", &half, None);

        let text = format!("Please {}", script::HOLD);
        let message = json!({"session_id": "rt-running", "message": text, "agent_type": "coder",
            "client_message_id": "rt-running-1"});
        self.send_and_leave(&Caller::Internal, "/agent/message/stream", message)
            .await;
        self.note_runtime("rt-running", None);
        let running = self.session("running", Map::new()).await;
        let message =
            json!({"content": text, "target_agent": "coder", "client_message_id": "running-1"});
        let path = format!("/my/chat/{running}/message/");
        self.send_and_leave(&self.user, &path, message).await;
        self.note_project("running", &running, None);
        self.lab.model.wait_until_in_flight(HELD_CALLS).await;
    }

    // ---- requests ----

    async fn session(&self, title: &str, mut body: Map<String, Value>) -> String {
        body.insert("title".to_owned(), json!(title));
        if !self.project.is_null() {
            body.insert("project_id".to_owned(), self.project.clone());
        }
        let made = self
            .lab
            .post(&self.user, "/my/chat/sessions/", Value::Object(body))
            .await;
        made["session_id"].as_str().unwrap().to_owned()
    }

    async fn direct(&self, session: &str, text: &str) -> Value {
        let body = json!({"content": text, "target_agent": "coder"});
        let path = format!("/my/chat/{session}/message/");
        self.lab.post(&self.user, &path, body).await
    }

    async fn plan(&self, label: &str, request: &str) -> String {
        let session = self.session(label, Map::new()).await;
        let path = format!("/my/chat/{session}/message/");
        let body = json!({"content": format!("Please {request}")});
        self.lab.post(&self.user, &path, body).await;
        session
    }

    /// The session's plan, once it has this status.
    async fn planned(&self, session: &str, status: &str) -> Value {
        let path = format!("/my/chat/{session}/plans/");
        eventually("the plan has the wanted status", async || {
            let plan = self.lab.get(&self.user, &path).await["plans"][0].clone();
            if plan["status"] == status {
                Ok(plan)
            } else {
                Err(plan)
            }
        })
        .await
    }

    async fn tasks_stand(&self, session: &str, wanted: &Value) {
        let path = format!("/my/chat/{session}/plans/");
        eventually("the tasks have the wanted statuses", async || {
            let plan = self.lab.get(&self.user, &path).await["plans"][0].clone();
            let tasks = plan["tasks"].as_array().cloned().unwrap_or_default();
            let statuses: Value = tasks.iter().map(|task| task["status"].clone()).collect();
            if statuses == *wanted {
                Ok(())
            } else {
                Err(statuses)
            }
        })
        .await;
    }

    /// Approves the session's only open approval.
    async fn approve(&self, session: &str, extra: Value) -> Value {
        let path = format!("/my/chat/{session}/approvals/");
        let call = find(&self.lab.get(&self.user, &path).await, "call_id").expect("one is open");
        let mut decision = json!({"decision": "approve"});
        for (name, value) in extra.as_object().into_iter().flatten() {
            decision[name] = value.clone();
        }
        let path = format!("{path}{}/decision/", call.as_str().unwrap());
        self.lab.post(&self.user, &path, decision).await;
        call
    }

    async fn claim(&self, session: &str, call: &Value) {
        let path = format!(
            "/my/chat/{session}/tool_calls/{}/claim/",
            call.as_str().unwrap()
        );
        self.lab
            .post(&self.user, &path, json!({"client_id": CLIENT}))
            .await;
    }

    async fn deliver(&self, session: &str, call: &Value) {
        let path = format!(
            "/my/chat/{session}/tool_calls/{}/result/",
            call.as_str().unwrap()
        );
        let result = json!({"client_id": CLIENT, "result": {"success": true, "size": 3}});
        self.lab.post(&self.user, &path, result).await;
    }

    async fn queue(&self, session: &str) {
        for number in 1..=2 {
            let body = json!({"content": format!("Waiting {number}"), "target_agent": "coder",
                "client_message_id": format!("queued-{number}")});
            let path = format!("/my/chat/{session}/message/");
            self.send_and_leave(&self.user, &path, body).await;
        }
    }

    /// Sends a message whose answer takes too long to wait for, and returns once it is stored.
    async fn send_and_leave(&self, caller: &Caller, path: &str, body: Value) {
        let (client, to) = (self.lab.client(caller), path.to_owned());
        let id = body["client_message_id"].as_str().unwrap().to_owned();
        let sending = tokio::spawn(async move { ask(&client, Method::POST, &to, body).await });
        let file = self.lab.data_dir().join(DATABASE);
        eventually("the message is stored", async || {
            let database =
                Connection::open_with_flags(&file, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
            let count = "SELECT count(*) FROM inputs WHERE client_message_id = ?1";
            match database.query_row(count, [&id], |row| row.get::<_, i64>(0)) {
                Ok(1) => Ok(()),
                other => Err(other),
            }
        })
        .await;
        sending.abort();
    }

    /// Waits until the session has this status, and notes it.
    async fn settled(&mut self, label: &str, session: &str, status: &str) {
        eventually("the session has the wanted status", async || {
            let shown = project_status(self.lab, &self.user, session).await;
            if shown == status {
                Ok(())
            } else {
                Err((label.to_owned(), shown))
            }
        })
        .await;
        self.note_project(label, session, Some(status));
    }

    fn note_project(&mut self, label: &str, session: &str, status: Option<&str>) {
        self.notes.push(SessionNote {
            label: label.to_owned(),
            session_id: session.to_owned(),
            user_id: self.user_id,
            status: status.map(str::to_owned),
        });
    }
}

/// What a project's session waits for; `idle` when no turn is open.
pub async fn project_status(lab: &Lab, user: &Caller, session: &str) -> String {
    let path = format!("/my/chat/sessions/{session}");
    let detail = lab.get(user, &path).await;
    match detail["status"].as_str() {
        Some(status) => status.to_owned(),
        None if detail["busy"] == true => "busy".to_owned(),
        None => "idle".to_owned(),
    }
}
