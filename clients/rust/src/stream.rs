//! Streams that resume: what the service has not acknowledged when a connection ends is sent again on the next one, in the
//! same order and under the same keys. A task works while there is a connection, or something to send.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_util::{Stream, stream};
use prost::Message;
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tonic::{Code, Request, Response, Status};

use crate::bulk::fill_key;
use crate::call::{Attempts, ascii};
use crate::channel::PlatformChannel;
use crate::stream_kind::StreamKind;
use crate::window::Window;
use crate::{Client, Error, Reason, StreamBounds};

/// Ships items as long as it is not closed, over one connection after the other: where one ends, whatever the service has
/// not acknowledged is sent again on the next, in the same order and under the same keys, after pauses and as often as
/// [`Retry`](crate::Retry) says; each acknowledgement restarts the count.
///
/// If that does not help, callers that wait for a result, send, or close the stream get the error. A
/// stream that is dropped is aborted.
pub struct ItemStream<K: StreamKind>(Arc<Shared<K>>);

impl<K: StreamKind> fmt::Debug for ItemStream<K> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ItemStream").field("method", &K::PATH).finish_non_exhaustive()
    }
}

impl<K: StreamKind> Drop for ItemStream<K> {
    fn drop(&mut self) {
        self.abort();
    }
}

/// Resolves with what became of an item, once it is durable or refused for good; or with why the stream was given up.
#[derive(Debug)]
pub struct Acknowledgement<R>(oneshot::Receiver<Result<R, Error>>);

impl<R> Future for Acknowledgement<R> {
    type Output = Result<R, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|told| told.unwrap_or_else(|_| Err(aborted())))
    }
}

impl<K: StreamKind> ItemStream<K> {
    pub(crate) fn new(client: Client, bounds: StreamBounds) -> Self {
        let state = State {
            window: Window::new(bounds),
            worker: None,
            connection: 0,
            attempts: 0,
            not_before: Instant::now(),
            is_closing: false,
            over: None,
        };
        let (state, turn, changes) = (Mutex::new(state), tokio::sync::Mutex::new(()), watch::Sender::new(()));
        Self(Arc::new(Shared { client, state, turn, changes }))
    }

    /// Takes an item, which an event or a registration can be made into, and waits while too much is unacknowledged. All
    /// connections send it under one idempotency key: its own, or one that is made.
    ///
    /// # Errors
    /// Where the stream is over or closed, or the idempotency key cannot be one.
    pub async fn send(&self, item: impl Into<K::Item>) -> Result<Acknowledgement<K::Result>, Error> {
        let mut item = item.into();
        fill_key(K::key(&mut item));
        let key = K::key(&mut item).clone();
        ascii(&key, "idempotency key")?;
        let bytes = item.encoded_len();
        let shared = &self.0;
        // They go in the order in which they came.
        let _turn = shared.turn.lock().await;
        shared.when(|state| state.refusal().is_some() || state.window.has_room(bytes)).await;
        let mut state = shared.state();
        if let Some(refusal) = state.refusal() {
            return Err(refusal);
        }
        let (told, result) = oneshot::channel();
        state.window.add(item, key, bytes, told);
        if state.worker.is_none() {
            state.worker = Some(tokio::spawn(Arc::clone(shared).work()).abort_handle());
        }
        drop(state);
        shared.changed();
        Ok(Acknowledgement(result))
    }

    /// Sends no more, and waits until all is acknowledged.
    ///
    /// # Errors
    /// Why the stream was given up before. One that was aborted closes without an error.
    pub async fn close(&self) -> Result<(), Error> {
        let shared = &self.0;
        // Callers are served in the order of their calls.
        let _turn = shared.turn.lock().await;
        shared.state().is_closing = true;
        shared.changed();
        shared.when(|state| state.over.is_some() || state.window.is_empty()).await;
        if let Some(Over::Failed(error)) = &shared.state().over {
            return Err(error.clone());
        }
        // The service ends its direction once ours is ended.
        let ended = timeout(shared.client.deadline(), shared.when(|state| state.worker.is_none())).await;
        if ended.is_err() {
            self.abort();
        }
        Ok(())
    }

    /// Ends the stream at once. Callers that wait for a result get [`Code::Cancelled`].
    pub fn abort(&self) {
        let worker = self.0.state().worker.take();
        worker.inspect(AbortHandle::abort);
        self.0.give_up(Over::Aborted);
    }

    /// What was taken and is not acknowledged, with its keys, in order: to be kept by a program that stops, and sent on
    /// another stream.
    #[must_use]
    pub fn unacknowledged(&self) -> Vec<K::Item> {
        self.0.state().window.items()
    }
}

/// Why nothing is sent any more.
enum Over {
    Failed(Error),
    Aborted,
}

struct State<K: StreamKind> {
    window: Window<K::Item, K::Result>,
    worker: Option<AbortHandle>,
    /// The one in use; what serves another one is at its end.
    connection: u64,
    /// Connections since the last acknowledgement.
    attempts: u32,
    /// When the next connection may be opened.
    not_before: Instant,
    is_closing: bool,
    over: Option<Over>,
}

impl<K: StreamKind> State<K> {
    /// Why no item is taken.
    fn refusal(&self) -> Option<Error> {
        match &self.over {
            Some(Over::Failed(error)) => Some(error.clone()),
            Some(Over::Aborted) => Some(aborted()),
            None => self.is_closing.then(|| Error::new(Code::Cancelled, "the stream is closed")),
        }
    }
}

struct Shared<K: StreamKind> {
    client: Client,
    state: Mutex<State<K>>,
    turn: tokio::sync::Mutex<()>,
    changes: watch::Sender<()>,
}

