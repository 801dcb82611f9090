//! Whether a record is the one of an answer, or of an item of a bulk call or a stream, and of the request that it answers.

use std::collections::HashMap;
use std::time::SystemTime;

use prost::Message;
use serde_json::Value;

use super::relations::{self, otherwise};
use super::{LogKey, ReceiptError, VerifiedReceipt, verify_receipt};
use crate::bulk_proto::{
    EventResult, ItemOutcome, KeyAccessPlanItem, PlanKeyAccessesRequest, PlanKeyAccessesResponse,
    PlanProtectionsRequest, PlanProtectionsResponse, PolicyResolutionItem, ProtectionPlanItem, RecordEventsRequest,
    RecordEventsResponse, RegisterArtifactsRequest, RegisterArtifactsResponse, RegistrationResult,
    ResolvePoliciesRequest, ResolvePoliciesResponse,
};
use crate::proto::{
    Caller, PlanKeyAccessRequest, PlanKeyAccessResponse, PlanProtectionRequest, PlanProtectionResponse, Receipt,
    RecordEvidenceRequest, RecordEvidenceResponse, RegisterArtifactRequest, RegisterArtifactResponse,
    ResolvePolicyRequest, ResolvePolicyResponse,
};

/// An answer that comes with a receipt: of a call that decides, registers or records.
pub trait RecordedAnswer: sealed::Recorded {}

impl<A: sealed::Recorded> RecordedAnswer for A {}

/// What an answer or an item answers.
pub trait ItemRequest: sealed::Asked {}

impl<Q: sealed::Asked> ItemRequest for Q {}

/// The request of a bulk call.
pub trait BulkRequest: sealed::AskedAll {}

impl<Q: sealed::AskedAll> BulkRequest for Q {}

/// Who sent a request, and when: the caller and the time of its record are compared with them.
#[derive(Clone, Debug, Default)]
pub struct Sender {
    /// As [`WhoAmI`](crate::Client::who_am_i) answered. `None`: not known, and not compared.
    pub caller: Option<Caller>,
    /// When the request was first sent, up to five minutes. `None`: not known, as of a registration or an event that may
    /// have been recorded before under the program's own idempotency key.
    pub since: Option<SystemTime>,
}

pub(crate) mod sealed {
    use super::{Caller, ItemOutcome, ItemRequest, Message, Receipt};

    /// What has a receipt. Only what the contract defines is.
    pub trait Receipted: Message {
        /// Of the message.
        const NAME: &'static str;

        /// `None` where it has none.
        fn receipt(&self) -> Option<&Receipt>;
    }

    /// An answer.
    pub trait Recorded: Receipted {
        /// What it answers.
        type Request: ItemRequest;
    }

    /// What became of an item.
    pub trait Item: Receipted {
        /// Whether it was answered.
        fn outcome(&self) -> ItemOutcome;
    }

    /// A request whose answer is recorded.
    pub trait Asked: Message + Clone {
        /// The item that answers it in bulk.
        type Item: Item;

        /// Of the message.
        const NAME: &'static str;

        /// That its record names.
        const ROUTE: &'static str;

        /// The obligations that it lists, where it can.
        fn obligations(&mut self) -> Option<&mut Vec<String>>;
    }

    /// A request of many.
    pub trait AskedAll {
        /// One of the requests.
        type Request: ItemRequest;
        /// The answer to all of them.
        type Answer;

        /// Each request, `None` where there is none in its item; and the item's own key, empty where it has none.
        fn requests(&self) -> Vec<(Option<&Self::Request>, &str)>;

        /// Each item, and who called.
        fn answered(answer: &Self::Answer) -> (Vec<&<Self::Request as Asked>::Item>, Option<&Caller>);
    }
}

use sealed::{Asked, AskedAll, Item, Receipted, Recorded};

