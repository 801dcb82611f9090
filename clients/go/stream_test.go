package platform

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"svc-platform-client/bulkv1"
)

func openEvents(t *testing.T, client *Client, options StreamOptions) *EventStream {
	t.Helper()
	stream, err := client.OpenEventStream(t.Context(), options)
	must(t, err)
	t.Cleanup(stream.Abort)
	return stream
}

// send sends items under the keys k0, k1, ….
func sendEvents(t *testing.T, stream *EventStream, from, to int) (sent []*Pending[*bulkv1.EventResult]) {
	t.Helper()
	for i := from; i < to; i++ {
		pending, err := stream.Send(t.Context(), eventOf(fmt.Sprint("k", i)))
		must(t, err)
		sent = append(sent, pending)
	}
	return sent
}

func requireResults(t *testing.T, sent []*Pending[*bulkv1.EventResult]) {
	t.Helper()
	for i, pending := range sent {
		result, err := pending.Result(t.Context())
		if err != nil || result.GetIdempotencyKey() != pending.IdempotencyKey || !result.GetIngestion().GetAccepted() {
			t.Fatalf("item %d: %v %v", i, result, err)
		}
	}
}

// However a stream is cut, what was not acknowledged is sent again, in order and under its keys, and nothing else is.
func TestStreamsAreResumed(t *testing.T) {
	for name, test := range map[string]struct {
		streams []func(*servedStream) error
		want    [][]int64
	}{
		"never cut":                 {streams: []func(*servedStream) error{acknowledgeAll}, want: [][]int64{{0, 1, 2}}},
		"refused":                   {streams: []func(*servedStream) error{takeThen(0, errStore), acknowledgeAll}, want: [][]int64{nil, {0, 1, 2}}},
		"after an acknowledgement":  {streams: []func(*servedStream) error{acknowledgeThen(1, errStore), acknowledgeAll}, want: [][]int64{{0}, {1, 2}}},
		"before any":                {streams: []func(*servedStream) error{takeThen(2, errStore), acknowledgeAll}, want: [][]int64{{0, 1}, {0, 1, 2}}},
		"ended in order":            {streams: []func(*servedStream) error{acknowledgeThen(2, nil), acknowledgeAll}, want: [][]int64{{0, 1}, {2}}},
		"idle":                      {streams: []func(*servedStream) error{takeThen(1, refused(codes.DeadlineExceeded, "request_timeout")), acknowledgeAll}, want: [][]int64{{0}, {0, 1, 2}}},
		"at a quota":                {streams: []func(*servedStream) error{takeThen(1, refused(codes.ResourceExhausted, "rate_limited", time.Millisecond)), acknowledgeAll}, want: [][]int64{{0}, {0, 1, 2}}},
		"more often than attempted": {streams: []func(*servedStream) error{acknowledgeThen(1, errStore), acknowledgeThen(1, errStore), acknowledgeThen(1, errStore)}, want: [][]int64{{0}, {1}, {2}}},
	} {
		t.Run(name, func(t *testing.T) {
			service := serveBulk(t, test.streams...)
			stream := openEvents(t, service.client(t, Options{Retry: Retry{MaxAttempts: 2}}), StreamOptions{})
			sent := sendEvents(t, stream, 0, 3)
			must(t, stream.Close(t.Context()))
			requireResults(t, sent)
			if got := service.sequences(); !reflect.DeepEqual(got, test.want) {
				t.Errorf("%v, not %v", got, test.want)
			}
			for _, requests := range service.seen {
				for _, request := range requests {
					if key := request.GetItem().GetIdempotencyKey(); key != fmt.Sprint("k", request.GetSequence()) {
						t.Errorf("item %d under %q", request.GetSequence(), key)
					}
				}
			}
			if left := stream.Unacknowledged(); len(left) > 0 {
				t.Error(keysOf(left))
			}
		})
	}
}

// An idle stream that the service ended is no error: it is opened again when there is something to send.
func TestIdleStreamIsOpenedAgain(t *testing.T) {
	for name, end := range map[string]error{
		"in order": nil, "idle": refused(codes.DeadlineExceeded, "request_timeout"), "away": errStore,
		"no such token": refused(codes.Unauthenticated, "expired_token"),
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan struct{})
			service := serveBulk(t, func(stream *servedStream) error {
				defer close(ended)
				return acknowledgeThen(1, end)(stream)
			}, acknowledgeAll)
			stream := openEvents(t, service.client(t, Options{Retry: Retry{MaxAttempts: 1}}), StreamOptions{})
			requireResults(t, sendEvents(t, stream, 0, 1))
			<-ended
			requireResults(t, sendEvents(t, stream, 1, 2))
			must(t, stream.Close(t.Context()))
			if got := service.sequences(); !reflect.DeepEqual(got, [][]int64{{0}, {1}}) {
				t.Error(got)
			}
		})
	}
}

