//! A planner's reply, read as real models write it: integers for ids, `null` and fractions for
//! sizes, a bare list, text and thoughts around the JSON, paths that are none. Whether the tasks can be run is decided
//! in `graph`.

use codelab_protocol::{MAX_TASK_PATHS, PlannedTask, TaskId, TaskPath};
use serde::Deserialize;
use serde_json::Value;

use crate::turn::cut;

/// Bytes of a reply that are read; the longest plan that can be run is shorter.
const MAX_REPLY_BYTES: usize = 1024 * 1024;
/// Places in a reply that are tried as the start of the plan.
const MAX_PLAN_STARTS: usize = 64;
/// Tags around a model's thoughts. What stands there can be a draft, so the plan is looked for
/// after it.
const THOUGHTS_END: [&str; 3] = ["</think>", "</thinking>", "</reasoning>"];

/// Reads the plan from a model's reply: the first JSON that is one, whatever text is around it.
pub fn parse_plan(reply: &str) -> Result<Vec<PlannedTask>, String> {
    let after_thoughts = THOUGHTS_END
        .iter()
        .filter_map(|tag| reply.rfind(tag).map(|at| at + tag.len()))
        .max();
    match after_thoughts.and_then(|start| reply.get(start..)) {
        // If nothing follows the thoughts, the plan may be inside them.
        Some(answer) => plan_in(answer).or_else(|why| plan_in(reply).map_err(|_| why)),
        None => plan_in(reply),
    }
}

fn plan_in(text: &str) -> Result<Vec<PlannedTask>, String> {
    let text = cut(text, MAX_REPLY_BYTES);
    // The model is told what is wrong with its JSON rather than with a bracket in its prose.
    let (mut in_json, mut in_prose) = (None, None);
    for (start, _) in text.match_indices(['{', '[']).take(MAX_PLAN_STARTS) {
        let from = text.get(start..).unwrap_or_default();
        match serde_json::Deserializer::from_str(from)
            .into_iter::<Written>()
            .next()
        {
            Some(Ok(written)) => return written.tasks(),
            // Where the whole was cut off, what stands inside it is no plan either: the first of
            // them counts.
            Some(Err(error)) if error.is_data() || error.is_eof() => {
                in_json = in_json.or(Some(error))
            }
            Some(Err(error)) => in_prose = in_prose.or(Some(error)),
            None => {}
        }
    }
    match in_json.or(in_prose) {
        Some(error) if error.is_eof() => Err(format!(
            "the plan cannot be read: it was cut off before its end ({error})"
        )),
        Some(error) => Err(format!("the plan cannot be read: {error}")),
        None => Err("the answer holds no JSON object".to_owned()),
    }
}

#[derive(Deserialize)]
struct Plan {
    tasks: Vec<WrittenTask>,
}

enum Written {
    Plan(Plan),
    List(Vec<WrittenTask>),
}

impl<'de> Deserialize<'de> for Written {
    /// Not an untagged enum: that one says of every mistake only that nothing matched, and the
    /// model is told the mistake.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        match Value::deserialize(deserializer)? {
            Value::Array(empty) if empty.is_empty() => {
                return Err(D::Error::custom("an empty list"));
            }
            list @ Value::Array(_) => serde_json::from_value(list).map(Self::List),
            other => serde_json::from_value(other).map(Self::Plan),
        }
        .map_err(D::Error::custom)
    }
}

impl Written {
    fn tasks(self) -> Result<Vec<PlannedTask>, String> {
        let (Self::Plan(Plan { tasks }) | Self::List(tasks)) = self;
        tasks.into_iter().map(WrittenTask::planned).collect()
    }
}

#[derive(Deserialize)]
struct WrittenTask {
    id: Name,
    agent: String,
    description: String,
    #[serde(default)]
    depends_on: Needs,
    #[serde(default)]
    paths: Value,
    #[serde(default)]
    estimated_tokens: Value,
}

/// An id as a text or a number.
#[derive(Deserialize)]
#[serde(untagged)]
enum Name {
    Text(String),
    Whole(i64),
    Fraction(f64),
}

/// A list of ids, one id, or nothing.
#[derive(Deserialize, Default)]
#[serde(untagged)]
enum Needs {
    Several(Vec<Name>),
    One(Name),
    #[default]
    None,
}

impl WrittenTask {
    fn planned(self) -> Result<PlannedTask, String> {
        let needs = match self.depends_on {
            Needs::Several(needs) => needs,
            Needs::One(need) => vec![need],
            Needs::None => Vec::new(),
        };
        Ok(PlannedTask {
            id: self.id.task_id()?,
            agent: self.agent.trim().to_owned(),
            description: self.description,
            depends_on: needs
                .into_iter()
                .map(Name::task_id)
                .collect::<Result<_, _>>()?,
            paths: paths(&self.paths),
            estimated_tokens: tokens(&self.estimated_tokens),
        })
    }
}

impl Name {
    fn task_id(self) -> Result<TaskId, String> {
        let text = match self {
            Self::Text(text) => text,
            Self::Whole(number) => number.to_string(),
            Self::Fraction(number) => number.to_string(),
        };
        TaskId::parse(text.trim()).map_err(|error| format!("the plan cannot be read: {error}"))
    }
}

