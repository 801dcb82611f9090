package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	platform "svc-platform-client"
	"svc-platform-client/bulkv1"
	"svc-platform-client/sdkv1"
)

// streamStep sends items on a stream that resumes.
type streamStep struct {
	Stream                 string
	Items                  []streamItem
	MaxUnacknowledgedItems int `json:"max_unacknowledged_items"`
	MaxUnacknowledgedBytes int `json:"max_unacknowledged_bytes"`
}

type streamItem struct {
	IdempotencyKey      string `json:"idempotency_key"`
	Event, Registration json.RawMessage
	PauseMs             int64 `json:"pause_ms"`
}

func (s streamStep) run(ctx context.Context, client *platform.Client, hasKeys bool) any {
	options := platform.StreamOptions{
		MaxUnacknowledgedItems: s.MaxUnacknowledgedItems, MaxUnacknowledgedBytes: s.MaxUnacknowledgedBytes,
	}
	if s.Stream == "events" {
		stream, err := client.OpenEventStream(ctx, options)
		if err != nil {
			return failed(err)
		}
		return sendAll(ctx, s.Items, hasKeys, stream, func(item streamItem) (*bulkv1.EventItem, error) {
			event := &sdkv1.RecordEvidenceRequest{}
			return &bulkv1.EventItem{IdempotencyKey: item.IdempotencyKey, Event: event}, protojson.Unmarshal(item.Event, event)
		})
	}
	stream, err := client.OpenRegistrationStream(ctx, options)
	if err != nil {
		return failed(err)
	}
	return sendAll(ctx, s.Items, hasKeys, stream, func(item streamItem) (*bulkv1.RegistrationItem, error) {
		registration := &sdkv1.RegisterArtifactRequest{}
		return &bulkv1.RegistrationItem{IdempotencyKey: item.IdempotencyKey, Registration: registration},
			protojson.Unmarshal(item.Registration, registration)
	})
}

func sendAll[Item, Result platform.Keyed](
	ctx context.Context, items []streamItem, hasKeys bool, stream *platform.Stream[Item, Result],
	read func(streamItem) (Item, error),
) any {
	defer stream.Abort()
	var sent []*platform.Pending[Result]
	for _, given := range items {
		time.Sleep(milliseconds(given.PauseMs))
		item, err := read(given)
		if err != nil {
			return failed(err)
		}
		pending, err := stream.Send(ctx, item)
		if err != nil {
			break
		}
		sent = append(sent, pending)
	}
	gaveUp := stream.Close(ctx)
	results, receipt := make([]json.RawMessage, len(items)), "absent"
	for i, pending := range sent {
		result, err := pending.Result(ctx)
		switch {
		case errors.Is(err, platform.ErrReceipt):
			receipt = "refused"
		case err != nil:
			continue
		case hasKeys && hasReceipt(result) && receipt == "absent":
			receipt = "verified"
		}
		if results[i], err = protojson.Marshal(result); err != nil {
			return failed(err)
		}
	}
	answer := object{"results": results, "receipt": receipt}
	if gaveUp != nil {
		keys := []string{}
		for _, item := range stream.Unacknowledged() {
			keys = append(keys, item.GetIdempotencyKey())
		}
		answer["error"], answer["unacknowledged"] = failed(gaveUp)["error"], keys
	}
	return answer
}

func hasReceipt(result platform.Keyed) bool {
	switch result := result.(type) {
	case *bulkv1.EventResult:
		return result.GetIngestion().GetReceipt() != nil
	case *bulkv1.RegistrationResult:
		return result.GetRegistration().GetReceipt() != nil
	}
	return false
}
