//! Decides whether a shell line needs a person's approval. A line passes only if it parses fully
//! and every simple command in it is known to be safe; every other line asks. The analysis is for
//! POSIX shells (`sh`, `bash`, `zsh`). A client that runs commands in another way has to ask for
//! each of them.

mod ast;
mod floor;
mod git_only;
mod judge;
mod operands;
mod options;
mod parse;
mod places;
mod programs;
mod special;
mod values;
mod variables;

use codelab_protocol::{CommandPart, ExecuteCommand};

use self::ast::{Script, Value};
use self::judge::{AskReason, WorkingFolder};
use self::variables::Variables;
use crate::paths::Location;
use crate::visible::has_hidden;
use crate::{Ask, Policy, RememberKey, Verdict, visible};

pub(crate) use self::floor::Floor;
pub use self::git_only::{is_git_only, runs_git};
pub use self::operands::operands;

/// A longer line is not analysed and asks. Nobody reads more than this in a question.
const MAX_COMMAND_BYTES: usize = 8192;
/// A line with more simple commands than this asks, and the list shows no more than this.
const MAX_PARTS: usize = 50;
/// Longer parts are cut in the list; the call itself shows the whole command.
const MAX_PART_CHARS: usize = 2000;

pub(crate) fn review(policy: &Policy, call: &ExecuteCommand) -> Verdict {
    let command = call.command.as_str();
    let cwd = call.cwd.as_deref().unwrap_or_default();
    if command.len() > MAX_COMMAND_BYTES {
        return unanalysed(command, "The command is too long to analyse".to_owned());
    }
    if has_hidden(command) || has_hidden(cwd) {
        return unanalysed(command, "The command holds hidden characters".to_owned());
    }
    let floor = policy.floor.matched(command);
    let script = match parse::parse(command) {
        Ok(script) => script,
        Err(error) => {
            let reason = format!("The command cannot be analysed: {error}");
            return unanalysed(command, floor.map_or(reason, dangerous));
        }
    };
    let mut outcome = judge_all(policy, cwd, &script);
    if script.commands.len() > MAX_PARTS {
        outcome.first.get_or_insert_with(|| {
            AskReason::new(format!("more than {MAX_PARTS} commands in one line"))
        });
    }
    let place = Location::of(cwd);
    let known = policy
        .root
        .as_ref()
        .is_some_and(|root| root.relative(cwd).is_some());
    if place.climbs || (place.absolute && !known) {
        outcome
            .first
            .get_or_insert_with(|| AskReason::new("works outside the workspace"));
    }
    let reason = match (&outcome.first, floor) {
        (
            Some(AskReason {
                danger: Some(danger),
                ..
            }),
            _,
        ) => dangerous(visible(danger)),
        (_, Some(floor)) => dangerous(floor),
        (Some(finding), None) => format!("Command requires approval: {}", visible(&finding.reason)),
        (None, None) => return Verdict::Allow,
    };
    // A loop or a variable may hold the path, so the whole line is searched, with and without its
    // quotes.
    let unquoted = command.replace(['\'', '"', '\\'], "");
    outcome.protected |= [command, &unquoted]
        .iter()
        .any(|text| outcome.scene.mentions_protected(text, Value::Exact));
    let reason = if outcome.protected {
        format!("{reason} (names a protected path)")
    } else {
        reason
    };
    let remember = (!outcome.protected).then(|| remember_key(call));
    Verdict::Ask(Ask {
        reason,
        parts: limited(outcome.parts),
        remember,
    })
}

struct Outcome<'a> {
    scene: WorkingFolder<'a>,
    parts: Vec<CommandPart>,
    /// The finding to show: the first dangerous one, or else the first one.
    first: Option<AskReason>,
    protected: bool,
}

fn judge_all<'a>(policy: &'a Policy, cwd: &str, script: &Script) -> Outcome<'a> {
    let variables = Variables::of(script);
    let mut outcome = Outcome {
        scene: scene(policy, cwd),
        parts: Vec::new(),
        first: None,
        protected: false,
    };
    for simple in &script.commands {
        let variants = variables.variants(simple);
        let finding = variants
            .iter()
            .find_map(|variant| outcome.scene.judge(variant).err());
        let reason = finding.as_ref().map(|finding| visible(&finding.reason));
        outcome.parts.push(CommandPart {
            text: shown(&simple.text),
            reason,
        });
        outcome.add(finding);
    }
    let looked_up = script.loops.iter().flat_map(|each| &each.words);
    let finding = looked_up
        .into_iter()
        .find_map(|word| outcome.scene.looks_inside(word).err());
    outcome.add(finding);
    if let Some(name) = variables.of_environment(script) {
        outcome.add(Some(AskReason::new(format!(
            "shows the variable {name} of the environment"
        ))));
    }
    for concern in &script.concerns {
        outcome.parts.push(CommandPart {
            text: shown(&concern.text),
            reason: Some(concern.reason.to_owned()),
        });
        let protected = outcome
            .scene
            .mentions_protected(&concern.text, Value::Exact);
        outcome.add(Some(AskReason {
            protected,
            ..AskReason::new(concern.reason)
        }));
    }
    outcome
}

fn scene<'a>(policy: &'a Policy, cwd: &str) -> WorkingFolder<'a> {
    let start = policy
        .root
        .as_ref()
        .and_then(|root| root.relative(cwd))
        .unwrap_or_else(|| cwd.to_owned());
    let moved = !matches!(start.trim_end_matches('/'), "" | ".");
    WorkingFolder {
        protected: &policy.protected,
        root: policy.root.as_ref(),
        base: start.clone(),
        start,
        moved,
    }
}

impl Outcome<'_> {
    fn add(&mut self, finding: Option<AskReason>) {
        let Some(finding) = finding else { return };
        self.protected |= finding.protected;
        let better = match &self.first {
            None => true,
            Some(first) => first.danger.is_none() && finding.danger.is_some(),
        };
        if better {
            self.first = Some(finding);
        }
    }
}

/// Nothing is known about what such a line touches, so no remembered approval covers it.
fn unanalysed(command: &str, reason: String) -> Verdict {
    let parts = vec![CommandPart {
        text: shown(command),
        reason: Some(reason.clone()),
    }];
    Verdict::Ask(Ask {
        reason,
        parts,
        remember: None,
    })
}

fn dangerous(what: String) -> String {
    format!("Dangerous command: {what}")
}

/// The command and its folder as one JSON text, so that two different calls never share a key.
fn remember_key(call: &ExecuteCommand) -> RememberKey {
    RememberKey::Command(serde_json::json!([call.command, call.cwd]).to_string())
}

fn shown(text: &str) -> String {
    let cut: String = text.chars().take(MAX_PART_CHARS).collect();
    let mark = if cut.len() < text.len() { " …" } else { "" };
    visible(&cut) + mark
}

/// The parts that a person must see stay before all others, in the order of the line.
fn limited(mut parts: Vec<CommandPart>) -> Vec<CommandPart> {
    if parts.len() > MAX_PARTS {
        let left_out = parts.len() - MAX_PARTS;
        let asking = parts.iter().filter(|part| part.reason.is_some()).count();
        let mut room = [MAX_PARTS.min(asking), MAX_PARTS.saturating_sub(asking)];
        parts.retain(|part| {
            let room = &mut room[usize::from(part.reason.is_none())];
            let is_kept = *room > 0;
            *room = room.saturating_sub(1);
            is_kept
        });
        parts.push(CommandPart {
            text: "…".to_owned(),
            reason: Some(format!("{left_out} more commands")),
        });
    }
    parts
}
