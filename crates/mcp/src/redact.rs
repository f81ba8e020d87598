//! Takes the secrets of a server's configuration out of texts that people and logs see. A server
//! can print its environment when it fails.

use crate::ServerConfig;

/// Shorter values are no secrets, and their text could be part of any word.
const MIN_SECRET_BYTES: usize = 4;
const REPLACEMENT: &str = "[hidden]";

/// The values of a server's environment and headers.
#[derive(Clone, Default)]
pub struct Redaction {
    /// Longest first, so that a value that contains another one goes as a whole.
    secrets: Vec<String>,
}

/// Shows no secret.
impl std::fmt::Debug for Redaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redaction({})", self.secrets.len())
    }
}

impl Redaction {
    pub fn of(config: &ServerConfig) -> Self {
        let values: Vec<&String> = match config {
            ServerConfig::Stdio(stdio) => stdio.env.values().collect(),
            ServerConfig::Http(http) => http.headers.values().collect(),
        };
        let mut secrets: Vec<String> = Vec::new();
        for value in values {
            secrets.push(value.clone());
            // `Bearer TOKEN`: the token alone is a secret too.
            secrets.extend(value.split_whitespace().map(str::to_owned));
            secrets.extend(value.lines().map(str::to_owned));
        }
        if let ServerConfig::Http(http) = config
            && let Some((_, query)) = http.url.split_once('?')
        {
            secrets.push(query.to_owned());
            let values = query.split('&').filter_map(|pair| pair.split_once('='));
            secrets.extend(values.map(|(_, value)| value.to_owned()));
        }
        secrets.retain(|secret| secret.trim().len() >= MIN_SECRET_BYTES);
        secrets.sort_by(|one, other| other.len().cmp(&one.len()).then(one.cmp(other)));
        secrets.dedup();
        Self { secrets }
    }

    /// The text without secrets. A text must not be cut before, because a part of a secret would stay.
    pub fn hide(&self, text: &str) -> String {
        let mut clean = text.to_owned();
        for secret in &self.secrets {
            clean = clean.replace(secret.as_str(), REPLACEMENT);
        }
        clean
    }
}

#[cfg(test)]
mod tests {
    use crate::{HttpConfig, StdioConfig};

    use super::*;

    #[test]
    fn no_value_of_the_configuration_is_left() {
        let stdio = ServerConfig::Stdio(StdioConfig {
            command: "x".to_owned(),
            args: Vec::new(),
            env: [("A", "canary"), ("B", "canary-2 and\nmore"), ("C", "1")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            cwd: None,
        });
        let clean = Redaction::of(&stdio);
        assert_eq!(
            clean.hide("A=canary B=canary-2 C=1"),
            "A=[hidden] B=[hidden] C=1"
        );
        assert!(!format!("{clean:?}").contains("canary"));
        let http = ServerConfig::Http(HttpConfig {
            url: "https://a.test/mcp?key=canary&b=2".to_owned(),
            headers: [("Authorization".to_owned(), "Bearer token-canary".to_owned())].into(),
        });
        let clean = Redaction::of(&http).hide("token-canary at https://a.test/mcp?key=canary&b=2");
        assert_eq!(clean, "[hidden] at https://a.test/mcp?[hidden]");
    }
}
