//! Asks a provider which models it offers.

use std::time::Duration;

use bytes::Bytes;
use codelab_protocol::ModelFailure;
use codelab_transport::TransportError;
use http::{Method, Request};
use http_body_util::Full;
use serde::Deserialize;
use serde_json::Value;

use super::{Provider, deadline::Expired};
use crate::answer::Defect;
use crate::provider_error::ProviderError;

/// A person waits for the list.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// OpenRouter's list, with descriptions, is about 1 MiB long.
const MAX_LIST_BYTES: usize = 8 * 1024 * 1024;
const MAX_NAME_BYTES: usize = 256;

/// A model as its provider lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedModel {
    pub id: String,
    /// The context window in tokens, where the provider says it.
    pub window: Option<u64>,
}

#[derive(Deserialize)]
struct WireList {
    data: Vec<WireModel>,
}

#[derive(Deserialize)]
struct WireModel {
    id: String,
    /// OpenRouter's name of the window, then vLLM's.
    #[serde(default)]
    context_length: Option<Value>,
    #[serde(default)]
    max_model_len: Option<Value>,
}

impl Provider {
    pub async fn list(&self) -> Result<Vec<ListedModel>, ModelFailure> {
        let callee = self.callee("");
        let limit = TIME_LIMIT.min(self.limits.timeout);
        let mut request = Request::new(Full::new(Bytes::new()));
        *request.method_mut() = Method::GET;
        *request.uri_mut() = self.models_uri.clone();
        *request.headers_mut() = self.headers.clone();
        let response = self.http.fetch(request, limit, MAX_LIST_BYTES).await;
        let failed = |mut failure: ModelFailure| {
            failure.details.clear();
            failure
        };
        let response = response.map_err(|error| {
            tracing::debug!(provider = %self.name, %error, "provider did not list its models");
            failed(match error {
                TransportError::Timeout { .. } => callee.timed_out(Expired::Total, limit),
                _ => callee.unavailable(),
            })
        })?;
        let status = response.status();
        if !status.is_success() {
            let body = String::from_utf8_lossy(response.body());
            let error = ProviderError::of_body(status.as_u16(), &body);
            return Err(failed(self.refused(&error, None, &callee)));
        }
        let list: WireList = serde_json::from_slice(response.body())
            .map_err(|_| failed(callee.defective(&Defect::NotAnAnswer)))?;
        let usable = |model: &WireModel| !model.id.is_empty() && model.id.len() <= MAX_NAME_BYTES;
        let models = list.data.into_iter().filter(usable);
        Ok(models
            .map(|model| ListedModel {
                window: [&model.context_length, &model.max_model_len]
                    .into_iter()
                    .find_map(|window| window.as_ref()?.as_u64()),
                id: model.id,
            })
            .collect())
    }
}