/// Checks the receipt of an answer as [`verify_receipt`] does, and that it is that of this answer, of this request and of
/// its sender: every member of the answer that its record settles is the record's, and the whole request was recorded as
/// it was sent, with the obligations that the client lists. The request is `None` where only the answer was kept. Of a
/// brief receipt only the id of a decision is compared.
///
/// # Errors
/// [`ReceiptError`] says what does not hold, also where the answer has no receipt.
pub fn verify_answer<A: RecordedAnswer>(
    request: Option<&A::Request>,
    answer: &A,
    sender: &Sender,
    keys: &[LogKey],
) -> Result<VerifiedReceipt, ReceiptError> {
    verify(request, answer, relations::normal_form(A::NAME, answer)?, &[], sender, keys)
}

/// Checks the receipt of an item of a bulk call or a stream as [`verify_answer`] does that of an answer. The caller is that
/// of the answer around the item; streams send none, and then it is not compared.
///
/// # Errors
/// [`ReceiptError`] says what does not hold, also where the item has no receipt.
pub fn verify_item<Q: ItemRequest>(
    request: &Q,
    item: &Q::Item,
    caller: Option<&Caller>,
    sender: &Sender,
    keys: &[LogKey],
) -> Result<VerifiedReceipt, ReceiptError> {
    let mut said = said_of(item)?;
    if item.outcome() != ItemOutcome::Answered {
        return Err(ReceiptError::new("the item was not answered"));
    }
    match caller {
        Some(caller) => {
            said["caller"] = relations::normal_form(CALLER, caller)?;
            verify(Some(request), item, said, &["status", "request_summary"], sender, keys)
        }
        None => verify(Some(request), item, said, &["status", "request_summary", "caller"], sender, keys),
    }
}

/// Checks the receipts of all items that were answered.
pub(crate) fn verify_items<Q: BulkRequest>(
    request: &Q,
    answer: &Q::Answer,
    sender: &Sender,
    keys: &[LogKey],
    complete: impl Fn(&Q::Request) -> Q::Request,
) -> Result<Vec<Option<VerifiedReceipt>>, ReceiptError> {
    let requests = request.requests();
    let (items, caller) = Q::answered(answer);
    if requests.len() != items.len() {
        return Err(ReceiptError::new("the answer has more or fewer items than the request"));
    }
    // An answer without one has no caller that could be the record's.
    let caller = caller.cloned().unwrap_or_default();
    let mut verified = Vec::with_capacity(items.len());
    // Two items may ask the same, so that their questions do not tell their records apart.
    let mut owners = HashMap::new();
    for (at, ((request, key), item)) in requests.into_iter().zip(items).enumerate() {
        if item.outcome() != ItemOutcome::Answered {
            said_of(item)?;
            verified.push(None);
            continue;
        }
        let request = request.ok_or_else(|| ReceiptError::new("an item without a request was answered"))?;
        // It may have been recorded before.
        let since = sender.since.filter(|_| key.is_empty());
        let sender = Sender { since, ..sender.clone() };
        let one = verify_item(&complete(request), item, Some(&caller), &sender, keys)?;
        let owner = (key, key.is_empty().then_some(at));
        if *owners.entry((one.log_origin().to_owned(), one.leaf_index())).or_insert(owner) != owner {
            return Err(ReceiptError::new("one record answers two items"));
        }
        verified.push(Some(one));
    }
    Ok(verified)
}

const CALLER: &str = "platform.sdk.v1.Caller";

/// The normal form of an item, which has a result if it was answered, and only then.
fn said_of<I: Item>(item: &I) -> Result<Value, ReceiptError> {
    let said = relations::normal_form(I::NAME, item)?;
    let mut members = said.as_object().into_iter().flatten();
    let has_result = members.any(|(name, value)| value.is_object() && name != "error");
    if has_result == (item.outcome() == ItemOutcome::Answered) {
        Ok(said)
    } else {
        Err(ReceiptError::new("an item has a result if it was answered, and only then"))
    }
}

