//! What proves who is who on a connection.

use std::fmt;
use std::sync::Arc;

use hyper_rustls::ConfigBuilderExt;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

use crate::Error;

/// Authorities that servers are believed on, and the certificate of this workload: all PEM. The default trusts the
/// authorities of the system, and presents nothing.
#[derive(Clone, Default)]
pub struct Tls {
    ca: Option<Vec<u8>>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Tls {
    /// Trusts these authorities, and not those of the system.
    #[must_use]
    pub fn ca(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.ca = Some(pem.into());
        self
    }

    /// Presents this certificate chain, whose key this is.
    #[must_use]
    pub fn identity(mut self, certificates: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.identity = Some((certificates.into(), key.into()));
        self
    }

    pub(crate) fn has_identity(&self) -> bool {
        self.identity.is_some()
    }

    /// For gRPC. Settings are read when the connection is made ready, so they are tried here first.
    pub(crate) fn grpc(&self) -> Result<ClientTlsConfig, Error> {
        self.https()?;
        let config = match &self.ca {
            Some(pem) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)),
            None => ClientTlsConfig::new().with_native_roots(),
        };
        Ok(match &self.identity {
            Some((certificates, key)) => config.identity(Identity::from_pem(certificates, key)),
            None => config,
        })
    }

    /// For the issuer.
    pub(crate) fn https(&self) -> Result<ClientConfig, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|cause| Error::setting("TLS cannot be set up").because(cause))?;
        let trusting = match &self.ca {
            Some(pem) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(pem)? {
                    roots
                        .add(certificate)
                        .map_err(|cause| Error::setting("an authority's certificate cannot be read").because(cause))?;
                }
                builder.with_root_certificates(roots)
            }
            None => builder
                .with_native_roots()
                .map_err(|cause| Error::setting("the system has no authorities that can be read").because(cause))?,
        };
        let Some((chain, key)) = &self.identity else {
            return Ok(trusting.with_no_client_auth());
        };
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|cause| Error::setting("the client certificate's key cannot be read").because(cause))?;
        trusting
            .with_client_auth_cert(certificates(chain)?, key)
            .map_err(|cause| Error::setting("the client certificate and its key cannot be used").because(cause))
    }
}

/// Keys never come into a log.
impl fmt::Debug for Tls {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Tls").field("ca", &self.ca.is_some()).field("identity", &self.has_identity()).finish()
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|cause| Error::setting("a certificate cannot be read").because(cause))?;
    if found.is_empty() { Err(Error::setting("the PEM holds no certificate")) } else { Ok(found) }
}
