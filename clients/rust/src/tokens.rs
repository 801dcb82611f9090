//! Access tokens, and where they come from.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::{DpopKey, Error};

/// An access token, and the key that it is bound to.
#[derive(Clone)]
pub struct Token {
    value: Arc<str>,
    key: Option<DpopKey>,
}

impl Token {
    /// A token that any holder may use, or that is bound to the client certificate.
    #[must_use]
    pub fn bearer(value: &str) -> Self {
        Self { value: value.into(), key: None }
    }

    /// A token that is bound to the key: each call proves that it has it.
    #[must_use]
    pub fn dpop(value: &str, key: DpopKey) -> Self {
        Self { value: value.into(), key: Some(key) }
    }

    /// The token itself.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }

    pub(crate) fn key(&self) -> Option<&DpopKey> {
        self.key.as_ref()
    }
}

/// Tokens never come into a log.
impl fmt::Debug for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Token").field("key", &self.key).finish_non_exhaustive()
    }
}

/// Where calls get their token from.
pub trait TokenSource: Send + Sync {
    /// A token that is good for some time yet.
    fn token(&self) -> BoxFuture<'_, Result<Token, Error>>;
    /// The service refused this token: it is not handed out again.
    fn refused(&self, token: &Token);
}
