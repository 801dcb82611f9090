// A workload's day with the platform over gRPC: who am I, what is there, may I, how, and what I did.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/oauth"
	"google.golang.org/grpc/metadata"

	sdkv1 "platform-client/gen/platform/sdk/v1"
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
	tokens, err := tokenSource(ctx, s)
	if err != nil {
		return err
	}
	connection, err := grpc.NewClient(s.target,
		grpc.WithTransportCredentials(credentials.NewTLS(s.tls)),
		grpc.WithPerRPCCredentials(oauth.TokenSource{TokenSource: tokens}),
		grpc.WithUnaryInterceptor(retry),
	)
	if err != nil {
		return err
	}
	defer connection.Close()
	if err := discover(ctx, sdkv1.NewDiscoveryServiceClient(connection)); err != nil {
		return err
	}
	return protect(ctx, connection, s.logKey)
}

// call bounds one call in time.
func call[Request, Answer any](
	ctx context.Context,
	method func(context.Context, Request, ...grpc.CallOption) (Answer, error),
	request Request,
) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return method(ctx, request)
}

// once marks a call that records something: however often it is sent, it is recorded once.
func once(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "idempotency-key", uuid.NewString())
}

func discover(ctx context.Context, discovery sdkv1.DiscoveryServiceClient) error {
	who, err := call(ctx, discovery.WhoAmI, &sdkv1.WhoAmIRequest{})
	if err != nil {
		return err
	}
	fmt.Println("whoami", who.Caller.PrincipalId, "of", who.Caller.TenantId)
	capabilities, err := call(ctx, discovery.GetCapabilities, &sdkv1.GetCapabilitiesRequest{})
	if err != nil {
		return err
	}
	fmt.Println("capabilities", len(capabilities.Routes), "routes")
	bootstrap, err := call(ctx, discovery.GetBootstrap, &sdkv1.GetBootstrapRequest{})
	if err != nil {
		return err
	}
	fmt.Println("bootstrap", bootstrap.EnforcementModel)
	return nil
}

// obligations is what this workload does where a decision demands it, by the ids that the operator hands out; false for
// parameters that it does not know. Requests list all of them: where policy demands another one, the answer is a denial.
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

func protect(ctx context.Context, connection *grpc.ClientConn, logKey string) error {
	protection := sdkv1.NewProtectionServiceClient(connection)
	plan, err := call(ctx, protection.PlanProtection, &sdkv1.PlanProtectionRequest{
		Operation: sdkv1.ProtectionOperation_PROTECTION_OPERATION_PROTECT, Workload: workload, Resource: resource,
		PreferredArtifactProfile: sdkv1.ArtifactProfile_ARTIFACT_PROFILE_TDF.Enum(),
		ContentDigest:            new(contentDigest), ContentSizeBytes: new(int64(48213)),
		Purpose: purpose, Labels: labels, Attributes: attributes,
		UnderstoodObligations: slices.Sorted(maps.Keys(obligations)),
	})
	if err != nil {
		return err
	}
	decision := plan.Decision.DecisionId
	fmt.Println("protection-plan", "allow", plan.Decision.Allow, decision)
	policy, err := call(ctx, protection.ResolvePolicy, &sdkv1.ResolvePolicyRequest{
		Operation: sdkv1.ProtectionOperation_PROTECTION_OPERATION_ACCESS, Workload: workload, Resource: resource,
		ContentDigest: new(contentDigest), Purpose: purpose, Labels: labels, Attributes: attributes,
		UnderstoodObligations: slices.Sorted(maps.Keys(obligations)),
	})
	if err != nil {
		return err
	}
	fmt.Println("policy-resolve", "allow", policy.Decision.Allow, policy.Decision.DecisionId)
	key, err := call(ctx, protection.PlanKeyAccess, &sdkv1.PlanKeyAccessRequest{
		Operation: sdkv1.KeyAccessOperation_KEY_ACCESS_OPERATION_WRAP, Workload: workload, Resource: resource,
		ArtifactProfile: sdkv1.ArtifactProfile_ARTIFACT_PROFILE_TDF.Enum(), KeyReference: new("kms://tenant-a/keys/42"),
		Purpose: purpose, Labels: labels, Attributes: attributes,
		UnderstoodObligations: slices.Sorted(maps.Keys(obligations)),
	})
	if err != nil {
		return err
	}
	fmt.Println("key-access-plan", "allow", key.Decision.Allow, key.Decision.DecisionId)
	if !plan.Decision.Allow {
		return fmt.Errorf("the platform denied the operation: %s", strings.Join(plan.Decision.Reasons, ", "))
	}
	if err := meet(plan.Decision.Obligations); err != nil {
		return err
	}
	return record(ctx, connection, decision, logKey)
}

// record tells the platform of the artifact that was made locally, and of what happened.
func record(ctx context.Context, connection *grpc.ClientConn, decision, logKey string) error {
	registered, err := call(once(ctx), sdkv1.NewRegistrationServiceClient(connection).RegisterArtifact, &sdkv1.RegisterArtifactRequest{
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
	event, err := call(once(ctx), sdkv1.NewEvidenceServiceClient(connection).RecordEvidence, &sdkv1.RecordEvidenceRequest{
		EventType: sdkv1.EvidenceEventType_EVIDENCE_EVENT_TYPE_PROTECT, Workload: workload, Resource: resource,
		ArtifactKind:    sdkv1.ArtifactKind_ARTIFACT_KIND_DATA_OBJECT.Enum(),
		ArtifactProfile: sdkv1.ArtifactProfile_ARTIFACT_PROFILE_TDF.Enum(), ArtifactDigest: new(artifactDigest),
		Outcome: new("completed"), OccurredAt: new("2026-03-01T12:00:00Z"), DecisionId: &decision,
		Purpose: purpose, Labels: labels, Attributes: attributes,
	})
	if err != nil {
		return err
	}
	receipt := event.Ingestion.Receipt
	fmt.Println("evidence", "accepted", event.Ingestion.Accepted, receipt.RecordId)
	if logKey == "" {
		return nil
	}
	if err := verifyReceipt(receipt, logKey); err != nil {
		return fmt.Errorf("the receipt does not hold: %w", err)
	}
	fmt.Println("receipt", "leaf", receipt.LeafIndex, "of", receipt.LogOrigin)
	return nil
}
