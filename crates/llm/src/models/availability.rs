//! Remembers which models cannot answer now, and which requests a provider accepts. Nothing here is
//! stored: a new server learns it again.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use codelab_protocol::ModelFailureKind;

use crate::shape::Shape;

/// The rest of a model whose provider announced no wait. It doubles with each failure.
const FIRST_REST: Duration = Duration::from_secs(5);
const MAX_REST: Duration = Duration::from_secs(300);
/// A provider that announces a longer wait is asked again after this time.
const MAX_ANNOUNCED_REST: Duration = Duration::from_secs(24 * 3600);
/// How long a model counts as unknown.
const UNKNOWN_FOR: Duration = Duration::from_secs(300);
/// More models are not remembered. Names come from people.
const MAX_REMEMBERED: usize = 256;

#[derive(Default)]
pub struct Availability {
    models: Mutex<HashMap<String, Remembered>>,
}

#[derive(Default)]
struct Remembered {
    rest: Option<Rest>,
    /// What the provider refused is not sent again.
    shape: Option<Shape>,
}

#[derive(Clone, Copy)]
struct Rest {
    until: Instant,
    kind: ModelFailureKind,
    failures: u32,
}

impl Availability {
    /// The positions of the names to try, in order. The first `chain` names are the request's own;
    /// one more may follow, which only takes the place of a model that is not known.
    ///
    /// Models that rest are left out. If all of them rest, the one whose rest ends first is tried.
    pub fn order(&self, names: &[String], chain: usize, now: Instant) -> VecDeque<usize> {
        let models = self.lock();
        let rest = |position: usize| {
            let rest = models.get(&names[position])?.rest?;
            (rest.until > now).then_some(rest)
        };
        let is_unknown = |position| {
            rest(position).is_some_and(|rest| rest.kind == ModelFailureKind::UnknownModel)
        };
        let substitute = (chain..names.len()).next();
        // The requested model is not known, so its substitute stands in its place.
        let replaced = substitute.filter(|position| is_unknown(0) && rest(*position).is_none());
        let ready: VecDeque<usize> = replaced
            .into_iter()
            .chain((0..chain).filter(|position| rest(*position).is_none()))
            .collect();
        if !ready.is_empty() {
            return ready;
        }
        let known = (0..chain).filter(|position| !is_unknown(*position));
        let soonest = known.min_by_key(|position| rest(*position).map(|rest| rest.until));
        // A model that nobody can replace is asked even if it was not known: it may be there now.
        soonest
            .or(substitute)
            .or((chain > 0).then_some(0))
            .into_iter()
            .collect()
    }

    /// Why a model rests, if it does.
    pub fn reason(&self, name: &str, now: Instant) -> Option<ModelFailureKind> {
        let rest = self.lock().get(name)?.rest?;
        (rest.until > now).then_some(rest.kind)
    }

    /// The request that the provider accepted last time.
    pub fn shape(&self, name: &str, model: &str) -> Shape {
        let known = self.lock().get(name).and_then(|known| known.shape.clone());
        known.unwrap_or_else(|| Shape::new(model))
    }

    pub fn works(&self, name: &str, mut shape: Shape) {
        // These were refused because of the messages of one request. The next may be fine.
        (shape.reasoning, shape.thinking, shape.images) = (true, true, true);
        let mut models = self.lock();
        // Most models need no entry at all.
        let is_plain = shape == Shape::new(&shape.model);
        if is_plain && !models.contains_key(name) {
            return;
        }
        if let Some(known) = entry(&mut models, name, Instant::now()) {
            known.rest = None;
            known.shape = (!is_plain).then_some(shape);
        }
    }

