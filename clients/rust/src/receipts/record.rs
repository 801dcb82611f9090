//! Leaves and records: of exactly the members of the ledger's format, in canonical JSON (RFC 8785), or refused.

use ring::digest::{SHA256, digest};
use ring::{hkdf, hmac};
use serde_json::{Map, Number, Value};

use super::ReceiptError;

const MAX_LEAF_BYTES: usize = 65_535;
const MAX_DEPTH: usize = 32;
const OPENING_BYTES: usize = 32;
const COMMITMENT_INFO: &[u8] = b"platform-ledger/v1/commitment";

const TEXT_MEMBERS: [&str; 8] =
    ["kind", "record_id", "log", "tenant_id", "recorded_at", "request_id", "route", "request_digest"];
const OBJECT_MEMBERS: [&str; 3] = ["caller", "request", "outcome"];
const CALLER_MEMBERS: [&str; 3] = ["auth_source", "principal_id", "subject"];

/// The record, shown to be the one that the leaf commits to.
pub(super) fn verify(leaf: &[u8], opening: &[u8], record: &[u8]) -> Result<Value, ReceiptError> {
    let told = read_leaf(leaf).ok_or_else(|| ReceiptError::new("the receipt's leaf cannot be read"))?;
    if commitment(record, opening).as_deref() != told["commitment"].as_str() {
        return Err(ReceiptError::new("the receipt's record is not the one that its leaf commits to"));
    }
    let record = read_record(record).ok_or_else(|| ReceiptError::new("the receipt's record cannot be read"))?;
    for member in ["record_id", "kind", "recorded_at"] {
        if record[member] != told[member] {
            return Err(ReceiptError::new(format!("the record has another {member} than its leaf")));
        }
    }
    let revision = record["outcome"].get("policy_revision");
    if record["kind"] == "decision" && revision.is_some_and(|revision| Some(revision) != told.get("policy_revision")) {
        return Err(ReceiptError::new("the record has another policy_revision than its leaf"));
    }
    let request = canonical(&record["request"]).unwrap_or_default();
    if record["request_digest"] != format!("sha256:{}", hex(digest(&SHA256, &request).as_ref())) {
        return Err(ReceiptError::new("the record has another request than its digest"));
    }
    Ok(record)
}

/// `hmac-sha256:` and hexadecimal, under a key that only the opening gives (RFC 5869).
fn commitment(record: &[u8], opening: &[u8]) -> Option<String> {
    if opening.len() != OPENING_BYTES {
        return None;
    }
    let secret = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(opening);
    let key = hmac::Key::from(secret.expand(&[COMMITMENT_INFO], hmac::HMAC_SHA256).ok()?);
    Some(format!("hmac-sha256:{}", hex(hmac::sign(&key, record).as_ref())))
}

fn read_leaf(bytes: &[u8]) -> Option<Value> {
    if bytes.len() > MAX_LEAF_BYTES {
        return None;
    }
    let leaf = read_canonical(bytes)?;
    let members = leaf.as_object()?;
    let revised = members.contains_key("policy_revision");
    let texts = ["commitment", "kind", "policy_revision", "record_id", "recorded_at"];
    let texts = texts.into_iter().filter(|&member| revised || member != "policy_revision");
    let fits = members.len() == if revised { 6 } else { 5 }
        && texts.into_iter().all(|member| leaf[member].is_string())
        && leaf["v"].as_f64() == Some(1.0)
        && is_moment(leaf["recorded_at"].as_str()?)
        && is_commitment(leaf["commitment"].as_str()?);
    fits.then_some(leaf)
}

fn read_record(bytes: &[u8]) -> Option<Value> {
    let record = read_canonical(bytes)?;
    let members = record.as_object()?;
    let caller = record["caller"].as_object()?;
    let fits = members.len() == TEXT_MEMBERS.len() + OBJECT_MEMBERS.len()
        && TEXT_MEMBERS.iter().all(|member| record[member].is_string())
        && OBJECT_MEMBERS.iter().all(|member| record[member].is_object())
        && caller.len() == CALLER_MEMBERS.len()
        && CALLER_MEMBERS.iter().all(|&member| caller.get(member).is_some_and(Value::is_string));
    fits.then_some(record)
}

/// What is written again must be what was read: no other text of it counts.
fn read_canonical(bytes: &[u8]) -> Option<Value> {
    let value = as_ecmascript(serde_json::from_slice(bytes).ok()?, 0)?;
    (canonical(&value)? == bytes).then_some(value)
}

fn canonical(value: &Value) -> Option<Vec<u8>> {
    serde_json_canonicalizer::to_vec(value).ok()
}

/// The value with its numbers as RFC 8785 section 3.2.2.3 has them: doubles. None for what no record holds: U+0000, or
/// nesting over 32 levels.
fn as_ecmascript(value: Value, depth: usize) -> Option<Value> {
    let clean = |text: &str| !text.contains('\0');
    match value {
        Value::Null | Value::Bool(_) => Some(value),
        Value::String(text) => clean(&text).then_some(Value::String(text)),
        Value::Number(number) => Number::from_f64(number.as_f64()?).map(Value::Number),
        _ if depth == MAX_DEPTH => None,
        Value::Array(items) => {
            items.into_iter().map(|item| as_ecmascript(item, depth + 1)).collect::<Option<_>>().map(Value::Array)
        }
        Value::Object(members) => members
            .into_iter()
            .map(|(name, member)| if clean(&name) { Some((name, as_ecmascript(member, depth + 1)?)) } else { None })
            .collect::<Option<Map<_, _>>>()
            .map(Value::Object),
    }
}

fn is_commitment(text: &str) -> bool {
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.strip_prefix("hmac-sha256:").is_some_and(|digits| digits.len() == 64 && digits.bytes().all(is_hex))
}

/// RFC 3339 in UTC with milliseconds, `2026-01-31T00:00:00.000Z`, and a day that the calendar has.
fn is_moment(text: &str) -> bool {
    const FORM: &[u8] = b"0000-00-00T00:00:00.000Z";
    let bytes = text.as_bytes();
    let alike = |(&byte, &form): (&u8, &u8)| if form == b'0' { byte.is_ascii_digit() } else { byte == form };
    if bytes.len() != FORM.len() || !bytes.iter().zip(FORM).all(alike) {
        return false;
    }
    let number = |range: std::ops::Range<usize>| text[range].parse::<u32>().unwrap_or(u32::MAX);
    let (year, month, day) = (number(0..4), number(5..7), number(8..10));
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    (1..=12).contains(&month)
        && (1..=days).contains(&day)
        && number(11..13) < 24
        && number(14..16) < 60
        && number(17..19) < 60
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
