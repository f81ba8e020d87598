//! What a person reads in `codelab chat` and `codelab exec`, in English, Russian and Ukrainian.
//!
//! The texts of errors are the same files that the web page uses. The server's own `detail` is
//! English and is shown below them.

macro_rules! texts {
    ($table:ident; $($name:ident: $en:literal, $ru:literal, $uk:literal;)*) => {
        /// A text that a person reads. `{0}`, `{1}` … stand for values.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $table {
            $($name,)*
        }

        impl $table {
            #[cfg(test)]
            pub(super) const ALL: &[Self] = &[$(Self::$name,)*];
        }

        impl super::Translated for $table {
            fn translations(self) -> [&'static str; 3] {
                match self {
                    $(Self::$name => [$en, $ru, $uk],)*
                }
            }
        }
    };
}

mod brought;
mod calls;
mod commands;
mod edits;
mod mcp;
mod memory;
mod reasons;
mod rewind;
mod table;

use std::collections::HashMap;

use codelab_client::ClientError;
use codelab_protocol::{ErrorCode, ErrorData, ModelFailureKind, ModelWaiting, Timestamp};

pub use brought::FolderText;
pub use calls::CallText;
pub use commands::CommandText;
pub use edits::EditText;
pub use mcp::McpText;
pub use memory::MemoryText;
pub use rewind::RewindText;
pub use table::Text;

