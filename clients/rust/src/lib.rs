#![doc = include_str!("../README.md")]

mod builder;
mod bulk;
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
mod stream;
mod stream_kind;
mod tls;
mod tokens;
mod window;

/// Generated from the platform's definitions, which name each other by these paths.
#[allow(missing_docs, clippy::all, rustdoc::all)]
mod platform {
    pub mod sdk {
        pub mod v1 {
            include!("gen/platform/sdk/v1/platform.sdk.v1.rs");
        }
    }
    pub mod bulk {
        pub mod v1 {
            include!("gen/platform/bulk/v1/platform.bulk.v1.rs");
        }
    }
}

/// Messages and stubs of bulk calls and streams.
pub use platform::bulk::v1 as bulk_proto;
/// Messages and stubs.
pub use platform::sdk::v1 as proto;

pub use builder::{ClientBuilder, ReceiptDetail};
pub use call::{Call, Retry};
pub use client::Client;
pub use client_credentials::{ClientAuthentication, ClientCredentials, ClientCredentialsBuilder};
pub use decision::{Decision, NotPermitted, UnderstoodObligation, permitted, require_allow};
pub use dpop::DpopKey;
pub use error::{Error, Reason, Violation};
pub use receipts::{
    BulkRequest, ItemRequest, LogKey, ReceiptError, RecordedAnswer, Sender, VerifiedReceipt, verify_answer,
    verify_item, verify_receipt,
};
pub use stream::{Acknowledgement, ItemStream};
pub use stream_kind::{EventStream, Events, RegistrationStream, Registrations, StreamKind};
pub use tls::Tls;
pub use tokens::{Token, TokenSource};
pub use tonic::Code;
pub use window::StreamBounds;
