//! Every setting with its value and where that comes from, for people. No secret leaves through
//! here: keys are never shown, and addresses lose their passwords.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::file::File;
use super::sources::{Environment, Merged, Source};
use super::{ConfigError, Settings};

/// What was read, whether or not it can be used.
#[derive(Debug)]
pub struct Explained {
    pub settings: Result<Settings, ConfigError>,
    /// In the order of the documentation. Empty where the file or the environment cannot be read at
    /// all.
    pub shown: Vec<ShownSetting>,
    /// None where there is not even a home folder.
    pub data_dir: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ShownSetting {
    pub name: String,
    /// Null where nothing is set and there is no default.
    pub value: Value,
    pub source: Source,
}

/// Shown instead of a secret that is set.
const HIDDEN: &str = "[secret]";
/// Shown instead of a part of an address that may be a secret.
const LEFT_OUT: &str = "***";
/// Secrets that are read from the environment alone.
const SECRETS: [&str; 3] = ["INTERNAL_API_KEY", "JWT_SECRET", "CODELAB_MASTER_KEY"];
/// Parts of a database's address that hold no secret.
const PLAIN_PARAMETERS: [&str; 11] = [
    "application_name",
    "connect_timeout",
    "dbname",
    "host",
    "port",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "target_session_attrs",
    "user",
];

pub(super) fn all(
    file: &File,
    merged: &Merged,
    (data_dir, source): (&Path, Source),
    environment: &Environment,
) -> Vec<ShownSetting> {
    let mut shown = vec![ShownSetting {
        name: "data_dir".to_owned(),
        value: Value::String(data_dir.display().to_string()),
        source,
    }];
    let values = serde_json::to_value(file).unwrap_or_default();
    leaves(&values, &mut Vec::new(), &merged.sources, &mut shown);
    for name in SECRETS {
        let is_set = environment.get(name).is_some_and(|value| !value.is_empty());
        let (value, source) = match is_set {
            true => (
                Value::String(HIDDEN.to_owned()),
                Source::Environment(name.to_owned()),
            ),
            false => (Value::Null, Source::Default),
        };
        shown.push(ShownSetting {
            name: name.to_owned(),
            value,
            source,
        });
    }
    shown
}

fn leaves(
    value: &Value,
    path: &mut Vec<String>,
    sources: &BTreeMap<Vec<String>, Source>,
    shown: &mut Vec<ShownSetting>,
) {
    if let Value::Object(fields) = value {
        for (name, value) in fields {
            path.push(name.clone());
            leaves(value, path, sources, shown);
            path.pop();
        }
        return;
    }
    let source = sources.get(path).cloned().unwrap_or(Source::Default);
    let name = path.join(".");
    let value = without_secrets(&name, value);
    shown.push(ShownSetting {
        name,
        value,
        source,
    });
}

fn without_secrets(name: &str, value: &Value) -> Value {
    let Value::String(text) = value else {
        return value.clone();
    };
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_secret = ["key", "secret", "token", "password"]
        .iter()
        .any(|end| last.ends_with(end));
    Value::String(match is_secret {
        true => HIDDEN.to_owned(),
        false if last.ends_with("url") => address_without_secrets(text),
        false => text.clone(),
    })
}

/// An address without its password. In a database's address the part before `@` is a user name and
/// is shown. In other addresses people put tokens there, so it is hidden.
fn address_without_secrets(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        // An address that cannot be parsed may hold a secret. The path of a file does not.
        let is_file = text.strip_prefix("sqlite:").is_some();
        return if is_file || !text.contains(['@', '=']) {
            text.to_owned()
        } else {
            LEFT_OUT.to_owned()
        };
    };
    let (location, parameters) = match rest.split_once('?') {
        Some((location, parameters)) => (location, Some(parameters)),
        None => (rest, None),
    };
    let mut shown = format!("{scheme}://");
    match location.rsplit_once('@') {
        Some((who, host)) => {
            match who.split_once(':') {
                Some((name, _)) if scheme.starts_with("postgres") => {
                    shown.push_str(&format!("{name}:{LEFT_OUT}"))
                }
                None if scheme.starts_with("postgres") => shown.push_str(who),
                _ => shown.push_str(LEFT_OUT),
            }
            shown.push('@');
            shown.push_str(host);
        }
        None => shown.push_str(location),
    }
    if let Some(parameters) = parameters {
        let plain: Vec<String> = parameters
            .split('&')
            .map(parameter_without_secrets)
            .collect();
        shown.push_str(&format!("?{}", plain.join("&")));
    }
    shown
}

fn parameter_without_secrets(parameter: &str) -> String {
    match parameter.split_once('=') {
        Some((name, _)) if !PLAIN_PARAMETERS.contains(&name) => format!("{name}={LEFT_OUT}"),
        Some(_) => parameter.to_owned(),
        None => LEFT_OUT.to_owned(),
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Environment(name) => write!(f, "environment: {name}"),
            Self::Flag(name) => write!(f, "flag: {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_keep_their_secrets() {
        for (address, shown) in [
            (
                "postgres://me:canary@db:5432/codelab?sslmode=require",
                "postgres://me:***@db:5432/codelab?sslmode=require",
            ),
            (
                "postgres://me@a,b/codelab?password=canary&user=me",
                "postgres://me@a,b/codelab?password=***&user=me",
            ),
            (
                "postgres://me:can@ary@db/codelab",
                "postgres://me:***@db/codelab",
            ),
            ("redis://:canary@cache:6379/0", "redis://***@cache:6379/0"),
            ("https://canary@proxy/v1", "https://***@proxy/v1"),
            ("https://proxy/v1?canary", "https://proxy/v1?***"),
            ("postgresql:host=db password=canary", "***"),
            ("sqlite:/data/a@b.db", "sqlite:/data/a@b.db"),
            ("http://127.0.0.1:4000", "http://127.0.0.1:4000"),
        ] {
            assert_eq!(address_without_secrets(address), shown);
        }
    }
}
