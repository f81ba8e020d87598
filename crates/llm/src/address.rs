//! The address to which calls of a model server go.

use codelab_transport::{InvalidAddress, server_address};
use http::Uri;

/// The address for chat completions. `base` may end in `/` or `/v1`.
pub(crate) fn completions_uri(base: &str) -> Result<Uri, InvalidAddress> {
    server_address(base)?;
    let base = base.trim().trim_end_matches('/');
    let base = base
        .strip_suffix("/v1")
        .unwrap_or(base)
        .trim_end_matches('/');
    format!("{base}/v1/chat/completions")
        .parse()
        .map_err(|_| InvalidAddress::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_are_posted_below_v1() {
        for (base, wanted) in [
            ("http://a:1", "http://a:1/v1/chat/completions"),
            ("http://a:1/", "http://a:1/v1/chat/completions"),
            ("http://a:1/v1", "http://a:1/v1/chat/completions"),
            (" http://a:1/v1/ ", "http://a:1/v1/chat/completions"),
            (
                "https://a.b/openai/v1",
                "https://a.b/openai/v1/chat/completions",
            ),
            ("https://a.b/api//", "https://a.b/api/v1/chat/completions"),
        ] {
            assert_eq!(completions_uri(base).unwrap().to_string(), wanted, "{base}");
        }
    }

    #[test]
    fn unusable_addresses_are_refused() {
        for base in [
            "",
            "ftp://a",
            "http://user:pass@a",
            "http://a/?key=1",
            "http://a/#x",
        ] {
            assert!(completions_uri(base).is_err(), "{base:?}");
        }
    }
}
