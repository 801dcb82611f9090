//! Receipts of calls that are nearly alike: nothing is believed but what belongs together.

#[path = "../src/messages.rs"]
#[allow(dead_code, reason = "the driver needs the rest")]
mod messages;

use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use prost_types::Timestamp;
use ring::digest::{SHA256, digest};
use ring::signature::{Ed25519KeyPair, KeyPair};
use ring::{hkdf, hmac};
use serde_json::{Value, json};
use svc_platform_client::bulk_proto::{EventItem, EventResult, ItemOutcome, RecordEventsRequest, RecordEventsResponse};
use svc_platform_client::proto::{
    Caller, PlanKeyAccessResponse, PlanProtectionResponse, Receipt, RecordEvidenceResponse, RegisterArtifactResponse,
    ResolvePolicyResponse,
};
use svc_platform_client::{
    Client, ClientBuilder, LogKey, ReceiptDetail, ReceiptError, Sender, VerifiedReceipt, verify_answer, verify_receipt,
};

const ORIGIN: &str = "logs.example.com/0123";

static TABLE: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../../conformance/vectors/record-relations.json")).expect("it is JSON")
});

/// A call as the service answers it, with a receipt of a log that is that of all tenants here: nothing but the comparison
/// with the record tells it from another. Messages are protobuf JSON.
#[derive(Clone)]
struct Made {
    route: &'static str,
    difference: &'static str,
    request: Value,
    answer: Value,
    caller: Value,
    at: SystemTime,
}

impl Made {
    fn holder(&self) -> &'static str {
        TABLE["routes"][self.route]["holder"].as_str().expect("every route has one")
    }

    fn name(&self) -> String {
        format!("{}, {}", self.route, self.difference)
    }

    fn receipt(&self) -> &Value {
        &self.answer[self.holder()]["receipt"]
    }

    /// The answer, with this receipt and, of a decision, its id.
    fn with(&self, receipt: &Value) -> Value {
        let mut answer = self.answer.clone();
        answer[self.holder()]["receipt"] = receipt.clone();
        if self.holder() == "decision" {
            answer["decision"]["decisionId"] = receipt["recordId"].clone();
        }
        answer
    }

    fn sender(&self) -> Sender {
        Sender { caller: Some(messages::read("Caller", &self.caller).expect("it is one")), since: Some(self.at) }
    }
}

const ROUTES: [(&str, &[&str]); 5] = [
    ("protection-plan", &["operation", "content_digest"]),
    ("policy-resolve", &["operation", "content_digest"]),
    ("key-access-plan", &["operation", "content_digest", "key_reference"]),
    ("artifact-register", &["operation", "artifact_profile", "key_reference"]),
    ("evidence", &["event_type", "artifact_profile", "outcome"]),
];

const DIFFERENCES: [&str; 13] = [
    "plain",
    "earlier",
    "tenant",
    "principal",
    "application",
    "resource",
    "type",
    "operation",
    "labels",
    "attributes",
    "purpose",
    "digest",
    "key",
];

/// What one call has otherwise than another of its route.
fn difference(name: &str) -> Value {
    match name {
        "tenant" => json!({ "tenant": "tenant-b" }),
        "principal" => json!({ "principal": "q" }),
        "application" => json!({ "workload": { "application": "reports" } }),
        "resource" => json!({ "resource": { "kind": "record", "id": "r-2" } }),
        "type" => json!({ "resource": { "kind": "record", "id": "r-1", "mime_type": "text/plain" } }),
        "operation" => json!({ "operation": "rewrap", "event_type": "rewrap" }),
        "labels" => json!({ "labels": ["public"] }),
        "attributes" => json!({ "attributes": { "region": "us" } }),
        "purpose" => json!({ "purpose": "audit" }),
        "digest" => json!({ "artifact_digest": "sha256:02", "content_digest": "sha256:02" }),
        "key" => json!({ "key_reference": "kms://b", "artifact_cid": "bafy-b" }),
        _ => json!({}),
    }
}