    /// `wait` is the time that the provider announced.
    pub fn failed(&self, name: &str, kind: ModelFailureKind, wait: Option<Duration>, now: Instant) {
        if !kind.falls_back() && kind != ModelFailureKind::UnknownModel {
            return;
        }
        let mut models = self.lock();
        let Some(known) = entry(&mut models, name, now) else {
            return;
        };
        // Calls that were made at the same time fail together, and count once.
        let running = known.rest.filter(|rest| rest.until > now);
        let failures = match running {
            Some(rest) => rest.failures.saturating_sub(1),
            None => known.rest.map_or(0, |rest| rest.failures),
        };
        let growing = FIRST_REST.saturating_mul(2_u32.saturating_pow(failures));
        let rest = match kind {
            ModelFailureKind::UnknownModel => UNKNOWN_FOR,
            _ => wait.map_or(growing.min(MAX_REST), |wait| wait.min(MAX_ANNOUNCED_REST)),
        };
        let until = running.map_or(now + rest, |running| running.until.max(now + rest));
        known.rest = Some(Rest {
            until,
            kind,
            failures: failures.saturating_add(1),
        });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Remembered>> {
        self.models.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The entry of a model. `None` if there is no room, even without those that rest no more.
fn entry<'a>(
    models: &'a mut HashMap<String, Remembered>,
    name: &str,
    now: Instant,
) -> Option<&'a mut Remembered> {
    if models.len() >= MAX_REMEMBERED && !models.contains_key(name) {
        models.retain(|_, known| known.rest.is_some_and(|rest| rest.until > now));
        if models.len() >= MAX_REMEMBERED {
            return None;
        }
    }
    Some(models.entry(name.to_owned()).or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn models_rest_longer_with_each_failure_and_as_long_as_announced() {
        let seen = Availability::default();
        let (chain, now) = (names(&["a", "b"]), Instant::now());
        let first = |at| seen.order(&chain, 2, at)[0];
        assert_eq!(first(now), 0);
        seen.failed("a", ModelFailureKind::Overloaded, None, now);
        assert_eq!((first(now), first(now + FIRST_REST)), (1, 0));
        seen.failed("a", ModelFailureKind::Overloaded, None, now);
        assert_eq!(first(now + FIRST_REST), 0, "both failed at the same time");
        let now = now + FIRST_REST;
        seen.failed("a", ModelFailureKind::Overloaded, None, now);
        assert_eq!(
            (first(now + FIRST_REST), first(now + FIRST_REST * 2)),
            (1, 0)
        );
        let wait = 2 * MAX_REST;
        seen.failed("a", ModelFailureKind::RateLimit, Some(wait), now);
        assert_eq!((first(now + FIRST_REST * 4), first(now + wait)), (1, 0));
        seen.works("a", Shape::new("a"));
        assert_eq!(first(now), 0);
        for kind in [ModelFailureKind::WrongKey, ModelFailureKind::ContextTooLong] {
            seen.failed("a", kind, None, now);
            assert_eq!(first(now), 0, "{kind:?} says nothing about the next call");
        }
    }

    #[test]
    fn when_all_rest_the_one_that_is_back_first_is_tried() {
        let seen = Availability::default();
        let (chain, now) = (names(&["a", "b", "LLM_MODEL"]), Instant::now());
        let (long, short) = (Duration::from_secs(9), Duration::from_secs(3));
        seen.failed("a", ModelFailureKind::RateLimit, Some(long), now);
        seen.failed("b", ModelFailureKind::RateLimit, Some(short), now);
        assert_eq!(seen.order(&chain, 2, now), [1]);
        seen.failed("b", ModelFailureKind::UnknownModel, None, now);
        assert_eq!(seen.order(&chain, 2, now), [0]);
        seen.failed("a", ModelFailureKind::UnknownModel, None, now);
        assert_eq!(seen.order(&chain, 2, now), [2]);
        assert_eq!(seen.order(&chain, 2, now + short), [2]);
        let other = names(&["a", "c", "LLM_MODEL"]);
        assert_eq!(seen.order(&other, 2, now), [2, 1], "before any fallback");
        assert_eq!(seen.order(&chain[..2], 2, now), [0], "nobody else is there");
    }

    #[test]
    fn names_that_people_invent_do_not_fill_the_memory() {
        let seen = Availability::default();
        for number in 0..2 * MAX_REMEMBERED {
            seen.failed(
                &format!("{number}"),
                ModelFailureKind::UnknownModel,
                None,
                Instant::now(),
            );
        }
        assert_eq!(seen.lock().len(), MAX_REMEMBERED);
    }
}
