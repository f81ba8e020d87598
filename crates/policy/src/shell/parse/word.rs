//! Words: quotes, escapes and expansions. What is not certain is an error here too.

use super::{Parsed, Parser, Unparsed, is_name};
use crate::shell::ast::{Expansion, Value, Word};

impl Parser<'_> {
    /// Reads the word that starts here. Its source text is never empty.
    pub(super) fn word(&mut self) -> Parsed<Word> {
        if self.looking_at("<(") || self.looking_at(">(") {
            return self.process_substitution();
        }
        let start = self.at;
        let mut word = Word::empty();
        while let Some(next) = self.rest().chars().next() {
            match next {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' => break,
                '\'' => self.single_quoted(&mut word)?,
                '"' => self.double_quoted(&mut word)?,
                '\\' => self.escaped(&mut word)?,
                '$' => self.dollar(&mut word, false)?,
                '`' => self.backquoted(&mut word, false)?,
                _ => {
                    if matches!(next, '*' | '?' | '[' | '{' | '}') {
                        word.value = word.value.max(Value::Pattern);
                        word.globs = true;
                    }
                    if next == '~' && (self.at == start || word.text.ends_with(['=', ':'])) {
                        word.tilde = true;
                    }
                    word.text.push(next);
                    self.at += next.len_utf8();
                }
            }
        }
        if self.at == start {
            return Err(Unparsed("a word is missing"));
        }
        // As words of their own they are a command's name and its end, not a pattern.
        if matches!(&self.source[start..self.at], "[" | "]" | "[[" | "{}") {
            word.value = Value::Exact;
            word.globs = false;
        }
        if !self.heredocs.is_empty() && self.source[start..self.at].contains('\n') {
            return Err(Unparsed("a here-document followed by quoted lines"));
        }
        Ok(word)
    }

    /// The expansions in the body of a here-document.
    pub(super) fn expansions(&mut self) -> Parsed<()> {
        let mut ignored = Word::empty();
        while let Some(next) = self.rest().chars().next() {
            match next {
                '\\' => {
                    self.at += 1;
                    self.at += self.rest().chars().next().map_or(0, char::len_utf8);
                }
                '$' => self.dollar(&mut ignored, true)?,
                '`' => self.backquoted(&mut ignored, true)?,
                _ => self.at += next.len_utf8(),
            }
        }
        Ok(())
    }

    fn process_substitution(&mut self) -> Parsed<Word> {
        let start = self.at;
        self.at += 2;
        self.substituted()?;
        self.concern(start, self.at, "process substitution");
        let text = self.source[start..self.at].to_owned();
        Ok(Word {
            text,
            value: Value::Unknown,
            ..Word::empty()
        })
    }

    /// The commands of a substitution, after its opening, up to and including its `)`.
    fn substituted(&mut self) -> Parsed<()> {
        if !self.heredocs.is_empty() {
            return Err(Unparsed("a here-document followed by a substitution"));
        }
        self.enter()?;
        self.list(&[])?;
        self.finish_heredocs()?;
        self.token(")")?;
        self.depth -= 1;
        Ok(())
    }

    fn single_quoted(&mut self, word: &mut Word) -> Parsed<()> {
        let inner = &self.rest()[1..];
        let Some(length) = inner.find('\'') else {
            return Err(Unparsed("a quote is not closed"));
        };
        word.text.push_str(&inner[..length]);
        word.quoted = true;
        self.at += length + 2;
        Ok(())
    }

    fn double_quoted(&mut self, word: &mut Word) -> Parsed<()> {
        self.at += 1;
        word.quoted = true;
        while let Some(next) = self.rest().chars().next() {
            match next {
                '"' => {
                    self.at += 1;
                    return Ok(());
                }
                '\\' => match self.byte(self.at + 1) {
                    Some(escaped @ (b'$' | b'`' | b'"' | b'\\')) => {
                        word.text.push(char::from(escaped));
                        self.at += 2;
                    }
                    Some(b'\n') => return Err(Unparsed("a line joined inside quotes")),
                    _ => {
                        word.text.push('\\');
                        self.at += 1;
                    }
                },
                '$' => self.dollar(word, true)?,
                '`' => self.backquoted(word, true)?,
                _ => {
                    word.text.push(next);
                    self.at += next.len_utf8();
                }
            }
        }
        Err(Unparsed("a quote is not closed"))
    }

    fn escaped(&mut self, word: &mut Word) -> Parsed<()> {
        match self.rest().chars().nth(1) {
            None => Err(Unparsed("ends in a backslash")),
            Some('\n') => Err(Unparsed("a word split over lines")),
            Some(escaped) => {
                word.text.push(escaped);
                word.quoted = true;
                self.at += 1 + escaped.len_utf8();
                Ok(())
            }
        }
    }

    fn dollar(&mut self, word: &mut Word, in_quotes: bool) -> Parsed<()> {
        let start = self.at;
        self.at += 1;
        let mut parameter = None;
        if self.looking_at("((") {
            self.arithmetic()?;
        } else if self.looking_at("(") {
            self.at += 1;
            self.substituted()?;
        } else if self.looking_at("{") {
            parameter = Some(self.braced_parameter()?);
        } else if let Some(length) = parameter_length(self.rest()) {
            let name = &self.rest()[..length];
            self.check_parameter(name)?;
            parameter = Some(name.to_owned());
            self.at += length;
            // Some shells evaluate a subscript, and text in it can run commands.
            if self.looking_at("[") {
                return Err(Unparsed("a subscript that some shells evaluate"));
            }
        } else {
            return self.literal_dollar(word, in_quotes);
        }
        self.script.parameters.extend(parameter.clone());
        let source = &self.source[start..self.at];
        word.splits |= !in_quotes || source.contains('@');
        word.expand(source, parameter, in_quotes);
        Ok(())
    }

    /// Before these characters every shell reads `$` as itself. Before others (`$'…'`, `$"…"`,
    /// `$[…]`, a joined line) some shells expand it.
    fn literal_dollar(&mut self, word: &mut Word, in_quotes: bool) -> Parsed<()> {
        let literal = match self.byte(self.at) {
            None | Some(b' ' | b'\t' | b'\n' | b'|' | b')' | b';' | b'&' | b'/' | b',' | b'.') => {
                true
            }
            Some(b'"') => in_quotes,
            _ => false,
        };
        if !literal {
            return Err(Unparsed("quoting or an expansion that can hide text"));
        }
        word.text.push('$');
        Ok(())
    }

    fn arithmetic(&mut self) -> Parsed<()> {
        let inner = &self.rest()[2..];
        let Some(length) = inner.find("))") else {
            return Err(Unparsed("an arithmetic expansion is not closed"));
        };
        let plain = |byte: u8| byte.is_ascii_digit() || b" +-*/%".contains(&byte);
        let numbers = inner[..length].trim();
        let starts_and_ends = numbers.starts_with(|c: char| c.is_ascii_digit())
            && numbers.ends_with(|c: char| c.is_ascii_digit());
        if !starts_and_ends || !numbers.bytes().all(plain) {
            return Err(Unparsed("arithmetic with variables can run commands"));
        }
        self.at += length + 4;
        Ok(())
    }

    fn braced_parameter(&mut self) -> Parsed<String> {
        let inner = &self.rest()[1..];
        let Some(length) = inner.find('}') else {
            return Err(Unparsed("an expansion is not closed"));
        };
        let name = &inner[..length];
        if parameter_length(name) != Some(name.len()) {
            return Err(Unparsed("an expansion that is not analysed"));
        }
        self.check_parameter(name)?;
        self.at += length + 2;
        Ok(name.to_owned())
    }

    fn check_parameter(&self, name: &str) -> Parsed<()> {
        if name == "IFS" {
            Err(Unparsed("uses $IFS, which hides spaces"))
        } else {
            Ok(())
        }
    }

    fn backquoted(&mut self, word: &mut Word, in_quotes: bool) -> Parsed<()> {
        let inner = &self.rest()[1..];
        let Some(length) = inner.find('`') else {
            return Err(Unparsed("a backquote is not closed"));
        };
        let body = &inner[..length];
        // Shells differ on quotes and escapes in this position.
        if body.contains(['\\', '"', '\'']) {
            return Err(Unparsed("quotes inside backquotes"));
        }
        self.enter()?;
        let mut nested = Parser::new(body, self.depth);
        nested.list(&[])?;
        nested.finish_heredocs()?;
        if !nested.at_end() {
            return Err(Unparsed("unexpected text inside backquotes"));
        }
        self.depth -= 1;
        self.absorb(nested.script);
        word.splits |= !in_quotes;
        word.expand(&self.rest()[..length + 2], None, in_quotes);
        self.at += length + 2;
        Ok(())
    }
}

impl Word {
    /// Appends an expansion in its written form.
    fn expand(&mut self, source: &str, parameter: Option<String>, quoted: bool) {
        let start = self.text.len();
        self.text.push_str(source);
        self.value = Value::Unknown;
        self.expansions.push(Expansion {
            start,
            end: self.text.len(),
            parameter,
            quoted,
        });
    }
}

/// The length in bytes of the parameter's name at the start.
fn parameter_length(text: &str) -> Option<usize> {
    let first = text.bytes().next()?;
    if first.is_ascii_digit() || b"?#$!@*-".contains(&first) {
        return Some(1);
    }
    let length = text
        .bytes()
        .take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        .count();
    is_name(&text[..length]).then_some(length)
}
