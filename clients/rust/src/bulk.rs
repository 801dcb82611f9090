//! Bulk calls: single calls by the thousand, with what the client fills in, item by item.

use uuid::Uuid;

use crate::bulk_proto::bulk_decision_service_client::BulkDecisionServiceClient;
use crate::bulk_proto::bulk_record_service_client::BulkRecordServiceClient;
use crate::bulk_proto::{
    PlanKeyAccessesRequest, PlanKeyAccessesResponse, PlanProtectionsRequest, PlanProtectionsResponse,
    RecordEventsRequest, RecordEventsResponse, RegisterArtifactsRequest, RegisterArtifactsResponse,
    ResolvePoliciesRequest, ResolvePoliciesResponse,
};
use crate::{Call, Client, Error, EventStream, RegistrationStream, StreamBounds};

/// A thousand answers with whole receipts are more than tonic takes by default.
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;

macro_rules! bulk_calls {
    ($($(#[$doc:meta])* $name:ident($request:ty) -> $response:ty = $stub:ident, $path:literal, $filled:expr;)*) => {
        impl Client {
            $($(#[$doc])*
            ///
            /// # Errors
            /// [`Error`] says what the service said, or what came between. An item that is refused is none.
            pub async fn $name(&self, call: impl Into<Call<$request>>) -> Result<$response, Error> {
                let mut call = call.into();
                call.message.items.iter_mut().for_each(|item| $filled(self, item));
                let made = |channel, request| async move {
                    $stub::new(channel).max_decoding_message_size(MAX_ANSWER_BYTES).$name(request).await
                };
                Ok(self.call(call, concat!("/platform.bulk.v1.", $path), made).await?.into_inner())
            })*
        }
    };
}

bulk_calls! {
    /// [`Client::plan_protection`], up to 1,000 times in one call. Each item is answered, or refused, alone.
    plan_protections(PlanProtectionsRequest) -> PlanProtectionsResponse = BulkDecisionServiceClient,
        "BulkDecisionService/PlanProtections",
        |client: &Self, item: &mut crate::proto::PlanProtectionRequest| client.understand(&mut item.understood_obligations);
    /// [`Client::resolve_policy`], likewise.
    resolve_policies(ResolvePoliciesRequest) -> ResolvePoliciesResponse = BulkDecisionServiceClient,
        "BulkDecisionService/ResolvePolicies",
        |client: &Self, item: &mut crate::proto::ResolvePolicyRequest| client.understand(&mut item.understood_obligations);
    /// [`Client::plan_key_access`], likewise.
    plan_key_accesses(PlanKeyAccessesRequest) -> PlanKeyAccessesResponse = BulkDecisionServiceClient,
        "BulkDecisionService/PlanKeyAccesses",
        |client: &Self, item: &mut crate::proto::PlanKeyAccessRequest| client.understand(&mut item.understood_obligations);
    /// [`Client::record_evidence`], likewise. An event without an idempotency key is given one, which all attempts keep.
    record_events(RecordEventsRequest) -> RecordEventsResponse = BulkRecordServiceClient,
        "BulkRecordService/RecordEvents",
        |_, item: &mut crate::bulk_proto::EventItem| fill_key(&mut item.idempotency_key);
    /// [`Client::register_artifact`], likewise; with idempotency keys as [`Client::record_events`].
    register_artifacts(RegisterArtifactsRequest) -> RegisterArtifactsResponse = BulkRecordServiceClient,
        "BulkRecordService/RegisterArtifacts",
        |_, item: &mut crate::bulk_proto::RegistrationItem| fill_key(&mut item.idempotency_key);
}

impl Client {
    /// Events, shipped continuously.
    #[must_use]
    pub fn open_event_stream(&self, bounds: StreamBounds) -> EventStream {
        EventStream::new(self.clone(), bounds)
    }

    /// Registrations, shipped continuously.
    #[must_use]
    pub fn open_registration_stream(&self, bounds: StreamBounds) -> RegistrationStream {
        RegistrationStream::new(self.clone(), bounds)
    }
}

pub(crate) fn fill_key(key: &mut String) {
    if key.is_empty() {
        *key = Uuid::new_v4().to_string();
    }
}
