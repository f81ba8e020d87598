//! One skill: its `SKILL.md`, and a digest over every file of its folder, so that a changed script is
//! another content.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cap_fs_ext::DirExt as _;
use cap_std::fs::{Dir, File, MetadataExt as _};
use codelab_protocol::{Digest, MAX_NAMED_PARTS, MAX_SKILL_BYTES};
use serde_json::json;

use super::front_matter::skill_head;
use super::{FoundText, is_usable, odd_name, unread};
use crate::error::PathAction;
use crate::root::{Root, open_file};

const SKILL_FILE: &str = "SKILL.md";
/// All files of one skill together.
const MAX_FOLDER_BYTES: u64 = 4 << 20;
const MAX_DEPTH: usize = 8;
/// A file that was just written can be written again without a new time stamp.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSkill {
    pub name: String,
    pub description: String,
    /// Within the workspace.
    pub folder: String,
    /// Its `SKILL.md`.
    pub text: FoundText,
    /// Over the names, contents and executable bits of all files.
    pub digest: Digest,
    pub files: Vec<SkillFile>,
    /// The folder with links resolved.
    pub(super) real: PathBuf,
}

/// A file of a skill's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillFile {
    /// Within the folder.
    pub path: String,
    pub bytes: u64,
    pub digest: Digest,
}

/// A skill, and what its files looked like when it was read.
pub(super) struct CachedSkill {
    pub skill: FoundSkill,
    stamps: Vec<Stamp>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    path: String,
    identity: (u64, u64),
    bytes: u64,
    mode: u32,
    changed: (i64, i64),
    modified: (i64, i64),
}

/// A file that was opened and not read yet.
struct Opened {
    file: File,
    stamp: Stamp,
}

/// `None` for something that is no skill. `known`: the same folder as it was read last.
pub(super) fn read(
    root: &Root,
    folder: &str,
    name: &str,
    known: Option<CachedSkill>,
) -> Result<Option<CachedSkill>, String> {
    let metadata = root.dir().symlink_metadata(folder);
    if metadata.is_ok_and(|metadata| !metadata.is_dir() && !metadata.is_symlink()) {
        return Ok(None);
    }
    let (dir, real) = root.folder(folder).map_err(|error| unread(folder, error))?;
    if dir.symlink_metadata(SKILL_FILE).is_err() {
        return Err(format!("{folder} has no {SKILL_FILE}; it is not used"));
    }
    let mut opened = Vec::new();
    collect(root, &dir, folder, "", 0, &mut opened)?;
    opened.sort_by(|one, other| one.stamp.path.cmp(&other.stamp.path));
    let stamps: Vec<Stamp> = opened.iter().map(|file| file.stamp.clone()).collect();
    if let Some(known) = known
        && known.stamps == stamps
        && stamps.iter().all(Stamp::is_settled)
    {
        return Ok(Some(known));
    }
    let skill = read_files(folder, name, real, opened)?;
    Ok(Some(CachedSkill { skill, stamps }))
}

fn read_files(
    folder: &str,
    name: &str,
    real: PathBuf,
    opened: Vec<Opened>,
) -> Result<FoundSkill, String> {
    let (mut files, mut covered, mut text) = (Vec::new(), Vec::new(), None);
    let mut room = MAX_FOLDER_BYTES;
    for Opened { file, stamp } in opened {
        let path = stamp.path;
        let mut content = Vec::new();
        file.take(room.saturating_add(1))
            .read_to_end(&mut content)
            .map_err(|error| format!("{folder}/{path} cannot be read: {error}"))?;
        room = room.checked_sub(content.len() as u64).ok_or_else(|| {
            format!("{folder} has more than {MAX_FOLDER_BYTES} bytes; it is not used")
        })?;
        let digest = Digest::of_bytes(&content);
        covered.push(json!([path, digest, stamp.mode & 0o111 != 0]));
        files.push(SkillFile {
            path: path.clone(),
            bytes: content.len() as u64,
            digest: digest.clone(),
        });
        if path == SKILL_FILE {
            if content.len() > MAX_SKILL_BYTES {
                return Err(format!(
                    "{folder}/{SKILL_FILE} is larger than {MAX_SKILL_BYTES} bytes; it is not read"
                ));
            }
            let content = String::from_utf8(content)
                .map_err(|_| format!("{folder}/{SKILL_FILE} is not UTF-8 text; it is not read"))?;
            text = Some(FoundText {
                path: format!("{folder}/{SKILL_FILE}"),
                content,
                digest,
            });
        }
    }
    let text = text.ok_or_else(|| format!("{folder} has no {SKILL_FILE}; it is not used"))?;
    let head = skill_head(name, &text.content)
        .map_err(|why| format!("{folder}/{SKILL_FILE} is not used: {why}"))?;
    Ok(FoundSkill {
        name: head.name,
        description: head.description,
        folder: folder.to_owned(),
        text,
        digest: Digest::of_json(&json!({ "files": covered })),
        files,
        real,
    })
}

/// Opens every file of the folder. A link may lead to another file of the workspace, and to nothing
/// else.
fn collect(
    root: &Root,
    dir: &Dir,
    folder: &str,
    within: &str,
    depth: usize,
    found: &mut Vec<Opened>,
) -> Result<(), String> {
    let shown = |name: &str| format!("{folder}/{within}{name}");
    let entries = dir
        .entries()
        .map_err(|error| format!("{folder} cannot be read: {error}"))?;
    for entry in entries {
        let entry = entry.map_err(|error| format!("{folder} cannot be read: {error}"))?;
        let name: OsString = entry.file_name();
        let Some(name) = name.to_str().filter(|name| is_usable(name)) else {
            return Err(odd_name(folder, &name.to_string_lossy()));
        };
        let path = shown(name);
        let kind = entry
            .file_type()
            .map_err(|error| format!("{path} cannot be read: {error}"))?;
        let file = if kind.is_dir() {
            if depth >= MAX_DEPTH {
                return Err(format!("{path} is too deep; the skill is not used"));
            }
            let inner = dir
                .open_dir_nofollow(name)
                .map_err(|error| format!("{path} cannot be read: {error}"))?;
            collect(
                root,
                &inner,
                folder,
                &format!("{within}{name}/"),
                depth + 1,
                found,
            )?;
            continue;
        } else if kind.is_symlink() {
            let place = root.existing(&path, PathAction::Read);
            place.and_then(|place| place.open_file(&path))
        } else {
            open_file(dir, Path::new(name), &path)
        };
        let file = file.map_err(|error| unread(&path, error))?;
        let stamp = Stamp::of(&file, format!("{within}{name}"))
            .map_err(|error| format!("{path} cannot be read: {error}"))?;
        if found.len() >= MAX_NAMED_PARTS {
            return Err(format!(
                "{folder} has more than {MAX_NAMED_PARTS} files; it is not used"
            ));
        }
        found.push(Opened { file, stamp });
    }
    Ok(())
}

impl Stamp {
    fn of(file: &File, path: String) -> std::io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self {
            path,
            identity: (metadata.dev(), metadata.ino()),
            bytes: metadata.len(),
            mode: metadata.mode(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }

    fn is_settled(&self) -> bool {
        let changed = u64::try_from(self.changed.0).unwrap_or_default();
        let changed = UNIX_EPOCH + Duration::from_secs(changed);
        let age = SystemTime::now().duration_since(changed);
        age.is_ok_and(|age| age > SETTLED_AFTER)
    }
}
