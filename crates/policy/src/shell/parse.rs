//! The shell grammar: lists, pipelines, compound and simple commands. The parser is strict on
//! purpose. What is not certain in every common POSIX shell is an error, and an error asks a
//! person.

mod heredoc;
mod word;

use self::heredoc::Heredoc;
use super::ast::{Concern, Loop, Redirect, Script, Simple, Word};

/// How deep commands may be nested. It also bounds the parser's own recursion.
const MAX_DEPTH: usize = 12;

/// Why a line could not be parsed, as text for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unparsed(pub &'static str);

pub(crate) type Parsed<T> = Result<T, Unparsed>;

pub(crate) fn parse(source: &str) -> Parsed<Script> {
    let mut parser = Parser::new(source, 0);
    parser.list(&[])?;
    if parser.at < source.len() {
        return Err(Unparsed("unexpected text in the command"));
    }
    parser.finish_heredocs()?;
    Ok(parser.script)
}

/// Words that open, join or close compound commands in the position of a command's name.
const CLOSERS: &[&str] = &[
    "then", "else", "elif", "fi", "do", "done", "esac", "}", "in",
];

struct Parser<'a> {
    source: &'a str,
    /// Always at a character boundary.
    at: usize,
    depth: usize,
    script: Script,
    /// Here-documents whose bodies start after the next newline.
    heredocs: Vec<Heredoc>,
}

impl<'a> Parser<'a> {
    fn new(source: &'a str, depth: usize) -> Self {
        Self {
            source,
            at: 0,
            depth,
            script: Script::default(),
            heredocs: Vec::new(),
        }
    }

    /// Reads commands up to the end of the text, a `)`, a `;;` or one of the words. The caller
    /// reads that word.
    fn list(&mut self, closers: &[&str]) -> Parsed<usize> {
        let mut count = 0;
        loop {
            self.skip_lines()?;
            if self.at_end()
                || self.looking_at(")")
                || self.looking_at(";;")
                || closers.contains(&self.bare_word())
            {
                return Ok(count);
            }
            let start = self.at;
            self.and_or()?;
            count += 1;
            self.skip_blanks();
            self.skip_comment();
            if self.looking_at(";;") || self.looking_at(")") {
                return Ok(count);
            }
            if self.looking_at("&") {
                self.concern(start, self.at + 1, "runs in the background");
                self.at += 1;
            } else if self.looking_at(";") {
                self.at += 1;
            } else if !self.at_end() && !self.looking_at("\n") {
                return Err(Unparsed("unexpected text after a command"));
            }
        }
    }

    fn and_or(&mut self) -> Parsed<()> {
        self.pipeline()?;
        while self.looking_at("&&") || self.looking_at("||") {
            self.script.nested |= self.looking_at("||");
            self.at += 2;
            self.skip_lines()?;
            self.pipeline()?;
        }
        Ok(())
    }

    fn pipeline(&mut self) -> Parsed<()> {
        while self.bare_word() == "!" && matches!(self.byte(self.at + 1), Some(b' ' | b'\t')) {
            self.script.nested = true;
            self.at += 1;
            self.skip_blanks();
        }
        self.command()?;
        while self.looking_at("|") && !self.looking_at("||") {
            self.script.nested = true;
            self.at += if self.looking_at("|&") { 2 } else { 1 };
            self.skip_lines()?;
            self.command()?;
        }
        Ok(())
    }

    fn command(&mut self) -> Parsed<()> {
        if self.looking_at("((") {
            return Err(Unparsed("arithmetic commands are not analysed"));
        }
        if self.looking_at("(") {
            self.enter()?;
            self.at += 1;
            self.body(&[])?;
            self.token(")")?;
            self.depth -= 1;
            return self.compound_redirects();
        }
        let word = self.bare_word();
        match word {
            "{" | "if" | "while" | "until" | "for" | "case" => {
                self.enter()?;
                self.at += word.len();
                self.compound(word)?;
                self.depth -= 1;
                self.compound_redirects()
            }
            "function" | "select" | "coproc" | "repeat" | "foreach" => {
                Err(Unparsed("a construct that is not analysed"))
            }
            _ if CLOSERS.contains(&word) => Err(Unparsed("misplaced keyword")),
            _ => self.simple(),
        }
    }

    fn compound(&mut self, keyword: &str) -> Parsed<()> {
        match keyword {
            "{" => {
                self.body(&["}"])?;
                self.keyword("}")
            }
            "if" => self.if_clause(),
            "for" => self.for_clause(),
            "case" => self.case_clause(),
            _ => {
                self.body(&["do"])?;
                self.do_group()
            }
        }
    }