/// Tells those who wait where the task ends before its time: its runtime did, or what the program gave it panicked.
struct Guard<K: StreamKind> {
    shared: Arc<Shared<K>>,
    is_done: bool,
}

impl<K: StreamKind> Drop for Guard<K> {
    fn drop(&mut self) {
        if !self.is_done {
            self.shared.state().worker = None;
            self.shared.give_up(Over::Failed(Error::new(Code::Cancelled, "the task of the stream has ended")));
        }
    }
}

impl<K: StreamKind> Shared<K> {
    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All who wait look again.
    fn changed(&self) {
        self.changes.send_replace(());
    }

    /// Waits until it holds.
    async fn when(&self, holds: impl Fn(&State<K>) -> bool) {
        let mut changes = self.changes.subscribe();
        while !holds(&self.state()) {
            // The sender lives as long as this.
            let _ = changes.changed().await;
        }
    }

    fn give_up(&self, over: Over) {
        let mut state = self.state();
        if state.over.is_some() {
            return;
        }
        let error = match &over {
            Over::Failed(error) => error.clone(),
            Over::Aborted => aborted(),
        };
        state.over = Some(over);
        state.connection += 1;
        for told in state.window.give_up() {
            // Who does not wait need not be told.
            let _ = told.send(Err(error.clone()));
        }
        drop(state);
        self.changed();
    }

    async fn work(self: Arc<Self>) {
        let mut guard = Guard { shared: Arc::clone(&self), is_done: false };
        while let Some(opens_at) = self.has_work() {
            sleep_until(opens_at).await;
            let ended = self.connect().await;
            self.after(ended);
        }
        guard.is_done = true;
    }

    /// When the next connection is to be opened; otherwise the next item restarts the work.
    fn has_work(&self) -> Option<Instant> {
        let mut state = self.state();
        if state.over.is_none() && !state.window.is_empty() {
            return Some(state.not_before);
        }
        state.worker = None;
        drop(state);
        self.changed();
        None
    }

    /// Ships until the connection ends.
    async fn connect(self: &Arc<Self>) -> Result<(), Error> {
        self.state().attempts += 1;
        let mut attempts = Attempts {
            client: &self.client,
            path: K::PATH,
            message: (),
            idempotency_key: None,
            deadline: None,
            // A token that has expired is replaced on the next connection.
            token_replaced: true,
        };
        let shipped = attempts.attempt(&|channel, request| self.ship(channel, request)).await;
        self.state().connection += 1;
        self.changed();
        shipped.map(Response::into_inner)
    }

    /// Decides when the next connection may be opened, or that the stream is over.
    fn after(&self, ended: Result<(), Error>) {
        let retry = self.client.retry();
        let mut state = self.state();
        let is_idle = state.window.is_empty();
        let early =
            || Error::new(Code::Unavailable, "the service ended the stream before it had acknowledged all of it");
        let error = ended.err();
        if is_idle && error.as_ref().is_none_or(may_resume) {
            state.attempts = 0;
            state.not_before = Instant::now() + error.and_then(|error| error.retry_after()).unwrap_or_default();
            return;
        }
        let error = error.unwrap_or_else(early);
        if !may_resume(&error) || !retry.allows_after(state.attempts) {
            drop(state);
            return self.give_up(Over::Failed(error));
        }
        let pause = retry.pause(state.attempts, &error);
        state.not_before = Instant::now() + pause;
        drop(state);
        retry.tell(&error, pause);
    }

    async fn ship(self: &Arc<Self>, channel: PlatformChannel, request: Request<()>) -> Result<Response<()>, Status> {
        let connection = {
            let mut state = self.state();
            state.connection += 1;
            state.window.rewind();
            state.connection
        };
        let answer = K::open(channel, request.map(|()| Arc::clone(self).requests(connection))).await?;
        let (metadata, mut answers, extensions) = answer.into_parts();
        while let Some(answer) = answers.message().await? {
            self.acknowledge(K::acknowledged(answer))?;
        }
        Ok(Response::from_parts(metadata, (), extensions))
    }

    /// What is sent on one connection.
    fn requests(self: Arc<Self>, connection: u64) -> impl Stream<Item = K::Request> + Send + 'static {
        stream::unfold(self, move |shared| async move {
            let mut changes = shared.changes.subscribe();
            loop {
                {
                    let mut state = shared.state();
                    if state.connection != connection {
                        return None;
                    }
                    if let Some((sequence, item)) = state.window.take_unsent() {
                        drop(state);
                        return Some((K::request(sequence, item), shared));
                    }
                    if state.is_closing && state.window.is_empty() {
                        return None;
                    }
                }
                let _ = changes.changed().await;
            }
        })
    }

    fn acknowledge(&self, acknowledged: Vec<(i64, Option<K::Result>)>) -> Result<(), Status> {
        let mut state = self.state();
        let settled = state
            .window
            .acknowledge(acknowledged, K::key_and_receipt)
            .map_err(|what| Status::internal(format!("the service broke the protocol of streams: it {what}")))?;
        if !settled.is_empty() {
            state.attempts = 0;
        }
        for (told, result) in settled {
            // Likewise.
            let _ = told.send(Ok(result));
        }
        drop(state);
        self.changed();
        Ok(())
    }
}

/// Also where the service ended a stream that was idle, or whose token had expired.
fn may_resume(error: &Error) -> bool {
    error.may_retry() || error.code() == Code::DeadlineExceeded || error.reason() == Some(&Reason::ExpiredToken)
}

fn aborted() -> Error {
    Error::new(Code::Cancelled, "the stream was aborted")
}
