//! Random lives of a workspace: agents that read and write, a person's approvals, changes by hand and
//! by commands, rewinds, their undoings and restarts, in any order. A model says what must happen:
//!
//! - no write of an agent replaces content that neither the agent nor a person who agreed has seen;
//! - a rewind that is undone gives back every byte, mode, link and deletion;
//! - what a hand or a command left is never overwritten by a rewind or its undoing.
//!
//! `CODELAB_SEED=n` replays one seed, `CODELAB_SEEDS=n` sets how many run.

mod life;
mod others;
mod past;

use std::time::{Duration, Instant};

use life::{Life, Outcomes};

const SEEDS: u64 = 120;
/// These run however slow the machine is, the others while there is time.
const SEEDS_AT_LEAST: u64 = 60;
const TIME: Duration = Duration::from_secs(45);
const OPERATIONS_PER_LIFE: usize = 40;

const AGENTS: usize = 4;
const SESSIONS: usize = 2;

/// Where files are.
const PLACES: [&str; 4] = ["a.txt", "b.txt", "dir/c.txt", "dir/deep/d.txt"];
/// What agents call them. The last one is a link to the first file, and stays one.
const NAMES: [&str; 5] = ["a.txt", "b.txt", "dir/c.txt", "dir/deep/d.txt", "link.txt"];
/// What links say: nothing is called so, or it leads to the second file.
const LINKS: [&str; 4] = ["nowhere", "b.txt", "../b.txt", "../../b.txt"];
const NOWHERE: &str = LINKS[0];

/// One thing that happens. To add a kind: a variant, how it is chosen in [`Choice::operation`], and
/// what it does and must do in [`Life::perform`].
#[derive(Debug, Clone)]
enum Operation {
    Read {
        agent: usize,
        name: &'static str,
        is_partial: bool,
    },
    Write {
        agent: usize,
        name: &'static str,
        text: String,
        how: Manner,
        approval: Approval,
    },
    /// Somebody with an editor.
    ByHand {
        place: &'static str,
        change: Change,
    },
    Command {
        place: &'static str,
        change: Change,
    },
    /// A person looks at what a write would replace. They may agree to it much later.
    Look {
        place: &'static str,
    },
    /// A message of the person, to which they can go back.
    Message {
        session: usize,
    },
    Rewind {
        session: usize,
        /// Which of the messages that are left; the number is taken modulo theirs.
        message: usize,
        is_undone_at_once: bool,
    },
    /// Of the last rewind that is in force.
    Undo {
        session: usize,
    },
    Restart,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Manner {
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

#[derive(Debug, Clone, PartialEq)]
enum Change {
    Content(Vec<u8>),
    /// Of a file; nothing else is changed by it.
    Mode(u32),
    Delete,
    DeleteParent,
    Link(&'static str),
    Folder,
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

    fn any<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

/// What happens next, by the seed alone.
struct Choice {
    random: Random,
    texts: usize,
}

impl Choice {
    fn operation(&mut self) -> Operation {
        let name = self.random.any(&NAMES);
        let place = self.random.any(&PLACES);
        let agent = self.random.below(AGENTS);
        // Most is said in one session, so that it has something to take back.
        let session = usize::from(self.random.one_in(4));
        match self.random.below(40) {
            0..=7 => Operation::Read {
                agent,
                name,
                is_partial: self.random.one_in(3),
            },
            8..=19 => Operation::Write {
                agent,
                name,
                text: self.text(),
                how: match self.random.one_in(3) {
                    true => Manner::Edited,
                    false => Manner::Whole,
                },
                approval: self.random.any(&[
                    Approval::Unbound,
                    Approval::Unbound,
                    Approval::Seen,
                    Approval::Now,
                    Approval::Now,
                ]),
            },
            20..=24 => Operation::ByHand {
                place,
                change: self.by_hand(place),
            },
            25 => Operation::Command {
                place,
                change: match self.random.below(4) {
                    0 => Change::Delete,
                    1 => Change::Mode(self.mode()),
                    _ => Change::Content(self.text().into_bytes()),
                },
            },
            26 | 27 => Operation::Look { place },
            28..=31 => Operation::Message { session },
            32..=35 => Operation::Rewind {
                session,
                message: self.random.below(8),
                is_undone_at_once: self.random.one_in(3),
            },
            36..=38 => Operation::Undo { session },
            _ => Operation::Restart,
        }
    }

    fn by_hand(&mut self, place: &str) -> Change {
        match self.random.below(16) {
            0..=2 => Change::Delete,
            3 | 4 => Change::Mode(self.mode()),
            5 => Change::Folder,
            6 => Change::DeleteParent,
            7 if place == PLACES[1] => Change::Link(NOWHERE),
            7 => Change::Link(self.random.any(&[NOWHERE, link_to_second(place)])),
            8..=10 => Change::Content([b"\0\xff", self.text().as_bytes()].concat()),
            _ => Change::Content(self.text().into_bytes()),
        }
    }

    fn mode(&mut self) -> u32 {
        self.random.any(&[0o600, 0o644, 0o755])
    }

    /// Now and then one that was there before.
    fn text(&mut self) -> String {
        let number = match self.random.one_in(6) {
            true => self.random.below(self.texts + 1),
            false => {
                self.texts += 1;
                self.texts
            }
        };
        format!("text {number}\nsecond line\n")
    }
}

fn link_to_second(place: &str) -> &'static str {
    LINKS[1 + place.matches('/').count()]
}

#[tokio::test]
async fn the_workspace_remembers() {
    let number = |name: &str| -> Option<u64> { std::env::var(name).ok()?.parse().ok() };
    let (seeds, is_whole_run) = match (number("CODELAB_SEED"), number("CODELAB_SEEDS")) {
        (Some(seed), _) => (seed..seed + 1, false),
        (None, Some(seeds)) => (0..seeds, seeds >= SEEDS_AT_LEAST),
        (None, None) => (0..SEEDS, true),
    };
    let started = Instant::now();
    let mut outcomes = Outcomes::default();
    for seed in seeds {
        if seed >= SEEDS_AT_LEAST && is_whole_run && started.elapsed() > TIME {
            println!("{seed} lives in {TIME:?}");
            break;
        }
        let mut choice = Choice {
            random: Random(seed),
            texts: 0,
        };
        let mut life = Life::new();
        for step in 0..OPERATIONS_PER_LIFE {
            let operation = choice.operation();
            let shown = format!("CODELAB_SEED={seed}, step {step}: {operation:?}");
            life.perform(operation, &shown).await;
            life.check_disk(&shown);
        }
        outcomes.add(&mut life.outcomes);
    }
    println!("{outcomes:?}");
    assert!(
        !is_whole_run || outcomes.least() > 20,
        "nothing was tried: {outcomes:?}"
    );
}
