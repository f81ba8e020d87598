//! Thoughts that a model writes into its answer between `<think>` and `</think>`. Servers that do
//! not know the model's format pass them on as text.

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";
/// Blanks before the first mark that are held back.
const MAX_HELD_BYTES: usize = 1024;

/// Splits the text of one answer into thoughts and answer, while it arrives. Only an answer that
/// begins with the mark has thoughts: further marks are text about such marks.
#[derive(Debug, Default)]
pub struct InlineThoughts {
    state: ThoughtState,
    /// Text that may be the beginning of a mark. It is shorter than a mark, apart from blanks.
    held: String,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ThoughtState {
    #[default]
    Beginning,
    Thinking,
    /// Between the thoughts and the answer, where models write blank lines.
    AfterThoughts,
    Answering,
}

/// What a piece of text turned out to be.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SplitText {
    pub thoughts: String,
    pub answer: String,
}

impl InlineThoughts {
    /// Whether all further text is the answer, so that it need not be split.
    pub fn is_over(&self) -> bool {
        self.state == ThoughtState::Answering
    }

    pub fn push(&mut self, text: &str) -> SplitText {
        let mut split = SplitText::default();
        self.held.push_str(text);
        loop {
            let before = self.state;
            match self.state {
                ThoughtState::Beginning => self.begin(),
                ThoughtState::Thinking => self.think(&mut split),
                ThoughtState::AfterThoughts => {
                    self.held = self.held.trim_start().to_owned();
                    if !self.held.is_empty() {
                        self.state = ThoughtState::Answering;
                    }
                }
                ThoughtState::Answering => split.answer.push_str(&std::mem::take(&mut self.held)),
            }
            if self.state == before {
                return split;
            }
        }
    }

    /// What was held back when the answer ends.
    pub fn finish(&mut self) -> SplitText {
        let held = std::mem::take(&mut self.held);
        match self.state {
            ThoughtState::Thinking => SplitText {
                thoughts: held,
                ..SplitText::default()
            },
            ThoughtState::Beginning | ThoughtState::AfterThoughts | ThoughtState::Answering => {
                SplitText {
                    answer: held,
                    ..SplitText::default()
                }
            }
        }
    }

    fn begin(&mut self) {
        let begun = self.held.trim_start();
        if let Some(thoughts) = begun.strip_prefix(OPEN) {
            self.held = thoughts.to_owned();
            self.state = ThoughtState::Thinking;
        } else if !OPEN.starts_with(begun) || self.held.len() > MAX_HELD_BYTES {
            self.state = ThoughtState::Answering;
        }
    }

    fn think(&mut self, split: &mut SplitText) {
        if let Some((thoughts, answer)) = self.held.split_once(CLOSE) {
            split.thoughts.push_str(thoughts);
            self.held = answer.to_owned();
            self.state = ThoughtState::AfterThoughts;
            return;
        }
        let is_start = |at: &usize| CLOSE.starts_with(&self.held[*at..]);
        let marks = self.held.match_indices('<').map(|(at, _)| at);
        let kept_from = marks.into_iter().find(is_start).unwrap_or(self.held.len());
        let kept = self.held.split_off(kept_from);
        split
            .thoughts
            .push_str(&std::mem::replace(&mut self.held, kept));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thoughts and answer of a text that comes in these pieces.
    fn split<'a>(pieces: impl IntoIterator<Item = &'a str>) -> (String, String) {
        let mut thoughts = InlineThoughts::default();
        let mut all = SplitText::default();
        let mut add = |split: SplitText| {
            all.thoughts.push_str(&split.thoughts);
            all.answer.push_str(&split.answer);
        };
        for piece in pieces {
            add(thoughts.push(piece));
        }
        add(thoughts.finish());
        (all.thoughts, all.answer)
    }

    #[test]
    fn thoughts_before_the_answer_are_split_off_however_the_text_is_cut() {
        for (text, thoughts, answer) in [
            ("<think>a < b</think>\n\nSo.", "a < b", "So."),
            (
                "\n<think>\nhm</thi\n</think>x</think>",
                "\nhm</thi\n",
                "x</think>",
            ),
            ("<think>never ends </th", "never ends </th", ""),
            ("Use <think> for that.", "", "Use <think> for that."),
            ("<thinner>", "", "<thinner>"),
            ("<thi", "", "<thi"),
            (" \n", "", " \n"),
            ("", "", ""),
        ] {
            let wanted = (thoughts.to_owned(), answer.to_owned());
            assert_eq!(split([text]), wanted, "{text:?}");
            let single = text
                .char_indices()
                .map(|(at, c)| &text[at..at + c.len_utf8()]);
            assert_eq!(split(single), wanted, "{text:?} by characters");
        }
    }
}
