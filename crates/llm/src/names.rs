//! Names of models, as tables of prices and windows compare them.

/// A number after a name with fewer digits is a version, not a date or build of the same model.
const MIN_BUILD_DIGITS: usize = 3;

/// The entry of the longest known name that is the model's name or its beginning.
pub(crate) fn best<'a, T>(known: impl Iterator<Item = (&'a str, T)>, model: &str) -> Option<T> {
    known
        .filter(|(name, _)| {
            model
                .strip_prefix(name)
                .is_some_and(|rest| rest.is_empty() || is_build(rest))
        })
        .max_by_key(|(name, _)| name.len())
        .map(|(_, entry)| entry)
}

/// `-2024-08-06`, `-20250514`, `-001`, `-latest` and `-preview…` mark the same model; `-mini` and
/// `-5` mark another one.
fn is_build(rest: &str) -> bool {
    let Some(rest) = rest.strip_prefix('-') else {
        return false;
    };
    let first = rest.split('-').next().unwrap_or(rest);
    let numbered = first.len() >= MIN_BUILD_DIGITS && first.bytes().all(|b| b.is_ascii_digit());
    numbered || matches!(first, "latest" | "preview" | "exp")
}
