package platform

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"svc-platform-client/bulkv1"
	"svc-platform-client/sdkv1"
)

var (
	planProtections   = method{path: bulkv1.BulkDecisionService_PlanProtections_FullMethodName}
	resolvePolicies   = method{path: bulkv1.BulkDecisionService_ResolvePolicies_FullMethodName}
	planKeyAccesses   = method{path: bulkv1.BulkDecisionService_PlanKeyAccesses_FullMethodName}
	recordEvents      = method{path: bulkv1.BulkRecordService_RecordEvents_FullMethodName}
	registerArtifacts = method{path: bulkv1.BulkRecordService_RegisterArtifacts_FullMethodName}
)

// PlanProtections asks what [Client.PlanProtection] asks, of 1 to 1,000 items at once. They are answered in their order,
// each by itself: read its Outcome before its Decision.
func (c *Client) PlanProtections(
	ctx context.Context, request *bulkv1.PlanProtectionsRequest, options ...CallOption,
) (*bulkv1.PlanProtectionsResponse, error) {
	return invoke(ctx, c, planProtections, request, &bulkv1.PlanProtectionsResponse{}, options)
}

// ResolvePolicies is [Client.ResolvePolicy] of many items, as [Client.PlanProtections] is.
func (c *Client) ResolvePolicies(
	ctx context.Context, request *bulkv1.ResolvePoliciesRequest, options ...CallOption,
) (*bulkv1.ResolvePoliciesResponse, error) {
	return invoke(ctx, c, resolvePolicies, request, &bulkv1.ResolvePoliciesResponse{}, options)
}

// PlanKeyAccesses is [Client.PlanKeyAccess] of many items, as [Client.PlanProtections] is.
func (c *Client) PlanKeyAccesses(
	ctx context.Context, request *bulkv1.PlanKeyAccessesRequest, options ...CallOption,
) (*bulkv1.PlanKeyAccessesResponse, error) {
	return invoke(ctx, c, planKeyAccesses, request, &bulkv1.PlanKeyAccessesResponse{}, options)
}

// RecordEvents tells the platform of 1 to 1,000 events, each of which is recorded or refused by itself. However often
// the call is sent, each is recorded once: an item without an idempotency key is given one, which its result names.
func (c *Client) RecordEvents(
	ctx context.Context, request *bulkv1.RecordEventsRequest, options ...CallOption,
) (*bulkv1.RecordEventsResponse, error) {
	return invoke(ctx, c, recordEvents, request, &bulkv1.RecordEventsResponse{}, options)
}

// RegisterArtifacts makes registrations as [Client.RecordEvents] records events.
func (c *Client) RegisterArtifacts(
	ctx context.Context, request *bulkv1.RegisterArtifactsRequest, options ...CallOption,
) (*bulkv1.RegisterArtifactsResponse, error) {
	return invoke(ctx, c, registerArtifacts, request, &bulkv1.RegisterArtifactsResponse{}, options)
}

// VerifyItems checks the receipts of all items that a bulk call answered as [Client.VerifyAnswer] checks that of one
// call: what the record holds is compared with the item that was asked, and with its answer. The receipts are in the
// order of the items, nil for one that was not answered. Errors wrap [ErrReceipt].
func (c *Client) VerifyItems(request, answer proto.Message) ([]*VerifiedReceipt, error) {
	return verifyItems(request, answer, c.keys)
}

// VerifyItems is [Client.VerifyItems] with the verifier keys of the tenant's log: see [Options.LogKeys].
func VerifyItems(request, answer proto.Message, logKeys ...string) ([]*VerifiedReceipt, error) {
	keys, err := parseLogKeys(logKeys)
	if err != nil {
		return nil, err
	}
	return verifyItems(request, answer, keys)
}

