//! The variables of a line: the values that its loops assign, and the variables that would show the
//! environment.

use std::collections::HashMap;

use super::ast::{Expansion, Redirect, Script, Simple, Value, Word};
use super::parse::is_plain_variable;

/// With more combinations of values than this, the values of a command's variables count as
/// unknown.
const MAX_VARIANTS: usize = 64;

pub(crate) struct Variables<'a> {
    /// None if the line sets the variable to an unknown value.
    bound: HashMap<&'a str, Option<Vec<Word>>>,
}

impl<'a> Variables<'a> {
    pub fn of(script: &'a Script) -> Self {
        let here = Word {
            text: ".".to_owned(),
            ..Word::empty()
        };
        let mut bound = HashMap::from([("PWD", Some(vec![here]))]);
        for each in &script.loops {
            let known = !each.words.is_empty()
                && each.words.iter().all(|word| word.value != Value::Unknown);
            let values = bound
                .entry(each.variable.as_str())
                .or_insert_with(|| Some(Vec::new()));
            match values {
                Some(values) if known => values.extend(each.words.iter().cloned()),
                _ => *values = None,
            }
        }
        let reads = |simple: &&Simple| simple.words.iter().any(|word| word.text == "read");
        for word in script
            .commands
            .iter()
            .filter(reads)
            .flat_map(|simple| &simple.words)
        {
            bound.insert(&word.text, None);
        }
        Self { bound }
    }

    /// The command once for each value that a loop assigns to its variables.
    pub fn variants(&self, simple: &Simple) -> Vec<Simple> {
        let mut variants = vec![simple.clone()];
        for name in names(simple) {
            let Some(Some(values)) = self.bound.get(name.as_str()) else {
                continue;
            };
            if variants.len() * values.len() > MAX_VARIANTS {
                return vec![simple.clone()];
            }
            let with_each = |variant: &Simple| {
                values
                    .iter()
                    .map(|value| with(variant, &name, value))
                    .collect()
            };
            variants = variants
                .iter()
                .flat_map(|variant| -> Vec<Simple> { with_each(variant) })
                .collect();
        }
        variants
    }

    /// A parameter that the line did not set. It may hold anything from the environment, a password
    /// too.
    pub fn of_environment<'s>(&self, script: &'s Script) -> Option<&'s str> {
        let harmless = |name: &str| {
            self.bound.contains_key(name)
                || !name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
                || COMMON.contains(&name)
                || (is_plain_variable(name) && !SECRET_PARTS.iter().any(|part| name.contains(part)))
        };
        script
            .parameters
            .iter()
            .map(String::as_str)
            .find(|name| !harmless(name))
    }
}

/// Variables that tell the location and the user, and nothing secret.
const COMMON: &[&str] = &[
    "BASH_VERSION",
    "CARGO_HOME",
    "CI",
    "COLUMNS",
    "EDITOR",
    "EUID",
    "GOPATH",
    "GOROOT",
    "HOME",
    "HOSTNAME",
    "JAVA_HOME",
    "LANG",
    "LC_ALL",
    "LINENO",
    "LINES",
    "LOGNAME",
    "NODE_ENV",
    "OLDPWD",
    "OSTYPE",
    "PATH",
    "PPID",
    "PWD",
    "PYTHONPATH",
    "RANDOM",
    "RUSTUP_HOME",
    "SECONDS",
    "SHELL",
    "SHLVL",
    "TERM",
    "TMPDIR",
    "TZ",
    "UID",
    "USER",
    "VIRTUAL_ENV",
    "ZSH_VERSION",
];

const SECRET_PARTS: &[&str] = &[
    "auth", "cred", "key", "npm", "pass", "pwd", "secret", "token",
];

fn names(simple: &Simple) -> Vec<String> {
    let redirected = simple.redirects.iter().filter_map(target);
    let words = simple.words.iter().chain(redirected);
    let mut names: Vec<String> = words
        .flat_map(|word| &word.expansions)
        .filter_map(|e| e.parameter.clone())
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn target(redirect: &Redirect) -> Option<&Word> {
    match redirect {
        Redirect::Write(word) | Redirect::Read(word) => Some(word),
        Redirect::Harmless => None,
    }
}

fn with(simple: &Simple, name: &str, value: &Word) -> Simple {
    let mut simple = simple.clone();
    for word in &mut simple.words {
        replace(word, name, value);
    }
    for redirect in &mut simple.redirects {
        if let Redirect::Write(word) | Redirect::Read(word) = redirect {
            replace(word, name, value);
        }
    }
    simple
}

/// Inserts the value where the word expands the variable. Outside quotes the shell would split the
/// value. So a value with white space, or one that is a pattern of file names, stays unknown.
fn replace(word: &mut Word, name: &str, value: &Word) {
    let is_meant = |parameter: &Option<String>| parameter.as_deref() == Some(name);
    let stays_whole = value.value == Value::Exact
        && !value.text.contains(char::is_whitespace)
        && !value.text.is_empty();
    let mut meant = word
        .expansions
        .iter()
        .filter(|each| is_meant(&each.parameter))
        .peekable();
    if meant.peek().is_none() || meant.any(|each| !each.quoted && !stays_whole) {
        return;
    }
    let goes_on = |each: &Expansion| {
        !word.text[each.end..].is_empty() && !word.text[each.end..].starts_with('/')
    };
    if name == "PWD"
        && word
            .expansions
            .iter()
            .any(|each| is_meant(&each.parameter) && (each.start > 0 || goes_on(each)))
    {
        return;
    }
    let mut replaced = Word {
        text: String::new(),
        expansions: Vec::new(),
        ..word.clone()
    };
    let mut copied = 0;
    for expansion in &word.expansions {
        replaced.text.push_str(&word.text[copied..expansion.start]);
        copied = expansion.end;
        let start = replaced.text.len();
        if is_meant(&expansion.parameter) {
            replaced.text.push_str(&value.text);
            replaced.tilde |= value.tilde;
            replaced.globs |=
                value.globs || (!expansion.quoted && value.text.contains(['*', '?', '[']));
        } else {
            replaced
                .text
                .push_str(&word.text[expansion.start..expansion.end]);
            replaced.expansions.push(Expansion {
                start,
                end: replaced.text.len(),
                ..expansion.clone()
            });
        }
    }
    replaced.text.push_str(&word.text[copied..]);
    if replaced.expansions.is_empty() {
        replaced.value = if replaced.globs {
            Value::Pattern
        } else {
            Value::Exact
        };
        replaced.splits = false;
    }
    // A program's name never comes from a variable: it must stand in the line itself.
    replaced.quoted = true;
    *word = replaced;
}
