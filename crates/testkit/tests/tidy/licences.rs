//! Licences of third-party crates, as SPDX expressions.

use crate::metadata::Metadata;

const ALLOWED: [&str; 15] = [
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "Zlib",
];

/// Exceptions only add rights. Each allowed one is still listed.
const ALLOWED_EXCEPTIONS: [&str; 1] = ["LLVM-exception"];

pub fn refused(metadata: &Metadata) -> Vec<String> {
    let outside = metadata
        .packages
        .iter()
        .filter(|package| package.folder.is_none());
    outside
        .filter_map(|package| {
            let what = match package.licence.as_deref() {
                None => "names no licence".to_owned(),
                Some(licence) => match is_allowed(licence) {
                    Some(true) => return None,
                    Some(false) => format!("has a licence that is not allowed: {licence}"),
                    None => format!("has a licence that cannot be read: {licence}"),
                },
            };
            Some(format!(
                "Cargo.lock: {} {} {what}",
                package.name, package.version
            ))
        })
        .collect()
}

/// Whether the expression can be satisfied with allowed licences; `None` when it is malformed. The
/// old `A/B` means `A OR B`.
fn is_allowed(expression: &str) -> Option<bool> {
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let mut tokens: Vec<&str> = spaced.split_whitespace().rev().collect();
    let allowed = any(&mut tokens)?;
    tokens.is_empty().then_some(allowed)
}

// The tokens still to read, the next one last. `OR` binds weaker than `AND`.

fn any(tokens: &mut Vec<&str>) -> Option<bool> {
    let mut allowed = all(tokens)?;
    while take(tokens, "OR") {
        allowed |= all(tokens)?;
    }
    Some(allowed)
}

fn all(tokens: &mut Vec<&str>) -> Option<bool> {
    let mut allowed = one(tokens)?;
    while take(tokens, "AND") {
        allowed &= one(tokens)?;
    }
    Some(allowed)
}

fn one(tokens: &mut Vec<&str>) -> Option<bool> {
    if take(tokens, "(") {
        let allowed = any(tokens)?;
        return take(tokens, ")").then_some(allowed);
    }
    let licence = tokens
        .pop()
        .filter(|token| !matches!(*token, ")" | "AND" | "OR" | "WITH"))?;
    let allowed = ALLOWED.contains(&licence.trim_end_matches('+'));
    if take(tokens, "WITH") {
        return Some(ALLOWED_EXCEPTIONS.contains(&tokens.pop()?) && allowed);
    }
    Some(allowed)
}

fn take(tokens: &mut Vec<&str>, wanted: &str) -> bool {
    tokens.pop_if(|token| *token == wanted).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::sample;

    #[test]
    fn expressions_are_judged() {
        for (expression, expected) in [
            ("MIT", Some(true)),
            ("MIT/Apache-2.0", Some(true)),
            ("GPL-3.0-only", Some(false)),
            ("MIT OR GPL-3.0-only", Some(true)),
            ("MIT AND GPL-3.0-only", Some(false)),
            ("(MIT OR GPL-3.0-only) AND ISC", Some(true)),
            ("MIT OR GPL-3.0-only AND ISC", Some(true)),
            ("GPL-3.0-only AND MIT OR ISC", Some(true)),
            ("GPL-3.0-only AND (MIT OR ISC)", Some(false)),
            ("Apache-2.0 WITH LLVM-exception", Some(true)),
            ("Apache-2.0 WITH Other-exception", Some(false)),
            ("GPL-2.0-only WITH LLVM-exception OR MIT", Some(true)),
            ("Apache-2.0+", Some(true)),
            ("mit-like", Some(false)),
            ("", None),
            ("MIT OR", None),
            ("(MIT", None),
            ("MIT)", None),
            ("MIT ISC", None),
        ] {
            assert_eq!(is_allowed(expression), expected, "{expression:?}");
        }
    }

    #[test]
    fn only_third_party_crates_are_asked() {
        let mut metadata = sample(&["codelab-x", "silent", "free", "copyleft"], &[]);
        metadata.packages[2].licence = Some("MIT".to_owned());
        metadata.packages[3].licence = Some("AGPL-3.0-only".to_owned());
        let found = refused(&metadata);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].contains("silent 1.0.0 names no licence") && found[1].contains("AGPL"),
            "{found:?}"
        );
    }
}
