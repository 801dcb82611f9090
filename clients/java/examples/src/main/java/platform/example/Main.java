package platform.example;

import java.io.IOException;
import java.time.Duration;
import java.util.Optional;
import java.util.Set;
import platform.client.ClientCredentials;
import platform.client.NotPermittedException;
import platform.client.PlatformClient;
import platform.client.PlatformClientBuilder;
import platform.client.PlatformException;
import platform.client.ReceiptException;
import platform.client.RetryPolicy;
import platform.client.Tls;
import platform.client.VerifiedReceipt;
import platform.sdk.v1.ArtifactKind;
import platform.sdk.v1.ArtifactProfile;
import platform.sdk.v1.Caller;
import platform.sdk.v1.EvidenceEventType;
import platform.sdk.v1.Ingestion;
import platform.sdk.v1.KeyAccessDecision;
import platform.sdk.v1.KeyAccessOperation;
import platform.sdk.v1.Obligation;
import platform.sdk.v1.PlanKeyAccessRequest;
import platform.sdk.v1.PlanProtectionRequest;
import platform.sdk.v1.PolicyDecision;
import platform.sdk.v1.ProtectionDecision;
import platform.sdk.v1.ProtectionOperation;
import platform.sdk.v1.RecordEvidenceRequest;
import platform.sdk.v1.RegisterArtifactRequest;
import platform.sdk.v1.Registration;
import platform.sdk.v1.ResolvePolicyRequest;
import platform.sdk.v1.ResourceDescriptor;
import platform.sdk.v1.WorkloadDescriptor;

/** A workload's day with the platform over gRPC: who am I, what is there, may I, how, and what I did. */
final class Main {
  private static final String CONTENT_DIGEST =
      "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
  private static final String ARTIFACT_DIGEST =
      "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";
  private static final String PURPOSE = "quarterly-audit";
  private static final String LABEL = "confidential";

  /** An obligation that this workload meets where a decision demands it, and the parameter that it knows of it. */
  private static final String LOG_USE = "log-use";

  private static final String AUDIENCE = "audience";
  private static final WorkloadDescriptor WORKLOAD =
      WorkloadDescriptor.newBuilder()
          .setApplication("payroll-export")
          .setEnvironment("production")
          .setComponent("nightly-writer")
          .build();
  private static final ResourceDescriptor RESOURCE =
      ResourceDescriptor.newBuilder()
          .setKind("customer-record")
          .setId("cust-8841")
          .setMimeType("application/pdf")
          .build();

  private Main() {}

  public static void main(String[] arguments) {
    try {
      Settings settings = Settings.fromEnvironment();
      try (PlatformClient client = client(settings)) {
        discover(client);
        String decision = decide(client, !settings.logKey().isEmpty());
        register(client, decision);
        report(client, decision);
      }
    } catch (PlatformException problem) {
      fail(describe(problem));
    } catch (NotPermittedException | ReceiptException | IllegalArgumentException problem) {
      fail(problem.getMessage());
    } catch (IOException unreadable) {
      fail("cannot begin: " + unreadable.getMessage());
    }
  }

  private static void fail(String message) {
    System.err.println(message);
    System.exit(1);
  }

  private static PlatformClient client(Settings settings) throws IOException {
    // The issuer sees the client certificate too, and binds the token to it (RFC 8705 section 3).
    Tls tls = settings.tls();
    ClientCredentials tokens =
        ClientCredentials.builder(settings.issuer(), settings.clientId())
            .clientSecretBasic(settings.clientSecret())
            .scopes(settings.scope().isEmpty() ? new String[0] : settings.scope().split(" "))
            .tls(tls)
            .build();
    PlatformClientBuilder builder =
        PlatformClient.builder(settings.url())
            .tls(tls)
            .tokens(tokens)
            .deadline(Duration.ofSeconds(30))
            .retry(new RetryPolicy(30, Duration.ofMillis(250), Duration.ofSeconds(4)))
            .onRetry((problem, pause) -> System.err.printf("%s; trying again in %d ms%n", problem.getMessage(), pause.toMillis()))
            .understands(LOG_USE, Set.of(AUDIENCE));
    if (!settings.logKey().isEmpty()) builder.logKeys(settings.logKey());
    return builder.build();
  }

  private static void discover(PlatformClient client) {
    Caller caller = client.whoAmI().getCaller();
    System.out.println("whoami " + caller.getPrincipalId() + " of " + caller.getTenantId());
    System.out.println("capabilities " + client.cachedCapabilities().getRoutesCount() + " routes");
    System.out.println("bootstrap " + client.cachedBootstrap().getEnforcementModel());
  }

