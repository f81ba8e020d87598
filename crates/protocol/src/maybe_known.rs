//! A word of a closed set, or a text outside of it.

use serde::de::IntoDeserializer as _;
use serde::de::value::{Error, StringDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Closed sets are plain enums: a request with a word outside of the set is refused while it is
/// parsed, with 422 and the list of what is allowed. A client that reads a word which only a newer
/// server knows gets an error as well, because it must not show it as something else; within a
/// stream only that one event is lost to it.
///
/// This type is for the two cases where that is not enough: a request whose wrong word has its own
/// error code, and a stored row that is shown as it is even if somebody changed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MaybeKnown<T> {
    Known(T),
    Unknown(String),
}

impl<T> From<T> for MaybeKnown<T> {
    fn from(word: T) -> Self {
        Self::Known(word)
    }
}

impl<T: PartialEq> PartialEq<T> for MaybeKnown<T> {
    fn eq(&self, other: &T) -> bool {
        matches!(self, Self::Known(word) if word == other)
    }
}

impl<T: Serialize> Serialize for MaybeKnown<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Known(word) => word.serialize(serializer),
            Self::Unknown(text) => text.serialize(serializer),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for MaybeKnown<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::of(String::deserialize(deserializer)?))
    }
}

impl<'de, T: Deserialize<'de>> MaybeKnown<T> {
    /// The word that a text is, if it is one.
    pub fn of(text: impl Into<String>) -> Self {
        let text = text.into();
        let word: StringDeserializer<Error> = text.clone().into_deserializer();
        T::deserialize(word).map_or(Self::Unknown(text), Self::Known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AuditDecision, DecisionChoice};

    #[test]
    fn a_text_outside_of_the_set_stays_as_it_is() {
        for text in [r#""REJECT""#, r#""ALTERED""#] {
            let word: MaybeKnown<AuditDecision> = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&word).unwrap(), text);
        }
        let known: MaybeKnown<DecisionChoice> = serde_json::from_str(r#""Edit""#).unwrap();
        assert_eq!(known, DecisionChoice::Edit);
        assert!(serde_json::from_str::<MaybeKnown<DecisionChoice>>("5").is_err());
    }
}
