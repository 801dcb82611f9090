//! Access tokens by the client-credentials grant, kept until shortly before they expire.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Request, StatusCode};
use http_body_util::Full;
use serde_json::Value;
use tonic::Code;

use crate::cache::{Cache, Fetched};
use crate::dpop::Nonce;
use crate::http_client::{Answer, HttpClient, secure_url};
use crate::{DpopKey, Error, Tls, Token, TokenSource};

/// A token is fetched again when less than this is left of its life, or a fifth of it, if that is less.
const REFRESH_MARGIN: Duration = Duration::from_secs(30);
/// Where the issuer does not say how long a token lives.
const UNSAID_LIFETIME: Duration = Duration::from_secs(60);

/// How the issuer knows this client (RFC 6749 section 2.3, RFC 8705 section 2). Made of a text, it is
/// `client_secret_basic`.
#[derive(Clone)]
#[non_exhaustive]
pub enum ClientAuthentication {
    /// `client_secret_basic`: the secret in the header.
    SecretBasic(String),
    /// `client_secret_post`: the secret in the form.
    SecretPost(String),
    /// `tls_client_auth` or `self_signed_tls_client_auth`: the client certificate is enough.
    Certificate,
}

impl From<&str> for ClientAuthentication {
    fn from(secret: &str) -> Self {
        Self::SecretBasic(secret.to_owned())
    }
}

impl From<String> for ClientAuthentication {
    fn from(secret: String) -> Self {
        Self::SecretBasic(secret)
    }
}

/// Tokens by the client-credentials grant (RFC 6749 section 4.4). Calls that need one at once share one request.
/// Clones share their token.
#[derive(Clone)]
pub struct ClientCredentials(Arc<Inner>);

struct Inner {
    settings: ClientCredentialsBuilder,
    http: HttpClient,
    endpoint: Cache<Arc<str>>,
    held: Cache<Token>,
    nonce: Nonce,
}

/// Settings of [`ClientCredentials`].
#[derive(Clone)]
pub struct ClientCredentialsBuilder {
    issuer: String,
    client_id: String,
    authentication: ClientAuthentication,
    form: Vec<(String, String)>,
    tls: Tls,
    key: Option<DpopKey>,
}

impl ClientCredentialsBuilder {
    /// Scopes to ask for. Default: what the issuer grants unasked.
    #[must_use]
    pub fn scopes(self, scopes: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let words: Vec<String> = scopes.into_iter().map(|scope| scope.as_ref().to_owned()).collect();
        if words.is_empty() { self } else { self.parameter("scope", &words.join(" ")) }
    }

    /// One more member of the form, such as `resource` (RFC 8707) or `audience`, for issuers that need it.
    #[must_use]
    pub fn parameter(mut self, name: &str, value: &str) -> Self {
        self.form.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Authorities that the issuer is believed on. A certificate is presented to it, and it binds tokens to it
    /// (RFC 8705 section 3): the client must present the same.
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = tls;
        self
    }

    /// Has tokens bound to this key. An answer with a token that is bound to none is refused.
    #[must_use]
    pub fn dpop(mut self, key: DpopKey) -> Self {
        self.key = Some(key);
        self
    }

    /// Makes ready; nothing is sent before a token is needed.
    ///
    /// # Errors
    /// `InvalidArgument` where the settings cannot be used: an issuer that is neither https nor on this machine,
    /// certificates that cannot be read.
    pub fn build(self) -> Result<ClientCredentials, Error> {
        secure_url(&self.issuer, "the issuer")?;
        if matches!(self.authentication, ClientAuthentication::Certificate) && !self.tls.has_identity() {
            return Err(Error::setting("the issuer is to know the client by its certificate, and there is none"));
        }
        let http = HttpClient::new(&self.tls)?;
        let (endpoint, held, nonce) = (Cache::new(), Cache::new(), Nonce::default());
        Ok(ClientCredentials(Arc::new(Inner { settings: self, http, endpoint, held, nonce })))
    }
}

impl ClientCredentials {
    /// Settings, from the issuer's identifier on: its discovery document names the token endpoint.
    pub fn builder(
        issuer: impl Into<String>,
        client_id: impl Into<String>,
        authentication: impl Into<ClientAuthentication>,
    ) -> ClientCredentialsBuilder {
        ClientCredentialsBuilder {
            issuer: issuer.into(),
            client_id: client_id.into(),
            authentication: authentication.into(),
            form: vec![("grant_type".to_owned(), "client_credentials".to_owned())],
            tls: Tls::default(),
            key: None,
        }
    }
}

impl TokenSource for ClientCredentials {
    fn token(&self) -> BoxFuture<'_, Result<Token, Error>> {
        let inner = Arc::clone(&self.0);
        Box::pin(self.0.held.get(move || async move { inner.fetch().await }))
    }

    fn refused(&self, token: &Token) {
        self.0.held.forget(|held| held.value() == token.value());
    }
}

