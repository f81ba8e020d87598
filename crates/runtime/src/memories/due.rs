//! What is still to be done to agents' collections, so that they say what SQL says.

use std::collections::BTreeMap;

use codelab_protocol::AgentName;

use crate::space::SpaceKey;

/// An agent of a project, which exists or existed.
pub(super) type AgentRef = (SpaceKey, AgentName);

/// What a collection needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum IndexNeed {
    /// To be there if its agent is, and gone if not.
    Check,
    /// To be made again from SQL, or to be gone with its agent.
    Rebuild,
}

/// The needs of all collections. Bounded by the agents there are and were: each has one.
#[derive(Default)]
pub(super) struct DueWork {
    needs: BTreeMap<AgentRef, Noted>,
    last_number: u64,
}

struct Noted {
    need: IndexNeed,
    number: u64,
    /// Somebody tried and failed.
    is_late: bool,
}

/// What `done` must name: a need that was noted again meanwhile stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NeedNumber(Option<u64>);

impl DueWork {
    /// A check is part of a rebuild that is due already.
    pub fn note(&mut self, agent_ref: &AgentRef, need: IndexNeed) -> NeedNumber {
        let is_late = match self.needs.get(agent_ref) {
            Some(noted) if noted.need > need => return NeedNumber(None),
            Some(noted) => noted.is_late,
            None => false,
        };
        self.last_number += 1;
        let number = self.last_number;
        self.needs.insert(
            agent_ref.clone(),
            Noted {
                need,
                number,
                is_late,
            },
        );
        NeedNumber(Some(number))
    }

    /// Noted, and known to fail.
    pub fn note_late(&mut self, agent_ref: &AgentRef, need: IndexNeed) {
        self.note(agent_ref, need);
        if let Some(noted) = self.needs.get_mut(agent_ref) {
            noted.is_late = true;
        }
    }

    /// Whether the need was still the one of this number.
    pub fn done(&mut self, agent_ref: &AgentRef, number: NeedNumber) -> bool {
        let is_it = self
            .needs
            .get(agent_ref)
            .is_some_and(|noted| Some(noted.number) == number.0);
        if is_it {
            self.needs.remove(agent_ref);
        }
        is_it
    }

    pub fn needs_rebuild(&self, agent_ref: &AgentRef) -> bool {
        let noted = self.needs.get(agent_ref);
        noted.is_some_and(|noted| noted.need == IndexNeed::Rebuild)
    }

    pub fn all(&self) -> Vec<(AgentRef, IndexNeed, NeedNumber)> {
        self.needs
            .iter()
            .map(|(agent_ref, noted)| {
                (
                    agent_ref.clone(),
                    noted.need,
                    NeedNumber(Some(noted.number)),
                )
            })
            .collect()
    }

    pub fn count(&self) -> usize {
        self.needs.len()
    }

    /// The places of those that failed.
    pub fn late(&self) -> impl Iterator<Item = &AgentRef> {
        self.needs
            .iter()
            .filter(|(_, noted)| noted.is_late)
            .map(|(agent_ref, _)| agent_ref)
    }
}
