//! What people and commands do to files, on the disk and in the model: nobody tells the client.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::life::Life;
use super::past::State;
use super::{Change, LINKS, PLACES};

impl Life {
    pub(super) fn change_by_hand(&self, place: &'static str, change: &Change) {
        let path = self.lab.root.join(place);
        match change {
            Change::Mode(mode) => {
                if let State::File { .. } = self.disk[place] {
                    fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
                }
            }
            Change::Content(bytes) => {
                if self.disk[place].bytes().is_none() {
                    clear(&path);
                }
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, bytes).unwrap();
            }
            Change::Delete => clear(&path),
            Change::DeleteParent => {
                let _ = fs::remove_dir_all(self.lab.root.join("dir"));
            }
            Change::Link(target) => {
                clear(&path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                symlink(target, &path).unwrap();
            }
            Change::Folder => {
                clear(&path);
                fs::create_dir_all(&path).unwrap();
            }
        }
    }

    pub(super) async fn change_by_command(
        &self,
        place: &'static str,
        change: &Change,
        shown: &str,
    ) {
        let command = match change {
            Change::Mode(mode) if self.disk[place].bytes().is_some() => {
                format!("chmod {mode:o} {place}")
            }
            Change::Content(bytes) => {
                let text = String::from_utf8_lossy(bytes);
                let parent = Path::new(place).parent().unwrap().join(".");
                let parent = parent.display();
                let write = match self.disk[place].bytes() {
                    Some(_) => String::new(),
                    None => format!("rm -rf {place}; mkdir -p {parent}; "),
                };
                format!("{write}printf '%s' '{text}' > {place}")
            }
            Change::Delete => format!("rm -rf {place}"),
            Change::Mode(_) | Change::DeleteParent | Change::Link(_) | Change::Folder => return,
        };
        let result = self.lab.approved(&command).await;
        assert_eq!(result["exit_code"], 0, "{shown}: {result}");
    }

    pub(super) fn changed_by_others(&mut self, place: &'static str, change: Change) {
        let mode = match self.disk[place] {
            State::File { mode, .. } => mode,
            State::Absent | State::Link(_) | State::Folder => self.new_mode,
        };
        let state = match (change, &self.disk[place]) {
            (Change::Content(bytes), _) => State::File { bytes, mode },
            (Change::Mode(mode), State::File { bytes, .. }) => {
                let bytes = bytes.clone();
                State::File { bytes, mode }
            }
            (Change::Mode(_), other) => other.clone(),
            (Change::Delete, _) => State::Absent,
            (Change::Link(target), _) => State::Link(target),
            (Change::Folder, _) => State::Folder,
            (Change::DeleteParent, _) => {
                let beneath = PLACES.into_iter().filter(|place| place.starts_with("dir/"));
                beneath.for_each(|place| self.left_by_others(place, State::Absent));
                return;
            }
        };
        self.left_by_others(place, state);
    }

    fn left_by_others(&mut self, place: &'static str, state: State) {
        if self.disk[place] == state {
            return;
        }
        if self.by_agents.contains(&(place, state.clone())) {
            self.by_hand.remove(place);
        } else {
            self.by_hand.insert(place);
        }
        self.set(place, state);
    }
}

fn clear(path: &Path) {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir(path).unwrap(),
        Ok(_) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    }
}

/// Everything beneath the root.
pub fn tree(root: &Path) -> BTreeMap<PathBuf, State> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let state = if metadata.is_dir() {
                folders.push(path.clone());
                State::Folder
            } else if metadata.is_symlink() {
                let target = fs::read_link(&path).unwrap();
                let mut known = LINKS.into_iter().chain([PLACES[0]]);
                let known = known.find(|link| *target == *Path::new(link));
                State::Link(known.expect("nobody makes other links"))
            } else {
                State::File {
                    bytes: fs::read(&path).unwrap(),
                    mode: metadata.mode() & 0o7777,
                }
            };
            found.insert(path.strip_prefix(root).unwrap().to_owned(), state);
        }
    }
    found
}
