//! What calls wrote and what rewinds did with it, as the model knows it. It says what a rewind must
//! do to each path.

use std::collections::{BTreeMap, BTreeSet};

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    Absent,
    File { bytes: Vec<u8>, mode: u32 },
    Link(&'static str),
    Folder,
}

impl State {
    pub fn bytes(&self) -> Option<&Vec<u8>> {
        match self {
            Self::File { bytes, .. } => Some(bytes),
            Self::Absent | Self::Link(_) | Self::Folder => None,
        }
    }
}

pub type Disk = BTreeMap<&'static str, State>;

/// What a person is told of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    Restored,
    Left,
}

pub type Report = BTreeMap<&'static str, Told>;

struct CallThatWrote {
    call: usize,
    place: &'static str,
    before: State,
    after: State,
    is_taken_back: bool,
}

/// A path that a rewind changed.
struct Taken {
    place: &'static str,
    found: State,
    target: State,
    /// By their positions in the past.
    writes: Vec<usize>,
}

pub struct Rewound(Vec<Taken>);

/// The writes of one session, the oldest first.
#[derive(Default)]
pub struct Past(Vec<CallThatWrote>);

impl Past {
    pub fn wrote(&mut self, call: usize, place: &'static str, before: State, after: State) {
        self.0.push(CallThatWrote {
            call,
            place,
            before,
            after,
            is_taken_back: false,
        });
    }

    /// The writes of this call and of all later ones are taken back.
    pub fn rewind(&mut self, first_call: usize, disk: &mut Disk) -> (Report, Rewound) {
        let is_meant = |write: &&CallThatWrote| write.call >= first_call && !write.is_taken_back;
        let places: BTreeSet<_> = self.0.iter().filter(is_meant).map(|it| it.place).collect();
        let (mut report, mut rewound) = (Report::new(), Vec::new());
        for place in places {
            let of_place = |write: &&CallThatWrote| is_meant(write) && write.place == place;
            let mut writes = self.0.iter().enumerate().rev();
            let mut writes = writes.by_ref().filter(|(_, write)| of_place(write));
            let Some((position, last)) = writes.next() else {
                continue;
            };
            let (mut target, mut taken, mut is_all) = (&last.before, vec![position], true);
            for (position, write) in writes {
                // What is neither before nor after this call was left by somebody else.
                if write.after == *target {
                    target = &write.before;
                } else if write.before != *target {
                    is_all = false;
                    break;
                }
                taken.push(position);
            }
            let (target, expected) = (target.clone(), last.after.clone());
            let told = match is_all {
                true => Told::Restored,
                false => Told::Left,
            };
            let present = disk[place].clone();
            if present == target {
                report.insert(place, told);
            } else if may_replace(&present, &expected, &target) {
                for write in &taken {
                    self.0[*write].is_taken_back = true;
                }
                disk.insert(place, target.clone());
                report.insert(place, told);
                rewound.push(Taken {
                    place,
                    found: present,
                    target,
                    writes: taken,
                });
            } else {
                report.insert(place, Told::Left);
            }
        }
        (report, Rewound(rewound))
    }

    pub fn undo(&mut self, rewound: Rewound, disk: &mut Disk) -> Report {
        let mut report = Report::new();
        for taken in rewound.0 {
            let present = &disk[taken.place];
            if *present != taken.found && !may_replace(present, &taken.target, &taken.found) {
                report.insert(taken.place, Told::Left);
                continue;
            }
            for write in &taken.writes {
                self.0[*write].is_taken_back = false;
            }
            disk.insert(taken.place, taken.found);
            report.insert(taken.place, Told::Restored);
        }
        report
    }
}

/// What was left there, or nothing at all: then nothing is lost by putting a file there.
fn may_replace(present: &State, expected: &State, target: &State) -> bool {
    present == expected || (*present == State::Absent && target.bytes().is_some())
}
