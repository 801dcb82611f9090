//! How the issuer is reached.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tonic::Code;

use crate::{Error, Tls};

/// Answers of issuers are far smaller.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;
/// A call may give up sooner; others may be waiting for the same answer.
const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub(crate) struct HttpClient(Client<HttpsConnector<HttpConnector>, Full<Bytes>>);

/// An answer that has arrived in whole.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    /// The answer as JSON; null for any other text.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

impl HttpClient {
    pub(crate) fn new(tls: &Tls) -> Result<Self, Error> {
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls.https()?).https_or_http().enable_http1();
        Ok(Self(Client::builder(TokioExecutor::new()).build(connector.build())))
    }

    /// Sends the request and reads the answer. Redirects are not followed: credentials go where they were meant to.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Result<Answer, Error> {
        tokio::time::timeout(TIMEOUT, async {
            let (head, body) = self.0.request(request).await.map_err(unreachable)?.into_parts();
            let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await.map_err(unreachable)?.to_bytes();
            Ok(Answer { status: head.status, headers: head.headers, body })
        })
        .await
        .unwrap_or_else(|elapsed| Err(unreachable(elapsed)))
    }
}

fn unreachable(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(Code::Unavailable, "the issuer did not answer").because(cause)
}

/// A URL that credentials may go to: https, or this very machine.
pub(crate) fn secure_url(text: &str, what: &str) -> Result<Uri, Error> {
    let uri: Uri = text.parse().map_err(|cause| Error::setting(format!("{what} is no URL")).because(cause))?;
    let loopback = matches!(uri.host(), Some("localhost" | "127.0.0.1" | "[::1]"));
    match uri.scheme_str() {
        Some("https") => Ok(uri),
        Some("http") if loopback => Ok(uri),
        _ => Err(Error::setting(format!("{what} must be an https URL"))),
    }
}
