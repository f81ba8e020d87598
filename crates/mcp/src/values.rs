//! How many values a message holds, and how deep they are nested. A value takes many times its bytes
//! in memory, so a limit on the bytes of a message is not enough; and what is nested too deep is not
//! parsed, so its sender would be waited for in vain.

/// Values of one message: numbers, texts, lists, objects.
pub const MAX_VALUES: usize = 100_000;
/// Below what the parser takes.
const MAX_DEPTH: usize = 100;

/// Why the message is refused, looked at before anything is parsed. What is no JSON is counted too,
/// and refused later.
pub fn fault(json: &[u8]) -> Option<String> {
    let (mut values, mut depth) = (1_usize, 0_usize);
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => skip_text(&mut bytes),
            b',' => values += 1,
            b'[' | b'{' => {
                values += 1;
                depth += 1;
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if values > MAX_VALUES {
            return Some(format!(
                "it sent a message of more than {MAX_VALUES} JSON values"
            ));
        }
        if depth > MAX_DEPTH {
            return Some(format!(
                "it sent a message nested deeper than {MAX_DEPTH} levels"
            ));
        }
    }
    None
}

fn skip_text(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => _ = bytes.next(),
            b'"' => return,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_count_and_what_stands_in_texts_does_not() {
        let list = |item: &str, count: usize| format!("[{}]", vec![item; count].join(","));
        let deep =
            |levels: usize| format!("{}{}", "[{".repeat(levels / 2), "}]".repeat(levels / 2));
        for (json, expected) in [
            (list("0", MAX_VALUES - 1), ""),
            (list("0", MAX_VALUES + 1), "JSON values"),
            (list("{\"\":0}", MAX_VALUES / 2 + 1), "JSON values"),
            (list("[]", MAX_VALUES / 2 + 1), "JSON values"),
            (deep(MAX_DEPTH), ""),
            (deep(MAX_DEPTH + 2), "nested deeper"),
            (format!("[\"{}\"]", "[,\\\"{".repeat(MAX_VALUES)), ""),
            (String::new(), ""),
            ("\"open".to_owned(), ""),
        ] {
            let found = fault(json.as_bytes()).unwrap_or_default();
            assert!(found.contains(expected), "{:.40}: {found}", json);
            assert_eq!(
                found.is_empty(),
                expected.is_empty(),
                "{:.40}: {found}",
                json
            );
        }
    }
}