fn guidance(route: &str) -> Value {
    match route {
        "protection-plan" => json!({
            "handling_mode": "local_only", "local_enforcement_library": "sdk", "send_only": ["labels"],
            "artifact_profile": "envelope", "key_strategy": "wrapped", "policy_resolution": "central",
        }),
        "policy-resolve" => json!({
            "enforcement_mode": "local", "required_actions": ["log"], "bind_policy_to": ["header"],
            "evidence_expected": ["protect"],
        }),
        "key-access-plan" => json!({
            "send_only": ["key_reference"], "artifact_profile": "envelope", "authorization_strategy": "per_use",
            "key_transport": {
                "mode": "local_provided", "key_material_origin": "kms", "stable_key_reference_preferred": true,
                "raw_key_delivery_forbidden": true,
            },
        }),
        _ => Value::Null,
    }
}

/// Members of the first, and those of the second over them.
fn merged(mut first: Value, second: &Value) -> Value {
    for (name, value) in second.as_object().into_iter().flatten() {
        first[name] = value.clone();
    }
    first
}

/// Those of these members that are there.
fn only(from: &Value, names: &[&str]) -> Value {
    let members = names.iter().filter_map(|&name| Some((name.to_owned(), from.get(name)?.clone())));
    Value::Object(members.collect())
}

fn id_of(index: usize) -> String {
    format!("01890a5d-ac96-774b-bcce-{index:012}")
}

/// The calls, and the key of their log.
static CALLS: LazyLock<(Vec<Made>, LogKey)> = LazyLock::new(|| {
    let now = SystemTime::now();
    let mut log = Log::default();
    let mut calls = Vec::new();
    for (route, members) in ROUTES {
        for difference in DIFFERENCES {
            calls.push(make(&mut log, route, members, difference, calls.len(), now));
        }
    }
    let key = log.key();
    let receipts: Vec<_> = (0..calls.len()).map(|index| log.receipt(index)).collect();
    let with = |(made, receipt): (Made, Value)| Made { answer: made.with(&receipt), ..made };
    (calls.into_iter().zip(receipts).map(with).collect(), key)
});

fn make(
    log: &mut Log,
    route: &'static str,
    members: &[&str],
    different: &'static str,
    index: usize,
    now: SystemTime,
) -> Made {
    let is = json!({
        "tenant": "tenant-a", "principal": "p", "operation": if route == "key-access-plan" { "wrap" } else { "protect" },
        "event_type": "protect", "workload": { "application": "payroll" }, "resource": { "kind": "record", "id": "r-1" },
        "content_digest": "sha256:01", "artifact_digest": "sha256:01", "artifact_cid": "bafy-a",
        "artifact_profile": "envelope", "key_reference": "kms://a", "outcome": "completed", "labels": ["secret"],
        "attributes": { "region": "eu" },
    });
    let is = merged(is, &difference(different));
    let at = if different == "earlier" { now - Duration::from_secs(3_600) } else { now };
    let common = ["workload", "resource", "labels", "attributes", "purpose", "artifact_digest", "artifact_cid"];
    let request = merged(only(&is, &common), &only(&is, members));
    let kind = TABLE["routes"][route]["kind"].as_str().expect("every route has one");
    let outcome = match kind {
        "decision" => json!({
            "allow": true, "policy_revision": "sha256:00", "reasons": ["platform/allow"],
            "caller_scopes": ["policy.read"], "obligations": [{ "id": "note", "parameters": { "to": "dpo" } }],
            "guidance": guidance(route),
        }),
        "registration" => json!({ "accepted": true, "citation": "none", "artifact_cid": is["artifact_cid"] }),
        _ => json!({ "accepted": true, "citation": "none" }),
    };
    let time = Timestamp { nanos: 0, ..Timestamp::from(at) }.to_string().replace('Z', ".000Z");
    let caller = json!({ "auth_source": "bearer_token", "principal_id": is["principal"], "subject": "s" });
    let record = json!({
        "caller": caller, "kind": kind, "log": ORIGIN, "outcome": outcome, "record_id": id_of(index), "recorded_at": time,
        "request": request, "request_digest": format!("sha256:{}", hex(digest(&SHA256, &canonical(&request)).as_ref())),
        "request_id": "r", "route": format!("/v1/sdk/{route}"), "tenant_id": is["tenant"],
    });
    log.append(&canonical(&record), kind, &time);
    let caller = merged(
        only(&caller, &["principal_id", "subject", "auth_source"]),
        &json!({
            "tenant_id": is["tenant"], "scopes": ["policy.read"],
        }),
    );
    let answer = answer_to(route, &is, &outcome, &caller);
    Made { route, difference: different, request: named(route, &request), answer: named(route, &answer), caller, at }
}

