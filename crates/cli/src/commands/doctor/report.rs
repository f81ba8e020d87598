//! What was found, as lines for people or as JSON for machines.

use std::io::{IsTerminal, Write as _};
use std::process::ExitCode;

use codelab_policy::visible;
use rustix::termios::tcgetwinsize;
use serde_json::{Value, json};

use crate::commands::say;

/// Where the text of a line begins.
const INDENT: usize = 22;
/// On a narrower screen lines are left as they are.
const MIN_WIDTH: usize = 60;
const MAX_WIDTH: usize = 120;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    Ok,
    /// It can be used, but not as well as it could.
    Warning,
    Problem,
}

/// One line.
#[derive(Debug, Clone)]
pub struct DoctorFinding {
    pub check: &'static str,
    pub status: Status,
    /// Sentences.
    pub found: String,
    /// What to do, where there is something to do.
    pub advice: Option<String>,
}

pub struct DoctorReport {
    json: bool,
    /// Columns, where a terminal reads along.
    width: Option<usize>,
    colour: bool,
    findings: Vec<DoctorFinding>,
}

impl Status {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }

    /// Green, yellow, red.
    fn colour(self) -> u8 {
        match self {
            Self::Ok => 32,
            Self::Warning => 33,
            Self::Problem => 31,
        }
    }
}

impl DoctorFinding {
    pub fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self {
            check,
            status: Status::Ok,
            found: plain(&found.into()),
            advice: None,
        }
    }

    pub fn warning(
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            check,
            status: Status::Warning,
            found: plain(&found.into()),
            advice: Some(advice.into()),
        }
    }

    pub fn problem(
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            check,
            status: Status::Problem,
            found: plain(&found.into()),
            advice: Some(advice.into()),
        }
    }

    fn text(&self) -> String {
        let text = match &self.advice {
            Some(advice) => format!("{} {advice}", self.found),
            None => self.found.clone(),
        };
        visible(&text).replace('\n', " ")
    }

    fn json(&self) -> Value {
        json!({ "check": self.check, "status": self.status.as_str(), "found": self.found, "advice": self.advice })
    }
}

impl DoctorReport {
    pub fn begin(json: bool) -> Self {
        let out = std::io::stdout();
        let is_terminal = out.is_terminal() && !json;
        let width = tcgetwinsize(&out).ok().map(|size| usize::from(size.ws_col));
        let width = width
            .filter(|width| is_terminal && *width >= MIN_WIDTH)
            .map(|width| width.min(MAX_WIDTH));
        let colour =
            is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self {
            json,
            width,
            colour,
            findings: Vec::new(),
        }
    }

    /// Shown at once, so that a person sees what is waited for.
    pub fn tell(&mut self, finding: DoctorFinding) {
        if !self.json {
            let status = format!("{:<8}", finding.status.as_str());
            let status = if self.colour {
                paint(&status, finding.status)
            } else {
                status
            };
            let lines = wrapped(&finding.text(), self.width.map(|width| width - INDENT));
            say(&format!(
                "{status} {:<12} {}",
                finding.check,
                lines.join(&format!("\n{}", " ".repeat(INDENT)))
            ));
        }
        self.findings.push(finding);
    }

    /// The last line, or all of it as JSON, and what scripts learn.
    pub fn end(self) -> ExitCode {
        let worst = self
            .findings
            .iter()
            .map(|finding| finding.status)
            .max()
            .unwrap_or(Status::Ok);
        if self.json {
            let checks: Vec<Value> = self.findings.iter().map(DoctorFinding::json).collect();
            let version = env!("CARGO_PKG_VERSION");
            say(
                &json!({ "version": version, "status": worst.as_str(), "checks": checks })
                    .to_string(),
            );
        } else {
            let summary = summary(self.count(Status::Problem), self.count(Status::Warning));
            say(&format!(
                "\n{}",
                if self.colour {
                    paint(&summary, worst)
                } else {
                    summary
                }
            ));
        }
        let _ = std::io::stdout().flush();
        if worst == Status::Problem {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        }
    }

    fn count(&self, status: Status) -> usize {
        self.findings
            .iter()
            .filter(|finding| finding.status == status)
            .count()
    }
}

/// Without the numbers that the system adds to its own words.
fn plain(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once(')').map_or("", |(_, rest)| rest));
    }
    plain
}

fn summary(problems: usize, warnings: usize) -> String {
    let some =
        |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    match (problems, warnings) {
        (0, 0) => "All is well.".to_owned(),
        (0, _) => format!("CodeLab can be used, with {}.", some(warnings, "warning")),
        (_, 0) => format!("{}.", some(problems, "problem")),
        _ => format!(
            "{} and {}.",
            some(problems, "problem"),
            some(warnings, "warning")
        ),
    }
}

fn paint(text: &str, status: Status) -> String {
    format!("\u{1b}[{}m{text}\u{1b}[0m", status.colour())
}

/// Cut between words. A word that is longer than a line has one of its own.
fn wrapped(text: &str, width: Option<usize>) -> Vec<String> {
    let Some(width) = width else {
        return vec![text.to_owned()];
    };
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_between_words() {
        let lines = |width| wrapped("one two three-and-more four", width);
        assert_eq!(lines(None), ["one two three-and-more four"]);
        assert_eq!(lines(Some(8)), ["one two", "three-and-more", "four"]);
    }

    #[test]
    fn numbers_of_the_system_are_left_out() {
        let found = DoctorFinding::ok(
            "cache",
            "a: Connection refused (os error 111). b: No route (os error 113); c",
        )
        .found;
        assert_eq!(found, "a: Connection refused. b: No route; c");
    }

    #[test]
    fn the_last_line_counts() {
        for ((problems, warnings), said) in [
            ((0, 0), "All is well."),
            ((0, 1), "CodeLab can be used, with 1 warning."),
            ((2, 0), "2 problems."),
            ((1, 3), "1 problem and 3 warnings."),
        ] {
            assert_eq!(summary(problems, warnings), said);
        }
    }
}