// No stream is opened sooner than the service says, whether something is left or not.
func TestStreamsWaitAsTold(t *testing.T) {
	const told = 60 * time.Millisecond
	for name, end := range map[string]func(*servedStream) error{
		"something left": takeThen(1, refused(codes.Unavailable, "overloaded", told)),
		"nothing left":   acknowledgeThen(1, refused(codes.ResourceExhausted, "rate_limited", told)),
	} {
		ended := make(chan time.Time, 1)
		service := serveBulk(t, func(stream *servedStream) error {
			err := end(stream)
			ended <- time.Now()
			return err
		}, acknowledgeAll)
		client := service.client(t, Options{})
		stream := openEvents(t, client, StreamOptions{})
		sent := sendEvents(t, stream, 0, 1)
		at := <-ended
		// The client has seen the end.
		for isUsed := true; isUsed; time.Sleep(time.Millisecond) {
			client.connections.mutex.Lock()
			isUsed = client.connections.current.users > 0
			client.connections.mutex.Unlock()
		}
		sent = append(sent, sendEvents(t, stream, 1, 2)...)
		requireResults(t, sent)
		if waited := service.opened[1].Sub(at); waited < told {
			t.Errorf("%s: opened after %s", name, waited)
		}
	}
}

// A refused item has a result: it is no error, and not sent again.
func TestRefusedItem(t *testing.T) {
	service := serveBulk(t, func(stream *servedStream) error {
		request, err := stream.take()
		if err != nil {
			return err
		}
		return stream.Send(&bulkv1.StreamEventsResponse{Items: []*bulkv1.AcknowledgedEvent{{
			Sequence: request.Sequence,
			Result: &bulkv1.EventResult{
				Outcome: bulkv1.ItemOutcome_ITEM_OUTCOME_REFUSED, IdempotencyKey: "k0",
				Error: &bulkv1.ItemError{Reason: "invalid_request"},
			},
		}}})
	})
	stream := openEvents(t, service.client(t, Options{}), StreamOptions{})
	sent := sendEvents(t, stream, 0, 1)
	result, err := sent[0].Result(t.Context())
	must(t, err)
	if result.GetError().GetReason() != "invalid_request" {
		t.Error(result)
	}
	must(t, stream.Close(t.Context()))
}

// A sender waits while there is no room, and one item alone may always go.
func TestSendingIsHeldBack(t *testing.T) {
	large := eventOf("k0")
	large.Event.Attributes = map[string]string{"a": strings.Repeat("x", 1000)}
	for name, test := range map[string]struct {
		options StreamOptions
		first   []*bulkv1.EventItem
	}{
		"by items":       {StreamOptions{MaxUnacknowledgedItems: 2}, []*bulkv1.EventItem{eventOf("k0"), eventOf("k1")}},
		"by bytes":       {StreamOptions{MaxUnacknowledgedBytes: 1100}, []*bulkv1.EventItem{large}},
		"by a large one": {StreamOptions{MaxUnacknowledgedBytes: 500}, []*bulkv1.EventItem{large}},
	} {
		t.Run(name, func(t *testing.T) {
			release := make(chan struct{})
			service := serveBulk(t, func(stream *servedStream) error {
				<-release
				return acknowledgeAll(stream)
			})
			stream := openEvents(t, service.client(t, Options{}), test.options)
			for _, item := range test.first {
				_, err := stream.Send(t.Context(), item)
				must(t, err)
			}
			impatient, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if _, err := stream.Send(impatient, large); status.Code(err) != codes.DeadlineExceeded {
				t.Fatal(err)
			}
			close(release)
			again, err := stream.Send(t.Context(), large)
			must(t, err)
			requireResults(t, []*Pending[*bulkv1.EventResult]{again})
			if err := stream.Close(t.Context()); err != nil || len(stream.Unacknowledged()) > 0 {
				t.Error(err)
			}
		})
	}
}

// A sender that waits for room gets the error of the end, and keeps the item.
func TestEndWhileSendingIsHeldBack(t *testing.T) {
	for name, end := range map[string]func(*EventStream, context.CancelFunc){
		"aborted":   func(stream *EventStream, _ context.CancelFunc) { stream.Abort() },
		"closed":    func(stream *EventStream, _ context.CancelFunc) { go stream.Close(context.Background()) },
		"cancelled": func(_ *EventStream, cancel context.CancelFunc) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			service := serveBulk(t, func(stream *servedStream) error {
				<-stream.Context().Done()
				return nil
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stream, err := service.client(t, Options{}).OpenEventStream(ctx, StreamOptions{MaxUnacknowledgedItems: 1})
			must(t, err)
			defer stream.Abort()
			sendEvents(t, stream, 0, 1)
			held := make(chan error)
			go func() {
				_, err := stream.Send(context.Background(), eventOf("k1"))
				held <- err
			}()
			end(stream, cancel)
			if err := <-held; status.Code(err) != codes.Canceled {
				t.Error(err)
			}
			if got := keysOf(stream.Unacknowledged()); !slices.Equal(got, []string{"k0"}) {
				t.Error(got)
			}
		})
	}
}