  /** Asks for the three decisions; returns the id of the one that the artifact is protected under. */
  private static String decide(PlatformClient client, boolean verifiesReceipts) {
    ProtectionDecision plan =
        client
            .planProtection(
                PlanProtectionRequest.newBuilder()
                    .setOperation(ProtectionOperation.PROTECTION_OPERATION_PROTECT)
                    .setWorkload(WORKLOAD)
                    .setResource(RESOURCE)
                    .setPreferredArtifactProfile(ArtifactProfile.ARTIFACT_PROFILE_TDF)
                    .setContentDigest(CONTENT_DIGEST)
                    .setContentSizeBytes(48213)
                    .setPurpose(PURPOSE)
                    .addLabels(LABEL)
                    .putAttributes("region", "eu")
                    .build())
            .getDecision();
    System.out.println("protection-plan allow " + plan.getAllow() + " " + plan.getDecisionId());
    PolicyDecision policy =
        client
            .resolvePolicy(
                ResolvePolicyRequest.newBuilder()
                    .setOperation(ProtectionOperation.PROTECTION_OPERATION_ACCESS)
                    .setWorkload(WORKLOAD)
                    .setResource(RESOURCE)
                    .setContentDigest(CONTENT_DIGEST)
                    .setPurpose(PURPOSE)
                    .addLabels(LABEL)
                    .putAttributes("region", "eu")
                    .build())
            .getDecision();
    System.out.println("policy-resolve allow " + policy.getAllow() + " " + policy.getDecisionId());
    KeyAccessDecision key =
        client
            .planKeyAccess(
                PlanKeyAccessRequest.newBuilder()
                    .setOperation(KeyAccessOperation.KEY_ACCESS_OPERATION_WRAP)
                    .setWorkload(WORKLOAD)
                    .setResource(RESOURCE)
                    .setArtifactProfile(ArtifactProfile.ARTIFACT_PROFILE_TDF)
                    .setKeyReference("kms://tenant-a/keys/42")
                    .setPurpose(PURPOSE)
                    .addLabels(LABEL)
                    .putAttributes("region", "eu")
                    .build())
            .getDecision();
    System.out.println("key-access-plan allow " + key.getAllow() + " " + key.getDecisionId());
    client.requireAllow(plan);
    plan.getObligationsList().forEach(Main::meet);
    if (verifiesReceipts) {
      VerifiedReceipt receipt = client.verifyReceipt(plan.getReceipt());
      System.out.println("receipt leaf " + receipt.leafIndex() + " of " + receipt.logOrigin());
    }
    return plan.getDecisionId();
  }

  /** Does what is demanded, before the decision is acted on. */
  private static void meet(Obligation obligation) {
    System.out.println("obligation log-use: told " + obligation.getParametersOrThrow(AUDIENCE));
  }

  /** Tells the platform of the artifact that was made locally. */
  private static void register(PlatformClient client, String decision) {
    RegisterArtifactRequest request =
        RegisterArtifactRequest.newBuilder()
            .setOperation(ProtectionOperation.PROTECTION_OPERATION_PROTECT)
            .setWorkload(WORKLOAD)
            .setResource(RESOURCE)
            .setArtifactKind(ArtifactKind.ARTIFACT_KIND_DATA_OBJECT)
            .setArtifactProfile(ArtifactProfile.ARTIFACT_PROFILE_TDF)
            .setArtifactDigest(ARTIFACT_DIGEST)
            .setArtifactLocator("s3://archive/2026/cust-8841.tdf")
            .setDecisionId(decision)
            .setPurpose(PURPOSE)
            .addLabels(LABEL)
            .putAttributes("region", "eu")
            .build();
    Registration registration = client.registerArtifact(request).getRegistration();
    String id = registration.getReceipt().getRecordId();
    System.out.println("artifact-register accepted " + registration.getAccepted() + " " + id);
  }

  /** Tells the platform what happened. */
  private static void report(PlatformClient client, String decision) {
    RecordEvidenceRequest request =
        RecordEvidenceRequest.newBuilder()
            .setEventType(EvidenceEventType.EVIDENCE_EVENT_TYPE_PROTECT)
            .setWorkload(WORKLOAD)
            .setResource(RESOURCE)
            .setArtifactKind(ArtifactKind.ARTIFACT_KIND_DATA_OBJECT)
            .setArtifactProfile(ArtifactProfile.ARTIFACT_PROFILE_TDF)
            .setArtifactDigest(ARTIFACT_DIGEST)
            .setOutcome("completed")
            .setOccurredAt("2026-03-01T12:00:00Z")
            .setDecisionId(decision)
            .setPurpose(PURPOSE)
            .addLabels(LABEL)
            .putAttributes("region", "eu")
            .build();
    Ingestion ingestion = client.recordEvidence(request).getIngestion();
    String id = ingestion.getReceipt().getRecordId();
    System.out.println("evidence accepted " + ingestion.getAccepted() + " " + id);
  }

  /** What is wrong, for a person. The message has the reason, and the id to name when asking the operator. */
  private static String describe(PlatformException problem) {
    StringBuilder text = new StringBuilder(problem.getMessage());
    advice(problem).ifPresent(advice -> text.append("\n  ").append(advice));
    problem.violations().forEach(broken -> text.append("\n  " + broken.field() + ": " + broken.message()));
    return text.toString();
  }

  private static Optional<String> advice(PlatformException problem) {
    return Optional.ofNullable(
        switch (problem.reason()) {
          case "missing_scope" -> "ask the issuer for these scopes too: " + String.join(" ", problem.missingScopes());
          case "proof_of_possession_failed" ->
              "the token is bound to another client certificate than the one presented, or the service does not trust it";
          case "invalid_token" -> "the service does not take tokens of this issuer, or for this audience";
          default -> null;
        });
  }
}
