//! A workspace and what the model knows of it. Every operation is performed on the real files and on
//! the model, and both must agree afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use codelab_protocol::{FileBase, TaskOrigin, ToolArguments};
use codelab_workspace::{Call, CallKey, ClientFailpoint, ReadingAgent, RunOutcome, Sandbox};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::others::tree;
use super::past::{Disk, Past, Report, Rewound, State, Told};
use super::{AGENTS, Approval, Manner, NAMES, NOWHERE, Operation, PLACES, SESSIONS};
use crate::lab::{Lab, arguments_of};
use crate::rewind::LIMITS;

/// How often something happened: a life in which nothing happens shows nothing.
#[derive(Debug, Default)]
pub struct Outcomes {
    written: usize,
    refused: usize,
    asked: usize,
    restored: usize,
    left: usize,
    undone: usize,
    /// Rewinds and undoings that met something of a hand's.
    kept_by_hand: usize,
}

impl Outcomes {
    fn all(&mut self) -> [&mut usize; 7] {
        [
            &mut self.written,
            &mut self.refused,
            &mut self.asked,
            &mut self.restored,
            &mut self.left,
            &mut self.undone,
            &mut self.kept_by_hand,
        ]
    }

    pub fn add(&mut self, other: &mut Self) {
        for (sum, count) in self.all().into_iter().zip(other.all()) {
            *sum += *count;
        }
    }

    pub fn least(&mut self) -> usize {
        self.all()
            .into_iter()
            .map(|count| *count)
            .min()
            .unwrap_or(0)
    }
}

/// A session as its server knows it.
#[derive(Default)]
struct Talk {
    past: Past,
    /// Also calls that wrote nothing.
    calls: usize,
    /// How many calls there were before each message.
    messages: Vec<usize>,
    /// Those in force.
    rewinds: Vec<InForce>,
    rewinds_ever: usize,
}

struct InForce {
    id: String,
    rewound: Rewound,
    messages: Vec<usize>,
    before: Disk,
    /// Places that changed since.
    changed: BTreeSet<&'static str>,
}

