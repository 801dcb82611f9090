package platform

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"svc-platform-client/bulkv1"
)

func TestStreamsAreGivenUp(t *testing.T) {
	// Both have been sent, whatever becomes of the stream.
	acknowledgeOne := func(end error) func(*servedStream) error {
		return func(stream *servedStream) error {
			first, err := stream.take()
			if err != nil {
				return err
			}
			if _, err := stream.take(); err != nil {
				return err
			}
			return errors.Join(stream.acknowledge(first), end)
		}
	}
	for name, test := range map[string]struct {
		streams []func(*servedStream) error
		code    codes.Code
		reason  string
		opened  int
		left    []string
	}{
		"no attempt is left": {
			streams: []func(*servedStream) error{takeThen(2, errStore)},
			code:    codes.Unavailable, reason: "store_unavailable", opened: 3, left: []string{"k0", "k1"},
		},
		"ended without a word": {
			streams: []func(*servedStream) error{takeThen(2, nil)}, code: codes.Unavailable, opened: 3, left: []string{"k0", "k1"},
		},
		"one was acknowledged": {
			streams: []func(*servedStream) error{takeThen(2, errStore), acknowledgeOne(errStore), takeThen(1, errStore)},
			code:    codes.Unavailable, reason: "store_unavailable", opened: 5, left: []string{"k1"},
		},
		"a scope is missing": {
			streams: []func(*servedStream) error{takeThen(2, refused(codes.PermissionDenied, "missing_scope"))},
			code:    codes.PermissionDenied, reason: "missing_scope", opened: 1, left: []string{"k0", "k1"},
		},
		"the token is invalid": {
			streams: []func(*servedStream) error{takeThen(2, refused(codes.Unauthenticated, "invalid_token"))},
			code:    codes.Unauthenticated, reason: "invalid_token", opened: 1, left: []string{"k0", "k1"},
		},
		"a quota that says no end": {
			streams: []func(*servedStream) error{acknowledgeOne(refused(codes.ResourceExhausted, "rate_limited"))},
			code:    codes.ResourceExhausted, reason: "rate_limited", opened: 1, left: []string{"k1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			service := serveBulk(t, test.streams...)
			var pauses int
			options := Options{Retry: Retry{MaxAttempts: 3, OnRetry: func(*PlatformError, time.Duration) { pauses++ }}}
			stream := openEvents(t, service.client(t, options), StreamOptions{})
			sent := sendEvents(t, stream, 0, 2)
			err := stream.Close(t.Context())
			var failure *PlatformError
			if !errors.As(err, &failure) || failure.Code != test.code || failure.Reason != test.reason {
				t.Fatal(err)
			}
			if got := len(service.sequences()); got != test.opened || pauses != got-1 {
				t.Errorf("%d streams, %d pauses", got, pauses)
			}
			if _, err := sent[1].Result(t.Context()); !errors.Is(err, failure) {
				t.Error(err)
			}
			if got := keysOf(stream.Unacknowledged()); !slices.Equal(got, test.left) {
				t.Error(got)
			}
			if _, err := stream.Send(t.Context(), eventOf("k2")); !errors.Is(err, failure) {
				t.Error(err)
			}
		})
	}
}

// An acknowledgement that cannot be ends the stream, and nothing that came with it is taken for acknowledged.
func TestAcknowledgementsThatCannotBe(t *testing.T) {
	other := func(sequence int64, key string) *bulkv1.StreamEventsRequest {
		return &bulkv1.StreamEventsRequest{Sequence: sequence, Item: eventOf(key)}
	}
	for name, acknowledged := range map[string][]*bulkv1.StreamEventsRequest{
		"never sent":        {other(0, "k0"), other(7, "k7")},
		"negative":          {other(-1, "k0")},
		"not sent yet":      {other(0, "k0"), other(2, "k2")},
		"twice":             {other(0, "k0"), other(0, "k0")},
		"out of order":      {other(1, "k1"), other(0, "k0")},
		"under another key": {other(0, "k0"), other(1, "k0")},
		"under no key":      {other(0, "")},
	} {
		t.Run(name, func(t *testing.T) {
			taken := make(chan struct{})
			service := serveBulk(t, func(stream *servedStream) error {
				for range 2 {
					if _, err := stream.take(); err != nil {
						return err
					}
				}
				<-taken
				return errors.Join(stream.acknowledge(acknowledged...), acknowledgeAll(stream))
			})
			stream := openEvents(t, service.client(t, Options{}), StreamOptions{})
			sent := sendEvents(t, stream, 0, 2)
			close(taken)
			for _, pending := range sent {
				if _, err := pending.Result(t.Context()); status.Code(err) != codes.Internal {
					t.Error(err)
				}
			}
			if got := keysOf(stream.Unacknowledged()); !slices.Equal(got, []string{"k0", "k1"}) {
				t.Error(got)
			}
			if count := len(service.sequences()); count != 1 {
				t.Errorf("%d streams", count)
			}
		})
	}
}

// What still waits to be sent cannot have been acknowledged.
func TestAcknowledgedBeforeItIsSent(t *testing.T) {
	queued := make(chan struct{})
	service := serveBulk(t, func(stream *servedStream) error {
		if _, err := stream.take(); err != nil {
			return err
		}
		<-queued
		return errors.Join(stream.acknowledge(&bulkv1.StreamEventsRequest{Sequence: 3, Item: eventOf("k3")}), acknowledgeAll(stream))
	})
	stream := openEvents(t, service.client(t, Options{}), StreamOptions{MaxUnacknowledgedBytes: 4 << 20})
	// No peer reads the second one: it fills the connection, and the third waits behind it.
	large := eventOf("k1")
	large.Event.Attributes = map[string]string{"a": strings.Repeat("x", 2<<20)}
	for _, item := range []*bulkv1.EventItem{eventOf("k0"), large, eventOf("k2"), eventOf("k3")} {
		_, err := stream.Send(t.Context(), item)
		must(t, err)
	}
	close(queued)
	if err := stream.Close(t.Context()); status.Code(err) != codes.Internal {
		t.Error(err)
	}
	if got := keysOf(stream.Unacknowledged()); !slices.Equal(got, []string{"k0", "k1", "k2", "k3"}) {
		t.Error(got)
	}
}

// An item that was acknowledged is not acknowledged again, on another stream either.
func TestAcknowledgedTwiceOverACut(t *testing.T) {
	service := serveBulk(t, acknowledgeThen(1, errStore), func(stream *servedStream) error {
		stream.acknowledge(&bulkv1.StreamEventsRequest{Sequence: 0, Item: eventOf("k0")})
		return acknowledgeAll(stream)
	})
	stream := openEvents(t, service.client(t, Options{}), StreamOptions{})
	sent := sendEvents(t, stream, 0, 2)
	requireResults(t, sent[:1])
	if _, err := sent[1].Result(t.Context()); status.Code(err) != codes.Internal {
		t.Error(err)
	}
}
