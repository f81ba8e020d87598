//! All models that can be called: chooses the provider by the model's name, and another model when
//! one cannot answer.
//!
//! `availability` remembers which models cannot answer now, `listing` asks providers what they
//! offer, `honesty` finds what a server did silently.

mod availability;
mod honesty;
mod listing;

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use codelab_protocol::{
    AnswerCut, ModelFailure, ModelFailureKind, ModelList, ModelOutput, ModelRequest, Reasoning,
};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::answer::{Finish, ModelAnswer};
use crate::client::{CallDeadline, CallError, CallState, Persistence, Provider, ServerClock};
use crate::config::{DEFAULT_PROVIDER, ModelConfigError, ModelsConfig};
use crate::files::has_images;
use crate::shape::Shape;
use crate::window::facts;
use crate::{Model, ModelDescription, Price, StreamListener, StreamedPart};
use availability::Availability;
use listing::ListCache;

/// A request tries at most this many models.
const MAX_MODELS_PER_CALL: usize = 9;

/// The providers of this server, and what is known about their models.
pub struct Models {
    config: ModelsConfig,
    providers: BTreeMap<String, Provider>,
    availability: Availability,
    list: ListCache,
}

/// The result of a call that only tries whether the model works.
#[derive(Debug)]
pub struct Trial {
    pub outcome: Result<ModelOutput, ModelFailure>,
    /// `None` if there was no answer, or the answer had no `Date`.
    pub clock: Option<ServerClock>,
}

/// Where a model is called.
struct Route<'a> {
    /// The name as it is configured: before `model_map`.
    asked: &'a str,
    provider: &'a Provider,
    /// The name that the provider knows.
    model: &'a str,
}

/// The model that a request asks for.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    /// The name as it is configured.
    asked: &'a str,
    has_provider: bool,
}

impl Route<'_> {
    /// The name that is really called, with its provider.
    fn called(&self) -> String {
        self.provider.callee(self.model).full_name()
    }
}

impl Models {
    pub fn new(config: ModelsConfig) -> Result<Self, ModelConfigError> {
        config.limits.check()?;
        let providers = config
            .providers
            .iter()
            .map(|(name, provider)| {
                let provider = Provider::new(name, provider, config.limits, &config.network)?;
                Ok((name.clone(), provider))
            })
            .collect::<Result<_, ModelConfigError>>()?;
        let models = Self {
            config,
            providers,
            availability: Availability::default(),
            list: ListCache::default(),
        };
        models.check_names()?;
        Ok(models)
    }

    /// Every configured name must lead to a provider.
    fn check_names(&self) -> Result<(), ModelConfigError> {
        let config = &self.config;
        let is_named = config.default_model.is_some() || config.model_override.is_some();
        if !is_named && !self.providers.contains_key(DEFAULT_PROVIDER) {
            return Err(ModelConfigError::NoDefault);
        }
        let default = config
            .default_model
            .iter()
            .map(|model| ("LLM_MODEL", model));
        let forced = config.model_override.iter();
        let fallbacks = config.fallback_models.iter();
        let named = default
            .chain(forced.map(|model| ("LLM_MODEL_OVERRIDE", model)))
            .chain(fallbacks.map(|model| ("llm.fallback_models", model)));
        for (setting, model) in named {
            if self.route(model).is_none() {
                return Err(ModelConfigError::NoProvider {
                    setting: setting.to_owned(),
                    model: model.clone(),
                });
            }
        }
        Ok(())
    }

    /// Makes one call, and reads the server's clock from the answer.
    pub async fn trial(&self, request: &ModelRequest) -> Trial {
        let mut hear = |_: StreamedPart<'_>| {};
        let mut state = self.state(&mut hear);
        let outcome = self.answer(request, &mut state).await;
        Trial {
            outcome,
            clock: state.clock,
        }
    }

    fn state<'a, 'h>(&self, hear: &'a mut StreamListener<'h>) -> CallState<'a, 'h> {
        let limits = &self.config.limits;
        CallState {
            deadline: CallDeadline::new(limits.timeout, limits.idle_timeout),
            hear,
            clock: None,
        }
    }