fn verify<Q: Asked>(
    request: Option<&Q>,
    answer: &impl Receipted,
    said: Value,
    others: &[&str],
    sender: &Sender,
    keys: &[LogKey],
) -> Result<VerifiedReceipt, ReceiptError> {
    let receipt = answer.receipt().ok_or_else(|| ReceiptError::new("the answer has no receipt"))?;
    let verified = verify_receipt(receipt, keys)?;
    // Of a brief receipt only this is compared.
    if relations::at(&said, "decision.decision_id").is_some_and(|id| *id != receipt.record_id.as_str()) {
        return Err(otherwise("decision_id", "answer"));
    }
    let Some(record) = verified.record() else { return Ok(verified) };
    if record["route"] != format!("/v1/sdk/{}", Q::ROUTE) || record["kind"] != *relations::kind_of(Q::ROUTE) {
        return Err(otherwise("route", "answer"));
    }
    relations::compare_answer(Q::ROUTE, &said, record, others)?;
    if let Some(request) = request {
        relations::compare_request(Q::NAME, request, record)?;
    }
    if let Some(caller) = &sender.caller {
        relations::compare_caller(Q::ROUTE, &relations::normal_form(CALLER, caller)?, record)?;
    }
    relations::compare_time(record, sender.since)?;
    Ok(verified)
}

macro_rules! recorded {
    ($($route:literal: $request:ident => $answer:ident, $item:ident, $holder:ident $(, $obligations:ident)?;)*) => {
        $(impl Receipted for $answer {
            const NAME: &'static str = concat!("platform.sdk.v1.", stringify!($answer));

            fn receipt(&self) -> Option<&Receipt> {
                self.$holder.as_ref()?.receipt.as_ref()
            }
        }

        impl Recorded for $answer {
            type Request = $request;
        }

        impl Receipted for $item {
            const NAME: &'static str = concat!("platform.bulk.v1.", stringify!($item));

            fn receipt(&self) -> Option<&Receipt> {
                self.$holder.as_ref()?.receipt.as_ref()
            }
        }

        impl Item for $item {
            fn outcome(&self) -> ItemOutcome {
                self.outcome()
            }
        }

        impl Asked for $request {
            type Item = $item;

            const NAME: &'static str = concat!("platform.sdk.v1.", stringify!($request));
            const ROUTE: &'static str = $route;

            fn obligations(&mut self) -> Option<&mut Vec<String>> {
                $(return Some(&mut self.$obligations);)?
                #[allow(unreachable_code, reason = "registrations and events list none")]
                None
            }
        })*
    };
}

recorded! {
    "protection-plan": PlanProtectionRequest => PlanProtectionResponse, ProtectionPlanItem, decision,
        understood_obligations;
    "policy-resolve": ResolvePolicyRequest => ResolvePolicyResponse, PolicyResolutionItem, decision,
        understood_obligations;
    "key-access-plan": PlanKeyAccessRequest => PlanKeyAccessResponse, KeyAccessPlanItem, decision,
        understood_obligations;
    "artifact-register": RegisterArtifactRequest => RegisterArtifactResponse, RegistrationResult, registration;
    "evidence": RecordEvidenceRequest => RecordEvidenceResponse, EventResult, ingestion;
}

macro_rules! asked_all {
    ($($bulk:ty => $answer:ty, $request:ty, |$item:ident| $one:expr;)*) => {
        $(impl AskedAll for $bulk {
            type Request = $request;
            type Answer = $answer;

            fn requests(&self) -> Vec<(Option<&$request>, &str)> {
                self.items.iter().map(|$item| $one).collect()
            }

            fn answered(answer: &$answer) -> (Vec<&<$request as Asked>::Item>, Option<&Caller>) {
                (answer.items.iter().collect(), answer.caller.as_ref())
            }
        })*
    };
}

asked_all! {
    PlanProtectionsRequest => PlanProtectionsResponse, PlanProtectionRequest, |item| (Some(item), "");
    ResolvePoliciesRequest => ResolvePoliciesResponse, ResolvePolicyRequest, |item| (Some(item), "");
    PlanKeyAccessesRequest => PlanKeyAccessesResponse, PlanKeyAccessRequest, |item| (Some(item), "");
    RecordEventsRequest => RecordEventsResponse, RecordEvidenceRequest,
        |item| (item.event.as_ref(), item.idempotency_key.as_str());
    RegisterArtifactsRequest => RegisterArtifactsResponse, RegisterArtifactRequest,
        |item| (item.registration.as_ref(), item.idempotency_key.as_str());
}
