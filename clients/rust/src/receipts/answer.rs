//! Whether a record is the one of an answer: what the answer says is what was recorded.

use serde_json::{Value, json};

use super::{ReceiptError, VerifiedReceipt};
use crate::proto::{
    Caller, Obligation, PlanKeyAccessResponse, PlanProtectionResponse, Receipt, RecordEvidenceResponse,
    RegisterArtifactResponse, ResolvePolicyResponse,
};

/// An answer that comes with a receipt: of a call that decides, registers or records.
pub trait RecordedAnswer: sealed::Recorded {}

impl<A: sealed::Recorded> RecordedAnswer for A {}

pub(super) mod sealed {
    use super::{ReceiptError, Said};

    /// Only the answers of the contract are.
    pub trait Recorded {
        /// What was recorded, as the answer has it. An error where nothing is said of it.
        fn said(&self) -> Result<Said<'_>, ReceiptError>;
    }
}

/// What an answer says that was recorded.
pub struct Said<'a> {
    pub(super) receipt: &'a Receipt,
    pub(super) decision_id: Option<&'a str>,
    pub(super) rows: Vec<Row>,
}

/// A member by its name, the record's place of it (RFC 6901), and what is said of it.
pub(super) type Row = (&'static str, &'static str, Value);

impl Said<'_> {
    /// Of a brief receipt only the id of a decision is compared.
    pub(super) fn check(&self, verified: &VerifiedReceipt) -> Result<(), ReceiptError> {
        if self.decision_id.is_some_and(|id| id != self.receipt.record_id) {
            return Err(otherwise("decision_id"));
        }
        let Some(record) = verified.record() else { return Ok(()) };
        for (member, place, said) in &self.rows {
            let recorded = match *member {
                // None are left out.
                "obligations" => record.pointer(place).cloned().unwrap_or_else(|| json!([])),
                // Of an object that came with the call it was derived.
                "artifact_cid" => {
                    record.pointer("/outcome/artifact_cid").or(record.pointer(place)).cloned().unwrap_or_default()
                }
                _ => record.pointer(place).cloned().unwrap_or_default(),
            };
            if *said != recorded {
                return Err(otherwise(member));
            }
        }
        Ok(())
    }
}

/// The rows that every answer has: `$done` says by what word of an enumeration, and under which name.
macro_rules! rows {
    ($answer:ident, $kind:literal, $route:literal, $done:ident, $prefix:literal) => {{
        let caller: Option<&Caller> = $answer.caller.as_ref();
        let summary = $answer.request_summary.as_ref();
        let done = summary.map(|summary| word(summary.$done().as_str_name(), $prefix));
        vec![
            ("kind", "/kind", json!($kind)),
            ("route", "/route", json!(concat!("/v1/sdk/", $route))),
            ("tenant_id", "/tenant_id", json!(caller.map(|caller| &caller.tenant_id))),
            ("principal_id", "/caller/principal_id", json!(caller.map(|caller| &caller.principal_id))),
            (stringify!($done), concat!("/request/", stringify!($done)), json!(done)),
            (
                "workload_application",
                "/request/workload/application",
                json!(summary.map(|summary| &summary.workload_application)),
            ),
            ("resource_kind", "/request/resource/kind", json!(summary.map(|summary| &summary.resource_kind))),
            ("resource_id", "/request/resource/id", json!(summary.and_then(|summary| summary.resource_id.as_ref()))),
        ]
    }};
}

/// What a decision says of its outcome.
macro_rules! decided_rows {
    ($decision:ident) => {{
        let mut rows = vec![
            ("allow", "/outcome/allow", json!($decision.allow)),
            ("policy_revision", "/outcome/policy_revision", json!($decision.policy_revision)),
            ("obligations", "/outcome/obligations", obligations(&$decision.obligations)),
        ];
        // A deployment may keep them to itself.
        if !$decision.reasons.is_empty() {
            rows.push(("reasons", "/outcome/reasons", json!($decision.reasons)));
        }
        rows
    }};
}

pub(super) use decided_rows;

macro_rules! decided {
    ($($message:ty, $route:literal, $prefix:literal;)*) => {
        $(impl sealed::Recorded for $message {
            fn said(&self) -> Result<Said<'_>, ReceiptError> {
                let decision = self.decision.as_ref().ok_or_else(none)?;
                let mut rows = rows!(self, "decision", $route, operation, $prefix);
                rows.extend(decided_rows!(decision));
                let receipt = decision.receipt.as_ref().ok_or_else(none)?;
                Ok(Said { receipt, decision_id: Some(&decision.decision_id), rows })
            }
        })*
    };
}

decided! {
    PlanProtectionResponse, "protection-plan", "PROTECTION_OPERATION_";
    ResolvePolicyResponse, "policy-resolve", "PROTECTION_OPERATION_";
    PlanKeyAccessResponse, "key-access-plan", "KEY_ACCESS_OPERATION_";
}

impl sealed::Recorded for RegisterArtifactResponse {
    fn said(&self) -> Result<Said<'_>, ReceiptError> {
        let registration = self.registration.as_ref().ok_or_else(none)?;
        let summary = self.request_summary.as_ref();
        let mut rows = rows!(self, "registration", "artifact-register", operation, "PROTECTION_OPERATION_");
        rows.push(("accepted", "/outcome/accepted", json!(registration.accepted)));
        let digest = summary.map(|summary| &summary.artifact_digest);
        rows.push(("artifact_digest", "/request/artifact_digest", json!(digest)));
        let cid = summary.and_then(|summary| summary.artifact_cid.as_ref());
        rows.push(("artifact_cid", "/request/artifact_cid", json!(cid)));
        Ok(Said { receipt: registration.receipt.as_ref().ok_or_else(none)?, decision_id: None, rows })
    }
}

impl sealed::Recorded for RecordEvidenceResponse {
    fn said(&self) -> Result<Said<'_>, ReceiptError> {
        let ingestion = self.ingestion.as_ref().ok_or_else(none)?;
        let mut rows = rows!(self, "evidence", "evidence", event_type, "EVIDENCE_EVENT_TYPE_");
        rows.push(("accepted", "/outcome/accepted", json!(ingestion.accepted)));
        let cid = self.request_summary.as_ref().and_then(|summary| summary.artifact_cid.as_ref());
        rows.push(("artifact_cid", "/request/artifact_cid", json!(cid)));
        Ok(Said { receipt: ingestion.receipt.as_ref().ok_or_else(none)?, decision_id: None, rows })
    }
}

pub(super) fn obligations(demanded: &[Obligation]) -> Value {
    demanded.iter().map(|one| json!({ "id": one.id, "parameters": one.parameters })).collect()
}

/// An enumeration's value as the JSON routes spell it.
pub(super) fn word(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_ascii_lowercase()
}

pub(super) fn none() -> ReceiptError {
    ReceiptError::new("the answer has no receipt")
}

fn otherwise(member: &str) -> ReceiptError {
    ReceiptError::new(format!("the receipt is of another {member} than the answer"))
}
