//! The result of parsing a shell line: every simple command, at any depth, in the order of the
//! text.

/// A parsed line. Nesting is flattened: a command inside a loop, a subshell or a substitution runs
/// like any other, so it is judged like any other.
#[derive(Debug, Default)]
pub(crate) struct Script {
    pub commands: Vec<Simple>,
    /// Constructs that need a person, whatever commands they contain.
    pub concerns: Vec<Concern>,
    /// The line contains more than a sequence of simple commands: a pipe, `||`, `!`, a group, a
    /// loop or a substitution.
    pub nested: bool,
    pub loops: Vec<Loop>,
    /// The name of every parameter that is expanded anywhere in the line.
    pub parameters: Vec<String>,
}

/// `for variable in words`.
#[derive(Debug)]
pub(crate) struct Loop {
    pub variable: String,
    pub words: Vec<Word>,
}

#[derive(Debug)]
pub(crate) struct Concern {
    pub text: String,
    pub reason: &'static str,
}

/// One simple command, or the bare redirections of a compound one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Simple {
    /// The text of the command in the line.
    pub text: String,
    /// `A=b` before the command's name, or without a command.
    pub assigns: bool,
    pub words: Vec<Word>,
    pub redirects: Vec<Redirect>,
}

#[derive(Debug, Clone)]
pub(crate) struct Word {
    /// The argument that the program gets, if `value` is exact. Otherwise the unknown part is as
    /// written.
    pub text: String,
    pub value: Value,
    /// The word contains a quote or a backslash.
    pub quoted: bool,
    /// The word contains an expansion outside quotes, so it may become several words.
    pub splits: bool,
    /// The word starts with an unquoted `~`, or has one where shells expand it.
    pub tilde: bool,
    /// The word has globs or braces outside quotes.
    pub globs: bool,
    pub expansions: Vec<Expansion>,
}

/// An expansion within the text of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expansion {
    pub start: usize,
    pub end: usize,
    /// The parameter; none for a substitution.
    pub parameter: Option<String>,
    pub quoted: bool,
}

/// How much is known of a word's value, most first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Value {
    /// The text is the value.
    Exact,
    /// Globs or braces: the values look like the text, and there may be several.
    Pattern,
    /// The word contains an expansion: it can become anything, and several words.
    Unknown,
}

#[derive(Debug, Clone)]
pub(crate) enum Redirect {
    /// Creates, truncates, extends or opens for writing.
    Write(Word),
    Read(Word),
    /// A copied or closed descriptor, a here-document, a here-string.
    Harmless,
}

impl Word {
    pub fn empty() -> Self {
        Self {
            text: String::new(),
            value: Value::Exact,
            quoted: false,
            splits: false,
            tilde: false,
            globs: false,
            expansions: Vec::new(),
        }
    }

    /// The exact text, if the shell changes nothing in it.
    pub fn exact(&self) -> Option<&str> {
        (self.value == Value::Exact && !self.tilde).then_some(self.text.as_str())
    }

    /// Whether the program may read the word as an option that is not known here.
    pub fn may_be_any_option(&self) -> bool {
        match self.value {
            Value::Exact => false,
            Value::Pattern => self.text.starts_with(['*', '?', '[', '{', '-']),
            Value::Unknown => true,
        }
    }
}
