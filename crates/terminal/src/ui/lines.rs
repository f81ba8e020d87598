//! Small files of the chat in the data folder: a JSON value per line, readable by nobody else.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde_json::Value;

/// The lines that are JSON. A file that cannot be read, or is larger than this, is an empty one.
pub fn read(path: &Path, max_bytes: u64) -> Vec<Value> {
    let is_small =
        fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() <= max_bytes);
    let text = if is_small {
        fs::read_to_string(path).unwrap_or_default()
    } else {
        String::new()
    };
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// Written whole beside the old file, so that a crash leaves one of the two.
pub fn write(path: &Path, lines: impl IntoIterator<Item = Value>) -> io::Result<()> {
    let new = path.with_extension(format!("{}.new", std::process::id()));
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)?;
    for line in lines {
        writeln!(file, "{line}")?;
    }
    drop(file);
    fs::rename(new, path)
}
