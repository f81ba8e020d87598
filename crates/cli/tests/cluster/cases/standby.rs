//! The primary of PostgreSQL dies, and its synchronous standby is promoted.

use crate::fault::Fault;
use crate::installation::Installation;
use crate::rounds::Trial;
use crate::{is_wanted, new_seed};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_missing_after_a_failover() {
    if !is_wanted("nothing_acknowledged_is_missing_after_a_failover") {
        return;
    }
    let Some(installation) = Installation::with_standby(2).await else {
        return;
    };
    match Trial::on(installation, [new_seed(), 0], &[Fault::Failover]).await {
        Ok(summary) => println!("{summary}"),
        Err(failure) => panic!("{failure}"),
    }
}
