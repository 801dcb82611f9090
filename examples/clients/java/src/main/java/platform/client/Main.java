package platform.client;

import io.grpc.Grpc;
import io.grpc.ManagedChannel;
import io.grpc.StatusRuntimeException;
import io.grpc.TlsChannelCredentials;
import java.io.IOException;
import java.security.GeneralSecurityException;
import java.util.Map;
import java.util.Set;
import platform.sdk.v1.ArtifactKind;
import platform.sdk.v1.ArtifactProfile;
import platform.sdk.v1.Caller;
import platform.sdk.v1.DiscoveryServiceGrpc;
import platform.sdk.v1.EvidenceEventType;
import platform.sdk.v1.EvidenceServiceGrpc;
import platform.sdk.v1.GetBootstrapRequest;
import platform.sdk.v1.GetCapabilitiesRequest;
import platform.sdk.v1.Ingestion;
import platform.sdk.v1.KeyAccessDecision;
import platform.sdk.v1.KeyAccessOperation;
import platform.sdk.v1.Obligation;
import platform.sdk.v1.PlanKeyAccessRequest;
import platform.sdk.v1.PlanProtectionRequest;
import platform.sdk.v1.PolicyDecision;
import platform.sdk.v1.ProtectionDecision;
import platform.sdk.v1.ProtectionOperation;
import platform.sdk.v1.ProtectionServiceGrpc;
import platform.sdk.v1.RecordEvidenceRequest;
import platform.sdk.v1.RegisterArtifactRequest;
import platform.sdk.v1.Registration;
import platform.sdk.v1.RegistrationServiceGrpc;
import platform.sdk.v1.ResolvePolicyRequest;
import platform.sdk.v1.ResourceDescriptor;
import platform.sdk.v1.WhoAmIRequest;
import platform.sdk.v1.WorkloadDescriptor;

/** A workload's day with the platform over gRPC: who am I, what is there, may I, how, and what I did. */
final class Main {
  private static final String CONTENT_DIGEST =
      "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
  private static final String ARTIFACT_DIGEST =
      "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";
  private static final String PURPOSE = "quarterly-audit";
  private static final String LABEL = "confidential";
  /**
   * An obligation that this workload meets where a decision demands it; operators hand out the ids. Requests list all that
   * it meets: where policy demands another one, the answer is a denial.
   */
  private static final String LOG_USE = "log-use";
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

  public static void main(String[] arguments) throws InterruptedException {
    try {
      run(Settings.fromEnvironment());
    } catch (StatusRuntimeException error) {
      fail(Problems.describe(error));
    } catch (IOException | GeneralSecurityException error) {
      fail("cannot begin: " + error.getMessage());
    } catch (IllegalArgumentException | IllegalStateException error) {
      fail(error.getMessage());
    }
  }

  private static void fail(String message) {
    System.err.println(message);
    System.exit(1);
  }

  private static void run(Settings settings) throws IOException, GeneralSecurityException, InterruptedException {
    var tls =
        TlsChannelCredentials.newBuilder()
            .trustManager(settings.ca().toFile())
            .keyManager(settings.cert().toFile(), settings.key().toFile())
            .build();
    Tokens tokens = new Tokens(settings);
    ManagedChannel channel =
        Grpc.newChannelBuilderForAddress(settings.url().getHost(), settings.url().getPort(), tls).build();
    try {
      discover(DiscoveryServiceGrpc.newBlockingStub(channel).withCallCredentials(tokens));
      String decision = decide(ProtectionServiceGrpc.newBlockingStub(channel).withCallCredentials(tokens));
      register(RegistrationServiceGrpc.newBlockingStub(channel).withCallCredentials(tokens), decision);
      report(EvidenceServiceGrpc.newBlockingStub(channel).withCallCredentials(tokens), decision);
    } finally {
      channel.shutdownNow();
    }
  }

