//! What a workspace brings for CodeLab itself: `.mcp.json`, instructions, skills, commands. It is read
//! whole, beneath the root by open handles, and never through a link that leads out. What cannot be
//! read so is passed over with a sentence for a person. Nothing here believes any of it.

mod folders;
mod front_matter;
mod skill;

use std::collections::HashMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use codelab_policy::visible;
use codelab_protocol::{
    Digest, MAX_BROUGHT_PATH_BYTES, MAX_INSTRUCTION_BYTES, MAX_INSTRUCTION_NOTICES,
    MAX_INSTRUCTION_TEXTS_BYTES, MAX_SKILLS,
};

use crate::error::{OpenError, PathAction, ToolRefusal};
use crate::root::Root;

pub use folders::InstructionFolders;
pub use front_matter::{SkillHead, skill_head};
pub use skill::{FoundSkill, SkillFile};

use self::skill::CachedSkill;

/// A skill that is read and not used, because of its size or its name, takes time too.
const MAX_READ_SKILLS: usize = 4 * MAX_SKILLS;
/// `.mcp.json` can have long arguments.
const MAX_MCP_BYTES: u64 = 256 << 10;
const MCP_FILE: &str = ".mcp.json";
/// The first that a folder has counts.
const INSTRUCTION_NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];
/// Where skills are. A name that both have means the first.
const SKILL_FOLDERS: [&str; 2] = [".agents/skills", ".claude/skills"];
const COMMAND_FOLDER: &str = ".agents/commands";
const COMMAND_ENDING: &str = ".md";
/// Entries of a folder with skills or commands that are looked at.
const MAX_ENTRIES: usize = 1000;

/// A file, read once: the digest is of this very content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundText {
    /// Within the workspace.
    pub path: String,
    pub content: String,
    pub digest: Digest,
}

/// What a workspace brings now, in the order of paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundContents {
    pub mcp: Option<FoundText>,
    /// At most one of each folder.
    pub instructions: Vec<FoundText>,
    /// At most one of each name.
    pub skills: Vec<FoundSkill>,
    pub commands: Vec<FoundText>,
    /// What was passed over, and why.
    pub notices: Vec<String>,
}

/// The place where all of it is read.
pub struct BroughtFiles {
    root: Root,
    /// Skills by folder, so that unchanged files are not read again.
    skills: Mutex<HashMap<String, CachedSkill>>,
}

impl BroughtFiles {
    /// `hidden` are paths that nobody reads, wherever they are.
    pub fn open(root: &Path, hidden: &[PathBuf]) -> Result<Self, OpenError> {
        Ok(Self {
            root: Root::open(root, hidden)?,
            skills: Mutex::default(),
        })
    }

    /// The folder, with links resolved.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// Reads everything; `nested` are the folders beneath the root that have instructions.
    pub fn read(&self, nested: &InstructionFolders) -> FoundContents {
        let mut brought = FoundContents {
            notices: nested.notices.clone(),
            ..FoundContents::default()
        };
        match text_in(&self.root, MCP_FILE, MAX_MCP_BYTES) {
            Ok(mcp) => brought.mcp = mcp,
            Err(reason) => brought.pass_over(reason),
        }
        let mut room = MAX_INSTRUCTION_TEXTS_BYTES;
        self.read_instructions(nested, &mut brought, &mut room);
        self.read_skills(&mut brought, &mut room);
        self.read_commands(&mut brought);
        brought.end_notices();
        brought
    }

    fn read_instructions(
        &self,
        nested: &InstructionFolders,
        brought: &mut FoundContents,
        room: &mut usize,
    ) {
        let folders = std::iter::once("").chain(nested.folders.iter().map(String::as_str));
        for folder in folders {
            match self.instructions_of(folder) {
                Ok(None) => {}
                Ok(Some(file)) => match room.checked_sub(file.content.len()) {
                    Some(left) => {
                        *room = left;
                        brought.instructions.push(file);
                    }
                    None => brought.pass_over(too_much(&file.path)),
                },
                Err(reason) => brought.pass_over(reason),
            }
        }
    }

