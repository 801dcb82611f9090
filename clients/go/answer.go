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
	return said.verify(receipt, keys)
}

// recordedAnswer is what an answer says that was recorded.
type recordedAnswer struct {
	kind, route string
	caller      caller           // nil where the answer does not name it
	decision    recordedDecision // nil of what is not decided
	accepted    bool             // of a registration or event
	asked       asked
	// operation or event type, as the JSON routes spell it.
	operation, eventType string
	// digest and cid of the artifact; nil where nothing says them.
	digest, cid *string
}

type caller interface {
	GetTenantId() string
	GetPrincipalId() string
}

type recordedDecision interface {
	Decision
	GetPolicyRevision() string
}

// asked is what was asked: as an answer repeats it, or an item of a bulk request says it.
type asked struct{ application, resourceKind, resourceID string }

type summary interface {
	GetWorkloadApplication() string
	GetResourceKind() string
	GetResourceId() string
}

func askedOf(summary summary) asked {
	return asked{summary.GetWorkloadApplication(), summary.GetResourceKind(), summary.GetResourceId()}
}

// readAnswer reads what was recorded, and its receipt, nil where there is none.
func readAnswer(answer proto.Message) (recordedAnswer, *sdkv1.Receipt) {
	switch answer := answer.(type) {
	case *sdkv1.PlanProtectionResponse:
		summary := answer.GetRequestSummary()
		return recordedAnswer{
			kind: "decision", route: "protection-plan", caller: answer.GetCaller(), decision: answer.GetDecision(),
			asked: askedOf(summary), operation: wordOf(summary.GetOperation()),
		}, answer.GetDecision().GetReceipt()
	case *sdkv1.ResolvePolicyResponse:
		summary := answer.GetRequestSummary()
		return recordedAnswer{
			kind: "decision", route: "policy-resolve", caller: answer.GetCaller(), decision: answer.GetDecision(),
			asked: askedOf(summary), operation: wordOf(summary.GetOperation()),
		}, answer.GetDecision().GetReceipt()
	case *sdkv1.PlanKeyAccessResponse:
		summary := answer.GetRequestSummary()
		return recordedAnswer{
			kind: "decision", route: "key-access-plan", caller: answer.GetCaller(), decision: answer.GetDecision(),
			asked: askedOf(summary), operation: wordOf(summary.GetOperation()),
		}, answer.GetDecision().GetReceipt()
	case *sdkv1.RegisterArtifactResponse:
		summary := answer.GetRequestSummary()
		return recordedAnswer{
			kind: "registration", route: "artifact-register", caller: answer.GetCaller(),
			accepted: answer.GetRegistration().GetAccepted(), asked: askedOf(summary), operation: wordOf(summary.GetOperation()),
			digest: new(summary.GetArtifactDigest()), cid: new(summary.GetArtifactCid()),
		}, answer.GetRegistration().GetReceipt()
	case *sdkv1.RecordEvidenceResponse:
		summary := answer.GetRequestSummary()
		return recordedAnswer{
			kind: "evidence", route: "evidence", caller: answer.GetCaller(), accepted: answer.GetIngestion().GetAccepted(),
			asked: askedOf(summary), eventType: wordOf(summary.GetEventType()), cid: new(summary.GetArtifactCid()),
		}, answer.GetIngestion().GetReceipt()
	}
	return recordedAnswer{}, nil
}

// verify checks the receipt, and that it is this answer's.
func (a recordedAnswer) verify(receipt *sdkv1.Receipt, keys []logKey) (*VerifiedReceipt, error) {
	verified, err := verifyReceipt(receipt, keys)
	if err != nil {
		return nil, err
	}
	if a.decision != nil && a.decision.GetDecisionId() != receipt.GetRecordId() {
		err = errors.New("is of another decision than the answer")
	} else if verified.Record != nil {
		err = a.check(verified.Record)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrReceipt, err)
	}
	return verified, nil
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
		"tenant_id":            a.caller == nil || a.caller.GetTenantId() == record.TenantID,
		"principal_id":         a.caller == nil || a.caller.GetPrincipalId() == record.Caller.PrincipalID,
		"operation":            a.operation == request.Operation,
		"event_type":           a.eventType == request.EventType,
		"workload_application": a.asked.application == request.Workload.Application,
		"resource_kind":        a.asked.resourceKind == request.Resource.Kind,
		"resource_id":          a.asked.resourceID == request.Resource.ID,
		"artifact_digest":      a.digest == nil || *a.digest == request.ArtifactDigest,
		// Of an object that came with the call it was derived.
		"artifact_cid": a.cid == nil || *a.cid == orDefault(outcome.ArtifactCID, request.ArtifactCID),
	}
	if decision := a.decision; decision != nil {
		// A deployment may keep the reasons to itself.
		same["reasons"] = len(decision.GetReasons()) == 0 || reflect.DeepEqual(decision.GetReasons(), outcome.Reasons)
		same["allow"] = outcome.Allow != nil && decision.GetAllow() == *outcome.Allow
		same["policy_revision"] = decision.GetPolicyRevision() == outcome.PolicyRevision
		same["obligations"] = reflect.DeepEqual(obligationsOf(decision), outcome.Obligations)
	} else {
		same["accepted"] = outcome.Accepted != nil && a.accepted == *outcome.Accepted
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
