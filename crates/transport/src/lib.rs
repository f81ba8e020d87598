//! Outgoing HTTP: the one place where this program opens connections to model servers, memory
//! servers and CodeLab servers.
//!
//! What lives here: TLS with the system's roots and a CA file, proxies, connection reuse, time and
//! size limits, and the decoder of server-sent events. What must never: what a request means, and
//! retries. Redirects are never followed, because the next server would get the key of this one.

mod address;
mod client;
mod connect;
mod error;
mod link;
mod network;
mod no_proxy;
mod proxy;
mod reach;
mod sse;
pub mod tls;
mod tunnel;

pub use address::{InvalidAddress, is_private_address, server_address};
pub use client::{BodyReader, HttpClient, HttpLimits, read_whole, recycle, redirect_host, within};
pub use error::{ConnectError, TransportConfigError, TransportError};
pub use network::NetworkOptions;
pub use proxy::{ProxyChoice, ProxySettings};
pub use reach::{AddressRule, NotPublic, is_public};
pub use sse::{EventTooLong, SseFields, SseParser};
