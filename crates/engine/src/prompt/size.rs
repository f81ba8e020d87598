//! How large texts are, and how they are made smaller.

/// The estimate that all bounds of prompts go by.
const CHARS_PER_TOKEN: usize = 4;
/// Room for the mark that says how many bytes were left out.
pub(crate) const CUT_MARK_BYTES: usize = 64;
/// A cut moves this far at most to stand between two words.
const WORD_BYTES: usize = 24;

pub(super) fn estimated_tokens(chars: usize) -> usize {
    chars.div_ceil(CHARS_PER_TOKEN)
}

/// The longest text of so many tokens, by the same estimate.
pub(super) fn chars_of_tokens(tokens: usize) -> usize {
    tokens.saturating_mul(CHARS_PER_TOKEN)
}

pub(super) fn chars(text: &str) -> usize {
    text.chars().count()
}

/// At most `max_chars` of a text: its beginning and its end, with a mark between them that says how
/// much is missing.
pub(crate) fn shorten(text: &str, max_chars: usize) -> String {
    let total = chars(text);
    if total <= max_chars {
        return text.to_owned();
    }
    // On one line, so that what follows it cannot look like the beginning of another message.
    let mark = |left_out: usize| format!(" [… {left_out} characters left out …] ");
    let Some(room) = max_chars.checked_sub(chars(&mark(total))) else {
        let begun: String = text.chars().take(max_chars.saturating_sub(1)).collect();
        return if max_chars == 0 { begun } else { begun + "…" };
    };
    let head = up_to_word(&text[..byte_at(text, room.div_ceil(2))]);
    let tail = from_word(&text[byte_at(text, total - room / 2)..]);
    format!("{head}{}{tail}", mark(total - chars(head) - chars(tail)))
}

/// Keeps head and tail of a long text, so many bytes and a mark between them.
pub fn without_middle(content: &str, max_bytes: usize) -> String {
    // A text that was cut once, mark included, is left as it is.
    if content.len() <= max_bytes + CUT_MARK_BYTES {
        return content.to_owned();
    }
    let half = max_bytes / 2;
    let head = content.floor_char_boundary(half);
    let tail = content.ceil_char_boundary(content.len() - half);
    let left_out = tail - head;
    format!(
        "{}\n[… {left_out} bytes left out …]\n{}",
        &content[..head],
        &content[tail..]
    )
}

/// The largest bound under which texts of these sizes fit into `room` together.
pub fn fair_bound(sizes: impl Iterator<Item = usize>, room: usize) -> usize {
    let mut sizes: Vec<usize> = sizes.collect();
    sizes.sort_unstable();
    let mut left = room;
    for (place, size) in sizes.iter().enumerate() {
        let share = left / (sizes.len() - place);
        if *size > share {
            return share;
        }
        left -= size;
    }
    usize::MAX
}

fn byte_at(text: &str, place: usize) -> usize {
    text.char_indices()
        .nth(place)
        .map_or(text.len(), |(byte, _)| byte)
}

fn up_to_word(head: &str) -> &str {
    match head.rfind(char::is_whitespace) {
        Some(end) if head.len() - end <= WORD_BYTES => &head[..end],
        _ => head,
    }
}

fn from_word(tail: &str) -> &str {
    match tail.find(char::is_whitespace) {
        Some(end) if end <= WORD_BYTES => tail[end..].trim_start(),
        _ => tail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortened_text_keeps_both_ends_and_says_what_is_missing() {
        let text = format!("Начало истории {} конец истории", "слово ".repeat(50));
        for max_chars in [60, 100, 200, 328] {
            let short = shorten(&text, max_chars);
            assert!(chars(&short) <= max_chars, "{max_chars}: {short}");
            assert!(
                short.starts_with("Начало") && short.ends_with("истории"),
                "{short}"
            );
            let (head, rest) = short.split_once(" [… ").unwrap();
            let (left_out, tail) = rest.split_once(" characters left out …] ").unwrap();
            assert_eq!(
                chars(head) + left_out.parse::<usize>().unwrap() + chars(tail),
                chars(&text)
            );
        }
        for (text, max_chars, expected) in [
            ("short", 5, "short"),
            ("", 0, ""),
            ("длинный", 4, "дли…"),
            ("long", 1, "…"),
            ("long", 0, ""),
        ] {
            assert_eq!(shorten(text, max_chars), expected);
        }
        let unbroken = shorten(&"界".repeat(1000), 100);
        assert!(
            chars(&unbroken) <= 100 && chars(&unbroken) >= 98,
            "{unbroken}"
        );
    }

    #[test]
    fn a_fair_bound_cuts_only_what_is_longest() {
        for (sizes, room, bound) in [
            (vec![], 0, usize::MAX),
            (vec![5, 5], 10, usize::MAX),
            (vec![1, 100, 2], 53, 50),
            (vec![100, 100, 1], 21, 10),
            (vec![10, 10], 0, 0),
        ] {
            assert_eq!(fair_bound(sizes.iter().copied(), room), bound, "{sizes:?}");
        }
    }
}
