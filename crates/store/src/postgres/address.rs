//! The address of a PostgreSQL database: the parameters of libpq, and `pgbouncer`, which is ours.

use std::str::FromStr;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, TargetSessionAttrs};

use super::tls::TlsParameters;
use crate::StoreError;

/// Named as in other programs: with it, nothing is prepared by name and no setting outlives a
/// transaction.
const POOLED: &str = "pgbouncer";

pub(crate) struct PostgresAddress {
    /// One for each host, in the order of the address. Each has exactly one host.
    pub hosts: Vec<Config>,
    pub tls: TlsParameters,
    /// The address says that a pooler stands before PostgreSQL.
    pub is_pooled: bool,
}

impl PostgresAddress {
    pub fn parse(url: &str) -> Result<Self, StoreError> {
        let (url, is_pooled) = split_pooled(url)?;
        let (url, tls) = TlsParameters::split(&url)?;
        let malformed =
            || StoreError::Invalid("the postgres: database address is malformed".to_owned());
        let mut config = Config::from_str(&url).map_err(|_| malformed())?;
        config.ssl_mode(tls.driver_mode());
        if config.get_application_name().is_none() {
            config.application_name("codelab");
        }
        let hosts = one_for_each_host(&config).ok_or_else(malformed)?;
        Ok(Self {
            hosts,
            tls,
            is_pooled,
        })
    }
}

/// Where the parameters of an address begin: the position of the question mark.
pub(super) fn parameters_start(url: &str) -> Option<usize> {
    // The driver reads everything before the first @ as user and password.
    let from = url.find('@').unwrap_or(0);
    url[from..].find('?').map(|at| from + at)
}

/// Puts an address together again from the part before the question mark and the parameters.
pub(super) fn with_parameters(address: &str, parameters: &[&str]) -> String {
    let separator = if parameters.is_empty() { "" } else { "?" };
    format!("{address}{separator}{}", parameters.join("&"))
}

/// Takes out the parameter that the driver does not know.
fn split_pooled(url: &str) -> Result<(String, bool), StoreError> {
    let Some(start) = parameters_start(url) else {
        return Ok((url.to_owned(), false));
    };
    let mut is_pooled = false;
    let mut kept = Vec::new();
    for parameter in url[start + 1..].split('&') {
        match parameter.split_once('=').unwrap_or((parameter, "")) {
            (POOLED, "true") => is_pooled = true,
            (POOLED, "false") => is_pooled = false,
            (POOLED, _) => {
                return Err(StoreError::Invalid(
                    "the postgres: database address: pgbouncer must be true or false".to_owned(),
                ));
            }
            _ => kept.push(parameter),
        }
    }
    Ok((with_parameters(&url[..start], &kept), is_pooled))
}

