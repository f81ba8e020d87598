//! Users beside each other: nobody sees, changes or removes what is another's.

use codelab_testkit::{Reply, TestServer};
use serde_json::{Value, json};

use crate::kit::{Answer, Person, server, until};
use crate::routes::my_routes;

/// Everything a user has, as the API shows it.
async fn everything(person: &Person) -> Value {
    let projects = person.get("/my/projects/").await.expect(200);
    let mut agents = Vec::new();
    let mut spaces = Vec::new();
    for project in projects["projects"].as_array().unwrap() {
        let project = project["project_id"].as_i64().unwrap();
        agents.push(person.agents(project).await);
        let mut space = person.space(project).await;
        // These tell of the server.
        for name in ["uptime", "is_healthy"] {
            space.as_object_mut().unwrap().remove(name).unwrap();
        }
        spaces.push(space);
    }
    let mut all = json!({ "projects": projects, "agents": agents, "spaces": spaces });
    for list in ["chat/sessions", "approvals", "usage"] {
        all[list] = person.get(&format!("/my/{list}")).await.expect(200);
    }
    let mut sessions = Vec::new();
    for session in all["chat/sessions"]["sessions"].as_array().unwrap().clone() {
        let id = session["session_id"].as_str().unwrap();
        for part in ["messages", "plans", "approvals", "audit"] {
            sessions.push(
                person
                    .get(&format!("/my/chat/{id}/{part}"))
                    .await
                    .expect(200),
            );
        }
    }
    all["chats"] = json!(sessions);
    all
}

