//! The hook in writes: what is about to be replaced is kept first.

use std::cell::RefCell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cap_std::fs::{File, Metadata, MetadataExt};
use sha2::{Digest as _, Sha256};

use super::BeforeStore;
use super::objects::NotKept;
use super::record::{Content, EarlierState, PathState, WriteRecord};
use crate::journal::CallKey;

/// One write of one call. A write happens whether or not it can be kept; the person and the model
/// are told that it cannot be rewound.
pub(crate) struct Keeping<'a> {
    store: Result<&'a BeforeStore, Option<&'a str>>,
    key: Option<&'a CallKey>,
    done: RefCell<Done>,
}

#[derive(Default)]
enum Done {
    #[default]
    Nothing,
    Kept(Box<WriteRecord>),
    NotKept(String),
}

impl<'a> Keeping<'a> {
    /// `store`: what writes are kept in, why there is none, or that nobody wants one.
    pub fn new(store: Option<&'a Result<BeforeStore, String>>, key: Option<&'a CallKey>) -> Self {
        let store = match store {
            Some(Ok(store)) => Ok(store),
            Some(Err(why)) => Err(Some(why.as_str())),
            None => Err(None),
        };
        Self {
            store,
            key,
            done: RefCell::default(),
        }
    }

    /// Before the file at this place gets this content. `replaced` is the file that is there.
    pub fn file(
        &self,
        real: &Path,
        replaced: Option<(File, &Metadata)>,
        bytes: &[u8],
        created: Vec<PathBuf>,
    ) {
        let mode = replaced.as_ref().map(|(_, old)| permissions(old.mode()));
        let after = PathState::File {
            content: Content {
                hash: hex::encode(Sha256::digest(bytes)),
                size: bytes.len() as u64,
            },
            mode,
        };
        self.keep(real, replaced, after, created);
    }

    /// Before these folders are made, the outermost first.
    pub fn folders(&self, real: &Path, created: Vec<PathBuf>) {
        self.keep(real, None, PathState::Folder { mode: None }, created);
    }

    fn keep(
        &self,
        real: &Path,
        replaced: Option<(File, &Metadata)>,
        after: PathState,
        created: Vec<PathBuf>,
    ) {
        let (store, key) = match (self.store, self.key) {
            (Ok(store), Some(key)) => (store, key),
            (Err(Some(why)), _) => {
                *self.done.borrow_mut() = Done::NotKept(why.to_owned());
                return;
            }
            (Err(None), _) | (Ok(_), None) => return,
        };
        store.tidy_up_sometimes();
        let record = |before| WriteRecord {
            session_id: key.session_id.clone(),
            call_id: key.call_id.clone(),
            at: store.next_at(),
            path: real.to_owned(),
            before,
            after: after.clone(),
            created: created.clone(),
        };
        store.failpoint.pass("before_keep");
        let done = match store.keep_file(replaced, record) {
            Ok(record) => Done::Kept(Box::new(record)),
            Err(error) => {
                let why = error.to_string();
                tracing::warn!(path = %real.display(), why, "what a write replaces could not be kept, it cannot be rewound");
                // So that a rewind can say why; on a full disk it only says that there is nothing.
                if store
                    .note(&record(EarlierState::NotKept(why.clone())))
                    .is_err()
                {
                    store.forget(key);
                }
                Done::NotKept(why)
            }
        };
        store.failpoint.pass("after_keep");
        *self.done.borrow_mut() = done;
    }

    /// The write is done. A new file's mode is known only now.
    pub fn written(&self, mode: u32) {
        let Done::Kept(record) = &mut *self.done.borrow_mut() else {
            return;
        };
        let (Ok(store), PathState::File { mode: kept, .. }) = (self.store, &mut record.after)
        else {
            return;
        };
        if kept.is_none() {
            *kept = Some(permissions(mode));
            if let Err(error) = store.save(record) {
                tracing::debug!(%error, "the mode of a new file was not recorded");
            }
        }
    }

    /// The write was refused: nothing is there to be taken back.
    pub fn nothing_written(&self) {
        if let (Done::Kept(_), Ok(store), Some(key)) = (self.done.take(), self.store, self.key) {
            store.forget(key);
        }
    }

    /// Why the write cannot be rewound.
    pub fn not_covered(&self) -> Option<String> {
        match &*self.done.borrow() {
            Done::NotKept(why) => Some(why.clone()),
            Done::Nothing | Done::Kept(_) => None,
        }
    }
}

impl BeforeStore {
    /// Without content.
    fn note(&self, record: &WriteRecord) -> std::io::Result<()> {
        let _lock = self.shared_lock()?;
        self.save(record)
    }

    fn keep_file(
        &self,
        replaced: Option<(File, &Metadata)>,
        record: impl Fn(EarlierState) -> WriteRecord,
    ) -> Result<WriteRecord, NotKept> {
        if let Some((_, metadata)) = &replaced {
            self.room_for(metadata.len())?;
        }
        let _lock = self.shared_lock()?;
        let before = match replaced {
            None => PathState::Absent,
            Some((mut file, metadata)) => PathState::File {
                content: self.put(&mut file)?,
                mode: Some(permissions(metadata.mode())),
            },
        };
        let record = record(EarlierState::Kept(before));
        self.save(&record)?;
        Ok(record)
    }
}

pub(super) fn permissions(mode: u32) -> u32 {
    mode & 0o7777
}

/// The folders that a write makes beneath `base`, the outermost first.
pub(crate) fn folders_beneath(base: &Path, names: &[OsString]) -> Vec<PathBuf> {
    let mut made = Vec::with_capacity(names.len());
    let mut path = base.to_owned();
    for name in names {
        path.push(name);
        made.push(path.clone());
    }
    made
}