    /// The way to a model. `None` if its name leads to no provider.
    fn route<'a>(&'a self, asked: &'a str) -> Option<Route<'a>> {
        let wire = self.config.mapped(asked);
        let headed = wire
            .split_once('/')
            .and_then(|(head, model)| Some((self.providers.get(head)?, model)));
        let (provider, model) = match headed {
            Some((provider, model)) => (provider, model),
            None => (self.providers.get(DEFAULT_PROVIDER)?, wire),
        };
        Some(Route {
            asked,
            provider,
            model,
        })
    }

    /// The models to try, the requested one first. `LLM_MODEL` is not among them.
    fn routes<'a>(&'a self, request: &'a ModelRequest) -> Vec<Route<'a>> {
        if let Some(forced) = &self.config.model_override {
            return self.route(forced).into_iter().collect();
        }
        let fallbacks = match request.fallback_models.is_empty() {
            true => &self.config.fallback_models,
            false => &request.fallback_models,
        };
        let mut routes: Vec<Route<'a>> = Vec::new();
        for asked in std::iter::once(&request.model).chain(fallbacks) {
            let Some(route) = self.route(asked) else {
                continue;
            };
            let is_new = routes.iter().all(|other| {
                (&other.provider.name, other.model) != (&route.provider.name, route.model)
            });
            if is_new && routes.len() < MAX_MODELS_PER_CALL {
                routes.push(route);
            }
        }
        routes
    }