    /// `CLAUDE.md` counts only where there is no `AGENTS.md`, readable or not.
    fn instructions_of(&self, folder: &str) -> Result<Option<FoundText>, String> {
        for name in INSTRUCTION_NAMES {
            let path = match folder {
                "" => name.to_owned(),
                folder => format!("{folder}/{name}"),
            };
            if let Some(file) = text_in(&self.root, &path, MAX_INSTRUCTION_BYTES as u64)? {
                return Ok(Some(file));
            }
        }
        Ok(None)
    }

    fn read_skills(&self, brought: &mut FoundContents, room: &mut usize) {
        let mut cache = self.skills.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept = HashMap::new();
        for base in SKILL_FOLDERS {
            for name in self.names_in(base, brought) {
                let folder = format!("{base}/{name}");
                if brought.skills.len() >= MAX_SKILLS || kept.len() >= MAX_READ_SKILLS {
                    brought.pass_over(format!("{folder} is not read: {MAX_SKILLS} skills at most"));
                    continue;
                }
                let known = cache.remove(&folder);
                let skill = match skill::read(&self.root, &folder, &name, known) {
                    Ok(Some(skill)) => skill,
                    Ok(None) => continue,
                    Err(reason) => {
                        brought.pass_over(reason);
                        continue;
                    }
                };
                let found = skill.skill.clone();
                kept.insert(folder.clone(), skill);
                let same = |other: &&FoundSkill| other.name == found.name;
                if let Some(first) = brought.skills.iter().find(same) {
                    // Programs that install skills link one folder to the other.
                    if first.real != found.real {
                        let first = first.folder.clone();
                        brought.pass_over(format!(
                            "{folder} is not used, because {first} has the same name"
                        ));
                    }
                } else if let Some(left) = room.checked_sub(found.text.content.len()) {
                    *room = left;
                    brought.skills.push(found);
                } else {
                    brought.pass_over(too_much(&folder));
                }
            }
        }
        *cache = kept;
    }

    fn read_commands(&self, brought: &mut FoundContents) {
        for name in self.names_in(COMMAND_FOLDER, brought) {
            if !name.ends_with(COMMAND_ENDING) {
                continue;
            }
            let path = format!("{COMMAND_FOLDER}/{name}");
            if brought.commands.len() >= MAX_SKILLS {
                brought.pass_over(format!("{path} is not read: {MAX_SKILLS} commands at most"));
                return;
            }
            match text_in(&self.root, &path, MAX_INSTRUCTION_BYTES as u64) {
                Ok(file) => brought.commands.extend(file),
                Err(reason) => brought.pass_over(reason),
            }
        }
    }

    /// The names in a folder, in order; none if there is no such folder.
    fn names_in(&self, folder: &str, brought: &mut FoundContents) -> Vec<String> {
        if self.root.dir().symlink_metadata(folder).is_err() {
            return Vec::new();
        }
        let (dir, _) = match self.root.folder(folder) {
            Ok(opened) => opened,
            Err(error) => {
                brought.pass_over(unread(folder, error));
                return Vec::new();
            }
        };
        let Ok(entries) = dir.entries() else {
            brought.pass_over(format!("{folder} cannot be read"));
            return Vec::new();
        };
        let mut names = Vec::new();
        for entry in entries.take(MAX_ENTRIES).flatten() {
            match entry.file_name().into_string() {
                Ok(name) if is_usable(&name) => names.push(name),
                Ok(name) => brought.pass_over(odd_name(folder, &name)),
                Err(name) => brought.pass_over(odd_name(folder, &name.to_string_lossy())),
            }
        }
        names.sort();
        names
    }
}

impl FoundContents {
    fn pass_over(&mut self, reason: String) {
        if self.notices.len() <= MAX_INSTRUCTION_NOTICES {
            self.notices.push(visible(&reason));
        }
    }

    fn end_notices(&mut self) {
        if self.notices.len() > MAX_INSTRUCTION_NOTICES {
            self.notices.truncate(MAX_INSTRUCTION_NOTICES - 1);
            let more = "More of this folder was passed over than is told here";
            self.notices.push(more.to_owned());
        }
    }
}

