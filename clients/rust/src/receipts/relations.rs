//! What a record settles of an answer, a request, its sender and its time: the table that the packages of all languages
//! share.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, ReflectMessage};
use serde_json::{Map, Number, Value};

use super::ReceiptError;

static TABLE: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("../gen/record-relations.json")).unwrap_or_default());

static POOL: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(include_bytes!("../gen/descriptors.binpb").as_slice()).unwrap_or_default());

/// The kind of the records of a route.
pub(super) fn kind_of(route: &str) -> &'static Value {
    &TABLE["routes"][route]["kind"]
}

/// Compares an answer or an item, in its normal form, but for members whose first step is among the others.
pub(super) fn compare_answer(route: &str, said: &Value, record: &Value, others: &[&str]) -> Result<(), ReceiptError> {
    compare("answer", route, said, record, others)
}

/// Compares the caller that `WhoAmI` named, in its normal form.
pub(super) fn compare_caller(route: &str, caller: &Value, record: &Value) -> Result<(), ReceiptError> {
    compare("whoami", route, caller, record, &[])
}

fn compare(rows: &str, route: &str, said: &Value, record: &Value, others: &[&str]) -> Result<(), ReceiptError> {
    let mut decided = Vec::new();
    for row in list(&TABLE[rows]) {
        let member = text(&row["member"]);
        let is_of = row["of"].is_null() || list(&row["of"]).iter().any(|of| *of == route);
        let is_other = member.split('.').next().is_some_and(|first| others.contains(&first));
        if !is_of || is_other || decided.contains(&member) || !hold_all(row, record) {
            continue;
        }
        decided.push(member);
        if at(said, member) != expected(row, record).as_ref() {
            return Err(otherwise(member, "answer"));
        }
    }
    Ok(())
}

/// `None` if nothing may be there.
fn expected(row: &Value, record: &Value) -> Option<Value> {
    let path = |name: &str| row[name].as_str();
    if let Some(path) = path("has") {
        return Some(at(record, path).is_some().into());
    }
    if let Some(path) = path("count") {
        let counted = at(record, path);
        let items = counted.and_then(Value::as_array).map(Vec::len);
        return number(items.or(counted.and_then(Value::as_object).map(Map::len)).unwrap_or_default() as f64);
    }
    if !row["list"].is_null() {
        let items = list(&row["list"]).iter().filter(|item| hold_all(item, record));
        return Some(items.filter_map(|item| expected(item, record)).collect());
    }
    match path("at") {
        Some(path) => at(record, path).or(row.get("else")).cloned(),
        None => row.get("value").cloned(),
    }
}

fn hold_all(row: &Value, record: &Value) -> bool {
    list(&row["when"]).iter().all(|condition| {
        at(record, text(&condition["at"])).is_some_and(|value| condition.get("is").is_none_or(|is| is == value))
    })
}

/// The member at a dotted path.
pub(super) fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |inner, step| inner.as_object()?.get(step))
}

/// Compares what was sent with the request of the record, all of it.
pub(super) fn compare_request(name: &str, sent: &impl Message, record: &Value) -> Result<(), ReceiptError> {
    let rules = &TABLE["request"];
    let mut form = form_of(name, sent, true)?;
    let mut recorded = record["request"].as_object().cloned().unwrap_or_default();
    for name in list(&rules["never_recorded"]) {
        form.remove(text(name));
    }
    for name in list(&rules["left_out_if_empty"]) {
        if form.get(text(name)).is_some_and(|listed| list(listed).is_empty()) {
            form.remove(text(name));
        }
    }
    for name in list(&rules["zero_time"]) {
        if form.get(text(name)).is_some_and(|moment| is_zero_time(text(moment))) {
            form.remove(text(name));
        }
    }
    for name in list(&rules["rewritten"]) {
        // What was made of it cannot be told; that there was one can.
        if form.remove(text(name)).is_some() {
            recorded.remove(text(name));
        }
    }
    for (name, value) in &form {
        if recorded.remove(name).as_ref() != Some(value) {
            return Err(otherwise(name, "request"));
        }
    }
    match recorded.keys().next() {
        Some(name) => Err(ReceiptError::new(format!("the receipt is of a request with {name}, which was not sent"))),
        None => Ok(()),
    }
}

/// Whether it is the time that counts as none.
fn is_zero_time(text: &str) -> bool {
    let Some(("0001-01-01", rest)) = text.split_at_checked(10) else { return false };
    let Some(rest) = rest.strip_prefix(['T', 't']).and_then(|rest| rest.strip_prefix("00:00:00")) else {
        return false;
    };
    let zone = match rest.strip_prefix('.') {
        Some(fraction) => {
            let zone = fraction.trim_start_matches('0');
            if zone.len() == fraction.len() {
                return false;
            }
            zone
        }
        None => rest,
    };
    ["Z", "z", "+00:00", "-00:00"].contains(&zone)
}

