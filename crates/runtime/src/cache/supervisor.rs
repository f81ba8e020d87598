//! The one task that keeps the link to Redis: connects, subscribes, pays what is owed, listens, and
//! starts again for ever when anything of it fails.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::{PubSubSink, PubSubStream};
use redis::{AsyncConnectionConfig, Client, RedisError, Value};
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use super::Shared;
use super::link::{LinkNumber, RedisLink};
use super::remote::{CHANNEL, Forget, Remote};
use crate::ids::random_u32;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// What a request may lose to Redis, once; the link is down afterwards.
const COMMAND_TIMEOUT: Duration = Duration::from_millis(250);
/// Together with its timeout under a second: so late is a silent connection noticed, and memory
/// dropped.
const HEARTBEAT: Duration = Duration::from_millis(500);
const HEARTBEAT_TIMEOUT: Duration = Duration::from_millis(400);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// A link that lasted so long starts the pauses anew.
const STEADY: Duration = Duration::from_secs(5);
/// Rounds of sending invalidations that became owed during the last round. The rest is left for the
/// next connection.
const MAX_PAYING_ROUNDS: usize = 10;

#[derive(Debug, thiserror::Error)]
enum LinkError {
    #[error("{0}")]
    Redis(#[from] RedisError),
    #[error("no answer in time")]
    Timeout(#[from] tokio::time::error::Elapsed),
    #[error("the subscription ended")]
    Unsubscribed,
    #[error("a command failed")]
    CommandFailed,
    #[error("too much is to be forgotten at once")]
    StillOwing,
}

struct Connected {
    number: LinkNumber,
    remote: Remote,
    subscription: PubSubSink,
    messages: PubSubStream,
}

/// `tried` is told after the first attempt, however it went.
pub(super) async fn supervise(
    client: Client,
    shared: Arc<Shared>,
    link: Arc<RedisLink>,
    tried: oneshot::Sender<()>,
) {
    let mut tried = Some(tried);
    let mut pause = FIRST_PAUSE;
    let mut told_outage = false;
    loop {
        let started = Instant::now();
        let result = connect(&client, &shared, &link).await;
        if let Some(tried) = tried.take() {
            let _ = tried.send(());
        }
        let why = match result {
            Ok(connected) => {
                tracing::info!("the agent cache is connected to Redis");
                told_outage = false;
                let number = connected.number;
                let why = listen(&shared, &link, connected).await;
                link.lower(number, &shared.memory, &shared.limits);
                if started.elapsed() >= STEADY {
                    pause = FIRST_PAUSE;
                }
                why
            }
            Err(why) => why,
        };
        if !told_outage {
            tracing::warn!(error = %why, "the agent cache has no Redis; agents are read from the database");
            told_outage = true;
        }
        sleep(jittered(pause)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Listening comes first, so that nothing is missed once memory starts to fill; then paying; only
/// then is the link up.
async fn connect(
    client: &Client,
    shared: &Shared,
    link: &RedisLink,
) -> Result<Connected, LinkError> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        .set_response_timeout(Some(COMMAND_TIMEOUT));
    let connection = timeout(
        CONNECT_TIMEOUT,
        client.get_multiplexed_async_connection_with_config(&config),
    )
    .await??;
    let remote = Remote::new(connection);
    let (mut subscription, messages) = timeout(CONNECT_TIMEOUT, client.get_async_pubsub())
        .await??
        .split();
    timeout(CONNECT_TIMEOUT, subscription.subscribe(CHANNEL)).await??;
    remote.ping().await?;
    let number = pay(shared, link, &remote).await?;
    Ok(Connected {
        number,
        remote,
        subscription,
        messages,
    })
}

async fn pay(shared: &Shared, link: &RedisLink, remote: &Remote) -> Result<LinkNumber, LinkError> {
    for _ in 0..MAX_PAYING_ROUNDS {
        let debts = link.debts();
        for (paid, debt) in debts.iter().enumerate() {
            if let Err(error) = remote.forget(debt).await {
                link.owe(&debts[paid..], &shared.memory, &shared.limits);
                return Err(error.into());
            }
        }
        if let Some(number) = link.raise(remote.clone(), &shared.memory, &shared.limits) {
            return Ok(number);
        }
    }
    Err(LinkError::StillOwing)
}

/// Until the link is lost; returns why.
async fn listen(shared: &Shared, link: &RedisLink, connected: Connected) -> LinkError {
    let Connected {
        number,
        remote,
        mut subscription,
        mut messages,
    } = connected;
    let mut heartbeat = interval(HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            message = messages.next() => match message {
                Some(message) => shared.forget_here(&Forget::from_message(message.get_payload_bytes())),
                None => return LinkError::Unsubscribed,
            },
            _ = heartbeat.tick() => {
                let pings = async { tokio::try_join!(remote.ping(), subscription.ping::<Value>()) };
                match timeout(HEARTBEAT_TIMEOUT, pings).await {
                    Ok(Ok(_)) => {}
                    Ok(Err(error)) => return error.into(),
                    Err(elapsed) => return elapsed.into(),
                }
            }
            () = link.fallen() => if !link.is_up(number) {
                return LinkError::CommandFailed;
            },
        }
    }
}

/// Between half of the pause and all of it, so that servers do not come back in step.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(0.5 + 0.5 * f64::from(random_u32()) / f64::from(u32::MAX))
}
