//! Cases, carried out with the package as any program would use it.

use std::error::Error;
use std::fs;
use std::time::{Duration, SystemTime};

use futures_util::future::{LocalBoxFuture, join_all};
use serde_json::{Value, json};
use svc_platform_client::proto::Receipt;
use svc_platform_client::{
    Call, Client, ClientAuthentication, ClientBuilder, ClientCredentials, Decision, DpopKey, Error as CallError,
    NotPermitted, ReceiptDetail, Retry, Tls, UnderstoodObligation, require_allow, verify_receipt,
};

use crate::messages::{self, code_name};
use crate::protocol::{Answer, Case, Options, Step, Token};

pub(crate) type Failure = Box<dyn Error>;

pub(crate) async fn run(case: Case) -> Result<Answer, Failure> {
    let client = client(&case)?;
    let runner = Runner { client, keyed: !case.options.log_keys.is_empty() };
    let mut steps = Vec::new();
    for step in &case.steps {
        steps.push(runner.step(step).await?);
    }
    Ok(Answer { case: case.case, steps })
}

fn client(case: &Case) -> Result<Client, Failure> {
    let mut tls = Tls::default();
    if let Some(ca) = &case.tls.ca {
        tls = tls.ca(fs::read(ca)?);
    }
    if let (Some(cert), Some(key)) = (&case.tls.cert, &case.tls.key) {
        tls = tls.identity(fs::read(cert)?, fs::read(key)?);
    }
    let mut builder = options(Client::builder(&case.base_url), &case.options)?.tls(tls.clone());
    if let Some(token) = &case.token {
        builder = builder.tokens(tokens(token, tls, case.dpop)?);
    }
    Ok(builder.build()?)
}

fn options(mut builder: ClientBuilder, options: &Options) -> Result<ClientBuilder, Failure> {
    let mut retry = Retry::default();
    if let Some(attempts) = options.max_attempts {
        retry = retry.attempts(attempts);
    }
    if let Some(bound) = options.initial_backoff_ms {
        retry = retry.initial_backoff(Duration::from_millis(bound));
    }
    if let Some(bound) = options.max_backoff_ms {
        retry = retry.max_backoff(Duration::from_millis(bound));
    }
    if let Some(deadline) = options.deadline_ms {
        builder = builder.deadline(Duration::from_millis(deadline));
    }
    if let Some(detail) = &options.receipts {
        builder = builder.receipts(if detail == "brief" { ReceiptDetail::Brief } else { ReceiptDetail::Whole });
    }
    for key in &options.log_keys {
        builder = builder.log_key(key.parse()?);
    }
    if !options.caller.is_null() {
        builder = builder.caller(messages::read("Caller", &options.caller)?);
    }
    if let Some(keep) = options.cache_ms {
        builder = builder.keep_discovery(Duration::from_millis(keep));
    }
    let understood = options.understood_obligations.iter().map(|id| match options.understood_parameters.get(id) {
        Some(parameters) => UnderstoodObligation::with_parameters(id, parameters),
        None => UnderstoodObligation::from(id.as_str()),
    });
    Ok(builder.retry(retry).understands(understood))
}

fn tokens(token: &Token, tls: Tls, dpop: bool) -> Result<ClientCredentials, Failure> {
    let secret = token.client_secret.clone();
    let authentication = secret.map_or(ClientAuthentication::Certificate, ClientAuthentication::SecretBasic);
    let builder =
        ClientCredentials::builder(&token.issuer, &token.client_id, authentication).scopes(&token.scopes).tls(tls);
    Ok(if dpop { builder.dpop(DpopKey::generate()?) } else { builder }.build()?)
}

pub(crate) struct Runner {
    pub(crate) client: Client,
    /// Whether receipts can be verified.
    pub(crate) keyed: bool,
}

/// Makes one of the calls: how its message is read, what is looked at in its answer.
macro_rules! made {
    ($runner:ident, $step:ident, $method:ident, $message:literal, $($rest:tt)+) => {{
        let request = messages::read(concat!($message, "Request"), &$step.request)?;
        let mut call = Call::new(Clone::clone(&request));
        if let Some(key) = &$step.idempotency_key {
            call = call.idempotency_key(key);
        }
        // Under a key of the program's own it may have been recorded before.
        let since = $step.idempotency_key.is_none().then(SystemTime::now);
        match $runner.client.$method(call).await {
            Ok(answer) => made!(@answered $runner, $step, $message, (request, since), answer, $($rest)+),
            Err(error) => failed(&error),
        }
    }};
    (@answered $runner:ident, $step:ident, $message:literal, $asked:tt, $answer:ident, no receipt) => {{
        // Nothing of it is recorded.
        let _ = $asked;
        json!({ "answer": messages::write(concat!($message, "Response"), &$answer)?, "receipt": "absent" })
    }};
    (@answered $runner:ident, $step:ident, $message:literal, $asked:tt, $answer:ident, decision) => {
        match $runner.require_allow(&$step.request, &$answer.decision) {
            Err(refused) if $step.require_allow => not_permitted(refused),
            _ => made!(@answered $runner, $step, $message, $asked, $answer, receipt of decision),
        }
    };
    (@answered $runner:ident, $step:ident, $message:literal, $asked:tt, $answer:ident, receipt of $holder:ident) => {{
        let (request, since) = $asked;
        let carried = $answer.$holder.as_ref().is_some_and(|holder| holder.receipt.is_some());
        let receipt = if carried && $runner.keyed { verdict($runner.client.verify_answer(Some(&request), &$answer, since).is_ok()) } else { "absent" };
        json!({ "answer": messages::write(concat!($message, "Response"), &$answer)?, "receipt": receipt })
    }};
}

