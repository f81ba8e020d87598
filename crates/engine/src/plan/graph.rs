//! From the tasks that a planner or a person wrote to a graph that can be run.

use std::collections::BTreeSet;

use codelab_protocol::{AgentName, MAX_TASK_PATHS, PlannedTask, TaskId, TaskPath};
use petgraph::graphmap::DiGraphMap;

use super::{TaskRun, TaskState};
use crate::turn::cut;
use crate::world::{MAX_DESCRIPTION_BYTES, MAX_TASKS};
use crate::{SpaceSnapshot, Team};

/// Tokens of a task whose size the planner did not say.
const DEFAULT_TASK_TOKENS: u64 = 2_000;
/// No plan says more than this; larger numbers are taken as this.
const MAX_TASK_TOKENS: u64 = 10_000_000;
/// Of a path that cannot be used, for whoever wrote it.
const MAX_SHOWN_PATH_BYTES: usize = 100;

/// Checks a plan: its tasks if it can be run, else what is wrong with it.
pub(crate) fn checked(
    tasks: Vec<PlannedTask>,
    team: &Team,
    space: &SpaceSnapshot,
) -> Result<Vec<TaskState>, String> {
    if tasks.is_empty() {
        return Err("the plan has no tasks".to_owned());
    }
    if tasks.len() > MAX_TASKS {
        return Err(format!(
            "the plan has {} tasks; at most {MAX_TASKS} are allowed",
            tasks.len()
        ));
    }
    let mut ids = BTreeSet::new();
    for task in &tasks {
        if !ids.insert(task.id.clone()) {
            return Err(format!("the task id {} is used twice", task.id));
        }
    }
    let mut checked = Vec::with_capacity(tasks.len());
    for task in tasks {
        if let Some(unknown) = task.depends_on.iter().find(|id| !ids.contains(*id)) {
            return Err(format!(
                "task {} depends on {unknown}, which is not in the plan",
                task.id
            ));
        }
        checked.push(state(task, team, space)?);
    }
    acyclic(&checked)?;
    Ok(checked)
}

fn state(task: PlannedTask, team: &Team, space: &SpaceSnapshot) -> Result<TaskState, String> {
    let description = task.description.trim().to_owned();
    if description.is_empty() {
        return Err(format!("task {} has no description", task.id));
    }
    if description.len() > MAX_DESCRIPTION_BYTES {
        return Err(format!(
            "the description of task {} is longer than {MAX_DESCRIPTION_BYTES} bytes",
            task.id
        ));
    }
    let agent = team.resolve(&task.agent).map(|agent| agent.name.clone());
    let agent = agent.ok_or_else(|| {
        format!(
            "task {} is for {:?}, which is no agent of the project",
            task.id, task.agent
        )
    })?;
    let planned = (task.estimated_tokens > 0).then(|| task.estimated_tokens.min(MAX_TASK_TOKENS));
    let estimated_tokens = estimated_tokens(&agent, planned, space);
    let estimated_cost_usd = space.task_usd(&agent, estimated_tokens);
    let paths = paths(&task)?;
    let mut depends_on = task.depends_on;
    depends_on.sort();
    depends_on.dedup();
    Ok(TaskState {
        id: task.id,
        agent,
        description,
        depends_on,
        paths,
        estimated_tokens,
        estimated_cost_usd,
        state: TaskRun::Pending,
        usage: None,
    })
}

/// The declared paths in their one form, each once.
fn paths(task: &PlannedTask) -> Result<Vec<String>, String> {
    if task.paths.len() > MAX_TASK_PATHS {
        return Err(format!(
            "task {} declares {} paths; at most {MAX_TASK_PATHS} are allowed",
            task.id,
            task.paths.len()
        ));
    }
    let mut paths = Vec::with_capacity(task.paths.len());
    for written in &task.paths {
        let path = TaskPath::parse(written).map_err(|why| {
            let shown = cut(written, MAX_SHOWN_PATH_BYTES);
            format!("the path {shown:?} of task {} {why}", task.id)
        })?;
        paths.push(path.into_string());
    }
    paths.sort();
    paths.dedup();
    Ok(paths)
}

/// The larger of what the planner says and what the agent's tasks usually need: a person who
/// approves a cost should not meet a larger one.
fn estimated_tokens(agent: &AgentName, planned: Option<u64>, space: &SpaceSnapshot) -> u64 {
    planned
        .max(space.usual_tokens(agent))
        .unwrap_or(DEFAULT_TASK_TOKENS)
}

fn acyclic(tasks: &[TaskState]) -> Result<(), String> {
    let mut graph = DiGraphMap::<&str, ()>::new();
    for task in tasks {
        graph.add_node(task.id.as_str());
        for needed in &task.depends_on {
            graph.add_edge(needed.as_str(), task.id.as_str(), ());
        }
    }
    match petgraph::algo::toposort(&graph, None) {
        Ok(_) => Ok(()),
        Err(cycle) => Err(format!(
            "the tasks depend on each other in a circle through {}",
            cycle.node_id()
        )),
    }
}

