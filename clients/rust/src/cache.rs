//! A value that is fetched when it is needed, by one at a time, and kept for a while.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};

use crate::Error;

/// What was fetched, and until when it is good.
pub(crate) type Fetched<T> = Result<(T, Instant), Error>;
type Flight<T> = BoxFuture<'static, Result<T, Error>>;

/// Callers that need the value at once share one fetch. It lasts as long as one of them waits; what failed is fetched
/// anew by the next.
pub(crate) struct Cache<T: Clone>(Arc<Mutex<State<T>>>);

struct State<T: Clone> {
    held: Option<(T, Instant)>,
    flight: Option<WeakShared<Flight<T>>>,
}

impl<T: Clone + Send + Sync + 'static> Cache<T> {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(State { held: None, flight: None })))
    }

    /// The value that is held, while it is good; else the one that `fetch` brings.
    pub(crate) async fn get<F>(&self, fetch: impl FnOnce() -> F) -> Result<T, Error>
    where
        F: Future<Output = Fetched<T>> + Send + 'static,
    {
        let joined = {
            let mut state = locked(&self.0);
            match &state.held {
                Some((value, stale_at)) if Instant::now() < *stale_at => return Ok(value.clone()),
                _ => {}
            }
            state.flight.as_ref().and_then(WeakShared::upgrade).unwrap_or_else(|| {
                let flight = self.flight(fetch());
                state.flight = flight.downgrade();
                flight
            })
        };
        joined.await
    }

    fn flight(&self, fetched: impl Future<Output = Fetched<T>> + Send + 'static) -> Shared<Flight<T>> {
        let state = Arc::clone(&self.0);
        let landing = async move {
            let fetched = fetched.await;
            let mut state = locked(&state);
            state.flight = None;
            let (value, stale_at) = fetched?;
            state.held = Some((value.clone(), stale_at));
            Ok(value)
        };
        landing.boxed().shared()
    }

    /// Lets go of the value where this holds of it.
    pub(crate) fn forget(&self, unwanted: impl FnOnce(&T) -> bool) {
        let mut state = locked(&self.0);
        if state.held.as_ref().is_some_and(|(value, _)| unwanted(value)) {
            state.held = None;
        }
    }
}

/// Nothing that is done under the lock leaves the state half changed.
fn locked<T: Clone>(state: &Mutex<State<T>>) -> MutexGuard<'_, State<T>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
