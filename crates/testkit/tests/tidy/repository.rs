//! The files of the repository: tracked ones, and new ones that git does not ignore.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The one crate that is not beneath `crates/`.
const BENCHMARKS: &str = "bench";

pub struct Repository {
    root: PathBuf,
}

/// A file of the repository that is UTF-8; `path` is relative to the root.
pub struct TextFile {
    pub path: String,
    pub text: String,
}

impl Repository {
    pub fn open() -> Self {
        Self {
            root: Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."),
        }
    }

    pub fn files(&self) -> Result<Vec<String>> {
        let mut files = self.git(&[
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])?;
        // A file that was deleted and not yet committed is still in the index.
        files.retain(|path| self.root.join(path).is_file());
        ensure!(!files.is_empty(), "git lists no file");
        Ok(files)
    }

    pub fn is_tracked(&self, path: &str) -> Result<bool> {
        Ok(self.git(&["ls-files", "-z", "--cached", "--", path])? == [path])
    }

    pub fn texts(&self) -> Result<Vec<TextFile>> {
        let mut texts = Vec::new();
        for path in self.files()? {
            let bytes = fs::read(self.root.join(&path)).with_context(|| path.clone())?;
            if let Ok(text) = String::from_utf8(bytes) {
                texts.push(TextFile { path, text });
            }
        }
        Ok(texts)
    }

    pub fn text(&self, path: &str) -> Result<TextFile> {
        let text = fs::read_to_string(self.root.join(path)).with_context(|| path.to_owned())?;
        Ok(TextFile {
            path: path.to_owned(),
            text,
        })
    }

    pub fn size_bytes(&self, path: &str) -> Result<u64> {
        Ok(fs::metadata(self.root.join(path))
            .with_context(|| path.to_owned())?
            .len())
    }

    pub fn is_executable(&self, path: &str) -> Result<bool> {
        let metadata = fs::metadata(self.root.join(path)).with_context(|| path.to_owned())?;
        Ok(metadata.is_file() && metadata.permissions().mode() & 0o111 == 0o111)
    }

    /// The manifests of our crates by the names of their folders: those beneath `crates/`, and the
    /// benchmarks.
    pub fn manifests(&self) -> Result<BTreeMap<String, String>> {
        let mut folders = vec![BENCHMARKS.to_owned()];
        for entry in fs::read_dir(self.root.join("crates"))? {
            folders.push(format!("crates/{}", entry?.file_name().to_string_lossy()));
        }
        let manifest = |folder: String| {
            let path = format!("{folder}/Cargo.toml");
            let name = folder.rsplit('/').next().unwrap_or_default().to_owned();
            self.root.join(&path).is_file().then_some((name, path))
        };
        Ok(folders.into_iter().filter_map(manifest).collect())
    }

    /// The NUL-separated output of git. The owner of the clone does not matter for reading it.
    fn git(&self, arguments: &[&str]) -> Result<Vec<String>> {
        let output = Command::new("git")
            .args(["-c", "safe.directory=*"])
            .args(arguments)
            .current_dir(&self.root)
            .output()
            .context("git could not be started")?;
        ensure!(
            output.status.success(),
            "git {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let text = String::from_utf8(output.stdout).context("a path is not UTF-8")?;
        Ok(text
            .split('\0')
            .filter(|path| !path.is_empty())
            .map(str::to_owned)
            .collect())
    }
}

impl TextFile {
    #[cfg(test)]
    pub fn new(path: &str, text: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            text: text.into(),
        }
    }

    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// `path:line: what`, with lines counted from one.
    pub fn finding(&self, line_index: usize, what: impl std::fmt::Display) -> String {
        format!("{}:{}: {what}", self.path, line_index + 1)
    }
}
