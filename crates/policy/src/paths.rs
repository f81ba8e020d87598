//! What the text of a path tells: where it points, whether it is protected, whether a shell may
//! write it without asking. Nothing here touches a file system. The client resolves paths for real,
//! beneath the workspace's root.

mod protected;
mod root;

use crate::visible::is_hidden;

pub(crate) use protected::ProtectedPaths;
pub(crate) use root::WorkspacePrefix;

/// A parsed path. A backslash separates components too. Components are folded (case, trailing dots
/// and spaces, invisible characters, stream names, short names), because the client's file system
/// may fold them as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Location {
    pub absolute: bool,
    /// The path goes above the directory it starts from.
    pub climbs: bool,
    /// The components after `.` and `..` were applied.
    components: Vec<String>,
    /// The components before `..` was applied: with symbolic links, `a/..` may be another
    /// directory.
    written: Vec<String>,
}

impl Location {
    pub fn of(path: &str) -> Self {
        let mut location = Self {
            absolute: false,
            climbs: false,
            components: Vec::new(),
            written: Vec::new(),
        };
        location.absolute = path.starts_with(['/', '\\']);
        for (index, raw) in path.split(['/', '\\']).enumerate() {
            if index == 0 && is_drive(raw) {
                location.absolute = true;
                continue;
            }
            location.push(raw);
        }
        location
    }

    /// This path relative to the workspace, for a base that is itself inside the workspace.
    pub fn from_base(base: &str, path: &str) -> Self {
        let own = Self::of(path);
        if own.absolute || base.is_empty() {
            return own;
        }
        Self::of(&format!("{base}/{path}"))
    }

    fn push(&mut self, raw: &str) {
        match raw.trim_end_matches(' ') {
            "" | "." => {}
            ".." => {
                if self.components.pop().is_none() && !self.absolute {
                    self.climbs = true;
                }
                self.written.push("..".to_owned());
            }
            _ => {
                let folded = fold(raw);
                self.components.push(folded.clone());
                self.written.push(folded);
            }
        }
    }

    /// Whether the path stays beneath the directory it starts from, judged by its text.
    pub fn is_inside(&self) -> bool {
        !self.absolute && !self.climbs
    }

    pub fn is_system(&self) -> bool {
        if !self.absolute {
            return false;
        }
        let mut components = self.components.iter().map(String::as_str);
        match components.next() {
            // macOS keeps `/etc` and `/var` beneath `/private`.
            Some("private") => components
                .next()
                .is_none_or(|second| SYSTEM_DIRECTORIES.contains(&second)),
            Some(first) => SYSTEM_DIRECTORIES.contains(&first),
            None => true,
        }
    }

    pub fn is_protected(&self, protected: &ProtectedPaths) -> bool {
        protected.covers(&self.components) || (self.goes_back() && protected.covers(&self.written))
    }

    /// Whether a directory holds protected files. If so, a relative name written from inside it may
    /// be protected.
    pub fn leads_to_protected(&self, protected: &ProtectedPaths) -> bool {
        self.is_protected(protected) || protected.may_lie_beneath(&self.written)
    }

    /// Whether the last components are the beginning of a longer pattern.
    pub fn ends_like_protected(&self, protected: &ProtectedPaths) -> bool {
        protected.goes_on_beneath(&self.components)
    }

    /// Whether the path contains `..`. Without one, the path leads to where its text says.
    fn goes_back(&self) -> bool {
        self.components.len() != self.written.len()
    }

    /// Whether the file, judged by its name, is one that no build, test run or tool executes. A
    /// shell may write only such files without asking.
    pub fn is_plain_data(&self) -> bool {
        let Some(name) = self.components.last() else {
            return false;
        };
        let Some((stem, extension)) = name.rsplit_once('.') else {
            return false;
        };
        DATA_EXTENSIONS.contains(&extension)
            && !stem.is_empty()
            && !self
                .written
                .iter()
                .any(|component| component.starts_with('.'))
            && !EXECUTED_TEXT.iter().any(|pattern| wildcard(pattern, name))
    }
}

/// The list of the requirements, with the equivalents on other systems that a client may run on.
const SYSTEM_DIRECTORIES: &[&str] = &[
    "etc",
    "usr",
    "bin",
    "sbin",
    "var",
    "sys",
    "boot",
    "dev",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "nix",
    "opt",
    "proc",
    "run",
    "system",
    "library",
    "applications",
    "windows",
    "program files",
    "program files (x86)",
    "programdata",
];

const DATA_EXTENSIONS: &[&str] = &[
    "csv", "dat", "diff", "err", "log", "lst", "out", "tmp", "tsv", "txt",
];

/// Text files that tools execute or read as settings: pytest runs `test*.txt` as doctests, CMake
/// and pip read the others.
const EXECUTED_TEXT: &[&str] = &[
    "test*.txt",
    "cmakelists.txt",
    "meson_options.txt",
    "requirements*.txt",
    "constraints*.txt",
];

fn is_drive(component: &str) -> bool {
    let bytes = component.as_bytes();
    bytes.len() == 2 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':'
}

fn fold(component: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+@,=".contains(&byte);
    if component.bytes().all(plain) && !component.ends_with('.') {
        return component.to_ascii_lowercase();
    }
    let shown: String = component
        .chars()
        .filter(|character| !is_hidden(*character))
        .collect();
    let stream = shown.find(':').filter(|at| *at > 0).unwrap_or(shown.len());
    let trimmed = shown[..stream].trim_end_matches(['.', ' ']);
    let kept = if trimmed.is_empty() {
        shown.as_str()
    } else {
        trimmed
    };
    // Upper case comes first: only then do `ſ` and the dotless i become plain letters.
    let folded = kept.to_uppercase().to_lowercase();
    match folded.split_once('~') {
        Some(("git", _)) => ".git".to_owned(),
        Some(("codela", rest)) if rest.contains('.') => "codelab.toml".to_owned(),
        Some(("codela", _)) => ".codelab".to_owned(),
        _ => folded,
    }
}

/// `*` matches any run of characters; every other character matches itself.
fn wildcard(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    let mut tail = None;
    for part in parts {
        if let Some(middle) = tail.replace(part) {
            let Some(found) = rest.find(middle) else {
                return false;
            };
            rest = &rest[found + middle.len()..];
        }
    }
    match tail {
        Some(last) => rest.ends_with(last),
        None => rest.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::wildcard;

    #[test]
    fn a_star_stands_for_any_run() {
        for (pattern, text, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxyyc", false),
            ("*", "", true),
            ("a*a", "a", false),
            ("test*.txt", "test.txt", true),
        ] {
            assert_eq!(wildcard(pattern, text), expected, "{pattern} {text}");
        }
    }
}
