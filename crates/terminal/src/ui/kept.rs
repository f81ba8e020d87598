//! Texts that a person wrote in their editor and that were not used, in files of the data folder.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{fs, iter};

const FOLDER: &str = "edits";
/// The oldest go first.
const MAX_KEPT: usize = 50;
const MAX_ENDING_CHARS: usize = 16;

/// The part of a file's name that tells its kind, with the dot, if it can stand in any name.
pub fn ending(name: &str) -> Option<String> {
    let ending = Path::new(name).extension()?.to_str()?;
    let is_plain = ending.len() <= MAX_ENDING_CHARS
        && ending.chars().all(|letter| letter.is_ascii_alphanumeric());
    is_plain.then(|| format!(".{ending}"))
}

/// Writes the text to a file that only this person can read.
pub fn keep(data_dir: &Path, name: &str, text: &[u8]) -> io::Result<PathBuf> {
    let folder = data_dir.join(FOLDER);
    fs::create_dir_all(&folder)?;
    let mut file = tempfile::Builder::new()
        .prefix("edit-")
        .suffix(&ending(name).unwrap_or(".txt".to_owned()))
        .tempfile_in(&folder)?;
    file.write_all(text)?;
    let (_, path) = file.keep()?;
    remove_oldest(&folder)?;
    Ok(path)
}

fn remove_oldest(folder: &Path) -> io::Result<()> {
    let kept = fs::read_dir(folder)?.filter_map(Result::ok);
    let aged = kept.filter_map(|entry| {
        let modified = entry.metadata().and_then(|data| data.modified());
        Some((modified.ok()?, entry.path()))
    });
    let mut aged: Vec<(SystemTime, PathBuf)> = aged.collect();
    aged.sort();
    let extra = aged.len().saturating_sub(MAX_KEPT);
    iter::zip(0..extra, aged).try_for_each(|(_, (_, path))| fs::remove_file(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_and_the_oldest_go() {
        let data = tempfile::tempdir().unwrap();
        let first = keep(data.path(), "src/a.py", b"first \xff").unwrap();
        assert_eq!(fs::read(&first).unwrap(), b"first \xff");
        assert!(first.to_str().unwrap().ends_with(".py"), "{first:?}");
        let old = SystemTime::UNIX_EPOCH;
        let file = fs::File::options().write(true).open(&first).unwrap();
        file.set_modified(old).unwrap();
        for _ in 0..MAX_KEPT {
            keep(data.path(), "../odd.$(x)", b"text").unwrap();
        }
        assert!(!first.exists());
        let left = fs::read_dir(data.path().join(FOLDER)).unwrap();
        assert_eq!(left.count(), MAX_KEPT);
    }
}