/// What the service answers.
fn answer_to(route: &str, is: &Value, outcome: &Value, caller: &Value) -> Value {
    let mut summary = json!({
        "workload_application": is["workload"]["application"], "resource_kind": is["resource"]["kind"],
        "resource_id": is["resource"]["id"], "label_count": 1, "attribute_count": 1,
    });
    summary = merged(merged(summary, &only(&is["resource"], &["mime_type"])), &only(is, &["purpose"]));
    let decision = only(outcome, &["allow", "policy_revision", "reasons", "obligations"]);
    let guided = guidance(route);
    let parts = match route {
        "protection-plan" => json!({
            "decision": merged(decision, &merged(only(&guided, &["handling_mode"]), &json!({
                "plaintext_transport": "forbidden_by_default",
            }))),
            "execution": merged(only(&guided, &[
                "local_enforcement_library", "send_only", "artifact_profile", "key_strategy", "policy_resolution",
            ]), &json!({ "protect_locally": true })),
            "summary": { "preferred_artifact_profile": "envelope", "content_digest_present": true,
                "operation": is["operation"] },
        }),
        "policy-resolve" => json!({
            "decision": merged(decision, &only(&guided, &["enforcement_mode", "required_actions"])),
            "handling": merged(only(&guided, &["bind_policy_to", "evidence_expected"]), &json!({
                "protect_locally": true, "plaintext_transport": "forbidden_by_default",
            })),
            "summary": { "content_digest_present": true, "operation": is["operation"] },
        }),
        "key-access-plan" => json!({
            "decision": merged(decision, &json!({ "operation": is["operation"], "key_reference_present": true })),
            "execution": merged(only(&guided, &["send_only", "artifact_profile", "authorization_strategy", "key_transport"]),
                &json!({ "local_cryptographic_operation": true, "platform_role": "authorize_only" })),
            "summary": { "artifact_profile": "envelope", "key_reference_present": true, "content_digest_present": true,
                "operation": is["operation"] },
        }),
        "artifact-register" => json!({
            "registration": { "accepted": true, "artifact_transport": "metadata_only",
                "catalog_actions": ["record_artifact_metadata"], "evidence_expected": [is["operation"]] },
            "summary": merged(only(is, &["operation", "artifact_profile", "artifact_digest", "artifact_cid"]),
                &json!({ "key_reference_present": true })),
        }),
        _ => json!({
            "ingestion": { "accepted": true, "plaintext_transport": "forbidden_by_default",
                "correlate_by": ["artifact_digest", "artifact_cid", "resource.id"] },
            "summary": merged(only(is, &["event_type", "artifact_profile", "artifact_cid", "outcome"]),
                &json!({ "artifact_digest_present": true })),
        }),
    };
    let answer = json!({ "status": "ready", "caller": caller, "request_summary": merged(summary, &parts["summary"]) });
    merged(answer, &only(&parts, &["decision", "execution", "handling", "registration", "ingestion"]))
}

/// Has the words of enumerations as protobuf names them.
fn named(route: &str, members: &Value) -> Value {
    let operation = if route == "key-access-plan" { "KEY_ACCESS_OPERATION_" } else { "PROTECTION_OPERATION_" };
    let name = |(name, value): (&String, &Value)| {
        let prefix = match name.as_str() {
            "operation" => operation,
            "event_type" => "EVIDENCE_EVENT_TYPE_",
            "artifact_profile" | "preferred_artifact_profile" => "ARTIFACT_PROFILE_",
            _ => "",
        };
        let value = match value.as_str() {
            Some(word) if !prefix.is_empty() => json!(format!("{prefix}{}", word.to_ascii_uppercase())),
            _ if value.is_object() && name != "attributes" && name != "parameters" => named(route, value),
            _ => value.clone(),
        };
        (name.clone(), value)
    };
    Value::Object(members.as_object().into_iter().flatten().map(name).collect())
}