    fn if_clause(&mut self) -> Parsed<()> {
        self.body(&["then"])?;
        self.keyword("then")?;
        loop {
            self.body(&["elif", "else", "fi"])?;
            match self.bare_word() {
                "elif" => {
                    self.keyword("elif")?;
                    self.body(&["then"])?;
                    self.keyword("then")?;
                }
                "else" => {
                    self.keyword("else")?;
                    self.body(&["fi"])?;
                    return self.keyword("fi");
                }
                _ => return self.keyword("fi"),
            }
        }
    }

    fn for_clause(&mut self) -> Parsed<()> {
        self.skip_blanks();
        let start = self.at;
        let name = self.bare_word();
        self.at += name.len();
        if !is_plain_variable(name) {
            self.concern(start, self.at, "sets a variable that programs obey");
        }
        self.skip_lines()?;
        let mut words = Vec::new();
        if self.bare_word() == "in" {
            self.at += 2;
            self.skip_blanks();
            while !self.at_end() && !self.looking_at(";") && !self.looking_at("\n") {
                words.push(self.word()?);
                self.skip_blanks();
            }
        }
        self.script.loops.push(Loop {
            variable: name.to_owned(),
            words,
        });
        if self.looking_at(";") {
            self.at += 1;
        }
        self.skip_lines()?;
        self.do_group()
    }

    fn do_group(&mut self) -> Parsed<()> {
        self.keyword("do")?;
        self.body(&["done"])?;
        self.keyword("done")
    }

    fn case_clause(&mut self) -> Parsed<()> {
        self.skip_blanks();
        self.word()?;
        self.skip_lines()?;
        self.keyword("in")?;
        loop {
            self.skip_lines()?;
            if self.bare_word() == "esac" {
                return self.keyword("esac");
            }
            if self.looking_at("(") {
                self.at += 1;
            }
            loop {
                self.skip_blanks();
                self.word()?;
                self.skip_blanks();
                if !self.looking_at("|") {
                    break;
                }
                self.at += 1;
            }
            self.token(")")?;
            self.list(&["esac"])?;
            if self.looking_at(";;") {
                self.at += if self.looking_at(";;&") { 3 } else { 2 };
            }
        }
    }

    /// Reads a list that must contain a command.
    fn body(&mut self, closers: &[&str]) -> Parsed<()> {
        match self.list(closers)? {
            0 => Err(Unparsed("an empty group of commands")),
            _ => Ok(()),
        }
    }

    fn compound_redirects(&mut self) -> Parsed<()> {
        let start = self.at;
        let mut redirects = Vec::new();
        loop {
            self.skip_blanks();
            match self.redirect()? {
                Some(redirect) => redirects.push(redirect),
                None => break,
            }
        }
        if !redirects.is_empty() {
            let text = self.source[start..self.at].trim().to_owned();
            self.script.commands.push(Simple {
                text,
                redirects,
                ..Simple::default()
            });
        }
        Ok(())
    }

    fn simple(&mut self) -> Parsed<()> {
        let start = self.at;
        let mut simple = Simple::default();
        loop {
            self.skip_blanks();
            if let Some(redirect) = self.redirect()? {
                simple.redirects.push(redirect);
                continue;
            }
            match self.byte(self.at) {
                None | Some(b'\n' | b';' | b'&' | b'|' | b')') => break,
                Some(b'(') => {
                    return Err(Unparsed(
                        "defines a function, or uses brackets that are not analysed",
                    ));
                }
                Some(b'#') => break,
                _ => {}
            }
            let from = self.at;
            let word = self.word()?;
            if simple.words.is_empty() && is_assignment(&self.source[from..self.at]) {
                simple.assigns = true;
            } else {
                simple.words.push(word);
            }
        }
        if self.at == start {
            return Err(Unparsed("a command is missing"));
        }
        simple.text = self.source[start..self.at].trim().to_owned();
        self.script.commands.push(simple);
        Ok(())
    }

