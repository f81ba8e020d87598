//! Random lives of a workspace: agents that read and write, a person's approvals, changes by hand and
//! by commands, in any order. A model says what must happen; no write of an agent ever replaces
//! content that neither the agent nor a person who agreed has seen.
//!
//! `CODELAB_SEED=n` replays one seed, `CODELAB_SEEDS=n` sets how many run.

use std::collections::BTreeMap;
use std::fs;

use codelab_protocol::{FileBase, TaskOrigin, ToolArguments};
use codelab_workspace::{Call, ReadingAgent, RunOutcome};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::lab::{Lab, arguments_of};

const SEEDS: u64 = 40;
const OPERATIONS_PER_LIFE: usize = 80;
const AGENTS: usize = 4;
/// The last one is a link to the first.
const NAMES: [&str; 4] = ["a.txt", "b.txt", "folder/c.txt", "link.txt"];

/// One thing that happens. To add a kind: a variant, how it is chosen in [`Life::any`], and what it
/// does and must do in [`Life::perform`].
#[derive(Debug, Clone)]
enum Operation {
    Read {
        agent: usize,
        name: usize,
        is_partial: bool,
    },
    Write {
        agent: usize,
        name: usize,
        text: String,
        how: Written,
        approval: Approval,
    },
    /// Somebody with an editor; nothing: the file is deleted.
    ByHand {
        name: usize,
        text: Option<String>,
    },
    Command {
        name: usize,
        text: String,
    },
    /// A person looks at what a write would replace. They may agree to it much later.
    Look {
        name: usize,
    },
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Written {
    Whole,
    Edited,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Approval {
    /// Remembered, by the mode, or without a preview: it names nothing.
    Unbound,
    /// Of what the person saw when they looked last.
    Seen,
    /// Of what is there at this moment.
    Now,
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        // SplitMix64: short, and the same everywhere.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    }

    fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }
}

struct Life {
    lab: Lab,
    random: Random,
    readers: Vec<ReadingAgent>,
    /// What is on the disk, by the name that is not a link.
    files: BTreeMap<&'static str, String>,
    /// What each agent saw last.
    seen: BTreeMap<(usize, &'static str), String>,
    /// What the person saw last; `None` is no file.
    looked: BTreeMap<&'static str, Option<String>>,
    texts: usize,
    /// How often a write passed, was refused, and asked: a life in which nothing happens shows
    /// nothing.
    outcomes: [usize; 3],
}

#[tokio::test]
async fn no_write_replaces_what_nobody_has_seen() {
    let number = |name: &str| -> Option<u64> { std::env::var(name).ok()?.parse().ok() };
    let seeds = match number("CODELAB_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("CODELAB_SEEDS").unwrap_or(SEEDS),
    };
    let mut outcomes = [0; 3];
    for seed in seeds.clone() {
        let mut life = Life::new(seed);
        for step in 0..OPERATIONS_PER_LIFE {
            let operation = life.any();
            let shown = format!("CODELAB_SEED={seed}, step {step}: {operation:?}");
            life.perform(operation, &shown).await;
            life.check_disk(&shown);
        }
        for (sum, count) in outcomes.iter_mut().zip(life.outcomes) {
            *sum += count;
        }
    }
    let is_one = seeds.end - seeds.start == 1;
    assert!(
        is_one || outcomes.iter().all(|count| *count > 100),
        "nothing was tried: {outcomes:?}"
    );
}

fn real(name: usize) -> &'static str {
    match NAMES[name] {
        "link.txt" => NAMES[0],
        other => other,
    }
}

fn base_of(text: Option<&String>) -> FileBase {
    text.map_or(FileBase::Missing, |text| {
        FileBase::of_bytes(text.as_bytes())
    })
}

impl Life {
    fn new(seed: u64) -> Self {
        let lab = Lab::new();
        fs::create_dir(lab.root.join("folder")).unwrap();
        let mut files = BTreeMap::new();
        // The link leads somewhere from the start.
        lab.write(NAMES[0], "first\n");
        files.insert(NAMES[0], "first\n".to_owned());
        lab.link("link.txt", "a.txt");
        let readers = (0..AGENTS).map(|agent| {
            // Two tasks of one plan, the session's own turn, and another session.
            let task = ["t1", "t2"].get(agent);
            let origin = TaskOrigin {
                plan_id: task.map(|_| "plan".parse().unwrap()),
                task_id: task.map(|task| task.parse().unwrap()),
            };
            let session = if agent == 3 { "other" } else { "session" };
            ReadingAgent::new(
                &session.parse().unwrap(),
                &origin,
                &"coder".parse().unwrap(),
            )
        });
        Self {
            readers: readers.collect(),
            lab,
            random: Random(seed),
            files,
            seen: BTreeMap::new(),
            looked: BTreeMap::new(),
            texts: 0,
            outcomes: [0; 3],
        }
    }

