import com.google.gson.Gson;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.Map;
import org.openapitools.client.ApiClient;
import org.openapitools.client.api.DiscoveryApi;
import org.openapitools.client.api.EvidenceApi;
import org.openapitools.client.api.ProtectionApi;
import org.openapitools.client.api.RegistrationApi;
import org.openapitools.client.model.*;

/** Makes all eight calls with the client that OpenAPI Generator makes for Java. Prints one JSON object. */
public class Calls {
  public static void main(String[] arguments) throws Exception {
    ApiClient client = new ApiClient().setBasePath(System.getenv("SVC_URL"));
    client.setBearerToken(System.getenv("SVC_TOKEN"));
    WorkloadDescriptor workload = new WorkloadDescriptor().application("payroll-export");
    ResourceDescriptor resource = new ResourceDescriptor().kind("customer-record").id("cust-8841");
    String digest = "sha256:b708024be3c0ff4bf267993b6c34f05f91a6dc85090254075e1a664a66e27ec0";

    DiscoveryApi discovery = new DiscoveryApi(client);
    ProtectionApi protection = new ProtectionApi(client);
    GetCapabilitiesResponse capabilities = discovery.getCapabilities();
    WhoAmIResponse whoAmI = discovery.whoAmI();
    GetBootstrapResponse bootstrap = discovery.getBootstrap();
    PlanProtectionResponse plan =
        protection.planProtection(
            new PlanProtectionRequest()
                .operation(ProtectionOperation.PROTECT)
                .workload(workload)
                .resource(resource)
                .preferredArtifactProfile(OptionalArtifactProfile.ENVELOPE)
                .contentDigest(digest),
            null);
    ResolvePolicyResponse policy =
        protection.resolvePolicy(
            new ResolvePolicyRequest()
                .operation(ProtectionOperation.PROTECT)
                .workload(workload)
                .resource(resource),
            null);
    PlanKeyAccessResponse key =
        protection.planKeyAccess(
            new PlanKeyAccessRequest()
                .operation(KeyAccessOperation.WRAP)
                .workload(workload)
                .resource(resource),
            null);
    String decisionId = plan.getDecision().getDecisionId().toString();
    RegisterArtifactResponse registration =
        new RegistrationApi(client)
            .registerArtifact(
                new RegisterArtifactRequest()
                    .operation(ProtectionOperation.PROTECT)
                    .workload(workload)
                    .resource(resource)
                    .artifactProfile(ArtifactProfile.ENVELOPE)
                    .artifactDigest(digest)
                    .decisionId(decisionId),
                null,
                null);
    RecordEvidenceResponse evidence =
        new EvidenceApi(client)
            .recordEvidence(
                new RecordEvidenceRequest()
                    .eventType(EvidenceEventType.PROTECT)
                    .workload(workload)
                    .resource(resource)
                    .artifactDigest(digest)
                    .decisionId(decisionId)
                    .occurredAt(OffsetDateTime.parse("2026-03-01T12:00:00Z")),
                null,
                null);

    System.out.println(
        new Gson()
            .toJson(
                Map.of(
                    "routes", capabilities.getRoutes().size(),
                    "tenant", whoAmI.getCaller().getTenantId(),
                    "plaintext_to_platform", bootstrap.getPlaintextToPlatform(),
                    "allow",
                        List.of(
                            plan.getDecision().getAllow(),
                            policy.getDecision().getAllow(),
                            key.getDecision().getAllow()),
                    "registered", registration.getRegistration().getAccepted(),
                    "ingested", evidence.getIngestion().getAccepted())));
    System.exit(0);
  }
}
