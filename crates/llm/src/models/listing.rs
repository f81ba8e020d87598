//! What the providers offer.

use std::time::{Duration, Instant};

use codelab_protocol::{ModelList, OfferedModel, UnlistedProvider};
use futures_util::future::join_all;
use tokio::sync::Mutex;

use super::Models;
use crate::client::{ListedModel, Provider};
use crate::config::DEFAULT_PROVIDER;
use crate::window::facts;

/// A list is asked for again after this time, so that people who look at it often do not load the
/// providers.
const KEPT_FOR: Duration = Duration::from_secs(60);
/// A provider that failed may answer at the next look.
const KEPT_INCOMPLETE_FOR: Duration = Duration::from_secs(10);
const MAX_MODELS_PER_PROVIDER: usize = 2000;

#[derive(Default)]
pub struct ListCache {
    /// Held while the providers are asked, so that one request does it for all.
    kept: Mutex<Option<(Instant, ModelList)>>,
}

impl Models {
    pub(super) async fn listed(&self) -> ModelList {
        let mut kept = self.list.kept.lock().await;
        if let Some((since, list)) = &*kept {
            let kept_for = match list.unavailable.is_empty() {
                true => KEPT_FOR,
                false => KEPT_INCOMPLETE_FOR,
            };
            if since.elapsed() < kept_for {
                return list.clone();
            }
        }
        let lists = self
            .providers
            .values()
            .map(|provider| self.listed_by(provider));
        let mut list = ModelList::default();
        for offered in join_all(lists).await {
            match offered {
                Ok(models) => list.models.extend(models),
                Err(provider) => list.unavailable.push(provider),
            }
        }
        *kept = Some((Instant::now(), list.clone()));
        list
    }

    async fn listed_by(&self, provider: &Provider) -> Result<Vec<OfferedModel>, UnlistedProvider> {
        let mut listed = provider.list().await.map_err(|failure| UnlistedProvider {
            provider: provider.name.clone(),
            kind: failure
                .kind
                .unwrap_or(codelab_protocol::ModelFailureKind::Nonsense),
            message: failure.message,
        })?;
        listed.sort_by(|a, b| a.id.cmp(&b.id));
        listed.truncate(MAX_MODELS_PER_PROVIDER);
        Ok(listed
            .into_iter()
            .map(|model| self.offered(provider, model))
            .collect())
    }

    fn offered(&self, provider: &Provider, listed: ListedModel) -> OfferedModel {
        let model = provider.callee(&listed.id).full_name();
        // A name that would be read as another provider's needs this one's before it.
        let is_ambiguous = provider.name == DEFAULT_PROVIDER
            && listed
                .id
                .split_once('/')
                .is_some_and(|(head, _)| self.providers.contains_key(head));
        let known = facts(&self.config.facts, &model);
        OfferedModel {
            price: self.config.prices.price(&model).map(Into::into),
            window: known.window.or(listed.window),
            images: known.images,
            model: match is_ambiguous {
                true => format!("{DEFAULT_PROVIDER}/{model}"),
                false => model,
            },
            provider: provider.name.clone(),
        }
    }
}
