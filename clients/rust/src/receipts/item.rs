//! Whether a record is the one of an item of a bulk call or a stream, and of the request that it answers.

use serde_json::json;

use super::answer::{Row, Said, decided_rows, none, obligations, word};
use super::{LogKey, ReceiptError, VerifiedReceipt, verify_item};
use crate::bulk_proto::{
    EventResult, KeyAccessPlanItem, PlanKeyAccessesRequest, PlanKeyAccessesResponse, PlanProtectionsRequest,
    PlanProtectionsResponse, PolicyResolutionItem, ProtectionPlanItem, RecordEventsRequest, RecordEventsResponse,
    RegisterArtifactsRequest, RegisterArtifactsResponse, RegistrationResult, ResolvePoliciesRequest,
    ResolvePoliciesResponse,
};
use crate::proto::{
    Caller, PlanKeyAccessRequest, PlanProtectionRequest, RecordEvidenceRequest, RegisterArtifactRequest,
    ResolvePolicyRequest, ResourceDescriptor, WorkloadDescriptor,
};

/// What an item answers.
pub trait ItemRequest: sealed::Asked {}

impl<Q: sealed::Asked> ItemRequest for Q {}

/// The request of a bulk call.
pub trait BulkRequest: sealed::AskedAll {}

impl<Q: sealed::AskedAll> BulkRequest for Q {}

mod sealed {
    use super::{Caller, ItemRequest, ReceiptError, Said};

    /// Only the requests of the contract are.
    pub trait Asked {
        /// The item that answers it.
        type Item;

        /// What was recorded, as the item and the request have it. An error where the item has no receipt.
        fn said<'a>(&self, item: &'a Self::Item, caller: Option<&Caller>) -> Result<Said<'a>, ReceiptError>;

        /// Whether the item has a receipt.
        fn is_receipted(item: &Self::Item) -> bool;
    }

    /// Likewise.
    pub trait AskedAll {
        /// One of the requests.
        type Request: ItemRequest;
        /// The answer to all of them.
        type Answer;

        /// Each request; `None` where there is none in its item.
        fn requests(&self) -> Vec<Option<&Self::Request>>;

        /// Each item, and who called.
        fn answered(answer: &Self::Answer) -> (Vec<&<Self::Request as Asked>::Item>, Option<&Caller>);
    }
}

/// Checks the receipts of all items that have one.
pub(crate) fn verify_items<Q: BulkRequest>(
    request: &Q,
    answer: &Q::Answer,
    keys: &[LogKey],
) -> Result<Vec<Option<VerifiedReceipt>>, ReceiptError> {
    use sealed::Asked;

    let requests = request.requests();
    let (items, caller) = Q::answered(answer);
    if requests.len() != items.len() {
        return Err(ReceiptError::new("the answer has more or fewer items than the request"));
    }
    let verify = |(request, item): (Option<&Q::Request>, &<Q::Request as Asked>::Item)| {
        if !Q::Request::is_receipted(item) {
            return Ok(None);
        }
        let request = request.ok_or_else(|| ReceiptError::new("an item without a request has a receipt"))?;
        verify_item(request, item, caller, keys).map(Some)
    };
    requests.into_iter().zip(items).map(verify).collect()
}

/// The rows that every item has.
fn rows(
    kind: &'static str,
    route: &'static str,
    done: Row,
    (workload, resource): (Option<&WorkloadDescriptor>, Option<&ResourceDescriptor>),
    caller: Option<&Caller>,
) -> Vec<Row> {
    let id = resource.and_then(|resource| resource.id.as_ref()).filter(|id| !id.is_empty());
    let mut rows = vec![
        ("kind", "/kind", json!(kind)),
        ("route", "/route", json!(route)),
        done,
        (
            "workload_application",
            "/request/workload/application",
            json!(workload.map(|workload| &workload.application)),
        ),
        ("resource_kind", "/request/resource/kind", json!(resource.map(|resource| &resource.kind))),
        ("resource_id", "/request/resource/id", json!(id)),
    ];
    if let Some(caller) = caller {
        rows.push(("tenant_id", "/tenant_id", json!(caller.tenant_id)));
        rows.push(("principal_id", "/caller/principal_id", json!(caller.principal_id)));
    }
    rows
}

