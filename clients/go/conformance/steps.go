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
}

type object map[string]any

func (s step) run(ctx context.Context, client *platform.Client, hasKeys bool) any {
	time.Sleep(milliseconds(s.PauseMs))
	switch s.Call {
	case "concurrent":
		return object{"steps": concurrently(s.Calls, func(each step) any { return each.run(ctx, client, hasKeys) })}
	case "verify-receipt":
		return object{"receipt": s.verify()}
	}
	answer, err := s.call(ctx, client)
	if err != nil {
		return failed(err)
	}
	decision, receipt := parts(answer)
	if s.RequireAllow {
		var listed struct{ UnderstoodObligations []string }
		if len(s.Request) > 0 {
			if err := json.Unmarshal(s.Request, &listed); err != nil {
				return failed(err)
			}
		}
		if err := client.RequireAllow(decision, listed.UnderstoodObligations...); err != nil {
			return failed(err)
		}
	}
	text, err := protojson.Marshal(answer)
	if err != nil {
		return failed(err)
	}
	verdict := "absent"
	if hasKeys && receipt != nil {
		_, err := client.VerifyAnswer(answer)
		verdict = verdictOf(err)
	}
	return object{"answer": json.RawMessage(text), "receipt": verdict}
}

func (s step) call(ctx context.Context, client *platform.Client) (proto.Message, error) {
	var options []platform.CallOption
	if s.IdempotencyKey != nil {
		options = append(options, platform.WithIdempotencyKey(*s.IdempotencyKey))
	}
	switch s.Call {
	case "whoami":
		return client.WhoAmI(ctx)
	case "capabilities":
		return client.GetCapabilities(ctx)
	case "bootstrap":
		return client.GetBootstrap(ctx)
	case "cached-capabilities":
		return client.CachedCapabilities(ctx)
	case "cached-bootstrap":
		return client.CachedBootstrap(ctx)
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
	}
	return nil, fmt.Errorf("there is no call %q", s.Call)
}

func with[Request, Answer proto.Message](
	ctx context.Context, text []byte, request Request,
	call func(context.Context, Request, ...platform.CallOption) (Answer, error), options []platform.CallOption,
) (proto.Message, error) {
	if len(text) > 0 {
		if err := protojson.Unmarshal(text, request); err != nil {
			return nil, err
		}
	}
	answer, err := call(ctx, request, options...)
	return answer, err
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

// parts are the decision and the receipt of an answer, nil where it has none.
func parts(answer proto.Message) (platform.Decision, *sdkv1.Receipt) {
	switch answer := answer.(type) {
	case *sdkv1.PlanProtectionResponse:
		return answer.GetDecision(), answer.GetDecision().GetReceipt()
	case *sdkv1.ResolvePolicyResponse:
		return answer.GetDecision(), answer.GetDecision().GetReceipt()
	case *sdkv1.PlanKeyAccessResponse:
		return answer.GetDecision(), answer.GetDecision().GetReceipt()
	case *sdkv1.RegisterArtifactResponse:
		return nil, answer.GetRegistration().GetReceipt()
	case *sdkv1.RecordEvidenceResponse:
		return nil, answer.GetIngestion().GetReceipt()
	}
	return nil, nil
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
