//! Who owns what: asked of the runtime, or of a script in tests.

use std::sync::Arc;

use codelab_protocol::{Digest, ProjectId, SessionId, UserId};
use codelab_runtime::{Claim, Destination, OwnedThing, RouteError};
use codelab_store::StoreError;

use crate::app::App;
use crate::error::ApiError;
use crate::routes::stored_default_project;

/// The decisions that forwarding rests on.
pub(crate) trait Routing: Clone + Send + Sync + 'static {
    /// Whether there is no other server, so that nothing is ever forwarded.
    fn is_alone(&self) -> bool;

    /// Whether the lease of this server has lapsed.
    fn is_paused(&self) -> bool;

    /// Whether that server is among the living ones.
    fn is_living(&self, server_id: &str) -> bool;

    fn route(
        &self,
        thing: &OwnedThing,
    ) -> impl Future<Output = Result<Destination, RouteError>> + Send;

    fn accept_forwarded(
        &self,
        thing: &OwnedThing,
    ) -> impl Future<Output = Result<Claim, RouteError>> + Send;

    fn forget_route(&self, thing: &OwnedThing);

    fn project_of_session(
        &self,
        session: &SessionId,
    ) -> impl Future<Output = Result<Option<ProjectId>, StoreError>> + Send;

    /// The project of an authorization that a person has begun, by its state.
    fn project_of_state(
        &self,
        hash: &Digest,
    ) -> impl Future<Output = Result<Option<ProjectId>, StoreError>> + Send;

    /// The project of sessions that name none.
    fn default_project(
        &self,
        user: UserId,
    ) -> impl Future<Output = Result<ProjectId, ApiError>> + Send;
}

impl Routing for Arc<App> {
    fn is_alone(&self) -> bool {
        self.runtime.is_alone()
    }

    fn is_paused(&self) -> bool {
        self.runtime.is_paused()
    }

    fn is_living(&self, server_id: &str) -> bool {
        self.runtime.is_living(server_id)
    }

    async fn route(&self, thing: &OwnedThing) -> Result<Destination, RouteError> {
        self.runtime.route(thing).await
    }

    async fn accept_forwarded(&self, thing: &OwnedThing) -> Result<Claim, RouteError> {
        self.runtime.accept_forwarded(thing).await
    }

    fn forget_route(&self, thing: &OwnedThing) {
        self.runtime.forget_route(thing);
    }

    async fn project_of_session(
        &self,
        session: &SessionId,
    ) -> Result<Option<ProjectId>, StoreError> {
        self.runtime.project_of_session(session).await
    }

    async fn project_of_state(&self, hash: &Digest) -> Result<Option<ProjectId>, StoreError> {
        let store = self.runtime.store();
        let now = codelab_runtime::now();
        store.project_of_mcp_authorization(hash, now).await
    }

    async fn default_project(&self, user: UserId) -> Result<ProjectId, ApiError> {
        let mine = self.runtime.store().of(user);
        let project = stored_default_project(self, &mine).await?;
        Ok(project.id())
    }
}
