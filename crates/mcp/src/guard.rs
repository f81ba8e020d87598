//! Stands between a server and the protocol's machinery: drops what nobody asked for, and stops
//! reading while too many of the server's requests are unanswered.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::RoleClient;
use rmcp::model::{
    ClientRequest, DiscoverRequestMethod, ErrorData, JsonRpcMessage, RequestId, ServerNotification,
    ServerResult,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Requests of a server that are not answered yet. Nothing more is read meanwhile.
const MAX_OPEN_REQUESTS: usize = 32;

/// A transport whose server cannot flood us.
pub struct GuardedTransport<T> {
    inner: T,
    requests: Arc<OpenRequests>,
    /// The question which versions the server knows.
    discover: Option<RequestId>,
    /// Nothing comes any more.
    _ended: DropGuard,
}

/// Requests of a server that wait for their answer.
#[derive(Default)]
struct OpenRequests {
    ids: Mutex<HashSet<RequestId>>,
    closed: Notify,
}

impl OpenRequests {
    fn ids(&self) -> MutexGuard<'_, HashSet<RequestId>> {
        // Nothing panics while it is held.
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, id: &RequestId) -> bool {
        self.ids().insert(id.clone())
    }

    fn close(&self, id: &RequestId) {
        self.ids().remove(id);
        self.closed.notify_one();
    }

    /// Waits while too many are open. Only one task waits.
    async fn room(&self) {
        while self.ids().len() >= MAX_OPEN_REQUESTS {
            self.closed.notified().await;
        }
    }
}

impl<T> GuardedTransport<T> {
    /// `ended` is cancelled when the transport is dropped, which is when nothing comes any more.
    pub fn new(inner: T, ended: CancellationToken) -> Self {
        Self {
            inner,
            requests: Arc::default(),
            discover: None,
            _ended: ended.drop_guard(),
        }
    }

    /// Older servers answer whatever they do not know with anything. That counts as an error.
    fn understood(
        &mut self,
        message: RxJsonRpcMessage<RoleClient>,
    ) -> RxJsonRpcMessage<RoleClient> {
        match message {
            JsonRpcMessage::Response(response)
                if self.discover.as_ref() == Some(&response.id)
                    && !matches!(response.result, ServerResult::DiscoverResult(_)) =>
            {
                let error = ErrorData::method_not_found::<DiscoverRequestMethod>();
                JsonRpcMessage::error(error, Some(response.id))
            }
            other => other,
        }
    }

    /// Whether anybody wants to see the message.
    fn passes(&self, message: &RxJsonRpcMessage<RoleClient>) -> bool {
        match message {
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => true,
            // A second request of the same id could not be answered.
            JsonRpcMessage::Request(request) => self.requests.open(&request.id),
            JsonRpcMessage::Notification(notification) => match &notification.notification {
                ServerNotification::CancelledNotification(cancelled) => {
                    if let Some(id) = &cancelled.params.request_id {
                        self.requests.close(id);
                    }
                    true
                }
                ServerNotification::ProgressNotification(_)
                | ServerNotification::ToolListChangedNotification(_)
                | ServerNotification::SubscriptionsAcknowledgedNotification(_) => true,
                _ => false,
            },
        }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for GuardedTransport<T> {
    type Error = T::Error;

    fn name() -> Cow<'static, str> {
        T::name()
    }

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        if let JsonRpcMessage::Request(request) = &item
            && matches!(request.request, ClientRequest::DiscoverRequest(_))
        {
            self.discover = Some(request.id.clone());
        }
        let answered = match &item {
            JsonRpcMessage::Response(response) => Some(response.id.clone()),
            JsonRpcMessage::Error(error) => error.id.clone(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        let requests = self.requests.clone();
        let sent = self.inner.send(item);
        async move {
            let sent = sent.await;
            if let Some(id) = answered {
                requests.close(&id);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            self.requests.room().await;
            let message = self.inner.receive().await?;
            if self.passes(&message) {
                return Some(self.understood(message));
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), T::Error>> + Send {
        self.inner.close()
    }
}
