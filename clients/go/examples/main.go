// A workload's day with the platform over gRPC: who am I, what is there, may I, how, and what I did.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	platform "svc-platform-client"
	"svc-platform-client/sdkv1"
)

// callTimeout covers all attempts of one call.
const callTimeout = 30 * time.Second

const (
	contentDigest  = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	artifactDigest = "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
)

var (
	workload   = &sdkv1.WorkloadDescriptor{Application: "payroll-export", Environment: new("production"), Component: new("nightly-writer")}
	resource   = &sdkv1.ResourceDescriptor{Kind: "customer-record", Id: new("cust-8841"), MimeType: new("application/pdf")}
	purpose    = new("quarterly-audit")
	labels     = []string{"confidential"}
	attributes = map[string]string{"region": "eu"}
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, describe(err))
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	s, err := readSettings()
	if err != nil {
		return err
	}
	tokens, err := platform.NewClientCredentials(platform.ClientCredentialsOptions{
		Issuer: s.issuer, ClientID: s.clientID, ClientSecret: s.clientSecret, Scopes: s.scopes, TLS: &s.tls,
	})
	if err != nil {
		return err
	}
	options := platform.Options{
		BaseURL: s.url, TLS: &s.tls, Tokens: tokens, Deadline: callTimeout,
		Retry:                 platform.Retry{MaxAttempts: -1, OnRetry: tellOfRetry},
		UnderstoodObligations: slices.Sorted(maps.Keys(obligations)),
	}
	if s.logKey != "" {
		options.LogKeys = []string{s.logKey}
	}
	client, err := platform.New(options)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := discover(ctx, client); err != nil {
		return err
	}
	return protect(ctx, client, s.logKey != "")
}

// tellOfRetry is called before each pause. The call's deadline is the bound: a service may take longer to come back than
// any number of attempts.
func tellOfRetry(failure *platform.PlatformError, wait time.Duration) {
	fmt.Fprintf(os.Stderr, "%s; trying again in %s\n", failure.Message, wait)
}

func discover(ctx context.Context, client *platform.Client) error {
	who, err := client.WhoAmI(ctx)
	if err != nil {
		return err
	}
	fmt.Println("whoami", who.Caller.PrincipalId, "of", who.Caller.TenantId)
	capabilities, err := client.CachedCapabilities(ctx)
	if err != nil {
		return err
	}
	fmt.Println("capabilities", len(capabilities.Routes), "routes")
	bootstrap, err := client.CachedBootstrap(ctx)
	if err != nil {
		return err
	}
	fmt.Println("bootstrap", bootstrap.EnforcementModel)
	return nil
}

// obligations is what this workload does where a decision demands it, by the ids that the operator hands out; false for
// parameters that it does not know. The client lists all of them in requests: where policy demands another one, the
// answer is a denial.
var obligations = map[string]func(parameters map[string]string) bool{
	"log-use": func(parameters map[string]string) bool {
		audience, isKnown := parameters["audience"]
		if !isKnown || len(parameters) > 1 {
			return false
		}
		fmt.Println("obligation log-use: told", audience)
		return true
	},
}

// meet does what is demanded, before the decision is acted on.
func meet(demanded []*sdkv1.Obligation) error {
	for _, obligation := range demanded {
		if meet, isKnown := obligations[obligation.Id]; !isKnown || !meet(obligation.Parameters) {
			return fmt.Errorf("the platform demands %s: it cannot be met", obligation.Id)
		}
	}
	return nil
}

