//! Proofs that a token is used by who it was issued to (RFC 9449).

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64_URL;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use tonic::Code;
use uuid::Uuid;

use crate::Error;

/// A key that tokens are bound to: ECDSA on P-256 (`ES256`). Clones are the same key.
#[derive(Clone)]
pub struct DpopKey(Arc<Inner>);

struct Inner {
    pair: EcdsaKeyPair,
    jwk: Value,
    random: SystemRandom,
}

impl DpopKey {
    /// Makes a key that lives as long as this process. Tokens are short-lived: none needs an older one.
    ///
    /// # Errors
    /// Where the system has no randomness.
    pub fn generate() -> Result<Self, Error> {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
            .map_err(|_| Error::new(Code::Internal, "no key could be made"))?;
        Self::from_pkcs8(document.as_ref())
    }

    /// Reads a P-256 key in PKCS#8, PEM.
    ///
    /// # Errors
    /// `InvalidArgument` for any other text.
    pub fn from_pem(pem: &[u8]) -> Result<Self, Error> {
        let key = PrivatePkcs8KeyDer::from_pem_slice(pem)
            .map_err(|cause| Error::setting("the DPoP key is no PKCS#8 in PEM").because(cause))?;
        Self::from_pkcs8(key.secret_pkcs8_der())
    }

    fn from_pkcs8(der: &[u8]) -> Result<Self, Error> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &random)
            .map_err(|cause| Error::setting("the DPoP key is no P-256 key").because(cause.to_string()))?;
        // An uncompressed point: 4, x, y (SEC 1 section 2.3.3).
        let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
        let jwk = json!({ "crv": "P-256", "kty": "EC", "x": BASE64_URL.encode(x), "y": BASE64_URL.encode(y) });
        Ok(Self(Arc::new(Inner { pair, jwk, random })))
    }

    /// A proof for one request (RFC 9449 section 4.2): never used twice.
    pub(crate) fn proof(
        &self,
        method: &str,
        url: &str,
        token: Option<&str>,
        nonce: Option<&str>,
    ) -> Result<String, Error> {
        let header = json!({ "typ": "dpop+jwt", "alg": "ES256", "jwk": self.0.jwk });
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut claims = json!({ "jti": Uuid::new_v4().to_string(), "htm": method, "htu": url, "iat": now });
        if let Some(token) = token {
            claims["ath"] = BASE64_URL.encode(digest(&SHA256, token.as_bytes())).into();
        }
        if let Some(nonce) = nonce {
            claims["nonce"] = nonce.into();
        }
        let signed = format!("{}.{}", BASE64_URL.encode(header.to_string()), BASE64_URL.encode(claims.to_string()));
        let signature = self
            .0
            .pair
            .sign(&self.0.random, signed.as_bytes())
            .map_err(|_| Error::new(Code::Internal, "the DPoP proof could not be signed"))?;
        Ok(format!("{signed}.{}", BASE64_URL.encode(signature)))
    }
}

/// Keys never come into a log.
impl fmt::Debug for DpopKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("DpopKey").field(&self.0.jwk).finish()
    }
}

/// The nonce that one server wants to see in proofs (RFC 9449 sections 8 and 9): always the last that it sent.
#[derive(Default)]
pub(crate) struct Nonce(Mutex<Option<String>>);

impl Nonce {
    pub(crate) fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, nonce: &str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(nonce.to_owned());
    }
}