/// Whether the record was made in the time in which it can have been.
pub(super) fn compare_time(record: &Value, since: Option<SystemTime>) -> Result<(), ReceiptError> {
    let tolerance = Duration::from_secs(TABLE["time"]["tolerance_seconds"].as_u64().unwrap_or_default());
    let told = text(&record["recorded_at"]);
    let moment = told.parse::<prost_types::Timestamp>().ok().and_then(|moment| SystemTime::try_from(moment).ok());
    let recorded = moment.ok_or_else(|| ReceiptError::new("the receipt's recorded_at is no time"))?;
    if recorded > SystemTime::now() + tolerance {
        return Err(ReceiptError::new(format!("the receipt is of a time that is still to come: {told}")));
    }
    if since.is_some_and(|since| recorded + tolerance < since) {
        return Err(ReceiptError::new(format!("the receipt is of a time before the request: {told}")));
    }
    Ok(())
}

/// A message in the spelling of the JSON routes: names of proto, words of enumerations, 64-bit integers as numbers. Every
/// member that is not optional is there; an optional one without a value is left out.
pub(super) fn normal_form(name: &str, message: &impl Message) -> Result<Value, ReceiptError> {
    form_of(name, message, false).map(Value::Object)
}

fn form_of(name: &str, message: &impl Message, is_request: bool) -> Result<Map<String, Value>, ReceiptError> {
    let descriptor = POOL.get_message_by_name(name);
    descriptor
        .and_then(|descriptor| DynamicMessage::decode(descriptor, message.encode_to_vec().as_slice()).ok())
        .map(|message| form(&message, is_request))
        .ok_or_else(|| ReceiptError::new(format!("there is no message {name}")))
}

/// In a request, an optional member that is empty is left out too.
fn form(message: &DynamicMessage, is_request: bool) -> Map<String, Value> {
    let mut form = Map::new();
    for field in message.descriptor().fields() {
        let value = message.get_field(&field);
        let is_absent =
            field.supports_presence() && (!message.has_field(&field) || is_request && is_empty(value.as_ref()));
        if !is_absent {
            form.insert(field.name().to_owned(), spelled(&field, value.as_ref(), is_request));
        }
    }
    form
}

fn is_empty(value: &prost_reflect::Value) -> bool {
    matches!(value, prost_reflect::Value::String(text) if text.is_empty())
        || matches!(value, prost_reflect::Value::EnumNumber(0))
}

fn spelled(field: &FieldDescriptor, value: &prost_reflect::Value, is_request: bool) -> Value {
    use prost_reflect::Value as Held;

    match (value, field.kind()) {
        (Held::Message(message), _) => Value::Object(form(message, is_request)),
        (Held::EnumNumber(number), Kind::Enum(named)) => word(&named, *number).into(),
        (Held::List(items), _) => items.iter().map(|item| spelled(field, item, is_request)).collect(),
        (Held::Map(entries), _) => {
            let entry = |(key, value): (&prost_reflect::MapKey, &Held)| {
                Some((key.as_str()?.to_owned(), value.as_str()?.to_owned().into()))
            };
            Value::Object(entries.iter().filter_map(entry).collect())
        }
        (Held::String(text), _) => text.clone().into(),
        (Held::Bool(truth), _) => (*truth).into(),
        (Held::I32(integer), _) => number(f64::from(*integer)).unwrap_or_default(),
        // Records hold no larger ones than doubles count exactly.
        (Held::I64(integer), _) => number(*integer as f64).unwrap_or_default(),
        // No message of the contract has any other; null is in no record.
        _ => Value::Null,
    }
}

/// As the JSON routes spell it: `protect` for `PROTECTION_OPERATION_PROTECT`.
fn word(named: &EnumDescriptor, number: i32) -> String {
    let none = named.get_value(0).map(|none| none.name().to_owned()).unwrap_or_default();
    let prefix = none.strip_suffix("UNSPECIFIED").unwrap_or_default();
    let name = named.get_value(number).map(|value| value.name().to_owned()).unwrap_or_default();
    name.strip_prefix(prefix).unwrap_or(&name).to_ascii_lowercase()
}

/// As records hold numbers.
fn number(double: f64) -> Option<Value> {
    Number::from_f64(double).map(Value::Number)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(super) fn otherwise(member: &str, of: &str) -> ReceiptError {
    ReceiptError::new(format!("the receipt is of another {member} than the {of}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table or definitions that cannot be read would compare nothing.
    #[test]
    fn the_table_is_the_shared_one_and_each_of_its_members_is_defined() {
        let shared: Value =
            serde_json::from_str(include_str!("../../../conformance/vectors/record-relations.json")).expect("JSON");
        assert_eq!(*TABLE, shared);
        assert!(list(&TABLE["answer"]).len() > 50);
        assert!(TABLE["time"]["tolerance_seconds"].is_u64());
        assert!(POOL.get_message_by_name("platform.sdk.v1.PlanProtectionResponse").is_some());
    }

    #[test]
    fn the_zero_time_is_that_of_the_table() {
        for moment in ["0001-01-01T00:00:00Z", "0001-01-01t00:00:00.000z", "0001-01-01T00:00:00.0-00:00"] {
            assert!(is_zero_time(moment), "{moment}");
        }
        for moment in
            ["", "0001-01-01T00:00:00", "0001-01-01T00:00:00.Z", "0001-01-01T00:00:01Z", "0001-01-01T00:00:00+01:00"]
        {
            assert!(!is_zero_time(moment), "{moment}");
        }
    }
}
