//! Expands `${VAR}` and `${VAR:-default}` in the values of a server's configuration.

use std::collections::BTreeMap;

use super::{HttpConfig, ServerConfig, StdioConfig, check_url};

/// Why the variables of a configuration could not be replaced. Names no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnsetVariable {
    #[error(
        "the variable {name} is not set, and {place} needs it; set it, or write \
         ${{{name}:-default}}"
    )]
    Unset { name: String, place: String },
    #[error("{place} has ${{ without a name and a closing }}")]
    Malformed { place: String },
    #[error("with its variables, {reason}")]
    Unusable { reason: String },
}

impl ServerConfig {
    /// The configuration with the values of variables, which `variable` knows. An empty value
    /// counts as unset where there is a default.
    pub fn expand(&self, variable: impl Fn(&str) -> Option<String>) -> Result<Self, UnsetVariable> {
        let expand = |text: &str, place: &str| expanded(text, place, &variable);
        match self {
            Self::Stdio(stdio) => {
                let args = stdio.args.iter().map(|arg| expand(arg, "args"));
                Ok(Self::Stdio(StdioConfig {
                    command: expand(&stdio.command, "command")?,
                    args: args.collect::<Result<_, _>>()?,
                    env: expand_values(&stdio.env, "env", &expand)?,
                    cwd: match &stdio.cwd {
                        Some(cwd) => Some(expand(&cwd.to_string_lossy(), "cwd")?.into()),
                        None => None,
                    },
                }))
            }
            Self::Http(http) => {
                let config = HttpConfig {
                    url: expand(&http.url, "url")?,
                    headers: expand_values(&http.headers, "headers", &expand)?,
                };
                let unusable = |reason| UnsetVariable::Unusable { reason };
                check_url(&config.url).map_err(unusable)?;
                config.check_headers().map_err(unusable)?;
                Ok(Self::Http(config))
            }
        }
    }
}

fn expand_values(
    values: &BTreeMap<String, String>,
    place: &str,
    expand: &impl Fn(&str, &str) -> Result<String, UnsetVariable>,
) -> Result<BTreeMap<String, String>, UnsetVariable> {
    let pairs = values.iter().map(|(name, value)| {
        let value = expand(value, &format!("{place}.{name}"))?;
        Ok((name.clone(), value))
    });
    pairs.collect()
}

/// Values are not expanded again: what a variable holds is plain text.
fn expanded(
    text: &str,
    place: &str,
    variable: &impl Fn(&str) -> Option<String>,
) -> Result<String, UnsetVariable> {
    let malformed = || UnsetVariable::Malformed {
        place: place.to_owned(),
    };
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        result.push_str(before);
        let (inner, behind) = after.split_once('}').ok_or_else(malformed)?;
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        if !is_name(name) {
            return Err(malformed());
        }
        let value = variable(name).filter(|value| default.is_none() || !value.is_empty());
        match (value, default) {
            (Some(value), _) => result.push_str(&value),
            (None, Some(default)) => result.push_str(default),
            (None, None) => {
                return Err(UnsetVariable::Unset {
                    name: name.to_owned(),
                    place: place.to_owned(),
                });
            }
        }
        rest = behind;
    }
    result.push_str(rest);
    Ok(result)
}

fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes
        .next()
        .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