/// What paths can name.
struct Names(Vec<(&'static str, String)>);

impl Names {
    fn fill(&self, path: &str) -> String {
        self.0.iter().fold(path.to_owned(), |path, (name, value)| {
            path.replace(&format!("{{{name}}}"), value)
        })
    }

    fn with(&self, changes: &[(&'static str, &str)]) -> Self {
        let changed = |name: &str| {
            changes
                .iter()
                .find(|(other, _)| *other == name)
                .map(|(_, value)| (*value).to_owned())
        };
        Self(
            self.0
                .iter()
                .map(|(name, value)| (*name, changed(name).unwrap_or_else(|| value.clone())))
                .collect(),
        )
    }

    /// An error, apart from what the caller named.
    fn said_in(&self, answer: &Answer) -> (String, String) {
        let detail = answer.body["detail"].as_str().unwrap().to_owned();
        let is_id = |character: char| character.is_ascii_alphanumeric() || "-_".contains(character);
        let words = detail
            .split_inclusive(|character| !is_id(character))
            .map(|word| {
                let (id, rest) = word.split_at(
                    word.find(|character| !is_id(character))
                        .unwrap_or(word.len()),
                );
                let named = self.0.iter().any(|(_, value)| value == id);
                format!("{}{rest}", if named { "_" } else { id })
            });
        (answer.code().to_owned(), words.collect())
    }

    fn get(&self, name: &str) -> &str {
        &self.0.iter().find(|(other, _)| *other == name).unwrap().1
    }
}

/// A project in which an agent awaits an approval, and a plan another.
async fn busy_user(server: &TestServer, person: &Person, name: &str) -> (Names, Names) {
    let project = person.project(name).await;
    let tool_runner = format!("tools-of-{name}");
    person
        .post(
            &format!("/my/projects/{project}/clients"),
            json!({ "client_id": tool_runner, "sandbox": "none" }),
        )
        .await
        .expect(201);
    person
        .post(
            &format!("/my/projects/{project}/mcp"),
            json!({ "name": format!("server-of-{name}"), "url": "https://mcp.invalid/" }),
        )
        .await
        .expect(201);
    let (session, planned) = (person.session(project).await, person.session(project).await);
    server.model.reply(Reply::tool_call(
        "write_file",
        json!({ "path": "secret.txt", "content": name }),
    ));
    let waits = person.say(&session, "coder", "write it").await.expect(200);
    let call = waits["pending"]["call_id"]
        .as_str()
        .unwrap_or_else(|| panic!("{waits}"))
        .to_owned();
    let task = |id: &str| json!({ "id": id, "agent": "agent_writer", "description": name, "depends_on": [], "estimated_tokens": 10 });
    let plan = json!({ "tasks": [task("task-a"), task("task-b"), task("task-c")] });
    server.model.reply(Reply::text(plan.to_string()));
    person
        .post(
            &format!("/my/chat/{planned}/message"),
            json!({ "content": "plan it" }),
        )
        .await
        .expect(202);
    let plans = format!("/my/chat/{planned}/plans");
    until("a plan", json!({ "total": 1 }), async || {
        person.get(&plans).await.expect(200)
    })
    .await;
    let plan = person.get(&plans).await.expect(200)["plans"][0]["plan_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let names = Names(vec![
        ("project_id", project.to_string()),
        ("agent_id", person.agent(project, "agent_coder").await),
        ("session_id", session),
        ("call_id", call),
        ("client_id", tool_runner),
        ("plan_id", plan),
        ("task_id", "task-a".to_owned()),
        ("name", format!("server-of-{name}")),
    ]);
    let planned = names.with(&[("session_id", &planned)]);
    (names, planned)
}

#[tokio::test]
async fn another_users_ids_are_not_there() {
    let server = server().await;
    let (owner, other) = (Person::user(&server, 1), Person::user(&server, 2));
    let (names, planned) = busy_user(&server, &owner, "mine").await;
    let (own, own_planned) = busy_user(&server, &other, "theirs").await;
    let beside = owner.project("beside").await.to_string();
    let nothing = names.with(&[
        ("project_id", "999999"),
        ("agent_id", "agent-x"),
        ("session_id", "chat-x"),
        ("call_id", "call-x"),
        ("client_id", "client-x"),
        ("plan_id", "plan-x"),
        ("task_id", "task-x"),
        ("name", "server-x"),
    ]);
    let before = (everything(&owner).await, everything(&other).await);
    let mut tried = 0;
    for route in my_routes().iter().filter(|route| route.path.contains('{')) {
        let of_plan = route.path.contains("{plan_id}");
        let (names, own) = if of_plan {
            (&planned, &own_planned)
        } else {
            (&names, &own)
        };
        // Another's project or session; and another's thing by way of one's own.
        let mut attempts = vec![(&other, names.with(&[]))];
        for part in ["agent_id", "call_id", "client_id", "plan_id", "name"] {
            if route.path.contains(part) {
                attempts.push((&other, own.with(&[(part, names.get(part))])));
            }
        }
        if route.path.contains("{agent_id}") {
            attempts.push((&owner, names.with(&[("project_id", &beside)])));
        }
        for (person, names) in attempts {
            let path = names.fill(&route.path);
            let answer = person.ask(&route.method, &path, route.body.clone()).await;
            assert_eq!(
                answer.status, 404,
                "{} {path}: {}",
                route.method, answer.body
            );
            // What is not there at all answers the same.
            let unknown = if path.starts_with(&own.with(&[]).fill("/my/projects/{project_id}/"))
                || path.starts_with(&own.fill("/my/chat/{session_id}/"))
            {
                nothing.with(&[
                    ("project_id", own.get("project_id")),
                    ("session_id", own.get("session_id")),
                ])
            } else {
                nothing.with(&[])
            };
            let unknown = (
                person
                    .ask(
                        &route.method,
                        &unknown.fill(&route.path),
                        route.body.clone(),
                    )
                    .await,
                unknown,
            );
            if names.get("project_id") != beside {
                let (seen, expected) = (names.said_in(&answer), unknown.1.said_in(&unknown.0));
                assert_eq!(
                    seen, expected,
                    "{} {path} tells that it exists",
                    route.method
                );
            }
            tried += 1;
        }
    }
    assert!(tried >= 50, "{tried}");
    for (person, before) in [(&owner, before.0), (&other, before.1)] {
        let after = everything(person).await;
        for (name, value) in before.as_object().unwrap() {
            assert_eq!(&after[name], value, "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_users_with_two_projects_each_work_in_parallel() {
    const NAMES: [&str; 4] = ["one-a", "two-a", "one-b", "two-b"];
    let server = server().await;
    server.model.default_reply(Reply::text("Done."));
    let work = |user: i64, name: &'static str| {
        let person = Person::user(&server, user);
        tokio::spawn(async move {
            let project = person.project(name).await;
            let path = format!("/my/projects/{project}/agents");
            let sessions = [person.session(project).await, person.session(project).await];
            for number in 0..10 {
                let agent_name = format!("agent_{number}");
                let body = json!({ "name": agent_name, "description": name, "system_prompt": name, "model": name });
                let made = person.post(&path, body).await.expect(201);
                let agent = format!("{path}/{}", made["agent_id"].as_str().unwrap());
                let (one, two) = tokio::join!(
                    person.say(&sessions[0], &agent_name, name),
                    person.say(&sessions[1], &agent_name, name),
                );
                for answer in [one, two] {
                    assert_eq!(answer.expect(200)["agent"], agent_name.as_str());
                }
                if number % 2 == 0 {
                    person
                        .patch(&agent, json!({ "role": name }))
                        .await
                        .expect(200);
                } else {
                    person.delete(&agent).await.expect(204);
                }
            }
            person
                .patch(
                    &format!("/my/projects/{project}"),
                    json!({ "description": name }),
                )
                .await
                .expect(200);
            project
        })
    };
    let tasks = [
        work(1, NAMES[0]),
        work(2, NAMES[1]),
        work(1, NAMES[2]),
        work(2, NAMES[3]),
    ];
    let mut projects = Vec::new();
    for task in tasks {
        projects.push(task.await.unwrap());
    }
    for (user, expected) in [
        (1, [projects[0], projects[2]]),
        (2, [projects[1], projects[3]]),
    ] {
        let person = Person::user(&server, user);
        let list = person.get("/my/projects/").await.expect(200);
        assert_eq!(list["total"], 2);
        for project in list["projects"].as_array().unwrap() {
            let id = project["project_id"].as_i64().unwrap();
            assert!(expected.contains(&id), "user {user} sees project {id}");
            assert_eq!(project["description"], project["name"]);
            let agents = person.agents(id).await;
            assert_eq!(agents.len(), 4 + 5);
            assert!(
                agents[4..]
                    .iter()
                    .all(|agent| agent["role"] == project["name"]
                        && agent["description"] == project["name"])
            );
            let space = person.space(id).await;
            let numbers = [
                "user_id",
                "active_agents",
                "total_tasks_processed",
                "direct_calls_count",
            ];
            assert_eq!(
                numbers.map(|name| space[name].as_i64().unwrap()),
                [user, 9, 20, 20]
            );
        }
    }
    // What the model was asked for one project never had anything of another.
    let requests = server.model.requests();
    assert_eq!(requests.len(), 80);
    for request in requests {
        let text = request.body.to_string();
        let model = request.body["model"].as_str().unwrap();
        assert!(
            NAMES
                .iter()
                .all(|name| text.contains(name) == (*name == model)),
            "{text}"
        );
    }
}