/// The paths that the planner declares. Where one cannot be used, or there are too many, the task may
/// write anything: that costs time and no plan.
fn paths(written: &Value) -> Vec<String> {
    let given: Vec<Option<&str>> = match written {
        Value::Null => Vec::new(),
        Value::Array(paths) => paths.iter().map(Value::as_str).collect(),
        path => vec![path.as_str()],
    };
    let usable = |path: &Option<&str>| path.and_then(|path| TaskPath::parse(path).ok());
    let given = given.iter().filter(|path| **path != Some(""));
    let paths: Option<Vec<TaskPath>> = given.map(usable).collect();
    let paths = paths.filter(|paths| paths.len() <= MAX_TASK_PATHS);
    let paths = paths.unwrap_or_else(|| vec![TaskPath::whole_workspace()]);
    paths.into_iter().map(TaskPath::into_string).collect()
}

/// What the planner says of a task's size; 0 where it says nothing of use.
fn tokens(written: &Value) -> u64 {
    let number = match written {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().replace([',', '_', ' '], "").parse().ok(),
        _ => None,
    };
    // A cast of a float stops at the bounds of the type.
    number
        .filter(|tokens| tokens.is_finite())
        .map_or(0, |tokens| tokens.ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = r#"{"tasks": [{"id": "1", "agent": "coder", "description": "d", "estimated_tokens": 500},
        {"id": "2", "agent": "writer", "description": "e", "depends_on": ["1"], "estimated_tokens": 0}]}"#;

    #[test]
    fn replies_of_real_models_are_understood() {
        let list = r#"[{"id": 1, "agent": "coder", "description": "d", "depends_on": null, "estimated_tokens": 499.5},
            {"id": 2, "agent": "writer", "description": "e", "depends_on": [1], "estimated_tokens": null}]"#;
        let numbers = format!(r#"{{"tasks": {list}}}"#);
        let loose = r#"{"tasks": [{"id": 1.0, "agent": " coder ", "description": "d", "depends_on": "",
            "estimated_tokens": "500"}, {"id": "2", "agent": "writer", "description": "e", "depends_on": 1,
            "estimated_tokens": -7}]}"#;
        let draft = r#"{"tasks": [{"id": "draft", "agent": "coder", "description": "x"}]}"#;
        let loose = loose.replace(r#""depends_on": "","#, "");
        for reply in [
            PLAN.to_owned(),
            numbers.clone(),
            list.to_owned(),
            loose,
            format!(r#"{{"plan": {list}}}"#),
            format!("Here is the plan [two tasks]:\n```json\n{numbers}\n```\nTell me {{more}}."),
            format!("```\n{list}\n```"),
            format!("I use {{}} and [] and [1] first. {PLAN}"),
            format!("<think>First {draft}, no, [two] tasks.</think>\n\n{numbers}"),
            format!("The prompt began my thoughts {draft} </think>{PLAN}"),
            format!("<thinking>{{</thinking> Sure! {list} Shall I go on?"),
            format!("<think>I only think {PLAN}</think>"),
        ] {
            let plan = parse_plan(&reply).unwrap_or_else(|error| panic!("{reply}: {error}"));
            assert_eq!(plan, parse_plan(PLAN).unwrap(), "{reply}");
        }
        assert_eq!(parse_plan(PLAN).unwrap()[1].depends_on.len(), 1);
    }

    #[test]
    fn a_plan_that_was_cut_off_is_told_so() {
        let end = PLAN.len() - 1;
        for cut in [PLAN.len() / 2, end - 1] {
            let why = parse_plan(&format!("Here it is: {}", &PLAN[..cut])).unwrap_err();
            assert!(why.contains("cut off"), "{cut}: {why}");
        }
        let why = parse_plan(r#"{"tasks": [{"id": "1", "agent": "coder"}]}"#).unwrap_err();
        assert!(why.contains("description"), "{why}");
        let why = parse_plan("I have no plan {yet").unwrap_err();
        assert!(!why.contains("cut off"), "{why}");
    }

    #[test]
    fn unusable_paths_stand_for_the_whole_workspace() {
        let many: Vec<String> = (0..=MAX_TASK_PATHS).map(|n| format!("f{n}")).collect();
        for (written, expected) in [
            (
                serde_json::json!(["src/a.rs", "./docs/"]),
                vec!["src/a.rs", "docs"],
            ),
            (serde_json::json!("src"), vec!["src"]),
            (serde_json::json!(null), vec![]),
            (serde_json::json!([""]), vec![]),
            (serde_json::json!(["src", "/etc/passwd"]), vec!["."]),
            (serde_json::json!(["../x"]), vec!["."]),
            (serde_json::json!([7]), vec!["."]),
            (serde_json::json!({ "path": "x" }), vec!["."]),
            (serde_json::json!(many), vec!["."]),
        ] {
            assert_eq!(paths(&written), expected, "{written}");
        }
    }

    #[test]
    fn sizes_are_whole_numbers_or_nothing() {
        for (written, expected) in [
            ("12", 12),
            ("1.2", 2),
            ("1e3", 1000),
            ("1e300", u64::MAX),
            ("-3", 0),
            ("null", 0),
            ("\"2,000\"", 2000),
            ("\"many\"", 0),
            ("\"inf\"", 0),
            ("[5]", 0),
            ("true", 0),
        ] {
            assert_eq!(
                tokens(&serde_json::from_str(written).unwrap()),
                expected,
                "{written}"
            );
        }
    }
}
