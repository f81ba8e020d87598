//! Which server takes what nobody owns: rendezvous hashing. All servers choose the same one, and a
//! server that joins or leaves changes the choice only for its own share.

use std::sync::Arc;

use super::OwnedThing;

/// The one of these servers that is to take the thing.
pub(super) fn chosen<'a>(
    thing: &OwnedThing,
    servers: impl IntoIterator<Item = &'a Arc<str>>,
) -> Option<&'a Arc<str>> {
    let thing = name_of(thing);
    servers
        .into_iter()
        .max_by_key(|server| (weight(&thing, server), Arc::clone(server)))
}

fn name_of(thing: &OwnedThing) -> String {
    match thing {
        OwnedThing::Project(project) => format!("project {}", project.get()),
        OwnedThing::Session(session) => format!("session {session}"),
        OwnedThing::Chat => "chat".to_owned(),
    }
}

/// FNV-1a with a final mix: the same on every server, whatever it was built with.
fn weight(thing: &str, server: &str) -> u64 {
    let bytes = server.bytes().chain([0]).chain(thing.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    mixed ^ (mixed >> 33)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use codelab_protocol::ProjectId;

    use super::*;

    #[test]
    fn each_server_gets_its_share_and_only_that_moves() {
        let servers: Vec<Arc<str>> = ["a", "b", "c", "d"].map(Arc::from).to_vec();
        let things: Vec<_> = (1..=4000)
            .map(|n| OwnedThing::Project(ProjectId::new(n).unwrap()))
            .collect();
        let mut shares: HashMap<&str, usize> = HashMap::new();
        for thing in &things {
            let with_all = chosen(thing, &servers).unwrap();
            *shares.entry(with_all).or_default() += 1;
            let without_d = chosen(thing, &servers[..3]).unwrap();
            if &**with_all != "d" {
                assert_eq!(with_all, without_d, "only what was d's moves");
            }
        }
        for (server, share) in shares {
            assert!((850..1150).contains(&share), "{server} has {share} of 4000");
        }
        assert_eq!(chosen(&things[0], []), None);
    }
}
