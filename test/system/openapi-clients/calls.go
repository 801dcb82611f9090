// Command calls makes all eight calls with the client that OpenAPI Generator makes for Go. It prints one JSON object.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"time"

	"example.com/svc/platform"
)

// must returns the parsed answer of a call that must succeed.
func must[Answer, Response any](answer Answer, _ Response, err error) Answer {
	if err != nil {
		log.Fatal(err)
	}
	return answer
}

func main() {
	configuration := openapi.NewConfiguration()
	configuration.Servers = openapi.ServerConfigurations{{URL: os.Getenv("SVC_URL")}}
	client := openapi.NewAPIClient(configuration)
	ctx := context.WithValue(context.Background(), openapi.ContextAccessToken, os.Getenv("SVC_TOKEN"))

	workload := openapi.NewWorkloadDescriptor("payroll-export")
	resource := openapi.NewResourceDescriptor("customer-record")
	resource.SetId("cust-8841")
	digest := "sha256:b708024be3c0ff4bf267993b6c34f05f91a6dc85090254075e1a664a66e27ec0"

	capabilities := must(client.DiscoveryAPI.GetCapabilities(ctx).Execute())
	whoAmI := must(client.DiscoveryAPI.WhoAmI(ctx).Execute())
	bootstrap := must(client.DiscoveryAPI.GetBootstrap(ctx).Execute())

	question := openapi.NewPlanProtectionRequest(openapi.PROTECTIONOPERATION_PROTECT, *workload, *resource)
	question.SetPreferredArtifactProfile(openapi.OPTIONALARTIFACTPROFILE_ENVELOPE)
	question.SetContentDigest(digest)
	plan := must(client.ProtectionAPI.PlanProtection(ctx).PlanProtectionRequest(*question).Execute())
	policy := must(client.ProtectionAPI.ResolvePolicy(ctx).ResolvePolicyRequest(
		*openapi.NewResolvePolicyRequest(openapi.PROTECTIONOPERATION_PROTECT, *workload, *resource)).Execute())
	key := must(client.ProtectionAPI.PlanKeyAccess(ctx).PlanKeyAccessRequest(
		*openapi.NewPlanKeyAccessRequest(openapi.KEYACCESSOPERATION_WRAP, *workload, *resource)).Execute())

	artifact := openapi.NewRegisterArtifactRequest(
		openapi.PROTECTIONOPERATION_PROTECT, *workload, *resource, openapi.ARTIFACTPROFILE_ENVELOPE, digest)
	artifact.SetDecisionId(plan.Decision.GetDecisionId())
	registration := must(client.RegistrationAPI.RegisterArtifact(ctx).RegisterArtifactRequest(*artifact).Execute())

	event := openapi.NewRecordEvidenceRequest(openapi.EVIDENCEEVENTTYPE_PROTECT, *workload, *resource)
	event.SetArtifactDigest(digest)
	event.SetDecisionId(plan.Decision.GetDecisionId())
	event.SetOccurredAt(time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC))
	evidence := must(client.EvidenceAPI.RecordEvidence(ctx).RecordEvidenceRequest(*event).Execute())

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
