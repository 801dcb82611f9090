//! Questions of the suite, and their answers.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Deserialize)]
pub(crate) struct Case {
    pub(crate) case: String,
    pub(crate) base_url: String,
    #[serde(default)]
    pub(crate) tls: Tls,
    pub(crate) token: Option<Token>,
    #[serde(default)]
    pub(crate) dpop: bool,
    #[serde(default)]
    pub(crate) options: Options,
    pub(crate) steps: Vec<Step>,
}

#[derive(Default, Deserialize)]
pub(crate) struct Tls {
    pub(crate) ca: Option<String>,
    pub(crate) cert: Option<String>,
    pub(crate) key: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct Token {
    pub(crate) issuer: String,
    pub(crate) client_id: String,
    pub(crate) client_secret: Option<String>,
    #[serde(default)]
    pub(crate) scopes: Vec<String>,
}

#[derive(Default, Deserialize)]
pub(crate) struct Options {
    pub(crate) deadline_ms: Option<u64>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) initial_backoff_ms: Option<u64>,
    pub(crate) max_backoff_ms: Option<u64>,
    pub(crate) receipts: Option<String>,
    #[serde(default)]
    pub(crate) log_keys: Vec<String>,
    #[serde(default)]
    pub(crate) caller: Value,
    #[serde(default)]
    pub(crate) understood_obligations: Vec<String>,
    #[serde(default)]
    pub(crate) understood_parameters: HashMap<String, Vec<String>>,
    pub(crate) cache_ms: Option<u64>,
}

#[derive(Deserialize)]
pub(crate) struct Step {
    #[serde(default)]
    pub(crate) call: String,
    #[serde(default)]
    pub(crate) request: Value,
    pub(crate) idempotency_key: Option<String>,
    #[serde(default)]
    pub(crate) require_allow: bool,
    #[serde(default)]
    pub(crate) pause_ms: u64,
    #[serde(default)]
    pub(crate) calls: Vec<Step>,
    #[serde(default)]
    pub(crate) receipt: Value,
    #[serde(default)]
    pub(crate) log_key: String,
    pub(crate) stream: Option<String>,
    #[serde(default)]
    pub(crate) items: Vec<Item>,
    pub(crate) max_unacknowledged_items: Option<usize>,
    pub(crate) max_unacknowledged_bytes: Option<usize>,
}

#[derive(Deserialize)]
pub(crate) struct Item {
    #[serde(default)]
    pub(crate) idempotency_key: String,
    #[serde(default)]
    pub(crate) event: Value,
    #[serde(default)]
    pub(crate) registration: Value,
    #[serde(default)]
    pub(crate) pause_ms: u64,
}

#[derive(Serialize)]
pub(crate) struct Answer {
    pub(crate) case: String,
    pub(crate) steps: Vec<Value>,
}
