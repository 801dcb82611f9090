//! A workload's day with the platform over gRPC: who am I, what is there, may I, how, and what I did.

mod platform;
mod settings;
mod tokens;

/// Generated from the platform's definitions.
mod sdk {
    #![allow(clippy::all)]
    include!("../gen/platform/sdk/v1/platform.sdk.v1.rs");
}

use std::collections::HashMap;
use std::process::ExitCode;

use platform::Platform;
use sdk::discovery_service_client::DiscoveryServiceClient;
use sdk::evidence_service_client::EvidenceServiceClient;
use sdk::protection_service_client::ProtectionServiceClient;
use sdk::registration_service_client::RegistrationServiceClient;
use sdk::{ArtifactKind, ArtifactProfile, EvidenceEventType, KeyAccessOperation, ProtectionOperation};
use settings::Settings;

/// What ends the program: a text for a person.
type Failure = Box<dyn std::error::Error>;

const CONTENT_DIGEST: &str = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
const ARTIFACT_DIGEST: &str = "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Failure> {
    let mut platform = Platform::connect(&Settings::from_environment()?)?;
    discover(&mut platform).await?;
    let decision = decide(&mut platform).await?;
    record(&mut platform, decision).await
}

async fn discover(platform: &mut Platform) -> Result<(), Failure> {
    let client = DiscoveryServiceClient::new(platform.channel.clone());
    let who = platform
        .call(sdk::WhoAmIRequest {}, |request| {
            let mut client = client.clone();
            async move { client.who_am_i(request).await }
        })
        .await?;
    let caller = who.caller.ok_or("the answer names no caller")?;
    println!("whoami {} of {}", caller.principal_id, caller.tenant_id);
    let capabilities = platform
        .call(sdk::GetCapabilitiesRequest {}, |request| {
            let mut client = client.clone();
            async move { client.get_capabilities(request).await }
        })
        .await?;
    println!("capabilities {} routes", capabilities.routes.len());
    let bootstrap = platform
        .call(sdk::GetBootstrapRequest {}, |request| {
            let mut client = client.clone();
            async move { client.get_bootstrap(request).await }
        })
        .await?;
    println!("bootstrap {}", bootstrap.enforcement_model);
    Ok(())
}

/// Asks for the three decisions; returns the id of the one that the artifact is protected under.
async fn decide(platform: &mut Platform) -> Result<String, Failure> {
    let client = ProtectionServiceClient::new(platform.channel.clone());
    let to_protect = sdk::PlanProtectionRequest {
        operation: ProtectionOperation::Protect.into(),
        workload: workload(),
        resource: resource(),
        preferred_artifact_profile: Some(ArtifactProfile::Tdf.into()),
        content_digest: Some(CONTENT_DIGEST.into()),
        content_size_bytes: Some(48213),
        purpose: purpose(),
        labels: labels(),
        attributes: attributes(),
        understood_obligations: vec![LOG_USE.into()],
        // Members that come later are optional.
        ..Default::default()
    };
    let plan = platform
        .call(to_protect, |request| {
            let mut client = client.clone();
            async move { client.plan_protection(request).await }
        })
        .await?
        .decision
        .ok_or("the answer has no decision")?;
    println!("protection-plan allow {} {}", plan.allow, plan.decision_id);
    let to_access = sdk::ResolvePolicyRequest {
        operation: ProtectionOperation::Access.into(),
        workload: workload(),
        resource: resource(),
        content_digest: Some(CONTENT_DIGEST.into()),
        purpose: purpose(),
        labels: labels(),
        attributes: attributes(),
        understood_obligations: vec![LOG_USE.into()],
        ..Default::default()
    };
    let policy = platform
        .call(to_access, |request| {
            let mut client = client.clone();
            async move { client.resolve_policy(request).await }
        })
        .await?
        .decision
        .ok_or("the answer has no decision")?;
    println!("policy-resolve allow {} {}", policy.allow, policy.decision_id);
    let to_wrap = sdk::PlanKeyAccessRequest {
        operation: KeyAccessOperation::Wrap.into(),
        workload: workload(),
        resource: resource(),
        artifact_profile: Some(ArtifactProfile::Tdf.into()),
        key_reference: Some("kms://tenant-a/keys/42".into()),
        purpose: purpose(),
        labels: labels(),
        attributes: attributes(),
        understood_obligations: vec![LOG_USE.into()],
        ..Default::default()
    };
    let key = platform
        .call(to_wrap, |request| {
            let mut client = client.clone();
            async move { client.plan_key_access(request).await }
        })
        .await?
        .decision
        .ok_or("the answer has no decision")?;
    println!("key-access-plan allow {} {}", key.allow, key.decision_id);
    if !plan.allow {
        return Err(format!("the platform denied the operation: {}", plan.reasons.join(", ")).into());
    }
    for obligation in &plan.obligations {
        meet(obligation)?;
    }
    Ok(plan.decision_id)
}

/// An obligation that this workload meets where a decision demands it; operators hand out the ids. Requests list all that
/// it meets: where policy demands another one, the answer is a denial.
const LOG_USE: &str = "log-use";

/// Does what is demanded, before the decision is acted on. What it does not know, parameters included, it cannot meet.
fn meet(obligation: &sdk::Obligation) -> Result<(), Failure> {
    match obligation.parameters.get("audience") {
        Some(audience) if obligation.id == LOG_USE && obligation.parameters.len() == 1 => {
            println!("obligation log-use: told {audience}");
            Ok(())
        }
        _ => Err(format!("the platform demands {}: it cannot be met", obligation.id).into()),
    }
}

/// Tells the platform of the artifact that was made locally, and of what happened.
async fn record(platform: &mut Platform, decision: String) -> Result<(), Failure> {
    let registrations = RegistrationServiceClient::new(platform.channel.clone());
    let artifact = sdk::RegisterArtifactRequest {
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
    let registration = platform
        .once(artifact, |request| {
            let mut client = registrations.clone();
            async move { client.register_artifact(request).await }
        })
        .await?
        .registration
        .ok_or("the answer has no registration")?;
    println!("artifact-register accepted {} {}", registration.accepted, record_id(registration.receipt));
    let evidence = EvidenceServiceClient::new(platform.channel.clone());
    let event = sdk::RecordEvidenceRequest {
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
    let ingestion = platform
        .once(event, |request| {
            let mut client = evidence.clone();
            async move { client.record_evidence(request).await }
        })
        .await?
        .ingestion
        .ok_or("the answer has no ingestion")?;
    println!("evidence accepted {} {}", ingestion.accepted, record_id(ingestion.receipt));
    Ok(())
}

fn record_id(receipt: Option<sdk::Receipt>) -> String {
    receipt.map(|receipt| receipt.record_id).unwrap_or_default()
}

fn workload() -> Option<sdk::WorkloadDescriptor> {
    Some(sdk::WorkloadDescriptor {
        application: "payroll-export".into(),
        environment: Some("production".into()),
        component: Some("nightly-writer".into()),
    })
}

fn resource() -> Option<sdk::ResourceDescriptor> {
    Some(sdk::ResourceDescriptor {
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