/// A log of one tree.
struct Log {
    signer: Ed25519KeyPair,
    leaves: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Default for Log {
    fn default() -> Self {
        Self { signer: Ed25519KeyPair::from_seed_unchecked(&[7; 32]).expect("a seed has 32 bytes"), leaves: Vec::new() }
    }
}

impl Log {
    fn append(&mut self, record: &[u8], kind: &str, time: &str) {
        let secret = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(&[0; 32]);
        let info: &[&[u8]] = &[b"platform-ledger/v1/commitment"];
        let key = hmac::Key::from(secret.expand(info, hmac::HMAC_SHA256).expect("it is short"));
        let leaf = json!({
            "commitment": format!("hmac-sha256:{}", hex(hmac::sign(&key, record).as_ref())), "kind": kind,
            "policy_revision": "sha256:00", "record_id": id_of(self.leaves.len()), "recorded_at": time, "v": 1,
        });
        self.leaves.push((canonical(&leaf), record.to_vec()));
    }

    fn typed_key(&self) -> Vec<u8> {
        [&[1], self.signer.public_key().as_ref()].concat()
    }

    fn key_id(&self) -> Vec<u8> {
        hash(&[ORIGIN.as_bytes(), b"\n", &self.typed_key()])[..4].to_vec()
    }

    fn key(&self) -> LogKey {
        let text = format!("{ORIGIN}+{}+{}", hex(&self.key_id()), BASE64.encode(self.typed_key()));
        text.parse().expect("it is a key")
    }

    fn receipt(&self, index: usize) -> Value {
        let (leaf, record) = &self.leaves[index];
        let size = self.leaves.len();
        let path: String = self.path(index, 0, size).iter().map(|hash| BASE64.encode(hash) + "\n").collect();
        let text = format!("{ORIGIN}\n{size}\n{}\n", BASE64.encode(self.root(0, size)));
        let signature = [self.key_id(), self.signer.sign(text.as_bytes()).as_ref().to_vec()].concat();
        let note = format!("{text}\n— {ORIGIN} {}\n", BASE64.encode(signature));
        json!({
            "recordId": id_of(index), "logOrigin": ORIGIN, "leafIndex": index.to_string(), "treeSize": size.to_string(),
            "leafHash": BASE64.encode(leaf_hash(leaf)),
            "proof": format!("c2sp.org/tlog-proof@v1\nindex {index}\n{path}\n{note}"),
            "leaf": BASE64.encode(leaf), "opening": BASE64.encode([0; 32]), "record": BASE64.encode(record),
        })
    }

    fn root(&self, begin: usize, end: usize) -> Vec<u8> {
        if end - begin == 1 {
            return leaf_hash(&self.leaves[begin].0);
        }
        let middle = begin + split(end - begin);
        hash(&[&[1], &self.root(begin, middle), &self.root(middle, end)])
    }

