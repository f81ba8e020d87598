//! A field of a `PATCH` body: left out, cleared, or set.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Use with `#[serde(default, skip_serializing_if = "Patch::is_absent")]`: an absent field is not a
/// `null`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Patch<T> {
    #[default]
    Absent,
    Null,
    Value(T),
}

impl<T> Patch<T> {
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Patch<U> {
        match self {
            Self::Absent => Patch::Absent,
            Self::Null => Patch::Null,
            Self::Value(value) => Patch::Value(change(value)),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Patch<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(deserializer)?.map_or(Self::Null, Self::Value))
    }
}

impl<T: Serialize> Serialize for Patch<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Absent | Self::Null => serializer.serialize_none(),
            Self::Value(value) => value.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Body {
        #[serde(default, skip_serializing_if = "Patch::is_absent")]
        size: Patch<u32>,
    }

    #[test]
    fn absent_null_and_set_are_told_apart_both_ways() {
        for (text, size) in [
            ("{}", Patch::Absent),
            (r#"{"size":null}"#, Patch::Null),
            (r#"{"size":3}"#, Patch::Value(3)),
        ] {
            let body = Body { size };
            assert_eq!(serde_json::from_str::<Body>(text).unwrap(), body);
            assert_eq!(serde_json::to_string(&body).unwrap(), text);
        }
        assert!(serde_json::from_str::<Body>(r#"{"size":"x"}"#).is_err());
    }
}
