package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	platform "svc-platform-client"
	"svc-platform-client/bulkv1"
	"svc-platform-client/sdkv1"
)

// step is one thing to do.
type step struct {
	Call           string
	Request        json.RawMessage
	IdempotencyKey *string `json:"idempotency_key"`
	RequireAllow   bool    `json:"require_allow"`
	PauseMs        int64   `json:"pause_ms"`
	Calls          []step
	Receipt        json.RawMessage
	LogKey         string `json:"log_key"`
	streamStep
}

type object map[string]any

func (s step) run(ctx context.Context, client *platform.Client, hasKeys bool) any {
	time.Sleep(milliseconds(s.PauseMs))
	if s.Stream != "" {
		return s.streamStep.run(ctx, client, hasKeys)
	}
	switch s.Call {
	case "concurrent":
		return object{"steps": concurrently(s.Calls, func(each step) any { return each.run(ctx, client, hasKeys) })}
	case "verify-receipt":
		return object{"receipt": s.verify()}
	}
	var since time.Time
	// Under a key of the program's own it may have been recorded before.
	if s.IdempotencyKey == nil {
		since = time.Now()
	}
	request, answer, err := s.call(ctx, client)
	if err != nil {
		return failed(err)
	}
	decisions, receipts := parts(answer)
	if s.RequireAllow {
		for i, decision := range decisions {
			if err := client.RequireAllow(decision, listedIn(request, i)...); err != nil {
				return failed(err)
			}
		}
	}
	text, err := protojson.Marshal(answer)
	if err != nil {
		return failed(err)
	}
	verdict := "absent"
	if hasKeys && receipts > 0 {
		verdict = verdictOf(verify(client, request, answer, since))
	}
	return object{"answer": json.RawMessage(text), "receipt": verdict}
}

// call returns the request too, nil where there is none.
func (s step) call(ctx context.Context, client *platform.Client) (request, answer proto.Message, err error) {
	var options []platform.CallOption
	if s.IdempotencyKey != nil {
		options = append(options, platform.WithIdempotencyKey(*s.IdempotencyKey))
	}
	switch s.Call {
	case "whoami":
		answer, err = client.WhoAmI(ctx)
	case "capabilities":
		answer, err = client.GetCapabilities(ctx)
	case "bootstrap":
		answer, err = client.GetBootstrap(ctx)
	case "cached-capabilities":
		answer, err = client.CachedCapabilities(ctx)
	case "cached-bootstrap":
		answer, err = client.CachedBootstrap(ctx)
	case "protection-plan":
		return with(ctx, s.Request, &sdkv1.PlanProtectionRequest{}, client.PlanProtection, options)
	case "policy-resolve":
		return with(ctx, s.Request, &sdkv1.ResolvePolicyRequest{}, client.ResolvePolicy, options)
	case "key-access-plan":
		return with(ctx, s.Request, &sdkv1.PlanKeyAccessRequest{}, client.PlanKeyAccess, options)
	case "artifact-register":
		return with(ctx, s.Request, &sdkv1.RegisterArtifactRequest{}, client.RegisterArtifact, options)
	case "evidence":
		return with(ctx, s.Request, &sdkv1.RecordEvidenceRequest{}, client.RecordEvidence, options)
	case "bulk/protection-plans":
		return with(ctx, s.Request, &bulkv1.PlanProtectionsRequest{}, client.PlanProtections, options)
	case "bulk/policy-resolutions":
		return with(ctx, s.Request, &bulkv1.ResolvePoliciesRequest{}, client.ResolvePolicies, options)
	case "bulk/key-access-plans":
		return with(ctx, s.Request, &bulkv1.PlanKeyAccessesRequest{}, client.PlanKeyAccesses, options)
	case "bulk/evidence":
		return with(ctx, s.Request, &bulkv1.RecordEventsRequest{}, client.RecordEvents, options)
	case "bulk/artifact-registrations":
		return with(ctx, s.Request, &bulkv1.RegisterArtifactsRequest{}, client.RegisterArtifacts, options)
	default:
		err = fmt.Errorf("there is no call %q", s.Call)
	}
	return nil, answer, err
}

func with[Request, Answer proto.Message](
	ctx context.Context, text []byte, request Request,
	call func(context.Context, Request, ...platform.CallOption) (Answer, error), options []platform.CallOption,
) (proto.Message, proto.Message, error) {
	if len(text) > 0 {
		if err := protojson.Unmarshal(text, request); err != nil {
			return nil, nil, err
		}
	}
	answer, err := call(ctx, request, options...)
	return request, answer, err
}

func (s step) verify() string {
	var receipt sdkv1.Receipt
	// A receipt with other members than a receipt's is none.
	if err := protojson.Unmarshal(s.Receipt, &receipt); err != nil {
		return "refused"
	}
	_, err := platform.VerifyReceipt(&receipt, s.LogKey)
	return verdictOf(err)
}

func verdictOf(err error) string {
	if err != nil {
		return "refused"
	}
	return "verified"
}

func failed(err error) object {
	var denied *platform.NotPermittedError
	if errors.As(err, &denied) {
		return object{"not_permitted": object{
			"reasons": orEmpty(denied.Reasons), "unknown_obligations": orEmpty(denied.UnknownObligations),
		}}
	}
	var failure *platform.PlatformError
	if !errors.As(err, &failure) {
		return object{"error": object{"code": "internal", "reason": err.Error()}}
	}
	violations := []object{}
	for _, violation := range failure.Violations {
		violations = append(violations, object{"field": violation.Field})
	}
	return object{"error": object{
		"code": failure.CodeName(), "reason": failure.Reason, "request_id": failure.RequestID,
		"missing_scopes": orEmpty(failure.MissingScopes), "violations": violations, "message": strings.ToValidUTF8(failure.Message, "?"),
	}}
}

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
