//! One call: bounded in time, with a token, tried again where that may help.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};

use tonic::{Code, Request, Response, Status};

use crate::channel::PlatformChannel;
use crate::client::Client;
use crate::{Error, Reason, Token};

/// A request, and what is said of this one call. Every request is one by itself.
#[derive(Clone, Debug)]
pub struct Call<Q> {
    pub(crate) message: Q,
    pub(crate) deadline: Option<Duration>,
    pub(crate) idempotency_key: Option<String>,
}

impl<Q> Call<Q> {
    /// A call with what the client says of all of them.
    pub fn new(message: Q) -> Self {
        Self { message, deadline: None, idempotency_key: None }
    }

    /// Time for this call, with all its attempts.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// However often a registration or event arrives under one key, it is recorded once. Default: a random one, so that
    /// attempts of one call are recorded once; give your own where your program may make the call again.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }
}

impl<Q> From<Q> for Call<Q> {
    fn from(message: Q) -> Self {
        Self::new(message)
    }
}

type OnRetry = Arc<dyn Fn(&Error, Duration) + Send + Sync>;

/// How calls are tried again: after `Unavailable`, and after `ResourceExhausted` where the service says how long to
/// wait. The pause is random below a bound that doubles, on top of what the service asks for.
#[derive(Clone)]
pub struct Retry {
    attempts: u32,
    initial_backoff: Duration,
    max_backoff: Duration,
    on_retry: Option<OnRetry>,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 4,
            initial_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(5),
            on_retry: None,
        }
    }
}

impl Retry {
    /// How often a call is sent at most, the first time included. Default 4; with `u32::MAX` the deadline alone bounds
    /// it.
    #[must_use]
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Longest pause before the second attempt; it doubles with each. Default 100 ms.
    #[must_use]
    pub fn initial_backoff(mut self, bound: Duration) -> Self {
        self.initial_backoff = bound;
        self
    }

    /// Longest pause that is chosen here. Default 5 s.
    #[must_use]
    pub fn max_backoff(mut self, bound: Duration) -> Self {
        self.max_backoff = bound;
        self
    }

    /// Called before each pause, with the failure.
    #[must_use]
    pub fn on_retry(mut self, told: impl Fn(&Error, Duration) + Send + Sync + 'static) -> Self {
        self.on_retry = Some(Arc::new(told));
        self
    }

    /// Whether another attempt may follow so many.
    pub(crate) fn allows_after(&self, attempts: u32) -> bool {
        attempts < self.attempts
    }

    /// Before the attempt that follows so many.
    pub(crate) fn pause(&self, attempts: u32, error: &Error) -> Duration {
        let doubled = self.initial_backoff.saturating_mul(1 << attempts.saturating_sub(1).min(30));
        // Spreads clients even if the service tells all to retry at the same time.
        let spread = self.max_backoff.min(doubled).mul_f64(rand::random());
        error.retry_after().unwrap_or_default().saturating_add(spread)
    }

    pub(crate) fn tell(&self, error: &Error, pause: Duration) {
        if let Some(told) = &self.on_retry {
            told(error, pause);
        }
    }
}

impl fmt::Debug for Retry {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Retry")
            .field("attempts", &self.attempts)
            .field("initial_backoff", &self.initial_backoff)
            .field("max_backoff", &self.max_backoff)
            .finish_non_exhaustive()
    }
}

/// What stays the same over the attempts of a call.
pub(crate) struct Attempts<'a, Q> {
    pub(crate) client: &'a Client,
    /// Of the method, such as `/platform.sdk.v1.DiscoveryService/WhoAmI`.
    pub(crate) path: &'static str,
    pub(crate) message: Q,
    pub(crate) idempotency_key: Option<MetadataValue<Ascii>>,
    /// None has a stream, whose token alone is waited for as long as a call is.
    pub(crate) deadline: Option<Instant>,
    /// A token that expired is replaced once.
    pub(crate) token_replaced: bool,
}

