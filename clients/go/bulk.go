package platform

import (
	"context"
	"fmt"
	"time"

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
// call: with the item that was asked, its answer, and who sent it when. An item with an idempotency key of the program's
// own may have been recorded before. The receipts are in the order of the items, nil for one that was not answered. One
// record answers two items only if the program gave both the same key. Errors wrap [ErrReceipt].
func (c *Client) VerifyItems(request, answer proto.Message, since time.Time) ([]*VerifiedReceipt, error) {
	return verifyItems(c.understanding(request), answer, c.sender(since), c.keys)
}

// VerifyItems is [Client.VerifyItems] with the verifier keys of the tenant's log: see [Options.LogKeys]. The request is
// the one that was sent, with the obligations that the client lists.
func VerifyItems(request, answer proto.Message, sender Sender, logKeys ...string) ([]*VerifiedReceipt, error) {
	keys, err := parseLogKeys(logKeys)
	if err != nil {
		return nil, err
	}
	return verifyItems(request, answer, sender, keys)
}

// place is where a log has a record.
type place struct {
	origin string
	index  int64
}

func verifyItems(request, answer proto.Message, sender Sender, keys []logKey) ([]*VerifiedReceipt, error) {
	asked, results := itemsOf(request), itemsOf(answer)
	if len(asked) != len(results) {
		return nil, fmt.Errorf("%w: %d items were asked, and %d answered", ErrReceipt, len(asked), len(results))
	}
	var from *sdkv1.Caller
	if named, isNamed := answer.(interface{ GetCaller() *sdkv1.Caller }); isNamed {
		from = named.GetCaller()
	}
	verified := make([]*VerifiedReceipt, len(results))
	// Two items may ask the same, so that their questions do not tell their records apart.
	owners := map[place]any{}
	for i, result := range results {
		sender, owner := sender, any(i)
		if keyed, isKeyed := asked[i].(Keyed); isKeyed && keyed.GetIdempotencyKey() != "" {
			sender.Since, owner = time.Time{}, keyed.GetIdempotencyKey()
		}
		read, request, err := readItem(asked[i], result)
		if err == nil && read != nil {
			if from != nil {
				read.said["caller"] = normalForm(from.ProtoReflect(), false)
			}
			verified[i], err = read.verify(request, sender, keys)
		}
		if err == nil && verified[i] != nil {
			at := place{verified[i].LogOrigin, verified[i].LeafIndex}
			if other, isTaken := owners[at]; isTaken && other != owner {
				err = fmt.Errorf("%w: its record answers another item too", ErrReceipt)
			}
			owners[at] = owner
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

// readItem reads what became of an item, nil if it was not answered, and the request that it is.
func readItem(item, result proto.Message) (*answered, proto.Message, error) {
	switch asked := item.(type) {
	case *bulkv1.EventItem:
		item = asked.GetEvent()
	case *bulkv1.RegistrationItem:
		item = asked.GetRegistration()
	}
	for route, names := range answers {
		if nameOf(item) != names.request || nameOf(result) != names.item {
			continue
		}
		outcome, _ := result.(interface{ GetOutcome() bulkv1.ItemOutcome })
		isAnswered := outcome.GetOutcome() == bulkv1.ItemOutcome_ITEM_OUTCOME_ANSWERED
		hasResult := false
		result.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
			hasResult = hasResult || field.Message() != nil && field.Name() != "error"
			return true
		})
		switch {
		case isAnswered != hasResult:
			return nil, nil, fmt.Errorf("%w: an item has a result if it was answered, and only then", ErrReceipt)
		case !isAnswered:
			return nil, nil, nil
		}
		// What only the answer around the items has, or nothing of a stream.
		others := []string{"status", "request_summary"}
		return &answered{route, normalForm(result.ProtoReflect(), false), receiptIn(result, route), others}, item, nil
	}
	return nil, nil, fmt.Errorf("%w: the answer is not of this request", ErrReceipt)
}
