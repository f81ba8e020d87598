//! How many values a message holds. A value takes many times its bytes in memory, so a limit on the
//! bytes of a message is not enough.

/// Values of one message: numbers, texts, lists, objects.
pub const MAX_VALUES: usize = 100_000;

/// Counted before anything is parsed. What is no JSON is counted too, and refused later.
pub fn has_too_many(json: &[u8]) -> bool {
    let mut values = 1_usize;
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => skip_text(&mut bytes),
            b',' | b'[' | b'{' => values += 1,
            _ => {}
        }
        if values > MAX_VALUES {
            return true;
        }
    }
    false
}

/// What to say of a server that sends such a message.
pub fn blame() -> String {
    format!("it sent a message of more than {MAX_VALUES} JSON values")
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
        for (json, expected) in [
            (list("0", MAX_VALUES - 1), false),
            (list("0", MAX_VALUES + 1), true),
            (list("{\"\":0}", MAX_VALUES / 2 + 1), true),
            (list("[]", MAX_VALUES / 2 + 1), true),
            (format!("[\"{}\"]", "[,\\\"{".repeat(MAX_VALUES)), false),
            (String::new(), false),
            ("\"open".to_owned(), false),
        ] {
            assert_eq!(has_too_many(json.as_bytes()), expected, "{:.40}", json);
        }
    }
}
