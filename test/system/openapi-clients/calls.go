// Command calls makes all eight calls with the client that OpenAPI Generator makes for Go. It prints one JSON object.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"

	"example.com/svc/platform"
)

// must returns the parsed answer of a call that must succeed.
func must[Answer, Response any](answer Answer, _ Response, err error) Answer {
	if err != nil {
		log.Fatal(err)
	}
	return answer
}

// sample returns the request of this name.
func sample[Request any](name string) (request Request) {
	var samples map[string]json.RawMessage
	if err := json.Unmarshal([]byte(os.Getenv("SAMPLES")), &samples); err != nil {
		log.Fatal(err)
	}
	if err := json.Unmarshal(samples[name], &request); err != nil {
		log.Fatal(err)
	}
	return request
}

func main() {
	configuration := openapi.NewConfiguration()
	configuration.Servers = openapi.ServerConfigurations{{URL: os.Getenv("PLATFORM_URL")}}
	client := openapi.NewAPIClient(configuration)
	ctx := context.WithValue(context.Background(), openapi.ContextAccessToken, os.Getenv("PLATFORM_TOKEN"))

	capabilities := must(client.DiscoveryAPI.GetCapabilities(ctx).Execute())
	whoAmI := must(client.DiscoveryAPI.WhoAmI(ctx).Execute())
	bootstrap := must(client.DiscoveryAPI.GetBootstrap(ctx).Execute())
	protection := client.ProtectionAPI
	plan := must(protection.PlanProtection(ctx).PlanProtectionRequest(sample[openapi.PlanProtectionRequest]("plan")).Execute())
	policy := must(protection.ResolvePolicy(ctx).ResolvePolicyRequest(sample[openapi.ResolvePolicyRequest]("policy")).Execute())
	key := must(protection.PlanKeyAccess(ctx).PlanKeyAccessRequest(sample[openapi.PlanKeyAccessRequest]("key")).Execute())
	artifact := sample[openapi.RegisterArtifactRequest]("artifact")
	artifact.SetDecisionId(plan.Decision.GetDecisionId())
	registration := must(client.RegistrationAPI.RegisterArtifact(ctx).RegisterArtifactRequest(artifact).Execute())
	event := sample[openapi.RecordEvidenceRequest]("event")
	event.SetDecisionId(plan.Decision.GetDecisionId())
	evidence := must(client.EvidenceAPI.RecordEvidence(ctx).RecordEvidenceRequest(event).Execute())

	if err := json.NewEncoder(os.Stdout).Encode(map[string]any{
		"routes":                len(capabilities.Routes),
		"tenant":                whoAmI.Caller.TenantId,
		"plaintext_to_platform": bootstrap.PlaintextToPlatform,
		"allow":                 []bool{plan.Decision.Allow, policy.Decision.Allow, key.Decision.Allow},
		"registered":            registration.Registration.Accepted,
		"ingested":              evidence.Ingestion.Accepted,
	}); err != nil {
		log.Fatal(err)
	}
}
