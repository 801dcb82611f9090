//! Steps that ship items on a stream.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use svc_platform_client::StreamBounds;
use svc_platform_client::bulk_proto::{EventItem, RegistrationItem};

use crate::messages;
use crate::protocol::Step;
use crate::steps::{Failure, Runner, told, verdict};

/// Ships the items: how they are read, and what of their results has the receipt.
macro_rules! shipped {
    ($runner:ident, $step:ident, $stream:expr, $item:ident of $payload:ident, $message:expr, $holder:ident) => {{
        let (stream, mut sent, mut error) = ($stream, Vec::new(), None);
        for item in &$step.items {
            tokio::time::sleep(Duration::from_millis(item.pause_ms)).await;
            let payload = messages::read($message.0, &item.$payload)?;
            let idempotency_key = item.idempotency_key.clone();
            let since = idempotency_key.is_empty().then(SystemTime::now);
            let made = $item { idempotency_key, $payload: Some(Clone::clone(&payload)) };
            match stream.send(made).await {
                Ok(acknowledgement) => sent.push((payload, since, acknowledgement)),
                Err(refused) => {
                    error = Some(refused);
                    break;
                }
            }
        }
        error = error.or(stream.close().await.err());
        let (mut results, mut receipt) = (vec![Value::Null; $step.items.len()], "absent");
        for (i, (payload, since, acknowledgement)) in sent.into_iter().enumerate() {
            let Ok(result) = acknowledgement.await else { continue };
            let carried = result.$holder.as_ref().is_some_and(|holder| holder.receipt.is_some());
            if carried && $runner.keyed && receipt != "refused" {
                receipt = verdict($runner.client.verify_item(&payload, &result, None, since).is_ok());
            }
            results[i] = messages::write($message.1, &result)?;
        }
        let mut answer = json!({ "results": results, "receipt": receipt });
        if let Some(error) = error {
            let left: Vec<_> = stream.unacknowledged().into_iter().map(|item| item.idempotency_key).collect();
            answer["error"] = told(&error);
            answer["unacknowledged"] = json!(left);
        }
        answer
    }};
}

impl Runner {
    pub(crate) async fn ship(&self, kind: &str, step: &Step) -> Result<Value, Failure> {
        let default = StreamBounds::default();
        let bounds = StreamBounds {
            max_unacknowledged_items: step.max_unacknowledged_items.unwrap_or(default.max_unacknowledged_items),
            max_unacknowledged_bytes: step.max_unacknowledged_bytes.unwrap_or(default.max_unacknowledged_bytes),
        };
        Ok(match kind {
            "events" => {
                let stream = self.client.open_event_stream(bounds);
                shipped!(self, step, stream, EventItem of event, ("RecordEvidenceRequest", "EventResult"), ingestion)
            }
            "registrations" => {
                let stream = self.client.open_registration_stream(bounds);
                let names = ("RegisterArtifactRequest", "RegistrationResult");
                shipped!(self, step, stream, RegistrationItem of registration, names, registration)
            }
            other => return Err(format!("there is no stream of {other}").into()),
        })
    }
}
