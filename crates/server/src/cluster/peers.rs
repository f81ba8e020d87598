//! Connections to the other servers: one pool per address, kept for the next request.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use codelab_transport::{HttpClient, HttpLimits, NetworkOptions, server_address};

use super::gate::GatedBody;

/// Addresses whose pools are kept. At the limit, the one that was not used for longest goes.
const MAX_PEERS: usize = 64;
const LIMITS: HttpLimits = HttpLimits {
    connect_timeout: Duration::from_secs(2),
    idle_connections: 64,
    // A server closes a connection that was idle for 15 s.
    idle_connection_timeout: Duration::from_secs(10),
};

pub(super) type PeerClient = HttpClient<GatedBody>;

pub(super) struct PeerClients {
    network: NetworkOptions,
    known: Mutex<KnownPeers>,
}

#[derive(Default)]
struct KnownPeers {
    /// Grows with each use, so that the oldest is found.
    time: u64,
    clients: HashMap<Arc<str>, (u64, Arc<PeerClient>)>,
}

impl PeerClients {
    pub fn new(ca_file: Option<PathBuf>) -> Self {
        let network = NetworkOptions {
            ca_file,
            ..NetworkOptions::default()
        };
        Self {
            network,
            known: Mutex::default(),
        }
    }

    /// For requests to this address. The error says why there can be none.
    pub fn client(&self, address: &Arc<str>) -> Result<Arc<PeerClient>, String> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.time += 1;
        let time = known.time;
        if let Some((used_at, client)) = known.clients.get_mut(address) {
            *used_at = time;
            return Ok(Arc::clone(client));
        }
        let uri = server_address(address).map_err(|error| error.to_string())?;
        let client = HttpClient::streaming(&uri, &self.network, LIMITS);
        let client = Arc::new(client.map_err(|error| error.to_string())?);
        known.make_room();
        let entry = (time, Arc::clone(&client));
        known.clients.insert(Arc::clone(address), entry);
        Ok(client)
    }
}

impl KnownPeers {
    fn make_room(&mut self) {
        if self.clients.len() < MAX_PEERS {
            return;
        }
        let oldest = self.clients.iter().min_by_key(|(_, (used_at, _))| *used_at);
        if let Some(address) = oldest.map(|(address, _)| Arc::clone(address)) {
            self.clients.remove(&address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_are_kept_for_a_bounded_number_of_addresses() {
        let peers = PeerClients::new(None);
        let address = |port: usize| Arc::from(format!("http://127.0.0.1:{port}"));
        let first = peers.client(&address(1000)).unwrap();
        for port in 1001..1000 + MAX_PEERS {
            peers.client(&address(port)).unwrap();
        }
        assert!(Arc::ptr_eq(&first, &peers.client(&address(1000)).unwrap()));
        peers.client(&address(9000)).unwrap();
        let known = peers.known.lock().unwrap();
        assert_eq!(known.clients.len(), MAX_PEERS);
        assert!(known.clients.contains_key(&address(1000)), "just used");
        assert!(!known.clients.contains_key(&address(1001)), "the oldest");
    }

    #[test]
    fn an_address_that_is_none_is_told() {
        let peers = PeerClients::new(None);
        assert!(peers.client(&Arc::from("nowhere")).is_err());
    }
}
