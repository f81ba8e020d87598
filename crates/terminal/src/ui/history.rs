//! What the person wrote before, kept between chats.

use std::io;
use std::path::Path;

use serde_json::Value;

use super::lines;

const FILE: &str = "chat-history";
/// More of an old file is not read.
const MAX_BYTES: u64 = 4 << 20;

pub fn load(data_dir: &Path) -> Vec<String> {
    let text = |line| match line {
        Value::String(text) => Some(text),
        _ => None,
    };
    let lines = lines::read(&data_dir.join(FILE), MAX_BYTES);
    lines.into_iter().filter_map(text).collect()
}

pub fn save(data_dir: &Path, history: &[String]) -> io::Result<()> {
    let entries = history.iter().map(|entry| Value::from(entry.as_str()));
    lines::write(&data_dir.join(FILE), entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(load(folder.path()), Vec::<String>::new());
        let history = ["one".to_owned(), "two\nlines \u{1b}".to_owned()];
        save(folder.path(), &history).unwrap();
        assert_eq!(load(folder.path()), history);
        std::fs::write(folder.path().join(FILE), "not json\n\"kept\"\n").unwrap();
        assert_eq!(load(folder.path()), ["kept"]);
    }
}