    /// `LLM_MODEL`, where a provider does not know the requested model.
    fn substitute<'a>(&'a self, routes: &[Route<'a>]) -> Option<Route<'a>> {
        if self.config.model_override.is_some() {
            return None;
        }
        let route = self.route(self.config.default_model.as_deref()?)?;
        let called = route.called();
        routes
            .iter()
            .all(|other| other.called() != called)
            .then_some(route)
    }

    async fn answer(
        &self,
        request: &ModelRequest,
        state: &mut CallState<'_, '_>,
    ) -> Result<ModelOutput, ModelFailure> {
        let mut routes = self.routes(request);
        let Some(wanted) = routes.first().map(|first| self.wanted(request, first)) else {
            return Err(no_provider(&request.model));
        };
        let takes_images = |route: &Route<'_>| self.takes_images_at(route);
        // What was asked about an image is not answered by a model that cannot see it.
        let needs_images = has_images(request) && routes.first().is_some_and(takes_images);
        if needs_images {
            routes.retain(takes_images);
        }
        let substitute = self
            .substitute(&routes)
            .filter(|route| !needs_images || takes_images(route));
        let chain = routes.len();
        routes.extend(substitute);
        let names: Vec<String> = routes.iter().map(Route::called).collect();
        let mut queue = self.availability.order(&names, chain, Instant::now());
        let mut from = wanted.asked;
        let mut kind = match wanted.has_provider {
            true => self.availability.reason(&names[0], Instant::now()),
            false => Some(ModelFailureKind::UnknownModel),
        };
        while let Some(position) = queue.pop_front() {
            let (route, name) = (&routes[position], &names[position]);
            if let Some(kind) = kind.filter(|_| route.asked != from) {
                let to = route.asked;
                (state.hear)(StreamedPart::Fallback { from, to, kind });
            }
            let persistence = match queue.is_empty() {
                true => Persistence::Retry,
                false => Persistence::OneAttempt,
            };
            let mut shape = self.availability.shape(name, route.model);
            shape.images = takes_images(route);
            let called = route.provider.call(request, &mut shape, persistence, state);
            let error = match called.await {
                Ok(answer) if is_withheld(&answer) => withheld(route),
                Ok(answer) => {
                    let refused_images = takes_images(route) && !shape.images;
                    self.availability.works(name, shape);
                    let mut output = self.output(answer, request, route, wanted, kind);
                    output
                        .warnings
                        .extend(refused_images.then(|| images_refused(route.asked)));
                    return Ok(output);
                }
                Err(error) => error,
            };
            self.failed(name, &route.provider.name, &error, request);
            kind = error.failure.kind;
            let may_go_on = error.unheard
                && match kind {
                    Some(ModelFailureKind::UnknownModel) => {
                        next_after_unknown(&mut queue, position, chain, routes.len());
                        true
                    }
                    Some(kind) => kind.falls_back(),
                    None => false,
                };
            if !may_go_on || queue.is_empty() {
                return Err(error.failure);
            }
            from = route.asked;
        }
        Err(no_provider(&request.model))
    }

    fn takes_images_at(&self, route: &Route<'_>) -> bool {
        let known = facts(&self.config.facts, &route.called());
        known.images.unwrap_or(true)
    }

    /// What the person asked for. A model without a provider is like one that its provider does not
    /// know.
    fn wanted<'a>(&'a self, request: &'a ModelRequest, first: &Route<'a>) -> Wanted<'a> {
        let has_provider =
            self.config.model_override.is_some() || self.route(&request.model).is_some();
        if !has_provider {
            tracing::warn!(agent = %request.agent, model = %request.model, "model names no provider, asking a fallback model");
        }
        Wanted {
            asked: match has_provider {
                true => first.asked,
                false => &request.model,
            },
            has_provider,
        }
    }

    fn failed(&self, name: &str, provider: &str, error: &CallError, request: &ModelRequest) {
        let failure = &error.failure;
        let kind = failure.kind.map_or("", ModelFailureKind::as_str);
        let status = failure
            .details
            .get("status")
            .and_then(|status| status.as_u64());
        let said = failure.provider_message.as_deref().unwrap_or_default();
        tracing::warn!(agent = %request.agent, model = %name, %provider, kind, status, provider_message = %said, "model call failed");
        if let Some(kind) = failure.kind {
            self.availability
                .failed(name, kind, error.wait, Instant::now());
        }
    }

    fn output(
        &self,
        answer: ModelAnswer,
        request: &ModelRequest,
        route: &Route<'_>,
        wanted: Wanted<'_>,
        kind: Option<ModelFailureKind>,
    ) -> ModelOutput {
        let called = route.called();
        let mut warnings = Vec::new();
        if route.asked != wanted.asked {
            warnings.push(replaced(wanted, route.asked, kind));
        }
        let cut = (answer.finish == Finish::TokenLimit).then_some(AnswerCut {
            max_tokens: request.max_tokens,
        });
        if let Some(cut) = cut {
            warnings.push(cut_short(cut));
        }
        if answer.finish == Finish::Filtered {
            warnings.push("The model server withheld a part of the answer.".to_owned());
        }
        if answer.finish == Finish::Paused {
            warnings
                .push("The model paused before the end of its answer. Ask it to go on.".to_owned());
        }
        let usage = answer.usage.map(|mut usage| {
            usage.cost_usd = self.config.prices.cost(&called, &usage);
            usage.model = Some(route.asked.to_owned());
            usage
        });
        let reasoning =
            (!answer.reasoning.is_empty() || !answer.opaque_reasoning.is_null()).then(|| {
                Box::new(Reasoning {
                    text: answer.reasoning,
                    provider: route.provider.name.clone(),
                    model: Some(route.model.to_owned()),
                    opaque: answer.opaque_reasoning,
                })
            });
        let mut output = ModelOutput {
            text: answer.text,
            tool_calls: answer.tool_calls,
            usage,
            reasoning,
            cut,
            warnings,
        };
        honesty::check(request, &mut output);
        output
    }
}

