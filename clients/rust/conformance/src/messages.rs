//! Messages of the package as protobuf JSON.

use std::error::Error;
use std::sync::LazyLock;

use prost::Message;
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor};
use serde_json::Value;
use svc_platform_client::Code;

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(include_bytes!("../../../../gen/image.binpb").as_slice()).expect("the image is buf's own")
});

/// Reads a message of the platform's packages by its name there; null is an empty one.
pub(crate) fn read<M: Message + Default>(name: &str, json: &Value) -> Result<M, Box<dyn Error>> {
    if json.is_null() {
        return Ok(M::default());
    }
    let options = DeserializeOptions::new();
    Ok(DynamicMessage::deserialize_with_options(descriptor(name)?, json, &options)?.transcode_to()?)
}

pub(crate) fn write(name: &str, message: &impl Message) -> Result<Value, Box<dyn Error>> {
    Ok(serde_json::to_value(DynamicMessage::decode(descriptor(name)?, message.encode_to_vec().as_slice())?)?)
}

fn descriptor(name: &str) -> Result<MessageDescriptor, Box<dyn Error>> {
    let named = |package| POOL.get_message_by_name(&format!("platform.{package}.v1.{name}"));
    named("sdk").or_else(|| named("bulk")).ok_or_else(|| format!("there is no message {name}").into())
}

/// As gRPC spells it, in small letters.
pub(crate) fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "ok",
        Code::Cancelled => "canceled",
        Code::Unknown => "unknown",
        Code::InvalidArgument => "invalid_argument",
        Code::DeadlineExceeded => "deadline_exceeded",
        Code::NotFound => "not_found",
        Code::AlreadyExists => "already_exists",
        Code::PermissionDenied => "permission_denied",
        Code::ResourceExhausted => "resource_exhausted",
        Code::FailedPrecondition => "failed_precondition",
        Code::Aborted => "aborted",
        Code::OutOfRange => "out_of_range",
        Code::Unimplemented => "unimplemented",
        Code::Internal => "internal",
        Code::Unavailable => "unavailable",
        Code::DataLoss => "data_loss",
        Code::Unauthenticated => "unauthenticated",
    }
}

#[cfg(test)]
mod tests {
    use svc_platform_client::Reason;

    use super::*;

    #[test]
    fn every_reason_of_the_service_has_a_name() {
        let document: Value = serde_json::from_str(include_str!("../../../../gen/openapi.json")).expect("it is JSON");
        let reasons = document.pointer("/components/schemas/ErrorBody/properties/reason/enum");
        let reasons = reasons.and_then(Value::as_array).expect("the reasons are listed");
        for text in reasons.iter().filter_map(Value::as_str) {
            let reason = Reason::from(text);
            assert_eq!(reason.as_str(), text);
            assert!(!matches!(reason, Reason::Other(_)), "{text}");
        }
        assert!(matches!(Reason::from("reason_of_a_newer_service"), Reason::Other(_)));
    }
}
