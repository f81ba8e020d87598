//! Judges one simple command: whether it passes without asking, and if not, why.

use super::ast::{Redirect, Simple, Value, Word};
use super::options;
use super::places::hides_dot_names;
use super::programs::{self, Rule};
use super::special;
use crate::paths::{Location, ProtectedPaths, WorkspacePrefix};

/// The directory in which the commands of a line run. `cd` changes it.
pub(crate) struct WorkingFolder<'a> {
    pub protected: &'a ProtectedPaths,
    /// The workspace's root, if it is known.
    pub root: Option<&'a WorkspacePrefix>,
    /// The directory in which the line starts, relative to the workspace's root.
    pub start: String,
    /// The directory in which commands run now, relative to the workspace's root, as far as the
    /// text tells.
    pub base: String,
    /// Whether that directory may be, or may have been, another one than the workspace's root.
    pub moved: bool,
}

/// Why a command asks.
#[derive(Debug, Clone, Default)]
pub(crate) struct AskReason {
    pub reason: String,
    /// The name of the dangerous part, such as `rm -rf`.
    pub danger: Option<String>,
    /// Whether the command would change a protected path.
    pub protected: bool,
}

impl AskReason {
    pub fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            ..Self::default()
        }
    }

    /// Puts the program's name before the reason.
    pub fn named(self, program: &str) -> Self {
        Self {
            reason: format!("{program}: {}", self.reason),
            ..self
        }
    }
}

/// The result of a check: nothing, or why the command asks.
pub(crate) type Judged = Result<(), AskReason>;

impl From<String> for AskReason {
    fn from(reason: String) -> Self {
        Self::new(reason)
    }
}

