//! The model of the running server, whose settings need not be those of this shell.

use anyhow::Context as _;
use codelab_client::{Client, Credentials};
use codelab_llm::{DemoModel, Model as _};
use codelab_protocol::{ModelTried, UserId};
use codelab_server::{Identity, living_url};
use tokio::time::timeout;

use super::Subject;
use super::report::DoctorFinding;
use crate::commands::local_token;

const CHECK: &str = "model";
/// The token is used once, at once.
const TOKEN_SECONDS: u64 = 60;
/// Whoever set up the data folder.
const USER: i64 = 1;

/// `None` where no server runs, or where its model is the demonstration.
pub async fn check(subject: &Subject) -> Option<DoctorFinding> {
    let url = living_url(&subject.settings.data_dir)?;
    let model = timeout(subject.limit / 2, named(&url)).await.ok()??;
    let tried = timeout(subject.limit, tried(subject, &url, &model)).await;
    Some(match tried {
        Ok(Ok(tried)) => judge(&url, &model, &tried),
        Ok(Err(error)) => not_tried(&url, &model, &format!("{error:#}")),
        Err(_) => not_tried(&url, &model, "no answer in time"),
    })
}

async fn named(url: &str) -> Option<String> {
    let health = Client::new(url, Credentials::None).ok()?.health().await;
    let model = health.ok()?.checks.get("model")?.detail.clone()?;
    (model != DemoModel::default().describe().label).then_some(model)
}

/// The address is that of this data folder's own server, so the token goes to nobody else.
async fn tried(subject: &Subject, url: &str, model: &str) -> anyhow::Result<ModelTried> {
    let user = UserId::new(USER).context("users have positive numbers")?;
    let token = local_token(&subject.settings, &Identity::of(user), TOKEN_SECONDS)?;
    let client = Client::new(url, Credentials::Bearer(token))?;
    Ok(client.try_model(model).await?)
}

fn judge(url: &str, model: &str, tried: &ModelTried) -> DoctorFinding {
    if tried.ok {
        let found = format!("{model}, the model of the running server at {url}, answered.");
        return DoctorFinding::ok(CHECK, found);
    }
    let why = tried.detail.as_deref().unwrap_or("it does not say why");
    DoctorFinding::problem(
        CHECK,
        format!("{model}, the model of the running server at {url}, does not answer: {why}"),
        "Correct the setting where the server is started (LLM_PROXY_URL, LLM_MODEL, LLM_API_KEY), \
         and restart the server.",
    )
}

fn not_tried(url: &str, model: &str, why: &str) -> DoctorFinding {
    DoctorFinding::warning(
        CHECK,
        format!("The running server at {url} uses {model}, which could not be tried: {why}."),
        "Run `codelab doctor` with the settings of the server.",
    )
}
