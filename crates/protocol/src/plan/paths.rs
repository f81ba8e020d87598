//! The files and folders that a task of a plan declares to write. They are compared as names, only
//! to decide which tasks wait for each other. No file is opened by them.

use crate::{Plan, PlanStatus, Task, TaskId, TaskStatus};

/// Paths that one task may declare.
pub const MAX_TASK_PATHS: usize = 20;
/// The longest path.
pub const MAX_PATH_BYTES: usize = 512;
/// The path of the whole workspace.
const ROOT: &str = ".";

/// A declared path in its one form: relative, with `/`, without `.` and `..`; `.` is the workspace
/// itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskPath(String);

impl TaskPath {
    /// Of a task that may write anything.
    pub fn whole_workspace() -> Self {
        Self(ROOT.to_owned())
    }

    /// Why a path cannot be used, in words that complete "the path … ". A pattern such as
    /// `src/*.rs` stands for the folder before it.
    pub fn parse(written: &str) -> Result<Self, &'static str> {
        let written = written.trim();
        if written.is_empty() {
            return Err("is empty");
        }
        if written.len() > MAX_PATH_BYTES {
            return Err("is too long");
        }
        if written.chars().any(char::is_control) {
            return Err("has a control character");
        }
        let is_drive = written.as_bytes().get(1) == Some(&b':');
        if written.starts_with(['/', '\\', '~']) || is_drive {
            return Err("is not relative to the workspace");
        }
        let mut parts = Vec::new();
        for part in written.split(['/', '\\']) {
            match part {
                "" | "." => {}
                ".." => return Err("leaves its folder with \"..\""),
                part if part.contains(['*', '?']) => break,
                part => parts.push(part),
            }
        }
        Ok(Self(match parts.is_empty() {
            true => ROOT.to_owned(),
            false => parts.join("/"),
        }))
    }

    pub fn into_string(self) -> String {
        self.0
    }
}

/// Whether the two declare the same path, or one that lies beneath the other's. Letters are compared
/// without case, because two such names can be one file.
pub fn paths_overlap(some: &[String], others: &[String]) -> bool {
    let any = |path: &String| others.iter().any(|other| overlap(path, other));
    some.iter().any(any)
}

fn overlap(one: &str, other: &str) -> bool {
    let (one, other) = (one.to_lowercase(), other.to_lowercase());
    one == ROOT || other == ROOT || is_beneath(&one, &other) || is_beneath(&other, &one)
}

/// Also whether they are the same.
fn is_beneath(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Plan {
    /// The tasks that this one waits for only because they write the same files: those that run, and
    /// those that come before it in the plan and may start as well.
    pub fn waits_for(&self, task: &Task) -> Vec<TaskId> {
        let Some(place) = self.tasks.iter().position(|known| known.id == task.id) else {
            return Vec::new();
        };
        if self.status != PlanStatus::Running || !self.may_start(task) {
            return Vec::new();
        }
        let holds = |(other_place, other): &(usize, &Task)| match other.status {
            TaskStatus::Queued | TaskStatus::Running | TaskStatus::Waiting => true,
            TaskStatus::Pending => *other_place < place && self.may_start(other),
            TaskStatus::Completed
            | TaskStatus::Failed
            | TaskStatus::Skipped
            | TaskStatus::Cancelled => false,
        };
        let others = self.tasks.iter().enumerate().filter(holds);
        others
            .filter(|(_, other)| paths_overlap(&task.paths, &other.paths))
            .map(|(_, other)| other.id.clone())
            .collect()
    }

    /// Whether it has not begun, and everything that it depends on is done.
    fn may_start(&self, task: &Task) -> bool {
        let is_done = |id: &TaskId| {
            let mut tasks = self.tasks.iter();
            tasks.any(|task| task.id == *id && task.status == TaskStatus::Completed)
        };
        task.status == TaskStatus::Pending && task.depends_on.iter().all(is_done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_form_or_none() {
        for (written, expected) in [
            ("src/main.rs", Ok("src/main.rs")),
            (" ./src//a/ ", Ok("src/a")),
            ("src\\win\\a.rs", Ok("src/win/a.rs")),
            (".", Ok(".")),
            ("./", Ok(".")),
            ("src/**/*.rs", Ok("src")),
            ("*.md", Ok(".")),
            ("app/[id]/page.tsx", Ok("app/[id]/page.tsx")),
            (".github/workflows", Ok(".github/workflows")),
            ("a..b", Ok("a..b")),
            ("", Err("is empty")),
            ("  ", Err("is empty")),
            ("/etc/passwd", Err("is not relative to the workspace")),
            ("~/notes", Err("is not relative to the workspace")),
            ("C:\\x", Err("is not relative to the workspace")),
            ("\\\\host\\x", Err("is not relative to the workspace")),
            ("src/../../x", Err("leaves its folder with \"..\"")),
            ("a\0b", Err("has a control character")),
        ] {
            let parsed = TaskPath::parse(written).map(TaskPath::into_string);
            assert_eq!(parsed, expected.map(str::to_owned), "{written:?}");
        }
        assert!(TaskPath::parse(&"x".repeat(MAX_PATH_BYTES)).is_ok());
        assert!(TaskPath::parse(&"x".repeat(MAX_PATH_BYTES + 1)).is_err());
    }

    #[test]
    fn only_the_same_path_or_one_beneath_it_overlaps() {
        for (one, other, expected) in [
            ("src/a.rs", "src/a.rs", true),
            ("src", "src/a.rs", true),
            ("src/deep/a.rs", "src", true),
            ("SRC/A.rs", "src/a.rs", true),
            ("Тест", "тест/a", true),
            (".", "anything", true),
            ("src", "src2", false),
            ("src/a", "src/ab", false),
            ("src/a.rs", "src/b.rs", false),
            ("a", "b", false),
        ] {
            let of = |path: &str| vec!["other/file".to_owned(), path.to_owned()];
            let lists = (of(one), vec![other.to_owned()]);
            assert_eq!(paths_overlap(&lists.0, &lists.1), expected, "{one} {other}");
            assert_eq!(paths_overlap(&lists.1, &lists.0), expected, "{other} {one}");
        }
        assert!(!paths_overlap(&[], &[ROOT.to_owned()]));
    }
}