impl WorkingFolder<'_> {
    pub fn judge(&mut self, simple: &Simple) -> Judged {
        let judged = self.judge_parts(simple);
        judged.map_err(|mut finding| {
            finding.protected |= simple.words.iter().any(|word| self.mentions_protected(&word.text, word.value))
                || simple.redirects.iter().any(|redirect| {
                    matches!(redirect, Redirect::Write(word) if self.mentions_protected(&word.text, word.value))
                });
            finding
        })
    }

    fn judge_parts(&mut self, simple: &Simple) -> Judged {
        // The program comes first: `sudo` explains `A=b sudo x` better.
        let program = if simple.words.is_empty() {
            Ok(())
        } else {
            self.judge_program(&simple.words)
        };
        match program {
            Err(finding) if finding.danger.is_some() || !simple.assigns => return Err(finding),
            _ if simple.assigns => return Err(AskReason::new("changes the environment")),
            _ => {}
        }
        simple
            .words
            .iter()
            .try_for_each(|word| self.looks_inside(word))?;
        simple
            .redirects
            .iter()
            .try_for_each(|redirect| self.judge_redirect(redirect))
    }

    /// Judges a program with its arguments. Wrappers call this again with the command that they
    /// wrap.
    pub fn judge_program(&mut self, words: &[Word]) -> Judged {
        let Some((program, arguments)) = words.split_first() else {
            return Err(AskReason::new("a command is missing"));
        };
        let Some(name) = program.exact().filter(|_| !program.quoted) else {
            return Err(AskReason::new("the program's name is hidden or not known"));
        };
        let exact: Option<Vec<&str>> = arguments.iter().map(Word::exact).collect();
        if exact.is_some_and(|exact| programs::tells_version(name, &exact)) {
            return Ok(());
        }
        let name = programs::tool_of_project(name).unwrap_or(name);
        if let Some(rule) = programs::rule(name) {
            return self.apply(rule, name, arguments);
        }
        Err(match programs::danger(name) {
            Some(reason) => dangerous(reason, words),
            None if name.contains(['/', '\\']) => AskReason::new("runs a file by its path"),
            None => AskReason::new(format!("{name} is not a known safe program")),
        })
    }

    pub fn apply(&mut self, rule: Rule, name: &str, arguments: &[Word]) -> Judged {
        match rule {
            Rule::Free => Ok(()),
            Rule::Options(allowed) => {
                options::check(self, allowed, arguments).map_err(|finding| finding.named(name))
            }
            Rule::Either(first, second) => {
                let judged = self.apply(*first, name, arguments);
                if judged.is_err() && self.apply(*second, name, arguments).is_ok() {
                    Ok(())
                } else {
                    judged
                }
            }
            Rule::Commands(global, commands) => self.subcommand(global, commands, name, arguments),
            Rule::Special(special) => special::judge(self, special, name, arguments),
        }
    }

    fn subcommand(
        &mut self,
        global: &[&str],
        commands: &[(&str, Rule)],
        name: &str,
        mut arguments: &[Word],
    ) -> Judged {
        while let Some((first, rest)) = arguments.split_first() {
            let Some(text) = first.exact() else { break };
            if let Some((_, rule)) = commands.iter().find(|(command, _)| *command == text) {
                return self.apply(*rule, &format!("{name} {text}"), rest);
            }
            if !global.contains(&text) {
                return Err(AskReason::new(format!(
                    "{name} {text} is not known to be safe"
                )));
            }
            arguments = rest;
        }
        Err(AskReason::new(format!("{name} without a known command")))
    }

    fn judge_redirect(&self, redirect: &Redirect) -> Judged {
        match redirect {
            Redirect::Harmless => Ok(()),
            Redirect::Write(word) if word.exact() == Some("/dev/null") => Ok(()),
            Redirect::Write(word) => self.writes_data(word),
            Redirect::Read(word) => self.reads(word),
        }
    }

    /// A file that is written without asking must be plain data inside the workspace.
    pub fn writes_data(&self, word: &Word) -> Judged {
        self.changes_path(word)?;
        if Location::of(&word.text).is_plain_data() {
            Ok(())
        } else {
            Err(AskReason::new(format!(
                "File modification requires approval: {}",
                word.text
            )))
        }
    }

    /// The same check for the value of an option.
    pub fn writes_data_text(&self, text: &str) -> Judged {
        self.writes_data(&Word {
            text: text.to_owned(),
            ..Word::empty()
        })
    }

    /// A path that is created or changed must be known, inside the workspace and not protected.
    pub fn changes_path(&self, word: &Word) -> Judged {
        if self.mentions_protected(&word.text, word.value) {
            let reason = format!("changes a protected path: {}", word.text);
            return Err(AskReason {
                protected: true,
                ..AskReason::new(reason)
            });
        }
        if word.value != Value::Exact {
            return Err(AskReason::new(format!(
                "writes to a path that is not known: {}",
                word.text
            )));
        }
        if !self.stays_inside(word) {
            let danger = Location::of(&word.text)
                .is_system()
                .then(|| format!("write to {}", word.text));
            let reason = format!("writes outside the workspace: {}", word.text);
            return Err(AskReason {
                danger,
                ..AskReason::new(reason)
            });
        }
        Ok(())
    }

    pub fn is_protected(&self, path: &str) -> bool {
        Location::of(path).is_protected(self.protected)
            || Location::from_base(&self.base, path).is_protected(self.protected)
    }

    /// Whether any path in the text is protected, also in the value of an option or inside inline
    /// code.
    pub fn mentions_protected(&self, text: &str, value: Value) -> bool {
        let pieces = || {
            text.split(|character: char| {
                character.is_whitespace()
                    || character.is_control()
                    || "=,;|&<>()'\"`{}$".contains(character)
            })
        };
        let colons = || text.split(':');
        self.is_protected(text)
            || pieces()
                .chain(colons())
                .any(|piece| !piece.is_empty() && self.is_protected(piece))
            || (value != Value::Exact && hides_dot_names(text))
    }
}

/// The finding for a program on the danger list. It names the options that follow.
fn dangerous(reason: &str, words: &[Word]) -> AskReason {
    const SHOWN_OPTIONS: usize = 3;
    let options = words
        .iter()
        .skip(1)
        .take(SHOWN_OPTIONS)
        .take_while(|word| word.text.starts_with('-'));
    let name: Vec<&str> = words
        .first()
        .into_iter()
        .chain(options)
        .map(|word| word.text.as_str())
        .collect();
    AskReason {
        danger: Some(name.join(" ")),
        ..AskReason::new(reason)
    }
}