impl Inner {
    async fn fetch(self: Arc<Self>) -> Fetched<Token> {
        let inner = Arc::clone(&self);
        let endpoint = self.endpoint.get(move || async move { inner.discover().await }).await?;
        let asked_at = Instant::now();
        let mut answer = self.request(&endpoint).await?;
        // RFC 9449 section 8: once more, with the nonce that the answer carries.
        if self.settings.key.is_some() && answer.json()["error"] == "use_dpop_nonce" && self.take_nonce(&answer) {
            answer = self.request(&endpoint).await?;
        }
        self.take_nonce(&answer);
        let body = answer.json();
        let Some(value) = body["access_token"].as_str().filter(|_| answer.status.is_success()) else {
            return Err(refusal(&answer, &body));
        };
        let kind = body["token_type"].as_str().unwrap_or_default();
        let token = match &self.settings.key {
            Some(key) if kind.eq_ignore_ascii_case("dpop") => Token::dpop(value, key.clone()),
            None if kind.eq_ignore_ascii_case("bearer") => Token::bearer(value),
            // RFC 9449 section 5: a token that is not bound as asked for is not used.
            _ => return Err(Error::new(Code::Unauthenticated, format!("the issuer gave a token of type {kind:?}"))),
        };
        let lifetime = body["expires_in"].as_u64().map_or(UNSAID_LIFETIME, Duration::from_secs);
        // Beyond what clocks can hold, tomorrow will do.
        let lifetime = lifetime.min(Duration::from_secs(86_400));
        Ok((token, asked_at + lifetime - REFRESH_MARGIN.min(lifetime / 5)))
    }

    /// Reads the discovery document (OpenID Connect Discovery 1.0 section 4): once an hour at most.
    async fn discover(&self) -> Fetched<Arc<str>> {
        let issuer = &self.settings.issuer;
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let request = Request::get(url).header(ACCEPT, "application/json").body(Full::default());
        let answer = self.http.send(request.map_err(not_sendable)?).await?;
        let document = answer.json();
        // Section 4.3: a document that names another issuer is not this issuer's.
        if !answer.status.is_success() || document["issuer"] != issuer.as_str() {
            let why = format!("the issuer's discovery document is not usable (HTTP {})", answer.status.as_u16());
            return Err(Error::new(code_of(answer.status), why));
        }
        // RFC 8705 section 5: where client certificates are asked for elsewhere.
        let alias = document["mtls_endpoint_aliases"]["token_endpoint"].as_str();
        let endpoint = alias.filter(|_| self.settings.tls.has_identity()).or(document["token_endpoint"].as_str());
        let endpoint =
            endpoint.ok_or_else(|| Error::new(Code::Unauthenticated, "the issuer names no token endpoint"))?;
        secure_url(endpoint, "the issuer's token endpoint")?;
        Ok((endpoint.into(), Instant::now() + Duration::from_secs(3_600)))
    }

    async fn request(&self, endpoint: &str) -> Result<Answer, Error> {
        let Self { settings, nonce, .. } = self;
        let mut form = settings.form.clone();
        let mut request = Request::post(endpoint)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(ACCEPT, "application/json");
        match &settings.authentication {
            ClientAuthentication::SecretBasic(secret) => {
                request = request.header(AUTHORIZATION, basic(&settings.client_id, secret)?);
            }
            ClientAuthentication::SecretPost(secret) => {
                form.push(("client_id".to_owned(), settings.client_id.clone()));
                form.push(("client_secret".to_owned(), secret.clone()));
            }
            ClientAuthentication::Certificate => form.push(("client_id".to_owned(), settings.client_id.clone())),
        }
        if let Some(key) = &settings.key {
            let url = endpoint.split(['?', '#']).next().unwrap_or_default();
            request = request.header("dpop", key.proof("POST", url, None, nonce.get().as_deref())?);
        }
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        self.http.send(request.body(Full::new(Bytes::from(body))).map_err(not_sendable)?).await
    }

    /// Whether the answer had a nonce.
    fn take_nonce(&self, answer: &Answer) -> bool {
        let nonce = answer.headers.get("dpop-nonce").and_then(|value| value.to_str().ok());
        nonce.inspect(|nonce| self.nonce.set(nonce)).is_some()
    }
}

/// RFC 6749 section 2.3.1: both halves are form-encoded before they are joined.
fn basic(client_id: &str, secret: &str) -> Result<HeaderValue, Error> {
    let encode = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let joined = format!("{}:{}", encode(client_id), encode(secret));
    let mut value = HeaderValue::try_from(format!("Basic {}", BASE64.encode(joined))).map_err(not_sendable)?;
    value.set_sensitive(true);
    Ok(value)
}

fn refusal(answer: &Answer, body: &Value) -> Error {
    let why = body["error"].as_str().map_or_else(|| format!("HTTP {}", answer.status.as_u16()), str::to_owned);
    Error::new(code_of(answer.status), format!("the issuer gave no token: {why}"))
}

/// RFC 6749 section 5.2: what the issuer refuses will be refused again; what it cannot do now, another time may.
fn code_of(status: StatusCode) -> Code {
    if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        Code::Unavailable
    } else {
        Code::Unauthenticated
    }
}

fn not_sendable(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::setting("the request to the issuer cannot be written").because(cause)
}
