#![doc = include_str!("../README.md")]

mod builder;
mod cache;
mod call;
mod channel;
mod client;
mod client_credentials;
mod decision;
mod dpop;
mod error;
mod http_client;
pub mod receipts;
mod tls;
mod tokens;

/// Messages and stubs, generated from the platform's definitions.
#[allow(missing_docs, clippy::all, rustdoc::all)]
pub mod proto {
    include!("gen/platform/sdk/v1/platform.sdk.v1.rs");
}

pub use builder::{ClientBuilder, ReceiptDetail};
pub use call::{Call, Retry};
pub use client::Client;
pub use client_credentials::{ClientAuthentication, ClientCredentials, ClientCredentialsBuilder};
pub use decision::{Decision, NotPermitted, UnderstoodObligation, permitted, require_allow};
pub use dpop::DpopKey;
pub use error::{Error, Reason, Violation};
pub use receipts::{LogKey, ReceiptError, RecordedAnswer, VerifiedReceipt, verify_answer, verify_receipt};
pub use tls::Tls;
pub use tokens::{Token, TokenSource};
pub use tonic::Code;
