//! Users beside each other: nobody sees, changes or removes what is another's.

use serde_json::{Value, json};

use crate::kit::{Person, server};
use crate::routes::my_routes;

/// Everything a user has, as the API shows it.
async fn everything(person: &Person) -> Value {
    let projects = person.get("/my/projects/").await.expect(200);
    let mut agents = Vec::new();
    for project in projects["projects"].as_array().unwrap() {
        agents.push(person.agents(project["project_id"].as_i64().unwrap()).await);
    }
    json!({ "projects": projects, "agents": agents })
}

#[tokio::test]
async fn another_users_ids_are_not_there() {
    let server = server().await;
    let (owner, other) = (Person::user(&server, 1), Person::user(&server, 2));
    let (project, own) = (owner.project("mine").await, other.project("theirs").await);
    let beside = owner.project("beside").await;
    let agent = owner.agents(project).await[0]["agent_id"].as_str().unwrap().to_owned();
    let before = (everything(&owner).await, everything(&other).await);
    let mut tried = 0;
    for route in my_routes().iter().filter(|route| route.path.contains('{')) {
        let at = |project: i64| route.path.replace("{project_id}", &project.to_string()).replace("{agent_id}", &agent);
        // Another's project; and another's agent through a project of one's own.
        let mut attempts = vec![(&other, at(project))];
        if route.path.contains("{agent_id}") {
            attempts.extend([(&other, at(own)), (&owner, at(beside))]);
        }
        for (person, path) in attempts {
            let answer = person.ask(&route.method, &path, route.body.clone()).await;
            assert_eq!(answer.status, 404, "{} {path}: {}", route.method, answer.body);
            let unknown = person
                .ask(
                    &route.method,
                    &path.replace(&project.to_string(), "999999").replace(&agent, "agent-x"),
                    route.body.clone(),
                )
                .await;
            assert_eq!(answer.body, unknown.body, "{} {path} tells that it exists", route.method);
            tried += 1;
        }
    }
    assert!(tried >= 12, "{tried}");
    assert_eq!((everything(&owner).await, everything(&other).await), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_users_with_two_projects_each_work_in_parallel() {
    let server = server().await;
    let work = |user: i64, name: &'static str| {
        let person = Person::user(&server, user);
        tokio::spawn(async move {
            let project = person.project(name).await;
            let path = format!("/my/projects/{project}/agents");
            for number in 0..10 {
                let body = json!({ "name": format!("agent_{number}"), "description": name });
                let made = person.post(&path, body).await.expect(201);
                let agent = format!("{path}/{}", made["agent_id"].as_str().unwrap());
                if number % 2 == 0 {
                    person.patch(&agent, json!({ "role": name })).await.expect(200);
                } else {
                    person.delete(&agent).await.expect(204);
                }
            }
            person.patch(&format!("/my/projects/{project}"), json!({ "description": name })).await.expect(200);
            project
        })
    };
    let tasks = [work(1, "one a"), work(2, "two a"), work(1, "one b"), work(2, "two b")];
    let mut projects = Vec::new();
    for task in tasks {
        projects.push(task.await.unwrap());
    }
    for (user, expected) in [(1, [projects[0], projects[2]]), (2, [projects[1], projects[3]])] {
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
                    .all(|agent| agent["role"] == project["name"] && agent["description"] == project["name"])
            );
        }
    }
}