func protect(ctx context.Context, client *platform.Client, isReceiptChecked bool) error {
	plan, err := client.PlanProtection(ctx, &sdkv1.PlanProtectionRequest{
		Operation: sdkv1.ProtectionOperation_PROTECTION_OPERATION_PROTECT, Workload: workload, Resource: resource,
		PreferredArtifactProfile: sdkv1.ArtifactProfile_ARTIFACT_PROFILE_TDF.Enum(),
		ContentDigest:            new(contentDigest), ContentSizeBytes: new(int64(48213)),
		Purpose: purpose, Labels: labels, Attributes: attributes,
	})
	if err != nil {
		return err
	}
	decision := plan.Decision.DecisionId
	fmt.Println("protection-plan", "allow", plan.Decision.Allow, decision)
	policy, err := client.ResolvePolicy(ctx, &sdkv1.ResolvePolicyRequest{
		Operation: sdkv1.ProtectionOperation_PROTECTION_OPERATION_ACCESS, Workload: workload, Resource: resource,
		ContentDigest: new(contentDigest), Purpose: purpose, Labels: labels, Attributes: attributes,
	})
	if err != nil {
		return err
	}
	fmt.Println("policy-resolve", "allow", policy.Decision.Allow, policy.Decision.DecisionId)
	key, err := client.PlanKeyAccess(ctx, &sdkv1.PlanKeyAccessRequest{
		Operation: sdkv1.KeyAccessOperation_KEY_ACCESS_OPERATION_WRAP, Workload: workload, Resource: resource,
		ArtifactProfile: sdkv1.ArtifactProfile_ARTIFACT_PROFILE_TDF.Enum(), KeyReference: new("kms://tenant-a/keys/42"),
		Purpose: purpose, Labels: labels, Attributes: attributes,
	})
	if err != nil {
		return err
	}
	fmt.Println("key-access-plan", "allow", key.Decision.Allow, key.Decision.DecisionId)
	if err := client.RequireAllow(plan.Decision); err != nil {
		return err
	}
	if err := meet(plan.Decision.Obligations); err != nil {
		return err
	}
	return record(ctx, client, decision, isReceiptChecked)
}

// record tells the platform of the artifact that was made locally, and of what happened.
func record(ctx context.Context, client *platform.Client, decision string, isReceiptChecked bool) error {
	registered, err := client.RegisterArtifact(ctx, &sdkv1.RegisterArtifactRequest{
		Operation: sdkv1.ProtectionOperation_PROTECTION_OPERATION_PROTECT, Workload: workload, Resource: resource,
		ArtifactKind:    sdkv1.ArtifactKind_ARTIFACT_KIND_DATA_OBJECT.Enum(),
		ArtifactProfile: sdkv1.ArtifactProfile_ARTIFACT_PROFILE_TDF, ArtifactDigest: artifactDigest,
		ArtifactLocator: new("s3://archive/2026/cust-8841.tdf"), DecisionId: &decision,
		Purpose: purpose, Labels: labels, Attributes: attributes,
	})
	if err != nil {
		return err
	}
	fmt.Println("artifact-register", "accepted", registered.Registration.Accepted, registered.Registration.Receipt.RecordId)
	happened, since := &sdkv1.RecordEvidenceRequest{
		EventType: sdkv1.EvidenceEventType_EVIDENCE_EVENT_TYPE_PROTECT, Workload: workload, Resource: resource,
		ArtifactKind:    sdkv1.ArtifactKind_ARTIFACT_KIND_DATA_OBJECT.Enum(),
		ArtifactProfile: sdkv1.ArtifactProfile_ARTIFACT_PROFILE_TDF.Enum(), ArtifactDigest: new(artifactDigest),
		Outcome: new("completed"), OccurredAt: new("2026-03-01T12:00:00Z"), DecisionId: &decision,
		Purpose: purpose, Labels: labels, Attributes: attributes,
	}, time.Now()
	event, err := client.RecordEvidence(ctx, happened)
	if err != nil {
		return err
	}
	fmt.Println("evidence", "accepted", event.Ingestion.Accepted, event.Ingestion.Receipt.RecordId)
	if !isReceiptChecked {
		return nil
	}
	verified, err := client.VerifyAnswer(happened, event, since)
	if err != nil {
		return err
	}
	fmt.Println("receipt", "leaf", verified.LeafIndex, "of", verified.LogOrigin)
	return nil
}
