package main

import (
	"time"

	"google.golang.org/protobuf/proto"

	platform "svc-platform-client"
	"svc-platform-client/bulkv1"
	"svc-platform-client/sdkv1"
)

// parts are the decisions of an answer, one for each item of a bulk call, and how many receipts it has.
func parts(answer proto.Message) (decisions []platform.Decision, receipts int) {
	count := func(receipt *sdkv1.Receipt) {
		if receipt != nil {
			receipts++
		}
	}
	decide := func(decision interface {
		platform.Decision
		GetReceipt() *sdkv1.Receipt
	}) {
		decisions = append(decisions, decision)
		count(decision.GetReceipt())
	}
	switch answer := answer.(type) {
	case *sdkv1.PlanProtectionResponse:
		decide(answer.GetDecision())
	case *sdkv1.ResolvePolicyResponse:
		decide(answer.GetDecision())
	case *sdkv1.PlanKeyAccessResponse:
		decide(answer.GetDecision())
	case *sdkv1.RegisterArtifactResponse:
		count(answer.GetRegistration().GetReceipt())
	case *sdkv1.RecordEvidenceResponse:
		count(answer.GetIngestion().GetReceipt())
	case *bulkv1.PlanProtectionsResponse:
		for _, item := range answer.GetItems() {
			decide(item.GetDecision())
		}
	case *bulkv1.ResolvePoliciesResponse:
		for _, item := range answer.GetItems() {
			decide(item.GetDecision())
		}
	case *bulkv1.PlanKeyAccessesResponse:
		for _, item := range answer.GetItems() {
			decide(item.GetDecision())
		}
	case *bulkv1.RegisterArtifactsResponse:
		for _, item := range answer.GetItems() {
			count(item.GetRegistration().GetReceipt())
		}
	case *bulkv1.RecordEventsResponse:
		for _, item := range answer.GetItems() {
			count(item.GetIngestion().GetReceipt())
		}
	}
	return decisions, receipts
}

// listedIn are the obligations that a request, or this item of a bulk request, lists itself.
func listedIn(request proto.Message, item int) []string {
	type listing interface{ GetUnderstoodObligations() []string }
	switch request := request.(type) {
	case listing:
		return request.GetUnderstoodObligations()
	case *bulkv1.PlanProtectionsRequest:
		return request.GetItems()[item].GetUnderstoodObligations()
	case *bulkv1.ResolvePoliciesRequest:
		return request.GetItems()[item].GetUnderstoodObligations()
	case *bulkv1.PlanKeyAccessesRequest:
		return request.GetItems()[item].GetUnderstoodObligations()
	}
	return nil
}

func verify(client *platform.Client, request, answer proto.Message, since time.Time) error {
	var err error
	if isBulk := request.ProtoReflect().Descriptor().ParentFile().Package() == "platform.bulk.v1"; isBulk {
		_, err = client.VerifyItems(request, answer, since)
	} else {
		_, err = client.VerifyAnswer(request, answer, since)
	}
	return err
}
