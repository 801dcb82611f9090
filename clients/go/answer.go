package platform

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"svc-platform-client/sdkv1"
)

// VerifyAnswer checks the receipt of an answer as [VerifyReceipt] does, and that it is this answer's: that what the
// answer says of the caller, the request and the outcome was recorded. Of a brief receipt only the id of a decision is
// compared. Errors wrap [ErrReceipt], also where the answer has none.
func (c *Client) VerifyAnswer(answer proto.Message) (*VerifiedReceipt, error) {
	return verifyAnswer(answer, c.keys)
}

// VerifyAnswer is [Client.VerifyAnswer] with the verifier keys of the tenant's log: see [Options.LogKeys].
func VerifyAnswer(answer proto.Message, logKeys ...string) (*VerifiedReceipt, error) {
	keys, err := parseLogKeys(logKeys)
	if err != nil {
		return nil, err
	}
	return verifyAnswer(answer, keys)
}

func verifyAnswer(answer proto.Message, keys []logKey) (*VerifiedReceipt, error) {
	said, receipt := readAnswer(answer)
	verified, err := verifyReceipt(receipt, keys)
	if err != nil {
		return nil, err
	}
	if said.decision != nil && said.decision.GetDecisionId() != receipt.GetRecordId() {
		err = errors.New("is of another decision than the answer")
	} else if verified.Record != nil {
		err = said.check(verified.Record)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrReceipt, err)
	}
	return verified, nil
}

// recordedAnswer is what an answer says that was recorded.
type recordedAnswer struct {
	kind, route string
	caller      *sdkv1.Caller
	decision    recordedDecision // nil of what is not decided
	accepted    bool             // of a registration or event
	summary     summary
	// operation or event type, as the JSON routes spell it.
	operation, eventType, digest, cid string
}

type recordedDecision interface {
	Decision
	GetPolicyRevision() string
}

type summary interface {
	GetWorkloadApplication() string
	GetResourceKind() string
	GetResourceId() string
}

// readAnswer reads what was recorded, and its receipt, nil where there is none.
func readAnswer(answer proto.Message) (recordedAnswer, *sdkv1.Receipt) {
	switch answer := answer.(type) {
	case *sdkv1.PlanProtectionResponse:
		asked := answer.GetRequestSummary()
		return recordedAnswer{
			kind: "decision", route: "protection-plan", caller: answer.GetCaller(), decision: answer.GetDecision(),
			summary: asked, operation: wordOf(asked.GetOperation()),
		}, answer.GetDecision().GetReceipt()
	case *sdkv1.ResolvePolicyResponse:
		asked := answer.GetRequestSummary()
		return recordedAnswer{
			kind: "decision", route: "policy-resolve", caller: answer.GetCaller(), decision: answer.GetDecision(),
			summary: asked, operation: wordOf(asked.GetOperation()),
		}, answer.GetDecision().GetReceipt()
	case *sdkv1.PlanKeyAccessResponse:
		asked := answer.GetRequestSummary()
		return recordedAnswer{
			kind: "decision", route: "key-access-plan", caller: answer.GetCaller(), decision: answer.GetDecision(),
			summary: asked, operation: wordOf(asked.GetOperation()),
		}, answer.GetDecision().GetReceipt()
	case *sdkv1.RegisterArtifactResponse:
		asked := answer.GetRequestSummary()
		return recordedAnswer{
			kind: "registration", route: "artifact-register", caller: answer.GetCaller(),
			accepted: answer.GetRegistration().GetAccepted(), summary: asked, operation: wordOf(asked.GetOperation()),
			digest: asked.GetArtifactDigest(), cid: asked.GetArtifactCid(),
		}, answer.GetRegistration().GetReceipt()
	case *sdkv1.RecordEvidenceResponse:
		asked := answer.GetRequestSummary()
		return recordedAnswer{
			kind: "evidence", route: "evidence", caller: answer.GetCaller(), accepted: answer.GetIngestion().GetAccepted(),
			summary: asked, eventType: wordOf(asked.GetEventType()), cid: asked.GetArtifactCid(),
		}, answer.GetIngestion().GetReceipt()
	}
	return recordedAnswer{}, nil
}

// check compares the answer with its record.
func (a recordedAnswer) check(record *Record) error {
	var request struct {
		Workload       struct{ Application string }
		Resource       struct{ Kind, ID string }
		Operation      string
		EventType      string `json:"event_type"`
		ArtifactDigest string `json:"artifact_digest"`
		ArtifactCID    string `json:"artifact_cid"`
	}
	var outcome struct {
		Allow, Accepted *bool
		PolicyRevision  string `json:"policy_revision"`
		Reasons         []string
		Obligations     []obligation
		ArtifactCID     string `json:"artifact_cid"`
	}
	if err := errors.Join(json.Unmarshal(record.Request, &request), json.Unmarshal(record.Outcome, &outcome)); err != nil {
		return err
	}
	same := map[string]bool{
		"kind":                 a.kind == record.Kind,
		"route":                "/v1/sdk/"+a.route == record.Route,
		"tenant_id":            a.caller.GetTenantId() == record.TenantID,
		"principal_id":         a.caller.GetPrincipalId() == record.Caller.PrincipalID,
		"operation":            a.operation == request.Operation,
		"event_type":           a.eventType == request.EventType,
		"workload_application": a.summary.GetWorkloadApplication() == request.Workload.Application,
		"resource_kind":        a.summary.GetResourceKind() == request.Resource.Kind,
		"resource_id":          a.summary.GetResourceId() == request.Resource.ID,
	}
	if decision := a.decision; decision != nil {
		// A deployment may keep the reasons to itself.
		same["reasons"] = len(decision.GetReasons()) == 0 || reflect.DeepEqual(decision.GetReasons(), outcome.Reasons)
		same["allow"] = outcome.Allow != nil && decision.GetAllow() == *outcome.Allow
		same["policy_revision"] = decision.GetPolicyRevision() == outcome.PolicyRevision
		same["obligations"] = reflect.DeepEqual(obligationsOf(decision), outcome.Obligations)
	} else {
		same["accepted"] = outcome.Accepted != nil && a.accepted == *outcome.Accepted
		// No answer but a registration's says the digest. Of an object that came with the call the CID was derived.
		same["artifact_digest"] = a.kind != "registration" || a.digest == request.ArtifactDigest
		same["artifact_cid"] = a.cid == orDefault(outcome.ArtifactCID, request.ArtifactCID)
	}
	for _, member := range slices.Sorted(maps.Keys(same)) {
		if !same[member] {
			return fmt.Errorf("is of another %s than the answer", member)
		}
	}
	return nil
}

type obligation struct {
	ID         string
	Parameters map[string]string
}

// obligationsOf is nil where there are none.
func obligationsOf(decision Decision) []obligation {
	var listed []obligation
	for _, demanded := range decision.GetObligations() {
		// Not nil, as a record's are.
		parameters := map[string]string{}
		for name, value := range demanded.GetParameters() {
			parameters[name] = value
		}
		listed = append(listed, obligation{demanded.GetId(), parameters})
	}
	return listed
}

// wordOf spells an enumeration's value as the JSON routes do: "protect" for PROTECTION_OPERATION_PROTECT.
func wordOf(value protoreflect.Enum) string {
	descriptor := value.Descriptor().Values()
	named, none := descriptor.ByNumber(value.Number()), descriptor.ByNumber(0)
	if named == nil || none == nil {
		return ""
	}
	prefix := strings.TrimSuffix(string(none.Name()), "UNSPECIFIED")
	return strings.ToLower(strings.TrimPrefix(string(named.Name()), prefix))
}