impl<Q: Clone> Attempts<'_, Q> {
    pub(crate) async fn run<A, F>(
        mut self,
        deadline: Instant,
        method: impl Fn(PlatformChannel, Request<Q>) -> F,
    ) -> Result<Response<A>, Error>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let retry = self.client.retry();
        let mut last = None;
        for attempt in 1.. {
            let error = match timeout_at(deadline, self.attempt(&method)).await {
                Ok(Ok(answer)) => return Ok(answer),
                // What ends with the time that it was given was ended by it.
                Ok(Err(error)) if error.reason().is_some() || Instant::now() < deadline => error,
                _ => return Err(Error::deadline(last)),
            };
            let pause = retry.pause(attempt, &error);
            let left = deadline.saturating_duration_since(Instant::now());
            if !retry.allows_after(attempt) || !error.may_retry() || pause >= left {
                return Err(error);
            }
            retry.tell(&error, pause);
            last = Some(error);
            sleep(pause).await;
        }
        Err(Error::deadline(last))
    }

    /// Sends the call, again where its token or its proof was too old.
    pub(crate) async fn attempt<A, F>(
        &mut self,
        method: &impl Fn(PlatformChannel, Request<Q>) -> F,
    ) -> Result<Response<A>, Error>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let mut nonce_taken = false;
        loop {
            let token = match self.client.tokens() {
                Some(tokens) => {
                    let deadline = self.deadline.unwrap_or_else(|| Instant::now() + self.client.deadline());
                    Some(timeout_at(deadline, tokens.token()).await.map_err(|_| Error::deadline(None))??)
                }
                None => None,
            };
            let status = match method(self.client.channel(), self.request(token.as_ref())?).await {
                Ok(answer) => {
                    self.take_nonce(answer.metadata());
                    return Ok(answer);
                }
                Err(status) => status,
            };
            let has_nonce = self.take_nonce(status.metadata());
            if has_nonce && !nonce_taken && asks_for_nonce(&status) {
                nonce_taken = true;
                continue;
            }
            let error = Error::from_status(status);
            let expired = error.reason() == Some(&Reason::ExpiredToken);
            if expired || error.reason() == Some(&Reason::InvalidToken) {
                if let (Some(tokens), Some(token)) = (self.client.tokens(), &token) {
                    tokens.refused(token);
                }
            }
            // Where a token is refused for anything else, another is no better now; it is for a later call, once the
            // issuer has replaced the key that signed it.
            if !expired || token.is_none() || self.token_replaced {
                return Err(error);
            }
            self.token_replaced = true;
        }
    }

    fn request(&self, token: Option<&Token>) -> Result<Request<Q>, Error> {
        let mut request = Request::new(self.message.clone());
        if let Some(deadline) = self.deadline {
            request.set_timeout(deadline.saturating_duration_since(Instant::now()));
        }
        let metadata = request.metadata_mut();
        if let Some(detail) = self.client.receipt_detail() {
            metadata.insert("x-svc-receipt", MetadataValue::from_static(detail));
        }
        if let Some(key) = &self.idempotency_key {
            metadata.insert("idempotency-key", key.clone());
        }
        let Some(token) = token else { return Ok(request) };
        let scheme = match token.key() {
            Some(key) => {
                let url = format!("{}{}", self.client.origin(), self.path);
                let nonce = self.client.nonce().get();
                // RFC 9449 section 7: gRPC calls are POST.
                metadata
                    .insert("dpop", ascii(&key.proof("POST", &url, Some(token.value()), nonce.as_deref())?, "proof")?);
                "DPoP"
            }
            None => "Bearer",
        };
        let mut credentials = ascii(&format!("{scheme} {}", token.value()), "token")?;
        credentials.set_sensitive(true);
        metadata.insert("authorization", credentials);
        Ok(request)
    }

    /// Whether the answer had a nonce (RFC 9449 section 8.2).
    fn take_nonce(&self, metadata: &MetadataMap) -> bool {
        let nonce = metadata.get("dpop-nonce").and_then(|value| value.to_str().ok());
        nonce.inspect(|nonce| self.client.nonce().set(nonce)).is_some()
    }
}

/// RFC 9449 section 9.
fn asks_for_nonce(status: &Status) -> bool {
    let challenges = status.metadata().get_all("www-authenticate");
    status.code() == Code::Unauthenticated
        && challenges.iter().any(|challenge| challenge.to_str().is_ok_and(|text| text.contains("use_dpop_nonce")))
}

pub(crate) fn ascii(text: &str, what: &str) -> Result<MetadataValue<Ascii>, Error> {
    MetadataValue::try_from(text).map_err(|cause| Error::setting(format!("the {what} cannot be sent")).because(cause))
}
