package platform

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"svc-platform-client/bulkv1"
	"svc-platform-client/sdkv1"
)

// VerifyAnswer checks the receipt of an answer as [VerifyReceipt] does, and that it is this answer's, to this request:
// that every member of the answer that its record settles is the record's, that the whole request was recorded as it was
// given to the client, and that the record's caller is [Options.Caller], or that of the latest answer to [Client.WhoAmI], if there was one.
// Since is when the request was given to the client; it is zero if it may have been recorded before under the program's
// own idempotency key. The request is nil if it was not kept. Of a brief receipt only the id of a decision is compared; it is
// refused unless [Options.Receipts] asks for it. Errors wrap [ErrReceipt], also if the answer has none.
func (c *Client) VerifyAnswer(request, answer proto.Message, since time.Time) (*VerifiedReceipt, error) {
	return verifyAnswer(c.understanding(request), answer, c.sender(since), c.keys)
}

// VerifyAnswer is [Client.VerifyAnswer] with the verifier keys of the tenant's log: see [Options.LogKeys]. The request is
// the one that was sent, with the obligations that the client lists.
func VerifyAnswer(request, answer proto.Message, sender Sender, logKeys ...string) (*VerifiedReceipt, error) {
	keys, err := parseLogKeys(logKeys)
	if err != nil {
		return nil, err
	}
	return verifyAnswer(request, answer, sender, keys)
}

// answers are the types of what comes with a receipt by the route that its record names, and of what asks for it.
var answers = map[string]struct{ request, answer, item protoreflect.FullName }{
	"protection-plan":   {nameOf(&sdkv1.PlanProtectionRequest{}), nameOf(&sdkv1.PlanProtectionResponse{}), nameOf(&bulkv1.ProtectionPlanItem{})},
	"policy-resolve":    {nameOf(&sdkv1.ResolvePolicyRequest{}), nameOf(&sdkv1.ResolvePolicyResponse{}), nameOf(&bulkv1.PolicyResolutionItem{})},
	"key-access-plan":   {nameOf(&sdkv1.PlanKeyAccessRequest{}), nameOf(&sdkv1.PlanKeyAccessResponse{}), nameOf(&bulkv1.KeyAccessPlanItem{})},
	"artifact-register": {nameOf(&sdkv1.RegisterArtifactRequest{}), nameOf(&sdkv1.RegisterArtifactResponse{}), nameOf(&bulkv1.RegistrationResult{})},
	"evidence":          {nameOf(&sdkv1.RecordEvidenceRequest{}), nameOf(&sdkv1.RecordEvidenceResponse{}), nameOf(&bulkv1.EventResult{})},
}

func nameOf(message proto.Message) protoreflect.FullName {
	return message.ProtoReflect().Descriptor().FullName()
}

// answered is an answer or an item, with the receipt of its record.
type answered struct {
	route   string
	said    map[string]any
	receipt *sdkv1.Receipt
	// others are members of answers that this one does not have.
	others []string
}

func verifyAnswer(request, answer proto.Message, sender Sender, keys []logKey) (*VerifiedReceipt, error) {
	for route, names := range answers {
		if answer == nil || nameOf(answer) != names.answer {
			continue
		}
		read := answered{route, normalForm(answer.ProtoReflect(), false), receiptIn(answer, route), nil}
		return read.verify(request, sender, keys)
	}
	return nil, fmt.Errorf("%w: no answer that is recorded", ErrReceipt)
}

// receiptIn is the receipt of an answer or an item, nil if there is none.
func receiptIn(answer proto.Message, route string) *sdkv1.Receipt {
	message := answer.ProtoReflect()
	held := message.Get(message.Descriptor().Fields().ByName(protoreflect.Name(relations.Routes[route].Holder)))
	holder, _ := held.Message().Interface().(interface{ GetReceipt() *sdkv1.Receipt })
	return holder.GetReceipt()
}

// verify checks the receipt, and that it is that of the answer, the request and the sender.
func (a answered) verify(request proto.Message, sender Sender, keys []logKey) (*VerifiedReceipt, error) {
	verified, err := verifyReceipt(a.receipt, keys)
	if err != nil {
		return nil, err
	}
	if id, isDecided := at(a.said, "decision.decision_id"); isDecided && id != a.receipt.GetRecordId() {
		err = errors.New("is of another decision than the answer")
	} else if verified.Record == nil && sender.isWhole {
		err = errors.New("is a brief one, and a whole one was asked for")
	} else if verified.Record != nil {
		err = a.check(verified.Record, request, sender)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrReceipt, err)
	}
	return verified, nil
}

func (a answered) check(record *Record, request proto.Message, sender Sender) error {
	if record.Route != "/v1/sdk/"+a.route || record.Kind != relations.Routes[a.route].Kind {
		return fmt.Errorf("is of %s, not of %s", record.Route, a.route)
	}
	if request != nil && nameOf(request) != answers[a.route].request {
		return fmt.Errorf("is of %s, and the request is none", a.route)
	}
	value, err := record.asValue()
	if err != nil {
		return err
	}
	if err := compare(relations.Answer, a.route, a.said, value, a.others...); err != nil {
		return err
	}
	if request != nil {
		if err := compareRequest(request.ProtoReflect(), value); err != nil {
			return err
		}
	}
	if sender.Caller != nil {
		if err := compare(relations.WhoAmI, a.route, normalForm(sender.Caller.ProtoReflect(), false), value); err != nil {
			return err
		}
	}
	return compareTime(record.RecordedAt, sender.Since)
}