macro_rules! decided {
    ($($request:ty => $item:ty, $route:literal, $prefix:literal;)*) => {
        $(impl sealed::Asked for $request {
            type Item = $item;

            fn said<'a>(&self, item: &'a $item, caller: Option<&Caller>) -> Result<Said<'a>, ReceiptError> {
                let decision = item.decision.as_ref().ok_or_else(none)?;
                let receipt = decision.receipt.as_ref().ok_or_else(none)?;
                let operation = word(self.operation().as_str_name(), $prefix);
                let done = ("operation", "/request/operation", json!(operation));
                let described = (self.workload.as_ref(), self.resource.as_ref());
                let mut rows = rows("decision", concat!("/v1/sdk/", $route), done, described, caller);
                rows.extend(decided_rows!(decision));
                Ok(Said { receipt, decision_id: Some(&decision.decision_id), rows })
            }

            fn is_receipted(item: &$item) -> bool {
                item.decision.as_ref().is_some_and(|decision| decision.receipt.is_some())
            }
        })*
    };
}

decided! {
    PlanProtectionRequest => ProtectionPlanItem, "protection-plan", "PROTECTION_OPERATION_";
    ResolvePolicyRequest => PolicyResolutionItem, "policy-resolve", "PROTECTION_OPERATION_";
    PlanKeyAccessRequest => KeyAccessPlanItem, "key-access-plan", "KEY_ACCESS_OPERATION_";
}

macro_rules! recorded {
    ($($request:ty => $item:ty, $holder:ident, $kind:literal, $route:literal, $done:ident, $prefix:literal;)*) => {
        $(impl sealed::Asked for $request {
            type Item = $item;

            fn said<'a>(&self, item: &'a $item, caller: Option<&Caller>) -> Result<Said<'a>, ReceiptError> {
                let holder = item.$holder.as_ref().ok_or_else(none)?;
                let receipt = holder.receipt.as_ref().ok_or_else(none)?;
                let word = word(self.$done().as_str_name(), $prefix);
                let done = (stringify!($done), concat!("/request/", stringify!($done)), json!(word));
                let described = (self.workload.as_ref(), self.resource.as_ref());
                let mut rows = rows($kind, concat!("/v1/sdk/", $route), done, described, caller);
                rows.push(("accepted", "/outcome/accepted", json!(holder.accepted)));
                Ok(Said { receipt, decision_id: None, rows })
            }

            fn is_receipted(item: &$item) -> bool {
                item.$holder.as_ref().is_some_and(|holder| holder.receipt.is_some())
            }
        })*
    };
}

recorded! {
    RegisterArtifactRequest => RegistrationResult, registration, "registration", "artifact-register", operation,
        "PROTECTION_OPERATION_";
    RecordEvidenceRequest => EventResult, ingestion, "evidence", "evidence", event_type, "EVIDENCE_EVENT_TYPE_";
}

macro_rules! asked_all {
    ($($bulk:ty => $answer:ty, $request:ty, |$item:ident| $one:expr;)*) => {
        $(impl sealed::AskedAll for $bulk {
            type Request = $request;
            type Answer = $answer;

            fn requests(&self) -> Vec<Option<&$request>> {
                self.items.iter().map(|$item| $one).collect()
            }

            fn answered(answer: &$answer) -> (Vec<&<$request as sealed::Asked>::Item>, Option<&Caller>) {
                (answer.items.iter().collect(), answer.caller.as_ref())
            }
        })*
    };
}

asked_all! {
    PlanProtectionsRequest => PlanProtectionsResponse, PlanProtectionRequest, |item| Some(item);
    ResolvePoliciesRequest => ResolvePoliciesResponse, ResolvePolicyRequest, |item| Some(item);
    PlanKeyAccessesRequest => PlanKeyAccessesResponse, PlanKeyAccessRequest, |item| Some(item);
    RecordEventsRequest => RecordEventsResponse, RecordEvidenceRequest, |item| item.event.as_ref();
    RegisterArtifactsRequest => RegisterArtifactsResponse, RegisterArtifactRequest, |item| item.registration.as_ref();
}