    fn any(&mut self) -> Operation {
        let name = self.random.below(NAMES.len());
        let agent = self.random.below(AGENTS);
        match self.random.below(40) {
            0..=11 => Operation::Read {
                agent,
                name,
                is_partial: self.random.one_in(3),
            },
            12..=28 => Operation::Write {
                agent,
                name,
                text: self.text(),
                how: match self.random.one_in(3) {
                    true => Written::Edited,
                    false => Written::Whole,
                },
                approval: match self.random.below(4) {
                    0 => Approval::Seen,
                    1 => Approval::Now,
                    _ => Approval::Unbound,
                },
            },
            29..=34 => {
                let text = self.text();
                // A link to nothing is another matter.
                let may_delete = real(name) != NAMES[0];
                let is_deleted = may_delete && self.random.one_in(3);
                Operation::ByHand {
                    name,
                    text: (!is_deleted).then_some(text),
                }
            }
            35 => Operation::Command {
                name,
                text: self.text(),
            },
            _ => Operation::Look { name },
        }
    }

    /// Now and then one that was there before.
    fn text(&mut self) -> String {
        if !self.random.one_in(5) {
            self.texts += 1;
        }
        format!("text {}\nsecond line\n", self.texts)
    }

    async fn perform(&mut self, operation: Operation, shown: &str) {
        match operation {
            Operation::Read {
                agent,
                name,
                is_partial,
            } => {
                let mut arguments = json!({"path": NAMES[name]});
                if is_partial {
                    arguments["end_line"] = json!(1);
                }
                let read = self.run(agent, "read_file", arguments, None).await;
                let RunOutcome::Done(result) = read else {
                    panic!("{shown}: a read asks")
                };
                let now = self.files.get(real(name)).cloned();
                assert_eq!(result["success"], now.is_some(), "{shown}: {result}");
                if let Some(now) = now {
                    self.seen.insert((agent, real(name)), now);
                }
            }
            Operation::Write {
                agent,
                name,
                text,
                how,
                approval,
            } => self.write(agent, name, (text, how), approval, shown).await,
            Operation::ByHand { name, text } => {
                let path = self.lab.root.join(real(name));
                match text {
                    Some(text) => {
                        fs::write(path, &text).unwrap();
                        self.files.insert(real(name), text);
                    }
                    None => {
                        let gone = fs::remove_file(path).is_ok();
                        assert_eq!(gone, self.files.remove(real(name)).is_some(), "{shown}");
                    }
                }
            }
            Operation::Command { name, text } => {
                let command = format!("printf '{text}' > {}", NAMES[name]);
                let result = self.lab.command(&command).await;
                assert_eq!(result["exit_code"], 0, "{shown}: {result}");
                self.files.insert(real(name), text);
            }
            Operation::Look { name } => {
                let now = self.files.get(real(name)).cloned();
                self.looked.insert(real(name), now);
            }
        }
    }

