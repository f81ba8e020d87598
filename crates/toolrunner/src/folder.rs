//! The folder with the journal and the client id of one server, project and workspace.

use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use codelab_protocol::{ClientId, ProjectId};
use codelab_workspace::{Journal, JournalError};
use sha2::{Digest, Sha256};

use super::{ServedCalls, ToolRunnerError};

/// In the data folder. Earlier releases wrote their journals here under this name, so it stays: an
/// upgrade must find the calls that were running before it.
const JOURNALS: &str = "hands";
const BEFORE_IMAGES: &str = "before";
const NAME_BYTES: usize = 16;
const ID_BYTES: usize = 16;
const ID_FILE: &str = "client-id";
/// Processes that serve sessions by name in the same folder at once.
const MAX_NAMED: usize = 16;

/// Always the same path for the same server, project and workspace, so that the journal of an
/// earlier process is found again.
pub(super) fn of(data_dir: &Path, server: &str, project: ProjectId, workspace: &Path) -> PathBuf {
    let mut digest = Sha256::new();
    for part in [
        server.as_bytes(),
        project.to_string().as_bytes(),
        workspace.as_os_str().as_bytes(),
    ] {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    data_dir
        .join(JOURNALS)
        .join(hex::encode(&digest.finalize()[..NAME_BYTES]))
}

/// What writes replaced. All processes of this workspace share it, so that a rewind finds it whoever
/// wrote.
pub(super) fn before_images(journals: &Path) -> PathBuf {
    journals.join(BEFORE_IMAGES)
}

/// Opens a journal that no other process has open, and reads its client id. There is one journal
/// for a whole project and several for sessions that are served by name. `None` if all are in use.
pub(super) fn lock_free(
    journals: &Path,
    serves: ServedCalls,
) -> Result<Option<(Journal, ClientId)>, ToolRunnerError> {
    let names: Vec<String> = match serves {
        ServedCalls::Project => vec!["project".to_owned()],
        ServedCalls::Named => (0..MAX_NAMED)
            .map(|number| format!("named-{number}"))
            .collect(),
    };
    for name in names {
        let folder = journals.join(name);
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder);
        made.map_err(|source| ToolRunnerError::Io {
            path: folder.clone(),
            source,
        })?;
        match Journal::open(&folder) {
            Ok(journal) => return Ok(Some((journal, client_id(&folder)?))),
            Err(JournalError::InUse { .. }) => {}
            Err(error) => return Err(ToolRunnerError::Journal(error)),
        }
    }
    Ok(None)
}

/// Created once and kept, because only the client that claimed a call may send its result.
fn client_id(folder: &Path) -> Result<ClientId, ToolRunnerError> {
    let path = folder.join(ID_FILE);
    kept_id(&path).map_err(|source| ToolRunnerError::Io { path, source })
}

fn kept_id(path: &Path) -> io::Result<ClientId> {
    let mut random = [0; ID_BYTES];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let new = format!("hands-{}", hex::encode(random));
    // Written to a draft and then linked, so that a crash leaves no partial file.
    let draft = path.with_extension(&new);
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)?;
    file.write_all(new.as_bytes())?;
    file.sync_all()?;
    let linked = fs::hard_link(&draft, path);
    fs::remove_file(&draft)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let text = fs::read_to_string(path)?;
    ClientId::parse(text.trim()).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_keeps_its_client_id_and_differs_by_server_project_and_workspace() {
        let data = tempfile::tempdir().unwrap();
        let (one, two) = (ProjectId::new(1).unwrap(), ProjectId::new(2).unwrap());
        let first = of(data.path(), "http://a", one, Path::new("/w"));
        assert_eq!(first, of(data.path(), "http://a", one, Path::new("/w")));
        for (server, project, workspace) in [
            ("http://b", one, "/w"),
            ("http://a", two, "/w"),
            ("http://a", one, "/v"),
        ] {
            assert_ne!(
                first,
                of(data.path(), server, project, Path::new(workspace))
            );
        }
        // Where earlier releases wrote: changing it would lose their journals.
        assert_eq!(
            first.strip_prefix(data.path()).unwrap(),
            Path::new("hands/03144bab0b0f2909bf7a302d8e0dff85")
        );
        let id = lock_free(&first, ServedCalls::Project).unwrap().unwrap().1;
        assert_eq!(
            lock_free(&first, ServedCalls::Project).unwrap().unwrap().1,
            id
        );
    }

    #[test]
    fn a_project_has_one_journal_and_named_sessions_have_several() {
        let data = tempfile::tempdir().unwrap();
        let whole = lock_free(data.path(), ServedCalls::Project).unwrap();
        assert!(
            whole.is_some()
                && lock_free(data.path(), ServedCalls::Project)
                    .unwrap()
                    .is_none()
        );
        let several: Vec<_> = (0..MAX_NAMED)
            .map(|_| lock_free(data.path(), ServedCalls::Named).unwrap().unwrap())
            .collect();
        assert!(
            lock_free(data.path(), ServedCalls::Named)
                .unwrap()
                .is_none()
        );
        let mut ids: Vec<_> = several
            .iter()
            .map(|(_, id)| id.clone())
            .chain(whole.map(|(_, id)| id))
            .collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), MAX_NAMED + 1);
    }
}