  private static void discover(DiscoveryServiceGrpc.DiscoveryServiceBlockingStub discovery)
      throws InterruptedException {
    Caller caller = Calls.call(discovery, stub -> stub.whoAmI(WhoAmIRequest.getDefaultInstance())).getCaller();
    System.out.println("whoami " + caller.getPrincipalId() + " of " + caller.getTenantId());
    var capabilities =
        Calls.call(discovery, stub -> stub.getCapabilities(GetCapabilitiesRequest.getDefaultInstance()));
    System.out.println("capabilities " + capabilities.getRoutesCount() + " routes");
    var bootstrap = Calls.call(discovery, stub -> stub.getBootstrap(GetBootstrapRequest.getDefaultInstance()));
    System.out.println("bootstrap " + bootstrap.getEnforcementModel());
  }

  /** Asks for the three decisions; returns the id of the one that the artifact is protected under. */
  private static String decide(ProtectionServiceGrpc.ProtectionServiceBlockingStub protection)
      throws InterruptedException {
    PlanProtectionRequest toProtect =
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
            .addUnderstoodObligations(LOG_USE)
            .build();
    ProtectionDecision plan = Calls.call(protection, stub -> stub.planProtection(toProtect)).getDecision();
    System.out.println("protection-plan allow " + plan.getAllow() + " " + plan.getDecisionId());
    ResolvePolicyRequest toAccess =
        ResolvePolicyRequest.newBuilder()
            .setOperation(ProtectionOperation.PROTECTION_OPERATION_ACCESS)
            .setWorkload(WORKLOAD)
            .setResource(RESOURCE)
            .setContentDigest(CONTENT_DIGEST)
            .setPurpose(PURPOSE)
            .addLabels(LABEL)
            .putAttributes("region", "eu")
            .addUnderstoodObligations(LOG_USE)
            .build();
    PolicyDecision policy = Calls.call(protection, stub -> stub.resolvePolicy(toAccess)).getDecision();
    System.out.println("policy-resolve allow " + policy.getAllow() + " " + policy.getDecisionId());
    PlanKeyAccessRequest toWrap =
        PlanKeyAccessRequest.newBuilder()
            .setOperation(KeyAccessOperation.KEY_ACCESS_OPERATION_WRAP)
            .setWorkload(WORKLOAD)
            .setResource(RESOURCE)
            .setArtifactProfile(ArtifactProfile.ARTIFACT_PROFILE_TDF)
            .setKeyReference("kms://tenant-a/keys/42")
            .setPurpose(PURPOSE)
            .addLabels(LABEL)
            .putAttributes("region", "eu")
            .addUnderstoodObligations(LOG_USE)
            .build();
    KeyAccessDecision key = Calls.call(protection, stub -> stub.planKeyAccess(toWrap)).getDecision();
    System.out.println("key-access-plan allow " + key.getAllow() + " " + key.getDecisionId());
    if (!plan.getAllow())
      throw new IllegalStateException("the platform denied the operation: " + plan.getReasonsList());
    plan.getObligationsList().forEach(Main::meet);
    return plan.getDecisionId();
  }

  /** Does what is demanded, before the decision is acted on. What it does not know, parameters included, it cannot meet. */
  private static void meet(Obligation obligation) {
    Map<String, String> parameters = obligation.getParametersMap();
    if (!obligation.getId().equals(LOG_USE) || !parameters.keySet().equals(Set.of("audience")))
      throw new IllegalStateException("the platform demands " + obligation.getId() + ": it cannot be met");
    System.out.println("obligation log-use: told " + parameters.get("audience"));
  }

  /** Tells the platform of the artifact that was made locally. */
  private static void register(RegistrationServiceGrpc.RegistrationServiceBlockingStub registrations, String decision)
      throws InterruptedException {
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
    Registration registration =
        Calls.once(registrations, stub -> stub.registerArtifact(request)).getRegistration();
    String id = registration.getReceipt().getRecordId();
    System.out.println("artifact-register accepted " + registration.getAccepted() + " " + id);
  }

  /** Tells the platform what happened. */
  private static void report(EvidenceServiceGrpc.EvidenceServiceBlockingStub evidence, String decision)
      throws InterruptedException {
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
    Ingestion ingestion = Calls.once(evidence, stub -> stub.recordEvidence(request)).getIngestion();
    String id = ingestion.getReceipt().getRecordId();
    System.out.println("evidence accepted " + ingestion.getAccepted() + " " + id);
  }
}