impl Model for Models {
    fn call<'a>(
        &'a self,
        request: &'a ModelRequest,
        hear: &'a mut StreamListener<'a>,
    ) -> BoxFuture<'a, Result<ModelOutput, ModelFailure>> {
        async move { self.answer(request, &mut self.state(hear)).await }.boxed()
    }

    fn try_once<'a>(
        &'a self,
        request: &'a ModelRequest,
    ) -> BoxFuture<'a, Result<(), ModelFailure>> {
        Box::pin(async move {
            let Some(route) = self.route(&request.model) else {
                return Err(no_provider(&request.model));
            };
            let mut hear = |_: StreamedPart<'_>| {};
            let mut state = self.state(&mut hear);
            let mut shape = Shape::new(route.model);
            // Its budget would come on top of the answer's tokens.
            shape.thinking = false;
            let attempt = Persistence::OneAttempt;
            let called = route
                .provider
                .call(request, &mut shape, attempt, &mut state);
            called.await.map(drop).map_err(|error| error.failure)
        })
    }

    fn price(&self, asked: &str) -> Option<Price> {
        let asked = self.config.model_override.as_deref().unwrap_or(asked);
        self.config.prices.price(&self.route(asked)?.called())
    }

    fn window(&self, asked: &str) -> Option<u64> {
        let asked = self.config.model_override.as_deref().unwrap_or(asked);
        facts(&self.config.facts, &self.route(asked)?.called()).window
    }

    fn takes_images(&self, asked: &str) -> bool {
        let asked = self.config.model_override.as_deref().unwrap_or(asked);
        self.route(asked)
            .is_none_or(|route| self.takes_images_at(&route))
    }

    fn models(&self) -> BoxFuture<'_, ModelList> {
        self.listed().boxed()
    }

    fn describe(&self) -> ModelDescription {
        let config = &self.config;
        let named = config
            .model_override
            .as_ref()
            .or(config.default_model.as_ref());
        let label = named.map_or_else(|| "as each agent says".to_owned(), String::clone);
        ModelDescription { label, demo: false }
    }
}

/// The substitute at `chain`, if there is one, takes the place of the requested model when its provider
/// does not know that. It comes last when a fallback is not known.
fn next_after_unknown(queue: &mut VecDeque<usize>, position: usize, chain: usize, all: usize) {
    let has_substitute = chain < all && position < chain && !queue.contains(&chain);
    match position {
        0 if has_substitute => queue.push_front(chain),
        _ if has_substitute && queue.is_empty() => queue.push_back(chain),
        _ => {}
    }
}

/// Whether the provider's content filter left nothing of the answer.
fn is_withheld(answer: &ModelAnswer) -> bool {
    answer.finish == Finish::Filtered
        && answer.text.trim().is_empty()
        && answer.tool_calls.is_empty()
}

fn withheld(route: &Route<'_>) -> CallError {
    let callee = route.provider.callee(route.model);
    let refused = callee.refused(ModelFailureKind::ContentFilter, None, None, None);
    CallError {
        failure: ModelFailure {
            message: "The content filter of the model server withheld the answer.".to_owned(),
            ..refused
        },
        unheard: false,
        wait: None,
    }
}

fn replaced(wanted: Wanted<'_>, called: &str, kind: Option<ModelFailureKind>) -> String {
    let Wanted {
        asked: wanted,
        has_provider,
    } = wanted;
    match kind {
        _ if !has_provider => {
            format!("\"{wanted}\" names no provider; \"{called}\" answered instead.")
        }
        Some(ModelFailureKind::UnknownModel) | None => {
            format!("The model server does not know \"{wanted}\"; \"{called}\" answered instead.")
        }
        Some(kind) => format!(
            "\"{wanted}\" could not answer ({}); \"{called}\" answered instead.",
            kind.as_str()
        ),
    }
}

fn images_refused(model: &str) -> String {
    format!(
        "The model server refused an image, so \"{model}\" was told only the names of the images. \
         Send them smaller or in another format. If the model takes no images, set \
         models.<name>.images to false."
    )
}

fn cut_short(cut: AnswerCut) -> String {
    match cut.max_tokens {
        Some(tokens) => format!("The answer was cut short at its token limit of {tokens} tokens."),
        None => "The answer was cut short at the token limit of the model.".to_owned(),
    }
}

fn no_provider(model: &str) -> ModelFailure {
    let message = format!(
        "The model \"{model}\" names no provider, and no default provider is set. Choose a model \
         whose name begins with a provider, or set LLM_PROXY_URL."
    );
    ModelFailure {
        kind: Some(ModelFailureKind::UnknownModel),
        details: serde_json::Map::from_iter([("model".to_owned(), model.into())]),
        ..ModelFailure::not_called(codelab_protocol::ErrorCode::LlmError, message)
    }
}