/// A name that can be shown and sent as it is.
fn is_usable(name: &str) -> bool {
    name.len() <= MAX_BROUGHT_PATH_BYTES / 4
        && visible(name) == name
        && !name.contains(['\n', '\t'])
}

fn odd_name(folder: &str, name: &str) -> String {
    let shown: String = visible(name).chars().take(80).collect();
    format!(
        "{folder}/{shown} is not read: its name has characters that cannot be shown, or is too long"
    )
}

fn too_much(path: &str) -> String {
    format!(
        "{path} is not used: instructions and skills have more than {MAX_INSTRUCTION_TEXTS_BYTES} bytes together"
    )
}

fn unread(path: &str, error: ToolRefusal) -> String {
    match error {
        ToolRefusal::Outside(_) => {
            format!("{path} is a link that leads out of the workspace; it is not read")
        }
        error => format!("{path} is not read: {error}"),
    }
}

/// The workspace's `.mcp.json` alone. The error is a sentence for a person.
pub fn read_mcp_file(root: &Path) -> Result<Option<FoundText>, String> {
    let root = Root::open(root, &[]).map_err(|error| error.to_string())?;
    text_in(&root, MCP_FILE, MAX_MCP_BYTES)
}

/// A file of text. `None` if there is none.
fn text_in(root: &Root, path: &str, max_bytes: u64) -> Result<Option<FoundText>, String> {
    let Some(bytes) = read_in(root, path, max_bytes)? else {
        return Ok(None);
    };
    let digest = Digest::of_bytes(&bytes);
    let content = String::from_utf8(bytes)
        .map_err(|_| format!("{path} is not UTF-8 text; it is not read"))?;
    Ok(Some(FoundText {
        path: path.to_owned(),
        content,
        digest,
    }))
}

/// Reads a file beneath the root. `None` if there is none. The error is a sentence for a person.
fn read_in(root: &Root, path: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, String> {
    // A link to nothing is no missing file: it shows where somebody would like a file to be.
    if root.dir().symlink_metadata(path).is_err() {
        return Ok(None);
    }
    let file = root.existing(path, PathAction::Read);
    let file = file.and_then(|place| place.open_file(path));
    let file = file.map_err(|error| unread(path, error))?;
    let mut content = Vec::new();
    file.take(max_bytes.saturating_add(1))
        .read_to_end(&mut content)
        .map_err(|error| format!("{path} cannot be read: {error}"))?;
    if content.len() as u64 > max_bytes {
        return Err(format!(
            "{path} is larger than {max_bytes} bytes; it is not read"
        ));
    }
    Ok(Some(content))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_bounded_files_beneath_the_root_are_read() {
        let base = tempfile::tempdir().unwrap();
        let root = base.path().join("work");
        std::fs::create_dir(&root).unwrap();
        let opened = Root::open(&root, &[]).unwrap();
        let read = |name: &str| read_in(&opened, name, 8);
        assert_eq!(read("a"), Ok(None));
        std::fs::write(root.join("a"), "12345678").unwrap();
        assert_eq!(read("a"), Ok(Some(b"12345678".to_vec())));
        std::fs::write(root.join("large"), "123456789").unwrap();
        assert!(read("large").unwrap_err().contains("larger than 8 bytes"));
        symlink("a", root.join("inside")).unwrap();
        assert_eq!(read("inside"), Ok(Some(b"12345678".to_vec())));
        std::fs::write(base.path().join("secret"), "s").unwrap();
        symlink("../secret", root.join("outside")).unwrap();
        assert!(
            read("outside")
                .unwrap_err()
                .contains("out of the workspace")
        );
        symlink(base.path().join("secret"), root.join("absolute")).unwrap();
        assert!(
            read("absolute")
                .unwrap_err()
                .contains("out of the workspace")
        );
        symlink("nothing", root.join("dangling")).unwrap();
        assert!(read("dangling").is_err());
        std::fs::create_dir(root.join("folder")).unwrap();
        assert!(read("folder").unwrap_err().contains("not a file"));
    }
}
