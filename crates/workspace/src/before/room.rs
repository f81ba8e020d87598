//! Keeps the store within its limits: what is old goes, then what is oldest, then what nobody refers
//! to any more.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use super::plan::{RewindPlan, progress_at, progress_path};
use super::record::{EarlierState, PathState, WriteRecord, read_json};
use super::{BeforeStore, CALLS, OBJECTS, REWINDS, TEMPORARY};

/// A draft of this age belongs to a process that is gone.
const MAX_DRAFT_AGE: Duration = Duration::from_secs(60 * 60);
/// When room is needed, so much of the limit is freed that the next writes need none: a tenth.
const SPARE: u64 = 10;

const LOCK_ATTEMPTS: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// A record or a plan, with the content that it needs.
struct Item {
    path: PathBuf,
    at: u64,
    needs: Vec<String>,
}

impl BeforeStore {
    /// Counts what is there, and drops what is too old or too much.
    pub(super) fn tidy_up(&self) -> io::Result<()> {
        let objects = self.objects()?;
        let stored: u64 = objects.values().sum();
        self.stored_bytes.store(stored, Ordering::Relaxed);
        let limit = SystemTime::now().checked_sub(self.limits.age);
        let (mut count, mut has_old) = (0, false);
        for path in self.files(CALLS)?.into_iter().chain(self.files(REWINDS)?) {
            count += 1;
            let modified = fs::metadata(&path).and_then(|file| file.modified()).ok();
            has_old |= modified.zip(limit).is_some_and(|(at, limit)| at < limit);
        }
        if has_old || stored > self.limits.total_bytes || count > self.limits.records {
            self.drop_oldest(0)?;
        }
        Ok(())
    }

    /// Frees at least this much, unless other processes are adding something just now.
    pub(super) fn drop_oldest(&self, wanted_bytes: u64) -> io::Result<()> {
        let Some(_lock) = self.lock_alone()? else {
            return Ok(());
        };
        let objects = self.objects()?;
        let mut items = self.items()?;
        items.sort_by_key(|item| item.at);
        let oldest = SystemTime::now()
            .checked_sub(self.limits.age)
            .and_then(|limit| limit.duration_since(SystemTime::UNIX_EPOCH).ok())
            .map_or(0, |since| {
                u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
            });
        let mut used: HashMap<&str, usize> = HashMap::new();
        for hash in items.iter().flat_map(|item| &item.needs) {
            *used.entry(hash).or_default() += 1;
        }
        let size = |hash: &str| objects.get(hash).copied().unwrap_or(0);
        let mut bytes: u64 = used.keys().map(|hash| size(hash)).sum();
        let total = self.limits.total_bytes;
        let room = match wanted_bytes {
            0 => total,
            wanted => (total - total / SPARE).saturating_sub(wanted),
        };
        let mut left = items.len();
        for item in &items {
            if item.at >= oldest && bytes <= room && left <= self.limits.records {
                break;
            }
            remove(&item.path)?;
            remove(&progress_path(&item.path))?;
            left -= 1;
            for hash in &item.needs {
                if let Some(count) = used.get_mut(hash.as_str()) {
                    *count -= 1;
                    if *count == 0 {
                        bytes = bytes.saturating_sub(size(hash));
                        used.remove(hash.as_str());
                    }
                }
            }
        }
        for hash in objects
            .keys()
            .filter(|hash| !used.contains_key(hash.as_str()))
        {
            remove(&self.object_path(hash))?;
        }
        self.remove_drafts()?;
        self.stored_bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Whoever adds something holds the lock for a moment only.
    fn lock_alone(&self) -> io::Result<Option<fs::File>> {
        let lock = self.lock_file()?;
        for _ in 0..LOCK_ATTEMPTS {
            match lock.try_lock() {
                Ok(()) => return Ok(Some(lock)),
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Ok(None)
    }

    fn items(&self) -> io::Result<Vec<Item>> {
        let mut items = Vec::new();
        for path in self.files(CALLS)? {
            // A damaged record is of no use, and the oldest of all.
            let record: Option<WriteRecord> = read_json(&path);
            let needs = match record.as_ref().map(|record| &record.before) {
                Some(EarlierState::Kept(state)) => hash_of(state).into_iter().collect(),
                Some(EarlierState::NotKept(_)) | None => Vec::new(),
            };
            let at = record.map_or(0, |record| record.at);
            items.push(Item { path, at, needs });
        }
        for path in self.files(REWINDS)? {
            let plan: Option<RewindPlan> = read_json(&path);
            let found = progress_at(&progress_path(&path));
            let steps = plan.iter().flat_map(|plan| &plan.steps);
            let states = steps.flat_map(|step| [&step.expect, &step.target]);
            let needs: HashSet<String> = states
                .chain(found.begun.values())
                .filter_map(hash_of)
                .collect();
            let at = plan.as_ref().map_or(0, |plan| plan.at);
            items.push(Item {
                path,
                at,
                needs: needs.into_iter().collect(),
            });
        }
        Ok(items)
    }

    /// The records, or the plans.
    fn files(&self, kind: &str) -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for session in entries(&self.folder.join(kind))? {
            let files = entries(&session)?.into_iter();
            found.extend(files.filter(|file| file.extension().is_some_and(|end| end == "json")));
        }
        Ok(found)
    }

    /// The size of each object.
    fn objects(&self) -> io::Result<BTreeMap<String, u64>> {
        let mut sizes = BTreeMap::new();
        for folder in entries(&self.folder.join(OBJECTS))? {
            if !folder.is_dir() {
                continue;
            }
            for object in entries(&folder)? {
                let name = [folder.file_name(), object.file_name()];
                let hash: String = name
                    .into_iter()
                    .flatten()
                    .filter_map(|part| part.to_str())
                    .collect();
                if let Ok(file) = fs::metadata(&object) {
                    sizes.insert(hash, file.len());
                }
            }
        }
        Ok(sizes)
    }

    fn remove_drafts(&self) -> io::Result<()> {
        let mut folders = vec![self.folder.join(OBJECTS)];
        for kind in [CALLS, REWINDS] {
            folders.extend(entries(&self.folder.join(kind))?);
        }
        let limit = SystemTime::now().checked_sub(MAX_DRAFT_AGE);
        for folder in folders {
            for file in entries(&folder)? {
                let name = file.file_name().and_then(|name| name.to_str());
                let is_draft = name.is_some_and(|name| name.starts_with(TEMPORARY));
                let modified = fs::metadata(&file).and_then(|file| file.modified()).ok();
                if is_draft && modified.zip(limit).is_some_and(|(at, limit)| at < limit) {
                    remove(&file)?;
                }
            }
            // Empty folders of sessions go; one that is in use stays.
            if folder.parent().is_some_and(|parent| parent != self.folder) {
                let _ = fs::remove_dir(&folder);
            }
        }
        Ok(())
    }
}

fn hash_of(state: &PathState) -> Option<String> {
    state.content().map(|content| content.hash.clone())
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
