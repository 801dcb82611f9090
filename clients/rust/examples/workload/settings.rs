//! Where the platform is and who calls it: from the environment. Secrets never come from arguments.

use std::{env, fs};

use svc_platform_client::Tls;

use crate::Failure;

pub struct Settings {
    /// Base URL of the service.
    pub url: String,
    /// Identifier of the token issuer, a URL.
    pub issuer: String,
    pub client_id: String,
    pub client_secret: String,
    /// What to ask for, separated by spaces; empty for what the issuer grants unasked.
    pub scope: String,
    /// Authorities of the servers, certificate and key of this workload.
    pub tls: Tls,
    /// What the tenant's log is believed on; without it receipts are not verified.
    pub log_key: Option<String>,
}

impl Settings {
    pub fn from_environment() -> Result<Self, Failure> {
        Ok(Self {
            url: required("URL")?,
            issuer: required("ISSUER")?,
            client_id: required("CLIENT_ID")?,
            client_secret: required("CLIENT_SECRET")?,
            scope: env::var("PLATFORM_SCOPE").unwrap_or_default(),
            tls: tls()?,
            log_key: env::var("PLATFORM_LOG_KEY").ok(),
        })
    }
}

/// Of no file where the service has no TLS, or where the system's authorities and no certificate of one's own will do.
fn tls() -> Result<Tls, Failure> {
    let mut tls = Tls::default();
    if let Ok(path) = required("CA") {
        tls = tls.ca(fs::read(path)?);
    }
    if let Ok(path) = required("CERT") {
        tls = tls.identity(fs::read(path)?, fs::read(required("KEY")?)?);
    }
    Ok(tls)
}

fn required(name: &str) -> Result<String, Failure> {
    match env::var(format!("PLATFORM_{name}")) {
        Ok(value) if !value.is_empty() => Ok(value),
        _ => Err(format!("PLATFORM_{name} is not set").into()),
    }
}
