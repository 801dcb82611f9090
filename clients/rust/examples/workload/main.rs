//! A workload's day with the platform over gRPC: who am I, what is there, may I, how, and what I did.

mod settings;

use std::collections::HashMap;
use std::fmt::Write;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use settings::Settings;
use svc_platform_client::proto::{
    ArtifactKind, ArtifactProfile, EvidenceEventType, KeyAccessOperation, Obligation, PlanKeyAccessRequest,
    PlanProtectionRequest, ProtectionOperation, Receipt, RecordEvidenceRequest, RegisterArtifactRequest,
    ResolvePolicyRequest, ResourceDescriptor, WhoAmIRequest, WorkloadDescriptor,
};
use svc_platform_client::{Client, ClientCredentials, Error, Reason, Retry, UnderstoodObligation};

/// What ends the program: a text for a person.
type Failure = Box<dyn std::error::Error>;

const CONTENT_DIGEST: &str = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
const ARTIFACT_DIGEST: &str = "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            match failure.downcast_ref() {
                Some(error) => eprintln!("{}", describe(error)),
                None => eprintln!("{failure}"),
            }
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Failure> {
    let settings = Settings::from_environment()?;
    let verifies = settings.log_key.is_some();
    let client = connect(settings)?;
    discover(&client).await?;
    let decision = decide(&client, verifies).await?;
    record(&client, decision).await
}

/// A client that waits for a service that restarts: the deadline alone bounds how often it tries.
fn connect(settings: Settings) -> Result<Client, Failure> {
    let tls = settings.tls;
    let credentials = ClientCredentials::builder(settings.issuer, settings.client_id, settings.client_secret.as_str());
    let tokens = credentials.scopes(settings.scope.split_whitespace()).tls(tls.clone()).build()?;
    let retry = Retry::default()
        .attempts(u32::MAX)
        .on_retry(|error, pause| eprintln!("{error}; trying again in {} ms", pause.as_millis()));
    let mut builder = Client::builder(settings.url)
        .tls(tls)
        .tokens(tokens)
        .deadline(Duration::from_secs(30))
        .retry(retry)
        .understands([UnderstoodObligation::with_parameters(LOG_USE, ["audience"])]);
    if let Some(key) = settings.log_key {
        builder = builder.log_key(key.parse()?);
    }
    Ok(builder.build()?)
}

async fn discover(client: &Client) -> Result<(), Failure> {
    let caller = client.who_am_i(WhoAmIRequest {}).await?.caller.ok_or("the answer names no caller")?;
    println!("whoami {} of {}", caller.principal_id, caller.tenant_id);
    println!("capabilities {} routes", client.capabilities().await?.routes.len());
    println!("bootstrap {}", client.bootstrap().await?.enforcement_model);
    Ok(())
}

/// Asks for the three decisions; returns the id of the one that the artifact is protected under.
async fn decide(client: &Client, verifies: bool) -> Result<String, Failure> {
    let to_protect = PlanProtectionRequest {
        operation: ProtectionOperation::Protect.into(),
        workload: workload(),
        resource: resource(),
        preferred_artifact_profile: Some(ArtifactProfile::Tdf.into()),
        content_digest: Some(CONTENT_DIGEST.into()),
        content_size_bytes: Some(48213),
        purpose: purpose(),
        labels: labels(),
        attributes: attributes(),
        // Members that come later are optional.
        ..Default::default()
    };
    let since = SystemTime::now();
    let answer = client.plan_protection(to_protect.clone()).await?;
    let plan = answer.decision.as_ref().ok_or("the answer has no decision")?;
    println!("protection-plan allow {} {}", plan.allow, plan.decision_id);
    let to_access = ResolvePolicyRequest {
        operation: ProtectionOperation::Access.into(),
        workload: workload(),
        resource: resource(),
        content_digest: Some(CONTENT_DIGEST.into()),
        purpose: purpose(),
        labels: labels(),
        attributes: attributes(),
        ..Default::default()
    };
    let policy = client.resolve_policy(to_access).await?.decision.ok_or("the answer has no decision")?;
    println!("policy-resolve allow {} {}", policy.allow, policy.decision_id);
    let to_wrap = PlanKeyAccessRequest {
        operation: KeyAccessOperation::Wrap.into(),
        workload: workload(),
        resource: resource(),
        artifact_profile: Some(ArtifactProfile::Tdf.into()),
        key_reference: Some("kms://tenant-a/keys/42".into()),
        purpose: purpose(),
        labels: labels(),
        attributes: attributes(),
        ..Default::default()
    };
    let key = client.plan_key_access(to_wrap).await?.decision.ok_or("the answer has no decision")?;
    println!("key-access-plan allow {} {}", key.allow, key.decision_id);
    client.require_allow(plan)?;
    for obligation in &plan.obligations {
        meet(obligation)?;
    }
    if verifies {
        let verified = client.verify_answer(Some(&to_protect), &answer, Some(since))?;
        println!("receipt leaf {} of {}", verified.leaf_index(), verified.log_origin());
    }
    Ok(plan.decision_id.clone())
}