    async fn write(
        &mut self,
        agent: usize,
        name: usize,
        (text, how): (String, Written),
        approval: Approval,
        shown: &str,
    ) {
        let place = real(name);
        let now = self.files.get(place).cloned();
        let seen = self.seen.get(&(agent, place)).cloned();
        let agreed = match approval {
            Approval::Unbound => None,
            Approval::Seen => self.looked.get(place).cloned(),
            Approval::Now => Some(now.clone()),
        };
        let arguments = match (how, &now) {
            (Written::Edited, Some(now)) => {
                json!({"path": NAMES[name], "edits": [{"old": now, "new": text}]})
            }
            _ => json!({"path": NAMES[name], "content": text}),
        };
        let base = agreed.as_ref().map(|agreed| base_of(agreed.as_ref()));
        let preview = self.preview(agent, &arguments).await;
        assert_eq!(preview.base, base_of(now.as_ref()), "{shown}");
        assert_eq!(
            preview.is_unread,
            seen.is_none() && now.is_some(),
            "{shown}"
        );
        assert_eq!(
            preview.is_outdated,
            seen.is_some() && seen != now,
            "{shown}"
        );
        let outcome = self
            .run(agent, "write_file", arguments, base.as_ref())
            .await;
        let is_outdated = seen.is_some() && seen != now;
        let is_other = agreed.as_ref().is_some_and(|agreed| *agreed != now);
        let is_unknown = agreed.is_none() && seen.is_none() && now.is_some();
        match outcome {
            RunOutcome::Done(result) if result["success"] == true => {
                let was_seen = seen == now || agreed.as_ref() == Some(&now);
                assert!(
                    was_seen || now.is_none(),
                    "{shown}: replaced what nobody has seen: {now:?}"
                );
                assert!(
                    !is_outdated && !is_other && !is_unknown,
                    "{shown}: {result}"
                );
                self.files.insert(place, text.clone());
                self.seen.insert((agent, place), text);
                self.outcomes[0] += 1;
            }
            RunOutcome::Done(result) => {
                assert!(is_outdated, "{shown}: {result}");
                if let (Some(now), Some(seen)) = (&now, &seen) {
                    let difference = result["difference"].as_str().unwrap();
                    let line = |text: &str| text.lines().next().unwrap().to_owned();
                    assert!(
                        difference.contains(&format!("+{}", line(now))),
                        "{shown}: {result}"
                    );
                    assert!(
                        difference.contains(&format!("-{}", line(seen))),
                        "{shown}: {result}"
                    );
                }
                self.outcomes[1] += 1;
            }
            RunOutcome::Asks(question) => {
                assert!(
                    !is_outdated && (is_other || is_unknown),
                    "{shown}: {question:?}"
                );
                assert_eq!(question.preview.base, base_of(now.as_ref()), "{shown}");
                self.outcomes[2] += 1;
            }
        }
    }

    async fn preview(&self, agent: usize, arguments: &Value) -> codelab_protocol::FilePreview {
        let ToolArguments::WriteFile(write) = arguments_of("write_file", arguments.clone()) else {
            panic!("not a write")
        };
        let reader = Some(&self.readers[agent]);
        self.lab.workspace.preview(&write, reader).await.unwrap()
    }

    async fn run(
        &self,
        agent: usize,
        tool: &str,
        arguments: Value,
        base: Option<&FileBase>,
    ) -> RunOutcome {
        let arguments = arguments_of(tool, arguments);
        let call = Call {
            key: None,
            user_id: None,
            arguments: &arguments,
            is_approved: true,
            reader: Some(&self.readers[agent]),
            base,
        };
        let cancel = CancellationToken::new();
        self.lab.workspace.run_or_ask(call, cancel).await
    }

    /// The disk holds what the model holds, and nothing besides.
    fn check_disk(&self, shown: &str) {
        for name in NAMES {
            let on_disk = fs::read_to_string(self.lab.root.join(name)).ok();
            let expected = match name {
                "link.txt" => self.files.get(NAMES[0]),
                name => self.files.get(name),
            };
            assert_eq!(on_disk.as_ref(), expected, "{shown}: {name}");
        }
        let names = fs::read_dir(&self.lab.root).unwrap();
        let left = names.filter(|entry| {
            let name = entry.as_ref().unwrap().file_name();
            name.to_string_lossy().starts_with(".codelab")
        });
        assert_eq!(left.count(), 0, "{shown}: temporary files are left");
    }
}
