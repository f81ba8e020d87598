//! What the person wrote before, kept between chats: a JSON string per line, readable by nobody
//! else.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

const FILE: &str = "chat-history";
/// More of an old file is not read.
const MAX_BYTES: u64 = 4 << 20;

/// A history that cannot be read is an empty one.
pub fn load(data_dir: &Path) -> Vec<String> {
    let path = data_dir.join(FILE);
    let is_small =
        fs::metadata(&path).is_ok_and(|found| found.is_file() && found.len() <= MAX_BYTES);
    let text = if is_small {
        fs::read_to_string(&path).unwrap_or_default()
    } else {
        String::new()
    };
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// Written whole beside the old one, so that a crash leaves one of the two.
pub fn save(data_dir: &Path, history: &[String]) -> io::Result<()> {
    let new = data_dir.join(format!("{FILE}.new"));
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)?;
    for entry in history {
        writeln!(file, "{}", serde_json::Value::from(entry.as_str()))?;
    }
    drop(file);
    fs::rename(new, data_dir.join(FILE))
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
        fs::write(folder.path().join(FILE), "not json\n\"kept\"\n").unwrap();
        assert_eq!(load(folder.path()), ["kept"]);
    }
}
