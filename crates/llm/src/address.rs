//! The addresses to which requests of a provider go.

use codelab_transport::{InvalidAddress, server_address};
use http::Uri;

/// The address of `path`, which begins with `/v1`. `base` may end in `/` or `/v1`.
pub(crate) fn endpoint(base: &str, path: &str) -> Result<Uri, InvalidAddress> {
    server_address(base)?;
    let base = base.trim().trim_end_matches('/');
    let base = base
        .strip_suffix("/v1")
        .unwrap_or(base)
        .trim_end_matches('/');
    format!("{base}{path}")
        .parse()
        .map_err(|_| InvalidAddress::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "/v1/chat/completions";

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
            assert_eq!(endpoint(base, PATH).unwrap().to_string(), wanted, "{base}");
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
            assert!(endpoint(base, PATH).is_err(), "{base:?}");
        }
    }
}