func TestAbort(t *testing.T) {
	service := serveBulk(t, takeThen(1, refused(codes.Unavailable, "overloaded", time.Hour)))
	retried := make(chan struct{})
	options := Options{Retry: Retry{OnRetry: func(*PlatformError, time.Duration) { close(retried) }}}
	stream := openEvents(t, service.client(t, options), StreamOptions{})
	sent := sendEvents(t, stream, 0, 1)
	<-retried
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	if err := stream.Close(impatient); status.Code(err) != codes.Canceled {
		t.Error(err)
	}
	// In the middle of an hour's pause.
	stream.Abort()
	if _, err := sent[0].Result(t.Context()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := stream.Close(t.Context()); status.Code(err) != codes.Canceled {
		t.Error(err)
	}
}

// An item without a key is given one, and what the caller handed over is left as it was.
func TestItemsAreTheCallers(t *testing.T) {
	service := serveBulk(t, acknowledgeAll)
	stream := openEvents(t, service.client(t, Options{}), StreamOptions{Receipts: ReceiptsBrief})
	item := eventOf("")
	first, err := stream.Send(t.Context(), item)
	must(t, err)
	second, err := stream.Send(t.Context(), item)
	must(t, err)
	requireResults(t, []*Pending[*bulkv1.EventResult]{first, second})
	if item.IdempotencyKey != "" || first.IdempotencyKey == second.IdempotencyKey || !isVisible(first.IdempotencyKey, 128) {
		t.Error(item, first.IdempotencyKey, second.IdempotencyKey)
	}
	if got := service.headers[0].Get("x-svc-receipt"); !slices.Equal(got, []string{"brief"}) {
		t.Error(got)
	}
	if _, err := stream.Send(t.Context(), nil); status.Code(err) != codes.InvalidArgument {
		t.Error(err)
	}
}

// A token that expires while a stream is open is replaced, and the stream goes on.
func TestStreamTokenExpires(t *testing.T) {
	service := serveBulk(t, acknowledgeThen(1, refused(codes.Unauthenticated, "expired_token")), acknowledgeAll)
	tokens := &countedTokens{}
	stream := openEvents(t, service.client(t, Options{Tokens: tokens}), StreamOptions{})
	sent := sendEvents(t, stream, 0, 2)
	must(t, stream.Close(t.Context()))
	requireResults(t, sent)
	for i, headers := range service.headers {
		if got := headers.Get("authorization"); !slices.Equal(got, []string{fmt.Sprint("Bearer t", i)}) {
			t.Error(got)
		}
	}
}

// countedTokens are t0, t1, …: another one after each refusal.
type countedTokens struct{ refused int }

func (c *countedTokens) Token(context.Context) (*Token, error) {
	return &Token{AccessToken: fmt.Sprint("t", c.refused)}, nil
}

func (c *countedTokens) Refused(*Token) { c.refused++ }

// A nonce that is asked for is taken at once.
func TestStreamTakesNonce(t *testing.T) {
	key, err := NewDPoP(nil)
	must(t, err)
	service := serveBulk(t, func(stream *servedStream) error {
		stream.SetTrailer(map[string][]string{"dpop-nonce": {"n1"}})
		return refused(codes.Unauthenticated, "proof_of_possession_failed")
	}, acknowledgeAll)
	options := Options{Tokens: staticToken{&Token{AccessToken: "t", DPoP: key}}, Retry: Retry{MaxAttempts: 1}}
	stream := openEvents(t, service.client(t, options), StreamOptions{})
	requireResults(t, sendEvents(t, stream, 0, 1))
	if count := len(service.sequences()); count != 2 {
		t.Errorf("%d streams", count)
	}
}

func TestStreamOptionsThatCannotBe(t *testing.T) {
	client := serveBulk(t).client(t, Options{})
	for _, options := range []StreamOptions{{MaxUnacknowledgedItems: -1}, {MaxUnacknowledgedBytes: -1}, {Receipts: "long"}} {
		if _, err := client.OpenRegistrationStream(t.Context(), options); status.Code(err) != codes.InvalidArgument {
			t.Error(options, err)
		}
	}
}
