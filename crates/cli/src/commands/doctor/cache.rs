//! Redis, where one is configured. Without it, or while it is away, agents are read from the
//! database.

use std::sync::Arc;

use codelab_runtime::{RedisUnusable, ping_redis};

use super::Subject;
use super::report::DoctorFinding;

const CHECK: &str = "cache";
const WITHOUT: &str = "A server works without it, more slowly.";

pub async fn check(subject: Arc<Subject>) -> DoctorFinding {
    let Some(url) = &subject.settings.spaces.redis_url else {
        return DoctorFinding::ok(CHECK, "In the server's memory; no Redis is configured.");
    };
    let (location, from) = (subject.shown("redis.url"), subject.origin_of("redis.url"));
    let setting = subject.place_of("redis.url", "REDIS_URL");
    match ping_redis(url.expose(), subject.limit).await {
        Ok(version) => {
            let version = version
                .map(|version| format!(" {version}"))
                .unwrap_or_default();
            DoctorFinding::ok(
                CHECK,
                format!("Redis{version} at {location}{from} answers."),
            )
        }
        Err(error @ RedisUnusable::Url(_)) => DoctorFinding::problem(
            CHECK,
            format!("{error}."),
            format!("Correct {setting}: a server does not start with it."),
        ),
        Err(RedisUnusable::Refused) => DoctorFinding::warning(
            CHECK,
            format!("Redis at {location}{from} refuses the user or the password. {WITHOUT}"),
            format!("Correct them in {setting}."),
        ),
        Err(RedisUnusable::Failed(why)) => DoctorFinding::warning(
            CHECK,
            format!("Redis at {location}{from} cannot be used: {why}. {WITHOUT}"),
            format!("Start Redis, or correct or remove {setting}."),
        ),
        Err(RedisUnusable::Silent) => DoctorFinding::warning(
            CHECK,
            format!("Redis at {location}{from} does not answer. {WITHOUT}"),
            format!("Start Redis, or correct or remove {setting}."),
        ),
    }
}
