//! Access tokens by the client-credentials grant, kept until shortly before they expire.

use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use serde_json::Value;
use ureq::Agent;
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

use crate::Failure;
use crate::settings::Settings;

const REFRESH_MARGIN: Duration = Duration::from_secs(30);
const TIMEOUT: Duration = Duration::from_secs(10);

pub struct Tokens {
    http: Agent,
    endpoint: String,
    client_id: String,
    client_secret: String,
    scope: String,
    held: Option<(String, Instant)>,
}

impl Tokens {
    /// Reads the issuer's discovery document (OpenID Connect Discovery 1.0 section 4).
    pub fn discover(settings: &Settings) -> Result<Self, Failure> {
        let http = agent(settings)?;
        let url = format!("{}/.well-known/openid-configuration", settings.issuer.trim_end_matches('/'));
        let document: Value = http.get(&url).call()?.body_mut().read_json()?;
        if document["issuer"] != settings.issuer.as_str() {
            return Err("the discovery document is of another issuer".into());
        }
        let endpoint = document["token_endpoint"].as_str().ok_or("the issuer names no token endpoint")?;
        Ok(Self {
            http,
            endpoint: endpoint.to_owned(),
            client_id: settings.client_id.clone(),
            client_secret: settings.client_secret.clone(),
            scope: settings.scope.clone(),
            held: None,
        })
    }

    /// A token that is good for some time yet. Blocks while one is fetched: this program does one thing at a time.
    pub fn token(&mut self) -> Result<&str, Failure> {
        let fresh = matches!(&self.held, Some((_, stale_at)) if Instant::now() < *stale_at);
        if !fresh {
            self.held = Some(self.fetch()?);
        }
        let (token, _) = self.held.as_ref().expect("a token was just fetched");
        Ok(token)
    }

    fn fetch(&self) -> Result<(String, Instant), Failure> {
        let mut form = vec![("grant_type", "client_credentials")];
        if !self.scope.is_empty() {
            form.push(("scope", &self.scope));
        }
        let credentials = format!("{}:{}", self.client_id, self.client_secret);
        let asked_at = Instant::now();
        let mut response = self
            .http
            .post(&self.endpoint)
            .header("authorization", format!("Basic {}", BASE64.encode(credentials)))
            .send_form(form)?;
        let answer: Value = response.body_mut().read_json()?;
        if !response.status().is_success() {
            return Err(format!("the issuer gave no token: {}", answer["error"]).into());
        }
        let token = answer["access_token"].as_str().ok_or("the issuer's answer has no token")?;
        let lifetime = Duration::from_secs(answer["expires_in"].as_u64().unwrap_or(60));
        Ok((token.to_owned(), asked_at + lifetime - REFRESH_MARGIN.min(lifetime / 5)))
    }
}

/// The issuer sees the client certificate, and binds the token to it (RFC 8705 section 3).
fn agent(settings: &Settings) -> Result<Agent, Failure> {
    let own = ClientCert::new_with_certs(&certificates(&settings.cert)?, PrivateKey::from_pem(&settings.key)?);
    let tls =
        TlsConfig::builder().root_certs(RootCerts::from(certificates(&settings.ca)?)).client_cert(Some(own)).build();
    let config = Agent::config_builder().tls_config(tls).timeout_global(Some(TIMEOUT)).http_status_as_error(false);
    Ok(config.build().into())
}

fn certificates(pem: &[u8]) -> Result<Vec<Certificate<'static>>, Failure> {
    let mut found = Vec::new();
    for item in parse_pem(pem) {
        if let PemItem::Certificate(certificate) = item? {
            found.push(certificate);
        }
    }
    Ok(found)
}
