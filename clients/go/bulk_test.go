package platform

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"svc-platform-client/bulkv1"
	"svc-platform-client/sdkv1"
)

// Each item of a decision lists the obligations that are understood, and what the caller handed over is left as it was.
func TestBulkDecisions(t *testing.T) {
	service := serveBulk(t)
	client := service.client(t, Options{UnderstoodObligations: []string{"note", "seal"}})
	service.refusals = []error{errStore}
	service.answer = func(proto.Message) proto.Message {
		return &bulkv1.PlanProtectionsResponse{Items: []*bulkv1.ProtectionPlanItem{
			{
				Outcome: bulkv1.ItemOutcome_ITEM_OUTCOME_ANSWERED,
				Decision: &sdkv1.ProtectionDecision{
					Allow: true, Obligations: []*sdkv1.Obligation{{Id: "note"}},
				},
			},
			{Outcome: bulkv1.ItemOutcome_ITEM_OUTCOME_REFUSED},
		}}
	}
	request := &bulkv1.PlanProtectionsRequest{StopOnFirstDeny: true, Items: []*sdkv1.PlanProtectionRequest{
		{Operation: sdkv1.ProtectionOperation_PROTECTION_OPERATION_PROTECT}, {UnderstoodObligations: []string{"own"}},
	}}
	given := proto.Clone(request)
	answer, err := client.PlanProtections(t.Context(), request)
	must(t, err)
	if !proto.Equal(request, given) {
		t.Error("the caller's request was changed")
	}
	if len(service.requests) != 2 {
		t.Fatalf("%d attempts", len(service.requests))
	}
	sent := service.requests[1].(*bulkv1.PlanProtectionsRequest)
	if !slices.Equal(sent.Items[0].UnderstoodObligations, []string{"note", "seal"}) ||
		!slices.Equal(sent.Items[1].UnderstoodObligations, []string{"own"}) || !sent.StopOnFirstDeny {
		t.Error(sent)
	}
	must(t, client.RequireAllow(answer.Items[0].Decision))
	if client.Permitted(answer.Items[1].Decision) {
		t.Error("an item that was refused is permitted")
	}
	if _, err := client.PlanProtections(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// All bulk calls reach their method.
func TestBulkCalls(t *testing.T) {
	service := serveBulk(t)
	client := service.client(t, Options{})
	for name, test := range map[string]struct {
		answer proto.Message
		call   func() (proto.Message, error)
	}{
		"resolve policies": {&bulkv1.ResolvePoliciesResponse{Service: "a"}, func() (proto.Message, error) {
			return client.ResolvePolicies(t.Context(), &bulkv1.ResolvePoliciesRequest{})
		}},
		"plan key accesses": {&bulkv1.PlanKeyAccessesResponse{Service: "b"}, func() (proto.Message, error) {
			return client.PlanKeyAccesses(t.Context(), &bulkv1.PlanKeyAccessesRequest{})
		}},
		"register artifacts": {&bulkv1.RegisterArtifactsResponse{Service: "c"}, func() (proto.Message, error) {
			return client.RegisterArtifacts(t.Context(), &bulkv1.RegisterArtifactsRequest{})
		}},
	} {
		service.answer = func(proto.Message) proto.Message { return test.answer }
		if got, err := test.call(); err != nil || !proto.Equal(got, test.answer) {
			t.Error(name, got, err)
		}
	}
	service.refusals = []error{refused(codes.PermissionDenied, "missing_scope")}
	var failure *PlatformError
	if _, err := client.RegisterArtifacts(t.Context(), nil); !errors.As(err, &failure) || failure.Reason != "missing_scope" {
		t.Error(err)
	}
}

// An event has one key over all attempts: its own, or one that it is given.
func TestBulkKeys(t *testing.T) {
	service := serveBulk(t)
	service.refusals = []error{errStore, errStore}
	service.answer = func(proto.Message) proto.Message { return &bulkv1.RecordEventsResponse{} }
	request := &bulkv1.RecordEventsRequest{Items: []*bulkv1.EventItem{eventOf("own"), eventOf(""), eventOf("")}}
	_, err := service.client(t, Options{}).RecordEvents(t.Context(), request)
	must(t, err)
	var keys [][]string
	for _, attempt := range service.requests {
		keys = append(keys, keysOf(attempt.(*bulkv1.RecordEventsRequest).GetItems()))
	}
	if len(keys) != 3 || !slices.Equal(keys[0], keys[1]) || !slices.Equal(keys[0], keys[2]) {
		t.Fatal(keys)
	}
	if keys[0][0] != "own" || keys[0][1] == keys[0][2] || !isVisible(keys[0][1], 128) || request.Items[1].IdempotencyKey != "" {
		t.Error(keys[0])
	}
}

// Receipts are those of their items: not another's, nor of another question.
func TestVerifyItems(t *testing.T) {
	log := newTestLog(t, 0)
	request, answer := &bulkv1.PlanProtectionsRequest{}, &bulkv1.PlanProtectionsResponse{}
	for _, call := range makeCalls(t, log) {
		if call.route == "protection-plan" && slices.Contains([]string{"plain", "resource", "labels"}, call.name) {
			planned := call.answer.(*sdkv1.PlanProtectionResponse)
			request.Items = append(request.Items, call.request.(*sdkv1.PlanProtectionRequest))
			answer.Caller = planned.Caller
			answer.Items = append(answer.Items, &bulkv1.ProtectionPlanItem{
				Outcome: bulkv1.ItemOutcome_ITEM_OUTCOME_ANSWERED, Decision: planned.Decision, Execution: planned.Execution,
			})
		}
	}
	answer.Items[1] = &bulkv1.ProtectionPlanItem{Outcome: bulkv1.ItemOutcome_ITEM_OUTCOME_REFUSED}
	verified, err := VerifyItems(request, answer, Sender{}, log.key)
	must(t, err)
	if len(verified) != 3 || verified[0].Record == nil || verified[1] != nil || verified[2].Record == nil {
		t.Error(verified)
	}
	client := serveBulk(t).client(t, Options{LogKeys: []string{log.key}})
	if got, err := client.VerifyItems(request, answer, time.Time{}); err != nil || !reflect.DeepEqual(got, verified) {
		t.Error(got, err)
	}
	for name, change := range map[string]func(*bulkv1.PlanProtectionsRequest, *bulkv1.PlanProtectionsResponse){
		"another's receipt": func(_ *bulkv1.PlanProtectionsRequest, answer *bulkv1.PlanProtectionsResponse) {
			answer.Items[0].Decision.Receipt = answer.Items[2].Decision.Receipt
		},
		"another question": func(request *bulkv1.PlanProtectionsRequest, _ *bulkv1.PlanProtectionsResponse) {
			request.Items[2].Operation = sdkv1.ProtectionOperation_PROTECTION_OPERATION_ACCESS
		},
		"another resource": func(request *bulkv1.PlanProtectionsRequest, _ *bulkv1.PlanProtectionsResponse) {
			request.Items[2].Resource = &sdkv1.ResourceDescriptor{Kind: "record"}
		},
		"another tenant": func(_ *bulkv1.PlanProtectionsRequest, answer *bulkv1.PlanProtectionsResponse) {
			answer.Caller.TenantId = "tenant-b"
		},
		"no caller": func(_ *bulkv1.PlanProtectionsRequest, answer *bulkv1.PlanProtectionsResponse) { answer.Caller = nil },
		"another outcome": func(_ *bulkv1.PlanProtectionsRequest, answer *bulkv1.PlanProtectionsResponse) {
			answer.Items[0].Decision.Allow = false
		},
		"no receipt": func(_ *bulkv1.PlanProtectionsRequest, answer *bulkv1.PlanProtectionsResponse) {
			answer.Items[0].Decision.Receipt = nil
		},
		"an item too few": func(_ *bulkv1.PlanProtectionsRequest, answer *bulkv1.PlanProtectionsResponse) {
			answer.Items = answer.Items[:2]
		},
	} {
		request, answer := proto.Clone(request).(*bulkv1.PlanProtectionsRequest), proto.Clone(answer).(*bulkv1.PlanProtectionsResponse)
		change(request, answer)
		if _, err := VerifyItems(request, answer, Sender{}, log.key); !errors.Is(err, ErrReceipt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := VerifyItems(&bulkv1.ResolvePoliciesRequest{Items: make([]*sdkv1.ResolvePolicyRequest, 3)}, answer, Sender{}, log.key); err == nil {
		t.Error("the answer of another call")
	}
	if _, err := VerifyItems(request, answer, Sender{}, "no key"); err == nil {
		t.Error("a key that is none")
	}
}
