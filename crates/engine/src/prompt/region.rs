//! Whose language and clock a prompt is written in. The time itself comes in; nothing here reads a
//! clock or a file.

use codelab_protocol::{CallerContext, Role, Timestamp};
use jiff::Zoned;
use jiff::tz::{TimeZone, TimeZoneDatabase};

/// The server's own, or a user's.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Region {
    pub locale: Locale,
    pub zone: Zone,
}

/// The languages that a history can be written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Locale {
    #[default]
    En,
    Ru,
    Uk,
}

/// A time zone with an IANA name.
#[derive(Debug, Clone, PartialEq)]
pub struct Zone(TimeZone);

/// Of a time zone that is none, for the log.
const MAX_SHOWN_CHARS: usize = 64;

impl Region {
    /// What the caller says where it means something, else the server's own; and the time zone that
    /// means nothing.
    pub(super) fn of_caller(&self, caller: &CallerContext) -> (Self, Option<String>) {
        let locale = caller
            .locale
            .as_deref()
            .and_then(Locale::of)
            .unwrap_or(self.locale);
        let given = caller
            .timezone
            .as_deref()
            .map(str::trim)
            .filter(|name| !name.is_empty());
        let zone = given.map(|name| Zone::named(name).ok_or(name));
        let unusable = zone.as_ref().and_then(|zone| zone.as_ref().err());
        let unusable = unusable.map(|name| name.chars().take(MAX_SHOWN_CHARS).collect());
        let zone = zone
            .and_then(Result::ok)
            .unwrap_or_else(|| self.zone.clone());
        (Self { locale, zone }, unusable)
    }
}

impl Locale {
    /// By a language tag: `uk`, `uk-UA` and `uk_UA` are the same.
    pub fn of(tag: &str) -> Option<Self> {
        let language = tag.trim().split(['-', '_']).next().unwrap_or_default();
        match language.to_ascii_lowercase().as_str() {
            "en" => Some(Self::En),
            "ru" => Some(Self::Ru),
            "uk" => Some(Self::Uk),
            _ => None,
        }
    }

    /// As it stands in a page's `lang`.
    pub fn tag(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::Ru => "ru",
            Self::Uk => "uk",
        }
    }

    pub(super) fn role(self, role: Role) -> &'static str {
        match (self, role) {
            (Self::En, Role::User) => "User",
            (Self::En, Role::Assistant) => "Assistant",
            (Self::En, Role::System) => "System",
            (Self::En, Role::Tool) => "Tool",
            (Self::Ru, Role::User) => "Пользователь",
            (Self::Ru, Role::Assistant) => "Ассистент",
            (Self::Ru | Self::Uk, Role::System) => "Система",
            (Self::Ru, Role::Tool) => "Инструмент",
            (Self::Uk, Role::User) => "Користувач",
            (Self::Uk, Role::Assistant) => "Асистент",
            (Self::Uk, Role::Tool) => "Інструмент",
        }
    }

    pub(super) fn empty_history(self) -> &'static str {
        match self {
            Self::En => "The message history is empty",
            Self::Ru => "История диалога пуста",
            Self::Uk => "Історія діалогу порожня",
        }
    }
}

impl Zone {
    /// A zone of the bundled database, e.g. `Europe/Kyiv`; upper and lower case are the same.
    pub fn named(name: &str) -> Option<Self> {
        let zone = TimeZoneDatabase::bundled().get(name).ok()?;
        (!zone.is_unknown()).then_some(Self(zone))
    }

    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// ISO-8601 with this zone's offset at that time, e.g. `2026-01-13T22:00:00+02:00`.
    pub(super) fn iso(&self, time: Timestamp) -> String {
        self.at(time).map_or_else(
            || time.to_string(),
            |local| local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        )
    }

    /// `HH:MM`.
    pub(super) fn clock(&self, time: Timestamp) -> String {
        self.at(time).map_or_else(
            || "--:--".to_owned(),
            |local| local.strftime("%H:%M").to_string(),
        )
    }

    /// Nothing outside the calendar.
    fn at(&self, time: Timestamp) -> Option<Zoned> {
        Some(
            jiff::Timestamp::from_millisecond(time.as_millis())
                .ok()?
                .to_zoned(self.0.clone()),
        )
    }
}

impl Default for Zone {
    fn default() -> Self {
        Self(TimeZone::UTC)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_and_languages_are_known_by_name() {
        for (name, known) in [
            ("Europe/Kyiv", Some("Europe/Kyiv")),
            ("europe/kiev", Some("Europe/Kiev")),
            ("UTC", Some("UTC")),
            (
                "America/Argentina/Buenos_Aires",
                Some("America/Argentina/Buenos_Aires"),
            ),
            ("+02:00", None),
            ("Etc/Unknown", None),
            ("../etc/passwd", None),
            ("", None),
        ] {
            assert_eq!(Zone::named(name).as_ref().map(Zone::name), known, "{name}");
        }
        for (tag, known) in [
            ("en", Some(Locale::En)),
            ("ru-RU", Some(Locale::Ru)),
            ("UK_ua", Some(Locale::Uk)),
            ("fr", None),
            ("russian", None),
            ("", None),
        ] {
            assert_eq!(Locale::of(tag), known, "{tag}");
        }
    }

    #[test]
    fn the_offset_is_the_one_of_that_day() {
        let kyiv = Zone::named("Europe/Kyiv").unwrap();
        for (millis, iso, clock) in [
            (1_768_334_400_000, "2026-01-13T22:00:00+02:00", "22:00"),
            (1_783_972_800_000, "2026-07-13T23:00:00+03:00", "23:00"),
            (i64::MAX, "9223372036854775807", "--:--"),
        ] {
            let time = Timestamp::from_millis(millis);
            assert_eq!(
                (kyiv.iso(time).as_str(), kyiv.clock(time).as_str()),
                (iso, clock)
            );
        }
        assert_eq!(
            Zone::default().iso(Timestamp::from_millis(0)),
            "1970-01-01T00:00:00+00:00"
        );
    }
}
