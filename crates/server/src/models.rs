//! The models that this server has prices or settings for. Other models can be used too: only the
//! model server knows all of them.

use std::collections::BTreeSet;

use codelab_llm::{ModelDescription, PriceTable};

use crate::config::{DEFAULT_MODEL, LlmSettings};

pub(crate) struct KnownModels {
    /// The model of agents that name none.
    default: String,
    prices: PriceTable,
    /// In lower case.
    mapped: BTreeSet<String>,
    /// Every call goes to this model, whatever its name.
    overridden: Option<String>,
}

impl KnownModels {
    pub fn new(settings: &LlmSettings) -> Self {
        Self {
            default: settings
                .model
                .clone()
                .unwrap_or_else(|| DEFAULT_MODEL.to_owned()),
            prices: settings.prices.clone(),
            mapped: settings
                .model_map
                .keys()
                .map(|name| name.to_lowercase())
                .collect(),
            overridden: settings.model_override.clone(),
        }
    }

    pub fn default_model(&self) -> &str {
        &self.default
    }

    /// The model that answers for agents without one of their own, as people see it.
    pub fn shown(&self, described: ModelDescription) -> String {
        match (described.demo, &self.overridden) {
            (true, _) => described.label,
            (false, Some(model)) => model.clone(),
            (false, None) => self.default.clone(),
        }
    }

    /// Chosen as the default, mapped to another name, or priced.
    pub fn knows(&self, model: &str) -> bool {
        self.overridden.is_some()
            || model == self.default
            || self.mapped.contains(&model.to_lowercase())
            || self.prices.price(model).is_some()
    }
}