/// A plan of one task.
pub(crate) fn single(
    agent: &crate::Agent,
    description: String,
    space: &SpaceSnapshot,
) -> Option<TaskState> {
    let estimated_tokens = estimated_tokens(&agent.name, None, space);
    Some(TaskState {
        id: TaskId::parse("task_1").ok()?,
        agent: agent.name.clone(),
        description,
        depends_on: Vec::new(),
        paths: Vec::new(),
        estimated_tokens,
        estimated_cost_usd: space.task_usd(&agent.name, estimated_tokens),
        state: TaskRun::Pending,
        usage: None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::parse_plan;
    use super::*;
    use crate::Agent;

    fn team() -> Team {
        let agent = |name: &str| {
            Agent::parse(&format!(
                "---\nname: {name}\ndescription: d\ntools: []\n---\nprompt"
            ))
            .unwrap()
        };
        Team::of_project(vec![agent("agent_coder"), agent("agent_writer")])
    }

    fn read(answer: &str) -> Result<Vec<TaskState>, String> {
        parse_plan(answer).and_then(|tasks| checked(tasks, &team(), &SpaceSnapshot::default()))
    }

    /// `a<b,c` is a task that depends on b and c.
    fn written(tasks: &[&str]) -> String {
        let tasks: Vec<serde_json::Value> = tasks
            .iter()
            .map(|task| {
                let (id, needs) = task.split_once('<').unwrap_or((task, ""));
                let needs: Vec<&str> = needs.split(',').filter(|id| !id.is_empty()).collect();
                serde_json::json!({ "id": id, "agent": "coder", "description": "do it", "depends_on": needs })
            })
            .collect();
        serde_json::json!({ "tasks": tasks }).to_string()
    }

    #[test]
    fn a_plan_is_found_in_what_the_model_says() {
        let plan = written(&["a", "b<a"]);
        let wrapped = format!(r#"{{"plan": {plan}}}"#);
        for answer in [
            plan.clone(),
            format!("Here is the plan:\n```json\n{plan}\n```\nTell me {{more}}."),
            format!("I use {{braces}} and {{}} first. {plan}"),
            format!("  {plan}  {{\"tasks\": []}}"),
            wrapped,
        ] {
            let tasks = read(&answer).unwrap_or_else(|error| panic!("{answer}: {error}"));
            assert_eq!(
                tasks
                    .iter()
                    .map(|task| task.id.as_str())
                    .collect::<Vec<_>>(),
                ["a", "b"],
                "{answer}"
            );
        }
    }

    #[test]
    fn a_plan_that_cannot_be_run_says_why() {
        let many: Vec<String> = (0..=MAX_TASKS).map(|n| format!("t{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let task = |fields: &str| format!(r#"{{"tasks": [{{"id": "a", {fields}}}]}}"#);
        let long = "x".repeat(MAX_DESCRIPTION_BYTES + 1);
        let cases = [
            (written(&["a<b", "b<c", "c<a"]), "in a circle"),
            (written(&["a<a"]), "in a circle"),
            (written(&["a", "b<x"]), "task b depends on x"),
            (written(&["a", "b", "a"]), "the task id a is used twice"),
            (written(&[]), "has no tasks"),
            (written(&many), "has 51 tasks; at most 50"),
            (written(&["a b"]), "cannot be read"),
            (
                task(r#""agent": "nobody", "description": "x""#),
                "\"nobody\", which is no agent",
            ),
            (
                task(r#""agent": "orchestrator", "description": "x""#),
                "no agent",
            ),
            (
                task(r#""agent": "coder", "description": "  ""#),
                "no description",
            ),
            (
                task(&format!(r#""agent": "coder", "description": "{long}""#)),
                "longer than",
            ),
            (task(r#""description": "x""#), "missing field `agent`"),
            (r#"{"tasks": [{"id": "a""#.to_owned(), "cannot be read"),
            ("{}".to_owned(), "missing field `tasks`"),
            ("I would rather not".to_owned(), "no JSON object"),
            (String::new(), "no JSON object"),
            ("{".repeat(100_000), "cannot be read"),
        ];
        for (answer, part) in cases {
            let shown: String = answer.chars().take(200).collect();
            let error = read(&answer).expect_err(&shown);
            assert!(error.contains(part), "{shown} gave {error}");
        }
    }

    #[test]
    fn the_longest_plan_and_loose_words_are_taken() {
        let ids: Vec<String> = (0..MAX_TASKS)
            .map(|n| {
                if n == 0 {
                    "t0".to_owned()
                } else {
                    format!("t{n}<t{}", n - 1)
                }
            })
            .collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        assert_eq!(read(&written(&ids)).unwrap().len(), MAX_TASKS);
        let loose = r#"{"tasks": [{"id": "a", "agent": "writer", "description": " x ", "depends_on": [],
            "estimated_tokens": 99999999999, "note": "?"}, {"id": "b", "agent": "agent_coder", "description": "y",
            "depends_on": ["a", "a"]}]}"#;
        let tasks = read(loose).unwrap();
        assert_eq!(tasks[0].agent.as_str(), "agent_writer");
        assert_eq!(
            (tasks[0].description.as_str(), tasks[0].estimated_tokens),
            ("x", MAX_TASK_TOKENS)
        );
        assert_eq!(
            (tasks[1].depends_on.len(), tasks[1].estimated_tokens),
            (1, DEFAULT_TASK_TOKENS)
        );
    }
}