/// A text in English, Russian and Ukrainian.
pub trait Translated: Copy {
    fn translations(self) -> [&'static str; 3];
}

const ERRORS: [&str; 3] = [
    include_str!("../../../web/src/i18n/errors/en.json"),
    include_str!("../../../web/src/i18n/errors/ru.json"),
    include_str!("../../../web/src/i18n/errors/uk.json"),
];
/// The first of these that is set names the person's language.
const VARIABLES: [&str; 3] = ["LC_ALL", "LC_MESSAGES", "LANG"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Language {
    #[default]
    En,
    Ru,
    Uk,
}

impl Language {
    /// The setting `locale` if there is one, else the language of the environment. English if
    /// neither names a known language.
    pub fn choose(setting: Option<&str>, variable: impl Fn(&str) -> Option<String>) -> Self {
        let environment = || {
            VARIABLES
                .iter()
                .find_map(|name| variable(name).filter(|value| !value.is_empty()))
        };
        let name = setting.map(str::to_owned).or_else(environment);
        match name.unwrap_or_default().split(['_', '-', '.']).next() {
            Some("ru") => Self::Ru,
            Some("uk") => Self::Uk,
            _ => Self::En,
        }
    }

    fn index(self) -> usize {
        match self {
            Self::En => 0,
            Self::Ru => 1,
            Self::Uk => 2,
        }
    }

    pub fn text(self, text: impl Translated) -> &'static str {
        text.translations()[self.index()]
    }

    /// The text with `{0}`, `{1}` … replaced by the values.
    pub fn with(self, text: impl Translated, values: &[&str]) -> String {
        let mut out = String::new();
        let mut rest = self.text(text);
        // One pass, so that a value with braces stays as it is.
        while let Some((before, after)) = rest.split_once('{') {
            out.push_str(before);
            let Some((number, behind)) = after.split_once('}') else {
                break;
            };
            let value = number
                .parse()
                .ok()
                .and_then(|index: usize| values.get(index));
            out.push_str(value.copied().unwrap_or_default());
            rest = behind;
        }
        out.push_str(rest);
        out
    }

    /// 12345 as 12,345, and with a space that does not break in Russian and Ukrainian.
    pub fn grouped(self, number: u64) -> String {
        let separator = match self {
            Self::En => ',',
            Self::Ru | Self::Uk => '\u{a0}',
        };
        let digits = number.to_string();
        let mut out = String::new();
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                out.push(separator);
            }
            out.push(digit);
        }
        out
    }

    /// Why a model cannot answer, in a few words.
    pub fn failure(self, kind: ModelFailureKind) -> String {
        let texts = self.errors();
        let word = texts.get(&format!("why_{}", kind.as_str()));
        word.cloned().unwrap_or_else(|| kind.as_str().to_owned())
    }

    /// A model call that waits, and for how long from that time on.
    pub fn model_waiting(self, waiting: &ModelWaiting, since: Timestamp) -> String {
        let seconds = (waiting.until.millis_since(since) + 999) / 1000;
        let why = self.failure(waiting.kind);
        self.with(Text::ModelWaiting, &[&why, &seconds.to_string()])
    }

    /// What an error of a turn means: of a model call by its kind, else by its code.
    pub fn turn_error(self, error: &ErrorData) -> Option<String> {
        let kind = error.details.get("kind").and_then(|kind| kind.as_str());
        let by_kind = kind.and_then(|kind| self.errors().remove(&format!("kind_{kind}")));
        by_kind.or_else(|| self.error(Some(error.error_code), None))
    }

    fn errors(self) -> HashMap<String, String> {
        serde_json::from_str(ERRORS[self.index()]).unwrap_or_default()
    }

    /// What an error means and what the person can do, by its code, else by the HTTP status.
    pub fn error(self, code: Option<ErrorCode>, status: Option<u16>) -> Option<String> {
        let texts = self.errors();
        let group = match status {
            Some(400..=499) => "status_4xx",
            Some(_) | None => "status_5xx",
        };
        let keys = [
            code.map(|code| code.as_str().to_owned()),
            status.map(|status| format!("status_{status}")),
            status.map(|_| group.to_owned()),
        ];
        keys.iter()
            .flatten()
            .find_map(|key| texts.get(key).cloned())
    }

    /// The HTTP status, or 0 if there was no answer.
    pub fn status(error: &ClientError) -> Option<u16> {
        match error {
            ClientError::Status { status, .. } => Some(*status),
            ClientError::Connect(_) | ClientError::Cut(_) | ClientError::Timeout { .. } => Some(0),
            ClientError::Invalid(_) => None,
        }
    }

    /// A failed request in the person's language, and the server's details if there are any.
    pub fn client_error(self, error: &ClientError) -> (String, Option<String>) {
        match self.error(error.error_code(), Self::status(error)) {
            Some(text) => (text, Some(error.to_string())),
            None => (error.to_string(), None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_language_is_the_setting_else_that_of_the_environment() {
        for (setting, variables, expected) in [
            (None, vec![], Language::En),
            (None, vec![("LANG", "ru_RU.UTF-8")], Language::Ru),
            (
                None,
                vec![("LANG", "ru_RU.UTF-8"), ("LC_ALL", "uk_UA")],
                Language::Uk,
            ),
            (None, vec![("LC_ALL", ""), ("LANG", "uk")], Language::Uk),
            (None, vec![("LANG", "C.UTF-8")], Language::En),
            (None, vec![("LANG", "fr_FR.UTF-8")], Language::En),
            (Some("ru"), vec![("LANG", "uk_UA")], Language::Ru),
            (Some("en"), vec![("LANG", "uk_UA")], Language::En),
        ] {
            let variable = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(
                Language::choose(setting, variable),
                expected,
                "{setting:?} {variables:?}"
            );
        }
    }

    #[test]
    fn every_text_has_the_same_values_in_every_language() {
        let values = |text: &str| {
            (0..5)
                .filter(|index| text.contains(&format!("{{{index}}}")))
                .collect::<Vec<_>>()
        };
        let main = Text::ALL
            .iter()
            .map(|text| (format!("{text:?}"), text.translations()));
        let typed = CommandText::ALL.iter();
        let typed = typed.map(|text| (format!("{text:?}"), text.translations()));
        let calls = CallText::ALL.iter();
        let calls = calls.map(|text| (format!("{text:?}"), text.translations()));
        let servers = McpText::ALL.iter();
        let servers = servers.map(|text| (format!("{text:?}"), text.translations()));
        let brought = FolderText::ALL.iter();
        let brought = brought.map(|text| (format!("{text:?}"), text.translations()));
        let rewinds = RewindText::ALL.iter();
        let rewinds = rewinds.map(|text| (format!("{text:?}"), text.translations()));
        let edits = EditText::ALL.iter();
        let edits = edits.map(|text| (format!("{text:?}"), text.translations()));
        let memory = MemoryText::ALL.iter();
        let memory = memory.map(|text| (format!("{text:?}"), text.translations()));
        let all = main
            .chain(typed)
            .chain(calls)
            .chain(servers)
            .chain(brought)
            .chain(rewinds)
            .chain(edits)
            .chain(memory);
        for (text, [en, ru, uk]) in all {
            assert!(
                !en.is_empty() && !ru.is_empty() && !uk.is_empty(),
                "{text:?}"
            );
            assert_eq!(
                (values(en), values(en)),
                (values(ru), values(uk)),
                "{text:?}"
            );
        }
        let odd = Language::En.with(Text::Works, &["{0} {1}"]);
        assert!(odd.contains("{0} {1}"), "{odd}");
    }

    #[test]
    fn thousands_are_grouped_as_the_language_does() {
        for (language, expected) in [
            (Language::En, "1,234,567"),
            (Language::Ru, "1\u{a0}234\u{a0}567"),
            (Language::Uk, "1\u{a0}234\u{a0}567"),
        ] {
            assert_eq!(language.grouped(1_234_567), expected);
            assert_eq!(language.grouped(999), "999");
        }
    }

    #[test]
    fn an_error_is_told_by_its_code_else_by_its_status() {
        for language in [Language::En, Language::Ru, Language::Uk] {
            let by_code = language
                .error(Some(ErrorCode::LlmTimeout), Some(504))
                .unwrap();
            assert_ne!(Some(by_code), language.error(None, Some(504)));
            assert!(
                language.error(None, Some(418)).is_some(),
                "a group of statuses"
            );
            assert!(language.error(None, Some(0)).is_some(), "no answer");
            assert_eq!(language.error(None, None), None);
        }
        let lost = ClientError::Connect("refused".to_owned());
        let (text, details) = Language::Ru.client_error(&lost);
        assert!(text.chars().any(|c| ('а'..='я').contains(&c)), "{text}");
        assert!(details.unwrap().contains("refused"));
    }
}
