//! Random writes, edits by hand, commands, rewinds and their undoings against a model: a rewind that
//! is undone gives back every byte, what a hand wrote is never overwritten, and what is said to be
//! restored is as it was.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use codelab_workspace::{ClientFailpoint, Sandbox};
use serde_json::{Value, json};

use crate::lab::Lab;
use crate::rewind::LIMITS;

const PATHS: [&str; 5] = [
    "a.txt",
    "b.txt",
    "dir/c.txt",
    "dir/deep/d.txt",
    "dir2/e.bin",
];
const SEEDS: u64 = 15;
const OPERATIONS: usize = 40;

struct Rng(u64);

impl Rng {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap()
    }
}

/// Content and mode; a link is its target without a mode.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Found {
    Absent,
    File(Vec<u8>, u32),
    Link,
}

type Snapshot = BTreeMap<&'static str, Found>;

struct Point {
    snapshot: Snapshot,
    /// Calls that were made before it.
    calls: usize,
    /// Operations before it.
    time: usize,
}

struct Model {
    seed: u64,
    lab: Lab,
    rng: Rng,
    calls: Vec<String>,
    points: Vec<Point>,
    /// Rewinds that can be undone, with the points that they took away.
    rewinds: Vec<(String, Vec<Point>)>,
    /// When a hand last touched a path.
    by_hand: BTreeMap<&'static str, usize>,
    /// Paths that are now as a hand left them.
    hands: BTreeSet<&'static str>,
    time: usize,
    counter: usize,
}

impl Model {
    fn new(seed: u64) -> Self {
        let lab = Lab::new();
        lab.workspace
            .keep_before_images(&lab.before_images(), LIMITS, ClientFailpoint::default());
        Self {
            seed,
            lab,
            rng: Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            calls: Vec::new(),
            points: Vec::new(),
            rewinds: Vec::new(),
            by_hand: BTreeMap::new(),
            hands: BTreeSet::new(),
            time: 0,
            counter: 0,
        }
    }

    fn new_content(&mut self) -> Vec<u8> {
        self.counter += 1;
        format!("content {} of {}", self.counter, self.seed).into_bytes()
    }