pub struct Life {
    pub(super) lab: Lab,
    readers: Vec<ReadingAgent>,
    sessions: [Talk; SESSIONS],
    pub(super) disk: Disk,
    /// What each agent saw last.
    seen: BTreeMap<(usize, &'static str), Vec<u8>>,
    /// What the person saw last; `None` is no file.
    looked: BTreeMap<&'static str, Option<Vec<u8>>>,
    /// Places that are as a hand or a command left them.
    pub(super) by_hand: BTreeSet<&'static str>,
    /// What agents and rewinds ever left. Nobody can tell that a hand made it once more.
    pub(super) by_agents: BTreeSet<(&'static str, State)>,
    /// Of a file that is made.
    pub(super) new_mode: u32,
    pub outcomes: Outcomes,
}

fn session_of(agent: usize) -> usize {
    usize::from(agent == AGENTS - 1)
}

fn key(session: usize, call: &str) -> CallKey {
    CallKey {
        session_id: format!("session-{session}").parse().unwrap(),
        call_id: call.parse().unwrap(),
    }
}

fn base_of(bytes: Option<&Vec<u8>>) -> FileBase {
    bytes.map_or(FileBase::Missing, |bytes| FileBase::of_bytes(bytes))
}

fn is_text(bytes: &[u8]) -> bool {
    !bytes.contains(&0)
}

fn first_line(text: &[u8]) -> String {
    String::from_utf8_lossy(text)
        .lines()
        .next()
        .unwrap()
        .to_owned()
}

impl Life {
    pub fn new() -> Self {
        let lab = Lab::new();
        keep(&lab);
        let mut disk: Disk = PLACES.iter().map(|place| (*place, State::Absent)).collect();
        lab.write(PLACES[0], "first\n");
        lab.link("link.txt", PLACES[0]);
        let first = fs::metadata(lab.root.join(PLACES[0])).unwrap();
        let new_mode = first.mode() & 0o7777;
        let bytes = b"first\n".to_vec();
        disk.insert(
            PLACES[0],
            State::File {
                bytes,
                mode: new_mode,
            },
        );
        let readers = (0..AGENTS).map(|agent| {
            // Two tasks of one plan, the session's own turn, and another session.
            let task = ["t1", "t2"].get(agent);
            let origin = TaskOrigin {
                plan_id: task.map(|_| "plan".parse().unwrap()),
                task_id: task.map(|task| task.parse().unwrap()),
            };
            let session = key(session_of(agent), "c").session_id;
            ReadingAgent::new(&session, &origin, &"coder".parse().unwrap())
        });
        Self {
            readers: readers.collect(),
            sessions: Default::default(),
            lab,
            disk,
            seen: BTreeMap::new(),
            looked: BTreeMap::new(),
            by_hand: BTreeSet::new(),
            by_agents: BTreeSet::new(),
            new_mode,
            outcomes: Outcomes::default(),
        }
    }

    pub(super) async fn perform(&mut self, operation: Operation, shown: &str) {
        match operation {
            Operation::Read {
                agent,
                name,
                is_partial,
            } => {
                self.read(agent, name, is_partial, shown).await;
            }
            Operation::Write {
                agent,
                name,
                text,
                how,
                approval,
            } => {
                self.write(agent, name, (text, how), approval, shown).await;
            }
            Operation::ByHand { place, change } => {
                self.change_by_hand(place, &change);
                self.changed_by_others(place, change);
            }
            Operation::Command { place, change } => {
                self.change_by_command(place, &change, shown).await;
                self.changed_by_others(place, change);
            }
            Operation::Look { place } => {
                let now = self.disk[place].bytes().cloned();
                self.looked.insert(place, now);
            }
            Operation::Message { session } => {
                let talk = &mut self.sessions[session];
                talk.messages.push(talk.calls);
            }
            Operation::Rewind {
                session,
                message,
                is_undone_at_once,
            } => {
                let messages = self.sessions[session].messages.len();
                if messages == 0 {
                    return;
                }
                let before = tree(&self.lab.root);
                self.rewind(session, message % messages, shown).await;
                if is_undone_at_once {
                    self.undo(session, shown).await;
                    assert_eq!(tree(&self.lab.root), before, "{shown}: not as it was");
                }
            }
            Operation::Undo { session } => self.undo(session, shown).await,
            Operation::Restart => {
                self.lab.workspace = self.lab.second(&Sandbox::None);
                keep(&self.lab);
                self.seen.clear();
            }
        }
    }

    /// The disk holds what the model holds, and nothing besides.
    pub fn check_disk(&self, shown: &str) {
        let tree = tree(&self.lab.root);
        let found = |place: &&'static str| tree.get(Path::new(place)).cloned();
        for place in PLACES {
            let found = found(&place).unwrap_or(State::Absent);
            assert_eq!(found, self.disk[place], "{shown}: {place}");
        }
        let others = tree.iter().filter(|(path, state)| {
            **state != State::Folder && !NAMES.iter().any(|name| **path == *Path::new(name))
        });
        assert_eq!(others.count(), 0, "{shown}: something is left in {tree:?}");
    }

    /// Where a name leads; `None` is a link to nothing.
    fn resolve(&self, name: &'static str) -> Option<&'static str> {
        let mut place = name;
        loop {
            let next = match self.disk.get(place) {
                None => PLACES[0],
                Some(State::Link(NOWHERE)) => return None,
                Some(State::Link(_)) => PLACES[1],
                Some(State::Absent) if place != name => return None,
                Some(State::Absent | State::File { .. } | State::Folder) => return Some(place),
            };
            place = next;
        }
    }

    async fn read(&mut self, agent: usize, name: &'static str, is_partial: bool, shown: &str) {
        let mut arguments = json!({"path": name});
        if is_partial {
            arguments["end_line"] = json!(1);
        }
        let (outcome, _) = self.run(agent, "read_file", arguments, None).await;
        let RunOutcome::Done(result) = outcome else {
            panic!("{shown}: a read asks")
        };
        let place = self.resolve(name);
        let now = place.and_then(|place| self.disk[place].bytes());
        let now = now.filter(|bytes| is_text(bytes)).cloned();
        assert_eq!(result["success"], now.is_some(), "{shown}: {result}");
        if let (Some(place), Some(now)) = (place, now) {
            self.seen.insert((agent, place), now);
        }
    }

    async fn write(
        &mut self,
        agent: usize,
        name: &'static str,
        (text, how): (String, Manner),
        approval: Approval,
        shown: &str,
    ) {
        let place = self.resolve(name);
        let file = place.filter(|place| self.disk[place] != State::Folder);
        let now = place.and_then(|place| self.disk[place].bytes()).cloned();
        let seen = file.and_then(|place| self.seen.get(&(agent, place)).cloned());
        let agreed = match approval {
            Approval::Unbound => None,
            Approval::Seen => place.and_then(|place| self.looked.get(place).cloned()),
            Approval::Now => Some(now.clone()),
        };
        let arguments = match (how, &now) {
            (Manner::Edited, Some(now)) if is_text(now) => {
                let now = String::from_utf8_lossy(now);
                json!({"path": name, "edits": [{"old": now, "new": text}]})
            }
            _ => json!({"path": name, "content": text, "create_dirs": true}),
        };
        let is_outdated = seen.is_some() && seen != now;
        let is_unread = seen.is_none() && now.is_some();
        let preview = self.preview(agent, &arguments).await;
        assert_eq!(preview.base, base_of(now.as_ref()), "{shown}");
        assert_eq!(preview.is_unread, is_unread, "{shown}");
        assert_eq!(preview.is_outdated, is_outdated, "{shown}");
        let base = agreed.as_ref().map(|agreed| base_of(agreed.as_ref()));
        let (outcome, call) = self
            .run(agent, "write_file", arguments, base.as_ref())
            .await;
        let is_other = agreed.as_ref().is_some_and(|agreed| *agreed != now);
        let is_unknown = agreed.is_none() && is_unread;
        match outcome {
            RunOutcome::Done(result) if result["success"] == true => {
                let was_seen = seen == now || agreed.as_ref() == Some(&now);
                assert!(
                    was_seen || now.is_none(),
                    "{shown}: replaced what nobody has seen: {now:?}"
                );
                let Some(place) = file else {
                    panic!("{shown}: {result}")
                };
                assert!(
                    !is_outdated && !is_other && !is_unknown,
                    "{shown}: {result}"
                );
                assert!(result.get("not_covered").is_none(), "{shown}: {result}");
                self.written(agent, call, place, text.into_bytes());
                self.outcomes.written += 1;
            }
            RunOutcome::Done(result) => {
                assert!(is_outdated || file.is_none(), "{shown}: {result}");
                if let (Some(now), Some(seen)) = (&now, &seen)
                    && is_text(now)
                {
                    let difference = result["difference"].as_str().unwrap();
                    for line in [
                        format!("+{}", first_line(now)),
                        format!("-{}", first_line(seen)),
                    ] {
                        assert!(difference.contains(&line), "{shown}: {result}");
                    }
                }
                self.outcomes.refused += 1;
            }
            RunOutcome::Asks(question) => {
                assert!(
                    file.is_some() && !is_outdated && (is_other || is_unknown),
                    "{shown}: {question:?}"
                );
                assert_eq!(question.preview.base, base_of(now.as_ref()), "{shown}");
                self.outcomes.asked += 1;
            }
        }
    }

    fn written(&mut self, agent: usize, call: usize, place: &'static str, bytes: Vec<u8>) {
        let before = self.disk[place].clone();
        let mode = match before {
            State::File { mode, .. } => mode,
            State::Absent | State::Link(_) | State::Folder => self.new_mode,
        };
        self.seen.insert((agent, place), bytes.clone());
        let after = State::File { bytes, mode };
        self.by_hand.remove(place);
        self.by_agents.insert((place, after.clone()));
        let past = &mut self.sessions[session_of(agent)].past;
        past.wrote(call, place, before, after.clone());
        self.set(place, after);
    }

    pub(super) fn set(&mut self, place: &'static str, state: State) {
        if self.disk[place] != state {
            let in_force = self.sessions.iter_mut().flat_map(|talk| &mut talk.rewinds);
            in_force.for_each(|rewind| {
                rewind.changed.insert(place);
            });
        }
        self.disk.insert(place, state);
    }

    async fn rewind(&mut self, session: usize, message: usize, shown: &str) {
        let talk = &mut self.sessions[session];
        let messages = talk.messages.split_off(message);
        let first_call = messages[0];
        let calls = (first_call..talk.calls).map(|call| json!({"call_id": format!("call-{call}")}));
        let calls: Vec<Value> = calls.collect();
        talk.rewinds_ever += 1;
        let id = format!("rewind-{}", talk.rewinds_ever);
        let before = self.disk.clone();
        let mut expected = before.clone();
        let (report, rewound) = talk.past.rewind(first_call, &mut expected);
        let arguments = json!({"rewind_id": id, "calls": calls});
        let result = self.change_files(session, &id, arguments).await;
        self.check_files(&before, expected, (&report, &result), shown);
        self.outcomes.restored += told(&report, Told::Restored).len();
        self.outcomes.left += told(&report, Told::Left).len();
        self.sessions[session].rewinds.push(InForce {
            id,
            rewound,
            messages,
            before,
            changed: BTreeSet::new(),
        });
    }

    async fn undo(&mut self, session: usize, shown: &str) {
        let talk = &mut self.sessions[session];
        let Some(last) = talk.rewinds.pop() else {
            return;
        };
        talk.messages.extend(last.messages);
        let before = self.disk.clone();
        let mut expected = before.clone();
        let report = talk.past.undo(last.rewound, &mut expected);
        let call = format!("undo-{}", last.id);
        let result = self
            .change_files(session, &call, json!({"undo": last.id}))
            .await;
        let tree = tree(&self.lab.root);
        for place in PLACES.iter().filter(|place| !last.changed.contains(*place)) {
            let found = tree.get(Path::new(place)).unwrap_or(&State::Absent);
            assert_eq!(
                *found, last.before[place],
                "{shown}: {place} did not come back: {result}"
            );
        }
        self.check_files(&before, expected, (&report, &result), shown);
        self.outcomes.undone += told(&report, Told::Restored).len();
    }

    async fn change_files(&self, session: usize, call: &str, arguments: Value) -> Value {
        let call = Call {
            reader: None,
            base: None,
            user_id: None,
            arguments: &arguments_of("rewind_files", arguments),
            is_approved: true,
            key: Some(&key(session, call)),
        };
        self.lab.workspace.run(call, CancellationToken::new()).await
    }

    /// After a rewind or its undoing.
    fn check_files(
        &mut self,
        before: &Disk,
        expected: Disk,
        (report, result): (&Report, &Value),
        shown: &str,
    ) {
        assert_eq!(result["success"], true, "{shown}: {result}");
        assert_eq!(result["not_covered"], json!([]), "{shown}: {result}");
        let tree = tree(&self.lab.root);
        for place in &self.by_hand {
            // A path that is gone may come back.
            if before[place] != State::Absent {
                let found = tree.get(Path::new(place)).unwrap_or(&State::Absent);
                assert_eq!(
                    *found, before[place],
                    "{shown}: {place} was by hand: {result}"
                );
                self.outcomes.kept_by_hand += usize::from(report.contains_key(place));
            }
        }
        let mut restored: Vec<_> = strings(result["restored"].as_array().unwrap().iter());
        let left = result["left"].as_array().unwrap();
        let mut left: Vec<_> = strings(left.iter().map(|left| &left["path"]));
        restored.sort_unstable();
        left.sort_unstable();
        assert_eq!(restored, told(report, Told::Restored), "{shown}: {result}");
        assert_eq!(left, told(report, Told::Left), "{shown}: {result}");
        for (place, state) in expected {
            if before[place] != state {
                self.by_hand.remove(place);
                self.by_agents.insert((place, state.clone()));
            }
            self.set(place, state);
        }
    }

    async fn preview(&self, agent: usize, arguments: &Value) -> codelab_protocol::FilePreview {
        let ToolArguments::WriteFile(write) = arguments_of("write_file", arguments.clone()) else {
            panic!("not a write")
        };
        let reader = Some(&self.readers[agent]);
        self.lab.workspace.preview(&write, reader).await.unwrap()
    }

    /// How the call ended, and its number in the session.
    async fn run(
        &mut self,
        agent: usize,
        tool: &str,
        arguments: Value,
        base: Option<&FileBase>,
    ) -> (RunOutcome, usize) {
        let session = session_of(agent);
        let number = self.sessions[session].calls;
        self.sessions[session].calls += 1;
        let call = Call {
            key: Some(&key(session, &format!("call-{number}"))),
            user_id: None,
            arguments: &arguments_of(tool, arguments),
            is_approved: true,
            reader: Some(&self.readers[agent]),
            base,
        };
        let cancel = CancellationToken::new();
        (self.lab.workspace.run_or_ask(call, cancel).await, number)
    }
}

fn keep(lab: &Lab) {
    lab.workspace
        .keep_before_images(&lab.before_images(), LIMITS, ClientFailpoint::default());
}

fn told(report: &Report, wanted: Told) -> Vec<&'static str> {
    let found = report.iter().filter(|(_, told)| **told == wanted);
    found.map(|(place, _)| *place).collect()
}

fn strings<'a>(values: impl Iterator<Item = &'a Value>) -> Vec<&'a str> {
    values.filter_map(Value::as_str).collect()
}
