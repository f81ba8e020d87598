//! Looks at the workspace again and again, and takes up what a person trusted in the page.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use codelab_protocol::{CalledTool, Tool, TrustContent};
use tokio::time::sleep;

use super::{BroughtState, RunnerBrought};
use crate::trust::TrustError;
use crate::{RunnerState, ToolRunnerEvent, lock};

/// How soon a change of a known file is noticed, and a decision of the page.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Decisions that are remembered as tried.
const MAX_TRIED: usize = 256;

impl RunnerState {
    /// Reads the workspace for the first time. What it has is not news.
    pub(crate) async fn look_first(self: &Arc<Self>) {
        self.read_brought().await;
        self.mcp.note_taken_up(self.brought.state().mcp.as_ref());
    }

    async fn read_brought(self: &Arc<Self>) -> Option<Arc<BroughtState>> {
        let shared = Arc::clone(self);
        let looked = tokio::task::spawn_blocking(move || shared.brought.look(&shared)).await;
        let state = Arc::new(looked.ok()?);
        Some(self.brought.state.send_replace(state))
    }

    /// Reads the workspace again, and tells of what is different.
    pub(crate) async fn look(self: &Arc<Self>) {
        let Some(before) = self.read_brought().await else {
            return;
        };
        let state = self.brought.state();
        if *before == *state {
            return;
        }
        if let Some(file) = &state.mcp {
            self.take_up_servers(file).await;
        }
        let (known, counted) = (before.ids(), before.counted());
        let waiting = state.ids().into_iter().filter(|id| !known.contains(id));
        let waiting: Vec<String> = waiting.map(|(_, path, _)| path.to_owned()).collect();
        let now = state.counted().into_iter();
        let counted: Vec<String> = now
            .filter(|path| !counted.contains(path))
            .map(str::to_owned)
            .collect();
        if !waiting.is_empty() || !counted.is_empty() {
            self.emit(ToolRunnerEvent::Brought { waiting, counted });
        }
    }

    /// A call may have changed what the workspace brings.
    pub(crate) fn may_have_brought(&self, tool: &CalledTool) {
        let is_only_reading = matches!(
            tool,
            CalledTool::BuiltIn(Tool::ReadFile | Tool::ListFiles | Tool::SearchInCode)
        );
        if !is_only_reading {
            self.brought.is_stale.store(true, Ordering::Release);
            self.brought.wake.notify_one();
        }
    }

    /// A person trusts a content. Returns whether the workspace still had it.
    pub(crate) async fn trust_brought(
        self: &Arc<Self>,
        id: TrustContent,
    ) -> Result<bool, TrustError> {
        let shared = Arc::clone(self);
        let trusted = tokio::task::spawn_blocking(move || {
            let folders = lock(&shared.brought.folders).found.clone();
            let at = SystemTime::now().into();
            shared.brought.reader.trust(&folders, &id, at)
        });
        let trusted = trusted.await.unwrap_or(Ok(false))?;
        self.look().await;
        self.brought.wake.notify_one();
        Ok(trusted)
    }

    /// What a person decided in the page, for what waits here.
    async fn take_decisions(self: &Arc<Self>) {
        if self.brought.state().waiting.is_empty() {
            return;
        }
        let asked = self.client.trust_decisions(self.project, &self.client_id);
        let decisions = match asked.await {
            Ok(decisions) => decisions,
            Err(error) => {
                return tracing::debug!(%error, "asking for what a person trusted failed");
            }
        };
        for decision in decisions {
            let key = (
                decision.kind,
                decision.path.clone(),
                decision.digest.clone(),
            );
            let is_new = {
                let mut tried = lock(&self.brought.tried);
                if tried.len() >= MAX_TRIED {
                    tried.clear();
                }
                tried.insert(key.clone())
            };
            if !is_new {
                continue;
            }
            let path = decision.path.clone();
            match self.trust_brought(decision).await {
                Ok(true) => {}
                Ok(false) => {
                    tracing::info!(
                        path,
                        "a content changed before it was trusted, it waits again"
                    );
                }
                Err(error) => {
                    tracing::warn!(path, %error, "what a person trusted cannot be stored, it is tried again");
                    lock(&self.brought.tried).remove(&key);
                }
            }
        }
    }
}

impl RunnerBrought {
    fn look(&self, shared: &RunnerState) -> BroughtState {
        let mut folders = lock(&self.folders);
        if folders.is_due(self.is_stale.load(Ordering::Acquire)) {
            self.is_stale.store(false, Ordering::Release);
            let begun = Instant::now();
            folders.found = self.reader.folders_until(&shared.stop);
            folders.walked = Some((Instant::now(), begun.elapsed()));
        }
        self.reader.state(&folders.found)
    }
}

/// Until the tool runner stops.
pub(crate) async fn follow(shared: Arc<RunnerState>) {
    loop {
        tokio::select! {
            () = sleep(LOOK_EVERY) => {}
            () = shared.brought.wake.notified() => {}
        }
        shared.look().await;
        shared.take_decisions().await;
        if let Err(error) = shared.report_brought().await
            && !error.is_passing()
        {
            // The client is not attached, or the server does not know of this. The next time that it
            // attaches, the server says whether it wants the report.
            tracing::debug!(%error, "report of the workspace refused");
            let digest = shared.brought.state().report().digest();
            *lock(&shared.brought.sent) = Some(digest);
        }
    }
}