    fn look(&self) -> Snapshot {
        let look = |path: &&'static str| {
            let real = self.lab.root.join(path);
            let found = match fs::symlink_metadata(&real) {
                Err(_) => Found::Absent,
                Ok(file) if file.is_symlink() => Found::Link,
                Ok(file) => Found::File(fs::read(&real).unwrap(), file.mode() & 0o7777),
            };
            (*path, found)
        };
        PATHS.iter().map(look).collect()
    }

    async fn write(&mut self) {
        let path = PATHS[self.rng.below(PATHS.len())];
        let id = format!("call-{}", self.calls.len());
        let content = String::from_utf8(self.new_content()).unwrap();
        // As an agent does: otherwise a file that changed is not written.
        self.lab.call("read_file", json!({"path": path})).await;
        let arguments = json!({"path": path, "content": content, "create_dirs": true});
        self.lab.call_as(&id, "write_file", arguments).await;
        self.calls.push(id);
    }

    /// By hand, or what a command does: nobody tells the client.
    fn touch(&mut self) {
        let path = PATHS[self.rng.below(PATHS.len())];
        let real = self.lab.root.join(path);
        let is_link = fs::symlink_metadata(&real).is_ok_and(|file| file.is_symlink());
        self.by_hand.insert(path, self.time);
        match self.rng.below(5) {
            0 if real.exists() && !is_link => {
                let mode = [0o600, 0o644, 0o755][self.rng.below(3)];
                fs::set_permissions(&real, fs::Permissions::from_mode(mode)).unwrap();
            }
            1 if fs::symlink_metadata(&real).is_ok() => fs::remove_file(&real).unwrap(),
            2 => {
                let _ = fs::remove_file(&real);
                fs::create_dir_all(real.parent().unwrap()).unwrap();
                std::os::unix::fs::symlink("nowhere", &real).unwrap();
            }
            _ => {
                if is_link {
                    fs::remove_file(&real).unwrap();
                }
                fs::create_dir_all(real.parent().unwrap()).unwrap();
                fs::write(&real, self.new_content()).unwrap();
            }
        }
    }

    fn mark(&mut self) {
        self.points.push(Point {
            snapshot: self.look(),
            calls: self.calls.len(),
            time: self.time,
        });
    }

    async fn rewind(&mut self) {
        if self.points.is_empty() {
            return;
        }
        let place = self.rng.below(self.points.len());
        let (calls, time, wanted) = {
            let point = &self.points[place];
            (point.calls, point.time, point.snapshot.clone())
        };
        let id = format!("rewind-{}", self.time);
        let before = self.look();
        let calls: Vec<Value> = self.calls[calls..]
            .iter()
            .map(|call| json!({"call_id": call}))
            .collect();
        let arguments = json!({"rewind_id": id, "calls": calls});
        let call = format!("call-{id}");
        let done = self.lab.call_as(&call, "rewind_files", arguments).await;
        assert_eq!(done["success"], true, "seed {}: {done}", self.seed);
        let after = self.look();
        for path in PATHS {
            let touched = self.by_hand.get(path).is_some_and(|at| *at >= time);
            let is_restored = done["restored"].as_array().unwrap().contains(&json!(path));
            if is_restored && !touched {
                assert_eq!(
                    after[path], wanted[path],
                    "seed {}: {path} {done}",
                    self.seed
                );
            }
        }
        self.check_hand_edits(&before, &after, &done);
        self.note_changes(&before);
        // Undone at once, nothing is different.
        if self.rng.below(2) == 0 {
            self.undo(&id, Some(&before)).await;
        } else {
            let taken = self.points.drain(place..).collect();
            self.rewinds.push((id, taken));
        }
    }

    /// What was last written by hand is there, byte for byte. A path that is gone may come back.
    fn check_hand_edits(&self, before: &Snapshot, after: &Snapshot, done: &Value) {
        for path in &self.hands {
            if before[path] != Found::Absent {
                assert_eq!(
                    before[path], after[path],
                    "seed {}: {path} {done}",
                    self.seed
                );
            }
        }
    }

    /// Whoever changed a path since was no hand.
    fn note_changes(&mut self, before: &Snapshot) {
        let after = self.look();
        self.hands.retain(|path| before[path] == after[path]);
    }

    async fn undo(&mut self, id: &str, expected: Option<&Snapshot>) {
        let before = self.look();
        let call = format!("call-undo-{id}");
        let arguments = json!({"undo": id});
        let done = self.lab.call_as(&call, "rewind_files", arguments).await;
        assert_eq!(done["success"], true, "seed {}: {done}", self.seed);
        let after = self.look();
        match expected {
            Some(expected) => assert_eq!(after, *expected, "seed {}: {done}", self.seed),
            None => self.check_hand_edits(&before, &after, &done),
        }
        self.note_changes(&before);
    }

    async fn step(&mut self) {
        match self.rng.below(12) {
            0..5 => {
                let before = self.look();
                self.write().await;
                self.note_changes(&before);
            }
            5 | 6 => {
                let before = self.look();
                self.touch();
                let after = self.look();
                // To give a file the mode that it has is no change.
                let changed = PATHS.into_iter().filter(|path| before[path] != after[path]);
                self.hands.extend(changed);
            }
            7 | 8 => self.mark(),
            9 => self.rewind().await,
            10 => {
                if let Some((id, points)) = self.rewinds.pop() {
                    self.undo(&id, None).await;
                    self.points.extend(points);
                }
            }
            _ => self.restart(),
        }
        self.time += 1;
    }

    fn restart(&mut self) {
        let lab = std::mem::replace(&mut self.lab, Lab::new());
        self.lab = lab.reopened(&Sandbox::None);
        let folder = self.lab.before_images();
        let workspace = &self.lab.workspace;
        workspace.keep_before_images(&folder, LIMITS, ClientFailpoint::default());
    }
}

#[tokio::test]
async fn rewinds_agree_with_the_model() {
    for seed in 1..=SEEDS {
        let mut model = Model::new(seed);
        for _ in 0..OPERATIONS {
            model.step().await;
        }
    }
}