/// The driver tries hosts one after the other within one time limit. Here each host has its own
/// limit, so each needs its own configuration. `None` if the numbers of hosts, addresses and ports
/// do not fit.
fn one_for_each_host(config: &Config) -> Option<Vec<Config>> {
    let (names, numbers, ports) = (
        config.get_hosts(),
        config.get_hostaddrs(),
        config.get_ports(),
    );
    let count = names.len().max(numbers.len());
    let fits = |length: usize| length == 0 || length == count;
    if count == 0 || !fits(names.len()) || !fits(numbers.len()) {
        return None;
    }
    if ports.len() > 1 && ports.len() != count {
        return None;
    }
    let mut common = without_host(config);
    // Of several hosts only one takes writes, and reads must see what was just written.
    if count > 1 && config.get_target_session_attrs() == TargetSessionAttrs::Any {
        common.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
    let one = |position: usize| {
        let mut one = common.clone();
        match names.get(position) {
            Some(Host::Tcp(name)) => _ = one.host(name),
            Some(Host::Unix(path)) => _ = one.host_path(path),
            None => {}
        }
        if let Some(number) = numbers.get(position) {
            one.hostaddr(*number);
        }
        if let Some(port) = ports.get(position).or(ports.first()) {
            one.port(*port);
        }
        one
    };
    Some((0..count).map(one).collect())
}

/// The driver's configuration cannot forget a host, so everything else is copied.
fn without_host(config: &Config) -> Config {
    let mut copy = Config::new();
    if let Some(user) = config.get_user() {
        copy.user(user);
    }
    if let Some(password) = config.get_password() {
        copy.password(password);
    }
    if let Some(name) = config.get_dbname() {
        copy.dbname(name);
    }
    if let Some(options) = config.get_options() {
        copy.options(options);
    }
    if let Some(name) = config.get_application_name() {
        copy.application_name(name);
    }
    if let Some(limit) = config.get_connect_timeout() {
        copy.connect_timeout(*limit);
    }
    if let Some(limit) = config.get_tcp_user_timeout() {
        copy.tcp_user_timeout(*limit);
    }
    if let Some(interval) = config.get_keepalives_interval() {
        copy.keepalives_interval(interval);
    }
    if let Some(retries) = config.get_keepalives_retries() {
        copy.keepalives_retries(retries);
    }
    copy.keepalives(config.get_keepalives())
        .keepalives_idle(config.get_keepalives_idle())
        .ssl_mode(config.get_ssl_mode())
        .ssl_negotiation(config.get_ssl_negotiation())
        .target_session_attrs(config.get_target_session_attrs())
        .channel_binding(config.get_channel_binding());
    copy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_keeps_everything_else() {
        let all = "postgres://u:p%40%3Fs@a:1,b,[::1]:3/d?target_session_attrs=read-write\
            &pgbouncer=true&options=-c%20search_path%3Dx&application_name=n&connect_timeout=3\
            &tcp_user_timeout=4&keepalives_idle=5&keepalives_interval=6&keepalives_retries=7\
            &channel_binding=require&sslmode=require&sslnegotiation=direct";
        let address = PostgresAddress::parse(all).unwrap();
        assert!(address.is_pooled);
        let alone = ["a:1", "b:5432", "[::1]:3"].map(|host| {
            let one = all.replacen("a:1,b,[::1]:3", host, 1);
            let one = one.replacen("&pgbouncer=true", "", 1);
            Config::from_str(&one).unwrap()
        });
        // Nothing of an address is lost: the driver's configuration is equal to that of an address
        // with this host alone.
        assert_eq!(address.hosts, alone);
    }

    #[test]
    fn one_of_several_hosts_takes_writes() {
        for (url, expected) in [
            ("postgres://a/d", TargetSessionAttrs::Any),
            ("postgres://a,b/d", TargetSessionAttrs::ReadWrite),
            (
                "postgres://a,b/d?target_session_attrs=read-only",
                TargetSessionAttrs::ReadOnly,
            ),
        ] {
            let address = PostgresAddress::parse(url).unwrap();
            for host in &address.hosts {
                assert_eq!(host.get_target_session_attrs(), expected, "{url}");
                assert_eq!(host.get_hosts().len(), 1, "{url}");
            }
        }
    }

    #[test]
    fn the_pooler_is_named() {
        for (url, expected) in [
            ("postgres://a/d", false),
            ("postgres://a/d?pgbouncer=true", true),
            (
                "postgres://a/d?connect_timeout=3&pgbouncer=true&sslmode=require",
                true,
            ),
            ("postgres://a/d?pgbouncer=false", false),
            ("postgres://u:p?pgbouncer=true@a/d", false),
        ] {
            let address = PostgresAddress::parse(url).unwrap();
            assert_eq!(address.is_pooled, expected, "{url}");
        }
        for bad in [
            "postgres://a/d?pgbouncer",
            "postgres://a/d?pgbouncer=1",
            "postgres:///d",
            "postgres://a,b/d?port=1,2,3",
            "postgres://a,b/d?hostaddr=127.0.0.1",
        ] {
            let error = PostgresAddress::parse(bad).err();
            assert!(matches!(error, Some(StoreError::Invalid(_))), "{bad}");
        }
    }
}
