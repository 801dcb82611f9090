//! Why a call failed.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::StatusExt;

macro_rules! reasons {
    ($($variant:ident $text:literal,)*) => {
        /// Why the service refused a call: its closed list. A newer service may know more.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "the words are the service's own")]
        pub enum Reason {
            $($variant,)*
            /// A reason that this version does not know.
            Other(String),
        }

        impl Reason {
            /// The word on the wire, such as `missing_scope`.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)*
                    Self::Other(text) => text,
                }
            }
        }

        impl From<&str> for Reason {
            fn from(text: &str) -> Self {
                match text {
                    $($text => Self::$variant,)*
                    _ => Self::Other(text.to_owned()),
                }
            }
        }
    };
}

reasons! {
    MissingToken "missing_token",
    InvalidToken "invalid_token",
    ExpiredToken "expired_token",
    ProofOfPossessionFailed "proof_of_possession_failed",
    InvalidClient "invalid_client",
    TenantMismatch "tenant_mismatch",
    MissingScope "missing_scope",
    InvalidRequest "invalid_request",
    IdempotencyConflict "idempotency_conflict",
    BodyTooLarge "body_too_large",
    UnsupportedMediaType "unsupported_media_type",
    UnsupportedEncoding "unsupported_encoding",
    NoRoute "no_route",
    MethodNotAllowed "method_not_allowed",
    RequestTimeout "request_timeout",
    DeadlineExceeded "deadline_exceeded",
    Canceled "canceled",
    RateLimited "rate_limited",
    Overloaded "overloaded",
    StoreUnavailable "store_unavailable",
    PolicyUnavailable "policy_unavailable",
    IssuerUnavailable "issuer_unavailable",
    Internal "internal",
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// A broken rule of the request. Never carries the offending value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// Path of the member, such as `workload.application`; empty for the whole request.
    pub field: String,
    /// Name of the rule, such as `string.min_len`.
    pub rule: String,
    /// What is wrong, for a person.
    pub message: String,
}

/// Why a call failed: what the service said, or what came between. Repeats no secret.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    code: Code,
    message: String,
    refusal: Box<Refusal>,
    #[source]
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

#[derive(Clone, Debug, Default)]
struct Refusal {
    reason: Option<Reason>,
    request_id: Option<String>,
    required_scopes: Vec<String>,
    missing_scopes: Vec<String>,
    violations: Vec<Violation>,
    retry_after: Option<Duration>,
}

impl Error {
    /// An error that is not the service's, such as one of a token source of your own: `Code::Unavailable` is tried
    /// again.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), refusal: Box::default(), source: None }
    }

    /// The same, with what caused it.
    #[must_use]
    pub fn because(mut self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(Arc::from(cause.into()));
        self
    }

    pub(crate) fn setting(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    pub(crate) fn deadline(last: Option<Self>) -> Self {
        let error = Self::new(Code::DeadlineExceeded, "no answer came before the deadline");
        match last {
            Some(last) => error.because(last),
            None => error,
        }
    }

    /// Status of the call. What failed on the way is `Unavailable`.
    #[must_use]
    pub fn code(&self) -> Code {
        self.code
    }

    /// Why the service refused; `None` where it never answered.
    #[must_use]
    pub fn reason(&self) -> Option<&Reason> {
        self.refusal.reason.as_ref()
    }

    /// To be named when asking the operator.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        self.refusal.request_id.as_deref()
    }

    /// Scopes that the route needs, where some are missing.
    #[must_use]
    pub fn required_scopes(&self) -> &[String] {
        &self.refusal.required_scopes
    }

    /// Scopes to ask the issuer for too.
    #[must_use]
    pub fn missing_scopes(&self) -> &[String] {
        &self.refusal.missing_scopes
    }

    /// Broken rules of the request.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.refusal.violations
    }

    /// How long to wait before trying again, where the service says so.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.refusal.retry_after
    }

    /// Whether the call may be made again: it was not answered now, or is to come later.
    #[must_use]
    pub fn may_retry(&self) -> bool {
        match self.code {
            Code::Unavailable => true,
            Code::ResourceExhausted => self.retry_after().is_some(),
            _ => false,
        }
    }

    /// What gRPC ended with. What has a source was not sent by the service: the connection broke.
    pub(crate) fn from_status(status: Status) -> Self {
        let refusal = Refusal::of(&status);
        let local = StdError::source(&status).is_some() && refusal.reason.is_none();
        let code = match status.code() {
            Code::Unknown | Code::Internal | Code::Cancelled if local => Code::Unavailable,
            code => code,
        };
        let message = if status.message().is_empty() { code.description() } else { status.message() };
        let error = Self { code, message: message.to_owned(), refusal: Box::new(refusal), source: None };
        error.because(status)
    }
}

impl Refusal {
    fn of(status: &Status) -> Self {
        let (mut reason, mut named) = (None, std::collections::HashMap::new());
        if let Some(info) = status.get_details_error_info() {
            reason = Some(Reason::from(info.reason.as_str()));
            named = info.metadata;
        }
        let words = |text: Option<&String>| {
            text.map(|text| text.split_whitespace().map(str::to_owned).collect()).unwrap_or_default()
        };
        let broken = status.get_details_bad_request().map(|bad| bad.field_violations).unwrap_or_default();
        Self {
            reason,
            request_id: named.get("request_id").cloned().or_else(|| header(status, "x-request-id")),
            required_scopes: words(named.get("required_scopes")),
            missing_scopes: words(named.get("missing_scopes")),
            violations: broken
                .into_iter()
                .map(|broken| Violation { field: broken.field, rule: broken.reason, message: broken.description })
                .collect(),
            retry_after: retry_after(status),
        }
    }
}

/// From `google.rpc.RetryInfo`, else `Retry-After` in whole seconds (RFC 9110 section 10.2.3).
fn retry_after(status: &Status) -> Option<Duration> {
    let told = status.get_details_retry_info().and_then(|info| info.retry_delay);
    told.or_else(|| Some(Duration::from_secs(u64::from(header(status, "retry-after")?.parse::<u32>().ok()?))))
}

fn header(status: &Status, name: &str) -> Option<String> {
    Some(status.metadata().get(name)?.to_str().ok()?.to_owned())
}