    fn path(&self, index: usize, begin: usize, end: usize) -> Vec<Vec<u8>> {
        if end - begin == 1 {
            return Vec::new();
        }
        let middle = begin + split(end - begin);
        let (mut path, other) = if index < middle {
            (self.path(index, begin, middle), self.root(middle, end))
        } else {
            (self.path(index, middle, end), self.root(begin, middle))
        };
        path.push(other);
        path
    }
}

fn split(size: usize) -> usize {
    size.next_power_of_two() / 2
}

fn leaf_hash(leaf: &[u8]) -> Vec<u8> {
    hash(&[&[0], leaf])
}

fn hash(parts: &[&[u8]]) -> Vec<u8> {
    digest(&SHA256, &parts.concat()).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn canonical(value: &Value) -> Vec<u8> {
    serde_json_canonicalizer::to_vec(value).expect("it is JSON")
}

type Verdict = Result<VerifiedReceipt, ReceiptError>;

fn verify(route: &str, request: Option<&Value>, answer: &Value, sender: &Sender) -> Verdict {
    macro_rules! of {
        ($request:literal, $answer:ty) => {{
            let answer: $answer = messages::read(concat!(stringify!($answer)), answer).expect("it is an answer");
            let request = request.map(|request| messages::read($request, request).expect("it is a request"));
            verify_answer(request.as_ref(), &answer, sender, std::slice::from_ref(&CALLS.1))
        }};
    }
    match route {
        "protection-plan" => of!("PlanProtectionRequest", PlanProtectionResponse),
        "policy-resolve" => of!("ResolvePolicyRequest", ResolvePolicyResponse),
        "key-access-plan" => of!("PlanKeyAccessRequest", PlanKeyAccessResponse),
        "artifact-register" => of!("RegisterArtifactRequest", RegisterArtifactResponse),
        _ => of!("RecordEvidenceRequest", RecordEvidenceResponse),
    }
}

#[test]
fn valid_calls_are_verified() {
    for call in &CALLS.0 {
        let verdict = verify(call.route, Some(&call.request), &call.answer, &call.sender());
        assert!(verdict.is_ok(), "{}: {verdict:?}", call.name());
        let verdict = verify(call.route, None, &call.answer, &Sender::default());
        assert!(verdict.is_ok(), "{}, alone: {verdict:?}", call.name());
    }
}

#[test]
fn parts_of_another_call_are_refused() {
    let mut swaps = 0;
    let mut refused = |own: &Made, other: &Made, what: &str, request: &Value, answer: &Value, sender: &Sender| {
        swaps += 1;
        let verdict = verify(own.route, Some(request), answer, sender);
        assert!(verdict.is_err(), "the {what} of {} in {}", other.name(), own.name());
    };
    for own in &CALLS.0 {
        for other in &CALLS.0 {
            let is_own_route = own.route == other.route;
            if is_own_route && own.difference == other.difference {
                continue;
            }
            let sender = own.sender();
            // An answer that is later than asked for may be the answer.
            let is_only_later = is_own_route && own.difference == "earlier" && other.difference == "plain";
            if !is_only_later {
                refused(own, other, "receipt", &own.request, &own.with(other.receipt()), &sender);
            }
            // Types keep those of other routes apart.
            if is_own_route && !is_only_later {
                refused(own, other, "answer", &own.request, &other.answer, &sender);
            }
            if is_own_route && own.request != other.request {
                refused(own, other, "request", &other.request, &own.answer, &sender);
            }
            if own.caller != other.caller {
                let mixed = Sender { since: sender.since, ..other.sender() };
                refused(own, other, "caller", &own.request, &own.answer, &mixed);
            }
        }
    }
    assert!(swaps >= 2_000, "{swaps} swaps");
}

/// Copies of a value, each with another one of the members or without it, by its path.
fn changes(value: &Value) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for (name, member) in value.as_object().into_iter().flatten() {
        let mut less = value.clone();
        less.as_object_mut().expect("it is an object").remove(name);
        found.push((name.clone(), less));
        let others = match member {
            Value::Bool(truth) => vec![(String::new(), json!(!truth))],
            Value::Number(number) => vec![(String::new(), json!(number.as_i64().expect("it is whole") + 1))],
            Value::String(text) => vec![(String::new(), another(text))],
            Value::Array(items) if items.iter().all(Value::is_string) => {
                vec![(String::new(), json!([items.clone(), vec![json!("other")]].concat()))]
            }
            Value::Object(_) => changes(member).into_iter().map(|(path, inner)| (format!(".{path}"), inner)).collect(),
            _ => Vec::new(),
        };
        for (path, other) in others {
            let mut changed = value.clone();
            changed[name] = other;
            found.push((format!("{name}{path}"), changed));
        }
    }
    found
}

fn another(text: &str) -> Value {
    match text {
        "PROTECTION_OPERATION_PROTECT" | "PROTECTION_OPERATION_REWRAP" => json!("PROTECTION_OPERATION_ACCESS"),
        "KEY_ACCESS_OPERATION_WRAP" | "KEY_ACCESS_OPERATION_REWRAP" => json!("KEY_ACCESS_OPERATION_UNWRAP"),
        "EVIDENCE_EVENT_TYPE_PROTECT" | "EVIDENCE_EVENT_TYPE_REWRAP" => json!("EVIDENCE_EVENT_TYPE_ACCESS"),
        "ARTIFACT_PROFILE_ENVELOPE" => json!("ARTIFACT_PROFILE_TDF"),
        text => json!(format!("{text}x")),
    }
}

#[test]
fn every_member_of_answer_and_request_counts() {
    let listed = |list: &str, path: &str| TABLE[list].as_array().is_some_and(|paths| paths.contains(&json!(path)));
    for call in &CALLS.0 {
        for (path, answer) in changes(&call.answer) {
            let is_retry = call.holder() != "decision" && listed("unproven_of_retries", &path);
            if listed("unproven", &path) || is_retry || path.contains(".receipt") {
                continue;
            }
            let verdict = verify(call.route, None, &answer, &Sender::default());
            assert!(verdict.is_err(), "{path} of {}", call.name());
        }
        for (path, request) in changes(&call.request) {
            let verdict = verify(call.route, Some(&request), &call.answer, &Sender::default());
            assert!(verdict.is_err(), "{path} of the request of {}", call.name());
        }
    }
}

#[test]
fn what_no_service_answers_is_refused() {
    for call in &CALLS.0 {
        let mut answer = call.answer.clone();
        match call.route {
            "protection-plan" | "key-access-plan" => answer["execution"]["send_plaintext_to_platform"] = json!(true),
            "artifact-register" => answer["registration"]["send_plaintext_to_platform"] = json!(true),
            "policy-resolve" => answer["decision"]["reasons"] = json!([]),
            _ => answer["ingestion"]["accepted"] = json!(false),
        }
        assert!(verify(call.route, Some(&call.request), &answer, &call.sender()).is_err(), "{}", call.name());
    }
}

#[test]
fn a_second_line_of_the_key_is_refused() {
    let (calls, key) = &*CALLS;
    let mut receipt: Receipt = messages::read("Receipt", calls[0].receipt()).expect("it is one");
    assert!(verify_receipt(&receipt, std::slice::from_ref(key)).is_ok());
    let line = receipt.proof.lines().last().expect("it has lines").to_owned();
    receipt.proof.push_str(&format!("{line}\n"));
    assert!(verify_receipt(&receipt, std::slice::from_ref(key)).is_err());
}

#[tokio::test]
async fn items_of_another_place_are_refused() {
    let (calls, key) = &*CALLS;
    let mut request = RecordEventsRequest::default();
    let mut answer = RecordEventsResponse::default();
    for call in calls {
        if call.route != "evidence" || ["tenant", "principal"].contains(&call.difference) {
            continue;
        }
        let recorded: RecordEvidenceResponse =
            messages::read("RecordEvidenceResponse", &call.answer).expect("it is one");
        let event = messages::read("RecordEvidenceRequest", &call.request).expect("it is one");
        request.items.push(EventItem { idempotency_key: String::new(), event: Some(event) });
        answer.caller = recorded.caller;
        let outcome = ItemOutcome::Answered.into();
        answer.items.push(EventResult { outcome, ingestion: recorded.ingestion, ..Default::default() });
    }
    let client = Client::builder("http://localhost").log_key(key.clone()).build().expect("it needs no service");
    let verdict = client.verify_items(&request, &answer, None);
    assert!(verdict.is_ok_and(|all| all.iter().all(Option::is_some)));
    let refused = |answer: &RecordEventsResponse| assert!(client.verify_items(&request, answer, None).is_err());
    for i in 0..answer.items.len() {
        for j in 0..i {
            if request.items[i] != request.items[j] {
                let mut swapped = answer.clone();
                swapped.items.swap(i, j);
                refused(&swapped);
            }
        }
    }
    for outcome in [ItemOutcome::Unspecified, ItemOutcome::Refused] {
        let mut changed = answer.clone();
        changed.items[0].outcome = outcome.into();
        refused(&changed);
    }
    for change in [
        |answer: &mut RecordEventsResponse| answer.items[0].ingestion = None,
        |answer: &mut RecordEventsResponse| answer.caller = None,
        |answer: &mut RecordEventsResponse| {
            answer.caller = Some(Caller { principal_id: "q".to_owned(), ..answer.caller.clone().unwrap_or_default() });
        },
    ] {
        let mut changed = answer.clone();
        change(&mut changed);
        refused(&changed);
    }
}

#[tokio::test]
async fn a_brief_receipt_is_no_whole_one() {
    let (calls, key) = &*CALLS;
    let call = calls.iter().find(|call| call.route == "evidence").expect("there is one");
    let request = messages::read("RecordEvidenceRequest", &call.request).expect("it is one");
    let mut answer: RecordEvidenceResponse = messages::read("RecordEvidenceResponse", &call.answer).expect("it is one");
    let receipt = answer.ingestion.as_mut().and_then(|ingestion| ingestion.receipt.as_mut()).expect("it has one");
    (receipt.leaf, receipt.opening, receipt.record) = (None, None, None);
    for (detail, is_taken) in [(None, false), (Some(ReceiptDetail::Whole), false), (Some(ReceiptDetail::Brief), true)] {
        let builder = Client::builder("http://localhost").log_key(key.clone());
        let client = detail.into_iter().fold(builder, ClientBuilder::receipts).build().expect("it needs no service");
        assert_eq!(client.verify_answer(Some(&request), &answer, None).is_ok(), is_taken, "{detail:?}");
    }
}
