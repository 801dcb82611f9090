//! One call: bounded in time, tried again where that may help, and its refusal read.

use std::fmt::Write;
use std::future::Future;
use std::time::{Duration, Instant};

use tonic::metadata::MetadataValue;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request, Response, Status};
use tonic_types::StatusExt;
use uuid::Uuid;

use crate::Failure;
use crate::settings::Settings;
use crate::tokens::Tokens;

/// Covers all attempts of one call.
const TIMEOUT: Duration = Duration::from_secs(30);
const BASE_DELAY: Duration = Duration::from_millis(250);
const MAX_DELAY: Duration = Duration::from_secs(4);

pub struct Platform {
    pub channel: Channel,
    tokens: Tokens,
}

impl Platform {
    /// Makes ready. The connection is opened by the first call, and again by the first after it broke.
    pub fn connect(settings: &Settings) -> Result<Self, Failure> {
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(&settings.ca))
            .identity(Identity::from_pem(&settings.cert, &settings.key));
        let channel = Endpoint::from_shared(settings.url.clone())?.tls_config(tls)?.connect_lazy();
        Ok(Self { channel, tokens: Tokens::discover(settings)? })
    }

    /// Makes a call that may be made again: what it asks is asked anew.
    pub async fn call<Q, A, F>(&mut self, request: Q, method: impl Fn(Request<Q>) -> F) -> Result<A, Failure>
    where
        Q: Clone,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        self.retry(request, None, method).await
    }

    /// Makes a call that records something: however often it is sent, it is recorded once.
    pub async fn once<Q, A, F>(&mut self, request: Q, method: impl Fn(Request<Q>) -> F) -> Result<A, Failure>
    where
        Q: Clone,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        self.retry(request, Some(Uuid::new_v4().to_string()), method).await
    }

    async fn retry<Q, A, F>(
        &mut self,
        message: Q,
        key: Option<String>,
        method: impl Fn(Request<Q>) -> F,
    ) -> Result<A, Failure>
    where
        Q: Clone,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let deadline = Instant::now() + TIMEOUT;
        let mut bound = BASE_DELAY;
        loop {
            let mut request = Request::new(message.clone());
            request.set_timeout(deadline.saturating_duration_since(Instant::now()));
            let token = format!("Bearer {}", self.tokens.token()?);
            request.metadata_mut().insert("authorization", MetadataValue::try_from(token)?);
            if let Some(key) = &key {
                request.metadata_mut().insert("idempotency-key", MetadataValue::try_from(key)?);
            }
            let refusal = match method(request).await {
                Ok(answer) => return Ok(answer.into_inner()),
                Err(refusal) => refusal,
            };
            let asked = retry_delay(&refusal);
            let pause = asked.unwrap_or_default() + bound.mul_f64(rand::random());
            if !may_retry(&refusal, asked) || Instant::now() + pause > deadline {
                return Err(describe(&refusal).into());
            }
            eprintln!("{}; trying again in {} ms", refusal.message(), pause.as_millis());
            tokio::time::sleep(pause).await;
            bound = MAX_DELAY.min(2 * bound);
        }
    }
}

fn may_retry(refusal: &Status, asked: Option<Duration>) -> bool {
    match refusal.code() {
        Code::Unavailable => true,
        Code::ResourceExhausted => asked.is_some(),
        _ => false,
    }
}

/// From google.rpc.RetryInfo, where the service sends it.
fn retry_delay(refusal: &Status) -> Option<Duration> {
    refusal.get_details_retry_info()?.retry_delay
}

/// What is wrong, for a person, with the id to name when asking the operator.
fn describe(refusal: &Status) -> String {
    let mut text = format!("{:?}: {}", refusal.code(), refusal.message());
    if let Some(info) = refusal.get_details_error_info() {
        let of = |name: &str| info.metadata.get(name).cloned().unwrap_or_default();
        let _ = write!(text, "\n  reason: {}", info.reason);
        let advice = match info.reason.as_str() {
            "missing_scope" => format!("ask the issuer for these scopes too: {}", of("missing_scopes")),
            "proof_of_possession_failed" => "the token is bound to another client certificate than the one \
                 presented, or the service does not trust it"
                .into(),
            "invalid_token" => "the service does not take tokens of this issuer, or for this audience".into(),
            _ => String::new(),
        };
        if !advice.is_empty() {
            let _ = write!(text, "\n  {advice}");
        }
        let _ = write!(text, "\n  request id: {}", of("request_id"));
    }
    for broken in refusal.get_details_bad_request().map(|bad| bad.field_violations).unwrap_or_default() {
        let _ = write!(text, "\n  {}: {}", broken.field, broken.description);
    }
    text
}
