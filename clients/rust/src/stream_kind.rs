//! What streams ship.

use std::future::Future;

use futures_util::Stream;
use tonic::codec::Streaming;
use tonic::{Request, Response, Status};

use crate::ItemStream;
use crate::bulk_proto::bulk_stream_service_client::BulkStreamServiceClient;
use crate::bulk_proto::{
    EventItem, EventResult, RegistrationItem, RegistrationResult, StreamEventsRequest, StreamEventsResponse,
    StreamRegistrationsRequest, StreamRegistrationsResponse,
};
use crate::channel::PlatformChannel;
use crate::proto::{Receipt, RecordEvidenceRequest, RegisterArtifactRequest};

/// What a stream ships: [`Events`] or [`Registrations`].
pub trait StreamKind: sealed::Kind {}

impl<K: sealed::Kind> StreamKind for K {}

/// Ships events.
pub type EventStream = ItemStream<Events>;

/// Ships registrations.
pub type RegistrationStream = ItemStream<Registrations>;

/// Items are [`EventItem`]s, their results [`EventResult`]s.
#[derive(Debug)]
pub enum Events {}

/// Items are [`RegistrationItem`]s, their results [`RegistrationResult`]s.
#[derive(Debug)]
pub enum Registrations {}

pub(crate) mod sealed {
    use super::{Future, PlatformChannel, Receipt, Request, Response, Status, Stream, Streaming};

    /// Only what the contract has is.
    pub trait Kind: Send + Sync + 'static {
        /// What is sent, with its key.
        type Item: prost::Message + Clone + Send + Sync;
        /// What became of it.
        type Result: Send + 'static;
        /// An item with its number.
        type Request: Send + 'static;
        /// Acknowledgements.
        type Response: Send + 'static;

        /// Of the method.
        const PATH: &'static str;

        /// The key of an item.
        fn key(item: &mut Self::Item) -> &mut String;

        /// The key that a result names, and the receipt of its record.
        fn key_and_receipt(result: &Self::Result) -> (&str, Option<&Receipt>);

        /// The item, numbered.
        fn request(sequence: i64, item: Self::Item) -> Self::Request;

        /// Each number that is acknowledged, with its result.
        fn acknowledged(response: Self::Response) -> Vec<(i64, Option<Self::Result>)>;

        /// Opens a stream over this channel.
        fn open<S: Stream<Item = Self::Request> + Send + 'static>(
            channel: PlatformChannel,
            request: Request<S>,
        ) -> impl Future<Output = Result<Response<Streaming<Self::Response>>, Status>> + Send;
    }
}

macro_rules! kinds {
    ($($kind:ident: $item:ident, $result:ident, $request:ident, $response:ident, $method:ident, $path:literal,
        $member:ident: $payload:ident, $holder:ident;)*) => {
        $(impl sealed::Kind for $kind {
            type Item = $item;
            type Result = $result;
            type Request = $request;
            type Response = $response;

            const PATH: &'static str = concat!("/platform.bulk.v1.BulkStreamService/", $path);

            fn key(item: &mut $item) -> &mut String {
                &mut item.idempotency_key
            }

            fn key_and_receipt(result: &$result) -> (&str, Option<&Receipt>) {
                (&result.idempotency_key, result.$holder.as_ref().and_then(|holder| holder.receipt.as_ref()))
            }

            fn request(sequence: i64, item: $item) -> $request {
                $request { sequence, item: Some(item) }
            }

            fn acknowledged(response: $response) -> Vec<(i64, Option<$result>)> {
                response.items.into_iter().map(|item| (item.sequence, item.result)).collect()
            }

            async fn open<S: Stream<Item = $request> + Send + 'static>(
                channel: PlatformChannel,
                request: Request<S>,
            ) -> Result<Response<Streaming<$response>>, Status> {
                BulkStreamServiceClient::new(channel).$method(request).await
            }
        }

        /// Without a key: it is given one where it is sent.
        impl From<$payload> for $item {
            fn from(payload: $payload) -> Self {
                Self { idempotency_key: String::new(), $member: Some(payload) }
            }
        })*
    };
}

kinds! {
    Events: EventItem, EventResult, StreamEventsRequest, StreamEventsResponse, stream_events, "StreamEvents",
        event: RecordEvidenceRequest, ingestion;
    Registrations: RegistrationItem, RegistrationResult, StreamRegistrationsRequest, StreamRegistrationsResponse,
        stream_registrations, "StreamRegistrations", registration: RegisterArtifactRequest, registration;
}
