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

/// Callers that need the value at once share one fetch. It lasts as long as one of them waits. After a failure
/// the next caller fetches again.
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
    use std::time::Duration;

    use tonic::Code;

    use super::*;

    /// Counts fetches, and gives their number.
    async fn fetched(count: Arc<AtomicU32>, lasting: Duration) -> Fetched<u32> {
        tokio::task::yield_now().await;
        Ok((count.fetch_add(1, SeqCst) + 1, Instant::now() + lasting))
    }

    const LONG: Duration = Duration::from_secs(3_600);

    #[tokio::test]
    async fn all_who_wait_share_one_fetch_and_those_who_come_later_its_value() {
        let (cache, count) = (Cache::new(), Arc::new(AtomicU32::new(0)));
        let get = || cache.get(|| fetched(count.clone(), LONG));
        assert_eq!(tokio::try_join!(get(), get(), get()).expect("it is fetched"), (1, 1, 1));
        assert_eq!(get().await.expect("it is held"), 1);
    }

    #[tokio::test]
    async fn what_is_stale_or_unwanted_is_fetched_anew() {
        let (cache, count) = (Cache::new(), Arc::new(AtomicU32::new(0)));
        let get = |lasting| {
            cache.get({
                let count = count.clone();
                move || fetched(count, lasting)
            })
        };
        assert_eq!(get(Duration::ZERO).await.expect("it is fetched"), 1);
        assert_eq!(get(LONG).await.expect("it is fetched"), 2);
        cache.forget(|&number| number == 1);
        assert_eq!(get(LONG).await.expect("it is held"), 2);
        cache.forget(|&number| number == 2);
        assert_eq!(get(LONG).await.expect("it is fetched"), 3);
    }

    #[tokio::test]
    async fn a_failure_is_told_to_all_who_wait_and_not_kept() {
        let (cache, count) = (Cache::new(), Arc::new(AtomicU32::new(0)));
        let fail = || cache.get(|| async { Err(Error::new(Code::Unavailable, "away")) });
        let (first, second) = tokio::join!(fail(), fail());
        assert!(first.is_err() && second.is_err());
        assert_eq!(cache.get(|| fetched(count, LONG)).await.expect("it is fetched"), 1);
    }

    #[tokio::test]
    async fn one_who_gives_up_takes_it_from_no_other_and_the_last_one_ends_it() {
        let (cache, count) = (Cache::new(), Arc::new(AtomicU32::new(0)));
        let get = || Box::pin(cache.get(|| fetched(count.clone(), LONG)));
        let (mut first, second) = (get(), get());
        assert!(first.as_mut().now_or_never().is_none());
        drop(first);
        assert_eq!(second.await.expect("it is fetched"), 1);

        let cache = Cache::new();
        let mut alone = Box::pin(cache.get(std::future::pending));
        assert!(alone.as_mut().now_or_never().is_none());
        drop(alone);
        assert_eq!(cache.get(|| fetched(count, LONG)).await.expect("it is fetched"), 2);
    }
}