/// An obligation that this workload meets where a decision demands it; operators hand out the ids. Requests list all that
/// it meets: where policy demands another one, the answer is a denial.
const LOG_USE: &str = "log-use";

/// Does what is demanded, before the decision is acted on. What it does not know, parameters included, it cannot meet.
fn meet(obligation: &Obligation) -> Result<(), Failure> {
    match obligation.parameters.get("audience") {
        Some(audience) if obligation.id == LOG_USE && obligation.parameters.len() == 1 => {
            println!("obligation log-use: told {audience}");
            Ok(())
        }
        _ => Err(format!("the platform demands {}: it cannot be met", obligation.id).into()),
    }
}

/// Tells the platform of the artifact that was made locally, and of what happened.
async fn record(client: &Client, decision: String) -> Result<(), Failure> {
    let artifact = RegisterArtifactRequest {
        operation: ProtectionOperation::Protect.into(),
        workload: workload(),
        resource: resource(),
        artifact_kind: Some(ArtifactKind::DataObject.into()),
        artifact_profile: ArtifactProfile::Tdf.into(),
        artifact_digest: ARTIFACT_DIGEST.into(),
        artifact_locator: Some("s3://archive/2026/cust-8841.tdf".into()),
        decision_id: Some(decision.clone()),
        purpose: purpose(),
        labels: labels(),
        attributes: attributes(),
        ..Default::default()
    };
    let registration =
        client.register_artifact(artifact).await?.registration.ok_or("the answer has no registration")?;
    println!("artifact-register accepted {} {}", registration.accepted, record_id(registration.receipt));
    let event = RecordEvidenceRequest {
        event_type: EvidenceEventType::Protect.into(),
        workload: workload(),
        resource: resource(),
        artifact_kind: Some(ArtifactKind::DataObject.into()),
        artifact_profile: Some(ArtifactProfile::Tdf.into()),
        artifact_digest: Some(ARTIFACT_DIGEST.into()),
        outcome: Some("completed".into()),
        occurred_at: Some("2026-03-01T12:00:00Z".into()),
        decision_id: Some(decision),
        purpose: purpose(),
        labels: labels(),
        attributes: attributes(),
        ..Default::default()
    };
    let ingestion = client.record_evidence(event).await?.ingestion.ok_or("the answer has no ingestion")?;
    println!("evidence accepted {} {}", ingestion.accepted, record_id(ingestion.receipt));
    Ok(())
}

fn record_id(receipt: Option<Receipt>) -> String {
    receipt.map(|receipt| receipt.record_id).unwrap_or_default()
}

/// What is wrong, for a person, with the id to name when asking the operator.
fn describe(error: &Error) -> String {
    let mut text = format!("{:?}: {error}", error.code());
    if let Some(reason) = error.reason() {
        let _ = write!(text, "\n  reason: {reason}");
        let advice = match reason {
            Reason::MissingScope => {
                format!("ask the issuer for these scopes too: {}", error.missing_scopes().join(" "))
            }
            Reason::ProofOfPossessionFailed => "the token is bound to another client certificate than the one \
                 presented, or the service does not trust it"
                .into(),
            Reason::InvalidToken => "the service does not take tokens of this issuer, or for this audience".into(),
            _ => String::new(),
        };
        if !advice.is_empty() {
            let _ = write!(text, "\n  {advice}");
        }
    }
    if let Some(id) = error.request_id() {
        let _ = write!(text, "\n  request id: {id}");
    }
    for broken in error.violations() {
        let _ = write!(text, "\n  {}: {}", broken.field, broken.message);
    }
    text
}

fn workload() -> Option<WorkloadDescriptor> {
    Some(WorkloadDescriptor {
        application: "payroll-export".into(),
        environment: Some("production".into()),
        component: Some("nightly-writer".into()),
    })
}

fn resource() -> Option<ResourceDescriptor> {
    Some(ResourceDescriptor {
        kind: "customer-record".into(),
        id: Some("cust-8841".into()),
        mime_type: Some("application/pdf".into()),
    })
}

fn purpose() -> Option<String> {
    Some("quarterly-audit".into())
}

fn labels() -> Vec<String> {
    vec!["confidential".into()]
}

fn attributes() -> HashMap<String, String> {
    HashMap::from([("region".into(), "eu".into())])
}