func verifyItems(request, answer proto.Message, keys []logKey) ([]*VerifiedReceipt, error) {
	asked, results := itemsOf(request), itemsOf(answer)
	if len(asked) != len(results) {
		return nil, fmt.Errorf("%w: %d items were asked, and %d answered", ErrReceipt, len(asked), len(results))
	}
	var from caller
	if named, isNamed := answer.(interface{ GetCaller() *sdkv1.Caller }); isNamed {
		from = named.GetCaller()
	}
	verified := make([]*VerifiedReceipt, len(results))
	for i, result := range results {
		said, receipt, err := readItem(asked[i], result)
		if err == nil && said != nil {
			said.caller = from
			verified[i], err = said.verify(receipt, keys)
		}
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
	}
	return verified, nil
}

func itemsOf(message proto.Message) []proto.Message {
	given := message.ProtoReflect()
	field := given.Descriptor().Fields().ByName("items")
	if field == nil || !field.IsList() || field.Kind() != protoreflect.MessageKind {
		return nil
	}
	list := given.Get(field).List()
	items := make([]proto.Message, list.Len())
	for i := range items {
		items[i] = list.Get(i).Message().Interface()
	}
	return items
}

// readItem reads what was recorded of one item, and its receipt: nil where the item was not answered, and where there is
// none.
func readItem(item, result proto.Message) (*recordedAnswer, *sdkv1.Receipt, error) {
	if answered, ok := result.(interface{ GetOutcome() bulkv1.ItemOutcome }); ok &&
		answered.GetOutcome() != bulkv1.ItemOutcome_ITEM_OUTCOME_ANSWERED {
		return nil, nil, nil
	}
	switch item := item.(type) {
	case *sdkv1.PlanProtectionRequest:
		if result, ok := result.(*bulkv1.ProtectionPlanItem); ok {
			return &recordedAnswer{
				kind: "decision", route: "protection-plan", decision: result.GetDecision(), asked: askedIn(item),
				operation: wordOf(item.GetOperation()),
			}, result.GetDecision().GetReceipt(), nil
		}
	case *sdkv1.ResolvePolicyRequest:
		if result, ok := result.(*bulkv1.PolicyResolutionItem); ok {
			return &recordedAnswer{
				kind: "decision", route: "policy-resolve", decision: result.GetDecision(), asked: askedIn(item),
				operation: wordOf(item.GetOperation()),
			}, result.GetDecision().GetReceipt(), nil
		}
	case *sdkv1.PlanKeyAccessRequest:
		if result, ok := result.(*bulkv1.KeyAccessPlanItem); ok {
			return &recordedAnswer{
				kind: "decision", route: "key-access-plan", decision: result.GetDecision(), asked: askedIn(item),
				operation: wordOf(item.GetOperation()),
			}, result.GetDecision().GetReceipt(), nil
		}
	case *bulkv1.EventItem:
		if result, ok := result.(*bulkv1.EventResult); ok {
			event := item.GetEvent()
			return &recordedAnswer{
				kind: "evidence", route: "evidence", accepted: result.GetIngestion().GetAccepted(), asked: askedIn(event),
				eventType: wordOf(event.GetEventType()),
			}, result.GetIngestion().GetReceipt(), nil
		}
	case *bulkv1.RegistrationItem:
		if result, ok := result.(*bulkv1.RegistrationResult); ok {
			registration := item.GetRegistration()
			return &recordedAnswer{
				kind: "registration", route: "artifact-register", accepted: result.GetRegistration().GetAccepted(),
				asked: askedIn(registration), operation: wordOf(registration.GetOperation()),
			}, result.GetRegistration().GetReceipt(), nil
		}
	}
	return nil, nil, errors.New("the answer is not of this request")
}

type describedRequest interface {
	GetWorkload() *sdkv1.WorkloadDescriptor
	GetResource() *sdkv1.ResourceDescriptor
}

func askedIn(request describedRequest) asked {
	resource := request.GetResource()
	return asked{request.GetWorkload().GetApplication(), resource.GetKind(), resource.GetId()}
}
