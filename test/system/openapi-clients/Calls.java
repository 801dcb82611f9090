import com.google.gson.Gson;
import com.google.gson.JsonObject;
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
  private static final JsonObject SAMPLES = new Gson().fromJson(System.getenv("SAMPLES"), JsonObject.class);

  private static String sample(String name) {
    return SAMPLES.get(name).toString();
  }

  public static void main(String[] arguments) throws Exception {
    ApiClient client = new ApiClient().setBasePath(System.getenv("PLATFORM_URL"));
    client.setBearerToken(System.getenv("PLATFORM_TOKEN"));
    DiscoveryApi discovery = new DiscoveryApi(client);
    ProtectionApi protection = new ProtectionApi(client);
    GetCapabilitiesResponse capabilities = discovery.getCapabilities();
    WhoAmIResponse whoAmI = discovery.whoAmI();
    GetBootstrapResponse bootstrap = discovery.getBootstrap();
    PlanProtectionResponse plan =
        protection.planProtection(PlanProtectionRequest.fromJson(sample("plan")), null);
    ResolvePolicyResponse policy =
        protection.resolvePolicy(ResolvePolicyRequest.fromJson(sample("policy")), null);
    PlanKeyAccessResponse key =
        protection.planKeyAccess(PlanKeyAccessRequest.fromJson(sample("key")), null);
    String decisionId = plan.getDecision().getDecisionId().toString();
    RegisterArtifactRequest artifact =
        RegisterArtifactRequest.fromJson(sample("artifact")).decisionId(decisionId);
    RegisterArtifactResponse registration =
        new RegistrationApi(client).registerArtifact(artifact, null, null);
    RecordEvidenceRequest event =
        RecordEvidenceRequest.fromJson(sample("event")).decisionId(decisionId);
    RecordEvidenceResponse evidence = new EvidenceApi(client).recordEvidence(event, null, null);

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