/// Makes one of the bulk calls.
macro_rules! made_all {
    ($runner:ident, $step:ident, $method:ident, $message:literal $(, $decision:ident)?) => {{
        let request = messages::read(concat!($message, "Request"), &$step.request)?;
        let since = Some(SystemTime::now());
        match $runner.client.$method(Call::new(Clone::clone(&request))).await {
            Ok(answer) => {
                let mut refused = None;
                $(for (item, asked) in answer.items.iter().zip($step.request["items"].as_array().into_iter().flatten()) {
                    if let (true, None, Err(why)) =
                        ($step.require_allow, &refused, $runner.require_allow(asked, &item.$decision))
                    {
                        refused = Some(why);
                    }
                })?
                let verified = $runner.client.verify_items(&request, &answer, since);
                let written = messages::write(concat!($message, "Response"), &answer)?;
                let receipt = if carries(&written) && $runner.keyed { verdict(verified.is_ok()) } else { "absent" };
                match Option::<NotPermitted>::take(&mut refused) {
                    Some(refused) => not_permitted(refused),
                    None => json!({ "answer": written, "receipt": receipt }),
                }
            }
            Err(error) => failed(&error),
        }
    }};
}

/// Whether any item of the answer has a receipt.
fn carries(answer: &Value) -> bool {
    let has =
        |item: &Value| ["decision", "registration", "ingestion"].iter().any(|&part| !item[part]["receipt"].is_null());
    answer["items"].as_array().into_iter().flatten().any(has)
}

impl Runner {
    fn step<'a>(&'a self, step: &'a Step) -> LocalBoxFuture<'a, Result<Value, Failure>> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(step.pause_ms)).await;
            if let Some(kind) = &step.stream {
                return self.ship(kind, step).await;
            }
            Ok(match step.call.as_str() {
                "whoami" => made!(self, step, who_am_i, "WhoAmI", no receipt),
                "capabilities" => made!(self, step, get_capabilities, "GetCapabilities", no receipt),
                "bootstrap" => made!(self, step, get_bootstrap, "GetBootstrap", no receipt),
                "protection-plan" => made!(self, step, plan_protection, "PlanProtection", decision),
                "policy-resolve" => made!(self, step, resolve_policy, "ResolvePolicy", decision),
                "key-access-plan" => made!(self, step, plan_key_access, "PlanKeyAccess", decision),
                "artifact-register" => {
                    made!(self, step, register_artifact, "RegisterArtifact", receipt of registration)
                }
                "evidence" => made!(self, step, record_evidence, "RecordEvidence", receipt of ingestion),
                "bulk/protection-plans" => made_all!(self, step, plan_protections, "PlanProtections", decision),
                "bulk/policy-resolutions" => made_all!(self, step, resolve_policies, "ResolvePolicies", decision),
                "bulk/key-access-plans" => made_all!(self, step, plan_key_accesses, "PlanKeyAccesses", decision),
                "bulk/artifact-registrations" => made_all!(self, step, register_artifacts, "RegisterArtifacts"),
                "bulk/evidence" => made_all!(self, step, record_events, "RecordEvents"),
                "cached-capabilities" => match self.client.capabilities().await {
                    Ok(answer) => {
                        json!({ "answer": messages::write("GetCapabilitiesResponse", &*answer)?, "receipt": "absent" })
                    }
                    Err(error) => failed(&error),
                },
                "cached-bootstrap" => match self.client.bootstrap().await {
                    Ok(answer) => {
                        json!({ "answer": messages::write("GetBootstrapResponse", &*answer)?, "receipt": "absent" })
                    }
                    Err(error) => failed(&error),
                },
                "concurrent" => {
                    let answers = join_all(step.calls.iter().map(|step| self.step(step))).await;
                    json!({ "steps": answers.into_iter().collect::<Result<Vec<_>, _>>()? })
                }
                "verify-receipt" => {
                    let receipt: Receipt = messages::read("Receipt", &step.receipt)?;
                    let verified = step.log_key.parse().and_then(|key| verify_receipt(&receipt, &[key]));
                    json!({ "receipt": verdict(verified.is_ok()) })
                }
                other => return Err(format!("there is no call {other}").into()),
            })
        })
    }

    /// A request that names obligations itself is understood by what it names.
    fn require_allow(&self, request: &Value, decision: &impl Decision) -> Result<(), NotPermitted> {
        match request["understoodObligations"].as_array() {
            Some(ids) => {
                let ids: Vec<_> = ids.iter().filter_map(Value::as_str).map(UnderstoodObligation::from).collect();
                require_allow(decision, &ids)
            }
            None => self.client.require_allow(decision),
        }
    }
}

pub(crate) fn verdict(verified: bool) -> &'static str {
    if verified { "verified" } else { "refused" }
}

fn failed(error: &CallError) -> Value {
    json!({ "error": told(error) })
}

pub(crate) fn told(error: &CallError) -> Value {
    eprintln!("{error}: {:?}", error.source().map(ToString::to_string));
    let violations: Vec<_> = error.violations().iter().map(|broken| json!({ "field": broken.field })).collect();
    json!({
        "code": code_name(error.code()),
        "reason": error.reason().map_or("", |reason| reason.as_str()),
        "request_id": error.request_id().unwrap_or_default(),
        "missing_scopes": error.missing_scopes(),
        "violations": violations,
    })
}

fn not_permitted(NotPermitted { reasons, unknown_obligations, .. }: NotPermitted) -> Value {
    json!({ "not_permitted": { "reasons": reasons, "unknown_obligations": unknown_obligations } })
}