    /// Reads the redirection that starts here, if there is one.
    fn redirect(&mut self) -> Parsed<Option<Redirect>> {
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        let operator = &self.rest()[digits..];
        let Some(found) = OPERATORS
            .iter()
            .find(|candidate| operator.starts_with(**candidate))
        else {
            return Ok(None);
        };
        if operator.starts_with("<(")
            || operator.starts_with(">(")
            || (digits > 0 && found.starts_with('&'))
        {
            return Ok(None);
        }
        self.at += digits + found.len();
        if *found == "<<" || *found == "<<-" {
            self.heredoc(*found == "<<-")?;
            return Ok(Some(Redirect::Harmless));
        }
        self.skip_blanks();
        let target = self.word()?;
        if target.text.starts_with('!') {
            return Err(Unparsed("a redirection that is not analysed"));
        }
        Ok(Some(match *found {
            "<<<" => Redirect::Harmless,
            "<&" | ">&" if is_descriptor(&target) => Redirect::Harmless,
            "<&" => return Err(Unparsed("a redirection that is not analysed")),
            "<" => Redirect::Read(target),
            _ => Redirect::Write(target),
        }))
    }

    fn absorb(&mut self, script: Script) {
        self.script.commands.extend(script.commands);
        self.script.concerns.extend(script.concerns);
        self.script.nested |= script.nested;
        self.script.loops.extend(script.loops);
        self.script.parameters.extend(script.parameters);
    }

    fn concern(&mut self, start: usize, end: usize, reason: &'static str) {
        let text = self.source[start..end].trim().to_owned();
        self.script.concerns.push(Concern { text, reason });
    }

    /// Enters a group, a compound command or a substitution.
    fn enter(&mut self) -> Parsed<()> {
        self.script.nested = true;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            Err(Unparsed("nested too deeply"))
        } else {
            Ok(())
        }
    }

    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.source.as_bytes().get(at).copied()
    }

    fn at_end(&self) -> bool {
        self.at >= self.source.len()
    }

    fn looking_at(&self, token: &str) -> bool {
        self.rest().starts_with(token)
    }

    /// The characters up to white space or an operator, with their quotes.
    fn bare_word(&self) -> &'a str {
        let rest = self.rest();
        &rest[..rest
            .find([' ', '\t', '\n', ';', '&', '|', '<', '>', '(', ')'])
            .unwrap_or(rest.len())]
    }

    fn token(&mut self, token: &str) -> Parsed<()> {
        self.skip_blanks();
        if !self.looking_at(token) {
            return Err(Unparsed("a closing bracket is missing"));
        }
        self.at += token.len();
        Ok(())
    }

    fn keyword(&mut self, keyword: &str) -> Parsed<()> {
        if self.bare_word() != keyword {
            return Err(Unparsed("a keyword is missing"));
        }
        self.at += keyword.len();
        Ok(())
    }

    /// Skips spaces, tabs and joined lines between words.
    fn skip_blanks(&mut self) {
        loop {
            match self.byte(self.at) {
                Some(b' ' | b'\t') => self.at += 1,
                Some(b'\\') if self.byte(self.at + 1) == Some(b'\n') => self.at += 2,
                _ => return,
            }
        }
    }

    fn skip_comment(&mut self) {
        if self.looking_at("#") {
            self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        }
    }

    /// Skips blanks, comments and newlines. The bodies of pending here-documents are read at a
    /// newline.
    fn skip_lines(&mut self) -> Parsed<()> {
        loop {
            self.skip_blanks();
            self.skip_comment();
            if !self.looking_at("\n") {
                return Ok(());
            }
            self.at += 1;
            self.heredoc_bodies()?;
        }
    }
}

/// The longest operators come first.
const OPERATORS: &[&str] = &[
    "&>>", "&>", "<<<", "<<-", "<<", "<&", "<>", "<", ">>", ">&", ">|", ">",
];

fn is_descriptor(word: &Word) -> bool {
    word.exact().is_some_and(|text| {
        text == "-" || (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

fn is_assignment(source: &str) -> bool {
    let Some((name, _)) = source.split_once('=') else {
        return false;
    };
    let name = name.strip_suffix('+').unwrap_or(name);
    let name = name.split('[').next().unwrap_or_default();
    is_name(name)
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|first: char| first.is_ascii_digit())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Whether no shell or program reads the variable by itself: its name is in lower case, and zsh
/// does not tie it to a special variable.
pub(crate) fn is_plain_variable(name: &str) -> bool {
    const SPECIAL: &[&str] = &[
        "aliases",
        "argv",
        "commands",
        "functions",
        "galiases",
        "options",
        "prompt",
        "saliases",
    ];
    is_name(name)
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && !name.contains("path")
        && !name.contains("proxy")
        && !SPECIAL.contains(&name)
}
