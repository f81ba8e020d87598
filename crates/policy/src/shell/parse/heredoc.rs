//! Here-documents: the word that ends them, their bodies, and the expansions in the bodies.

use super::{Parsed, Parser, Unparsed};

pub(super) struct Heredoc {
    delimiter: String,
    strip_tabs: bool,
    literal: bool,
}

impl Parser<'_> {
    pub(super) fn heredoc(&mut self, strip_tabs: bool) -> Parsed<()> {
        self.skip_blanks();
        let start = self.at;
        let word = self.word()?;
        let delimiter = word
            .exact()
            .filter(|text| !text.is_empty() && !text.contains('\n'));
        let Some(delimiter) = delimiter.map(str::to_owned) else {
            return Err(Unparsed("a here-document whose end is not known"));
        };
        let literal = word.quoted || self.source[start..self.at] != delimiter;
        self.heredocs.push(Heredoc {
            delimiter,
            strip_tabs,
            literal,
        });
        Ok(())
    }

    /// Reads the bodies that start at the parser's present line.
    pub(super) fn heredoc_bodies(&mut self) -> Parsed<()> {
        for heredoc in std::mem::take(&mut self.heredocs) {
            let start = self.at;
            let end = loop {
                if self.at_end() {
                    return Err(Unparsed("a here-document without an end"));
                }
                let line_start = self.at;
                let line = self.rest().split('\n').next().unwrap_or_default();
                self.at = (line_start + line.len() + 1).min(self.source.len());
                let compared = if heredoc.strip_tabs {
                    line.trim_start_matches('\t')
                } else {
                    line
                };
                if compared == heredoc.delimiter {
                    break line_start;
                }
                if !heredoc.literal && line.ends_with('\\') {
                    return Err(Unparsed("a here-document with joined lines"));
                }
            };
            if !heredoc.literal {
                self.heredoc_expansions(&self.source[start..end])?;
            }
        }
        Ok(())
    }

    fn heredoc_expansions(&mut self, body: &str) -> Parsed<()> {
        let mut inner = Parser::new(body, self.depth);
        inner.expansions()?;
        self.absorb(inner.script);
        Ok(())
    }

    pub(super) fn finish_heredocs(&self) -> Parsed<()> {
        if self.heredocs.is_empty() {
            Ok(())
        } else {
            Err(Unparsed("a here-document without an end"))
        }
    }
}
