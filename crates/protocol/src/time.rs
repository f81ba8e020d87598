//! Points in time, in milliseconds. This crate never reads a clock.

use std::fmt;
use std::time::SystemTime;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// Milliseconds since 1970-01-01T00:00:00Z. On the wire: RFC 3339 in UTC, e.g.
/// `2026-01-13T20:00:00.000Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, utoipa::ToSchema)]
#[schema(value_type = String, format = DateTime)]
pub struct Timestamp(i64);

impl Timestamp {
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    pub const fn as_millis(self) -> i64 {
        self.0
    }

    pub const fn plus_millis(self, millis: i64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    pub const fn plus_seconds(self, seconds: u64) -> Self {
        Self(self.0.saturating_add((seconds as i64).saturating_mul(1000)))
    }

    /// Milliseconds from `earlier` to `self`, zero if `earlier` is later.
    pub const fn millis_since(self, earlier: Self) -> i64 {
        let difference = self.0.saturating_sub(earlier.0);
        if difference > 0 { difference } else { 0 }
    }
}

impl From<SystemTime> for Timestamp {
    /// Times before 1970 become its beginning.
    fn from(time: SystemTime) -> Self {
        let since = time
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        Self(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(time) => write!(f, "{time:.3}"),
            Err(_) => write!(f, "{}", self.0),
        }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        let time: jiff::Timestamp = text.parse().map_err(D::Error::custom)?;
        Ok(Self(time.as_millisecond()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_is_rfc3339_with_milliseconds() {
        let time = Timestamp::from_millis(1_768_334_400_005);
        let text = serde_json::to_string(&time).unwrap();
        assert_eq!(text, "\"2026-01-13T20:00:00.005Z\"");
        assert_eq!(serde_json::from_str::<Timestamp>(&text).unwrap(), time);
        assert_eq!(
            Timestamp::from_millis(1_768_334_400_000).to_string(),
            "2026-01-13T20:00:00.000Z"
        );
    }
}
