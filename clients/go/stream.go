package platform

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"svc-platform-client/bulkv1"
)

// StreamOptions bound what a stream holds. The zero value is good.
type StreamOptions struct {
	// MaxUnacknowledgedItems is how many items may wait for their acknowledgement. Default 256, which is as far ahead as
	// the service reads.
	MaxUnacknowledgedItems int
	// MaxUnacknowledgedBytes bounds the same items by their size on the wire; one alone may be larger. Default 256 KiB.
	MaxUnacknowledgedBytes int
	// Receipts says how much of a receipt results carry. Default [Options.Receipts].
	Receipts Receipts
}

// Keyed is an item of a stream, or what became of it, with its idempotency key.
type Keyed interface {
	proto.Message
	GetIdempotencyKey() string
}

// EventStream records events: see [Client.OpenEventStream].
type EventStream = Stream[*bulkv1.EventItem, *bulkv1.EventResult]

// RegistrationStream registers artifacts: see [Client.OpenRegistrationStream].
type RegistrationStream = Stream[*bulkv1.RegistrationItem, *bulkv1.RegistrationResult]

// Stream sends items, and goes on after a cut: it opens another stream as [Options.Retry] says, and sends again whatever
// was not acknowledged, in the same order under the same keys, before anything new. An acknowledgement restarts the count of
// attempts. Its methods may be used by any number of goroutines at once.
type Stream[Item, Result Keyed] struct {
	client  *Client
	kind    *streamKind[Item, Result]
	headers metadata.MD
	limits  StreamOptions
	// Room for items, and for their bytes.
	items, bytes *semaphore.Weighted
	// Ends with the stream.
	ctx  context.Context
	stop context.CancelFunc
	// Ends where nothing may be sent any more.
	sending     context.Context
	stopSending context.CancelFunc
	// Something was put into the queue, or the stream is closing.
	wake  chan struct{}
	ended chan struct{}

	mutex sync.Mutex
	// All that is not acknowledged, in order; of it the first have been sent on the connection in use.
	queue     []*queued[Item, Result]
	sent      int
	next      int64 // sequence of the next item
	attempts  int   // since the last acknowledgement
	isClosing bool
	failure   *PlatformError // of a stream that was given up
	isOver    bool
	// Where the latest records are, and the key of the item that each answers.
	places []place
	owners map[place]string
}

type queued[Item, Result Keyed] struct {
	sequence int64
	item     Item
	weight   int64
	// since is when the stream was given the item; zero if it may have been recorded before under a key of its own.
	since   time.Time
	pending *Pending[Result]
}

// OpenEventStream opens a stream that records events. It connects with the first of them, and ends at once where the
// context does. [Stream.Close] or [Stream.Abort] it.
func (c *Client) OpenEventStream(ctx context.Context, options StreamOptions) (*EventStream, error) {
	return openStream(ctx, c, eventStream, options)
}

// OpenRegistrationStream opens a stream that registers artifacts, as [Client.OpenEventStream] does for events.
func (c *Client) OpenRegistrationStream(ctx context.Context, options StreamOptions) (*RegistrationStream, error) {
	return openStream(ctx, c, registrationStream, options)
}

func openStream[Item, Result Keyed](
	ctx context.Context, client *Client, kind *streamKind[Item, Result], options StreamOptions,
) (*Stream[Item, Result], error) {
	options.MaxUnacknowledgedItems = orDefault(options.MaxUnacknowledgedItems, 256)
	options.MaxUnacknowledgedBytes = orDefault(options.MaxUnacknowledgedBytes, 256<<10)
	if options.MaxUnacknowledgedItems < 0 || options.MaxUnacknowledgedBytes < 0 {
		return nil, invalid("a stream has room for one item at least")
	}
	headers, failure := client.headers(method{path: kind.path}, []CallOption{
		WithReceipts(orDefault(options.Receipts, client.options.Receipts)),
	})
	if failure != nil {
		return nil, failure
	}
	s := &Stream[Item, Result]{
		client: client, kind: kind, headers: headers, limits: options,
		items: semaphore.NewWeighted(int64(options.MaxUnacknowledgedItems)),
		bytes: semaphore.NewWeighted(int64(options.MaxUnacknowledgedBytes)),
		wake:  make(chan struct{}, 1), ended: make(chan struct{}), owners: map[place]string{},
	}
	s.ctx, s.stop = context.WithCancel(ctx)
	s.sending, s.stopSending = context.WithCancel(s.ctx)
	go s.run()
	return s, nil
}

// Send hands an item over, and returns what its result will come by. It waits while the stream has no room for the item.
// An item without an idempotency key is given one. The item is copied. The error is that of a stream which is over, or of
// the context, and the item is then not the stream's: see [Stream.Unacknowledged].
func (s *Stream[Item, Result]) Send(ctx context.Context, item Item) (*Pending[Result], error) {
	if !item.ProtoReflect().IsValid() {
		return nil, invalid("there is no item")
	}
	var since time.Time
	if item.GetIdempotencyKey() == "" {
		since = time.Now()
	}
	item = s.client.completed(item).(Item)
	weight := min(int64(proto.Size(item)), int64(s.limits.MaxUnacknowledgedBytes))
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.sending, cancel)()
	if s.items.Acquire(waiting, 1) != nil {
		return nil, s.refusal(ctx)
	}
	if s.bytes.Acquire(waiting, weight) != nil {
		s.items.Release(1)
		return nil, s.refusal(ctx)
	}
	s.mutex.Lock()
	if s.isClosing || s.isOver {
		s.mutex.Unlock()
		s.release(weight)
		return nil, s.refusal(ctx)
	}
	pending := &Pending[Result]{IdempotencyKey: item.GetIdempotencyKey(), done: make(chan struct{})}
	s.queue = append(s.queue, &queued[Item, Result]{s.next, item, weight, since, pending})
	s.next++
	s.mutex.Unlock()
	s.wakeUp()
	return pending, nil
}

// Close takes no more items, waits until all are acknowledged, and ends the stream. It returns the [*PlatformError] of a
// stream that was given up. Where the context ends first the stream goes on: Close it again, or Abort it.
func (s *Stream[Item, Result]) Close(ctx context.Context) error {
	s.mutex.Lock()
	s.isClosing = true
	s.mutex.Unlock()
	s.stopSending()
	s.wakeUp()
	select {
	case <-s.ended:
	case <-ctx.Done():
		return ended(ctx)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.failure != nil {
		return s.failure
	}
	return nil
}

// Abort ends the stream at once. What was not acknowledged may have been recorded or not: it is in
// [Stream.Unacknowledged], and its results are errors. It does nothing to a stream that is over.
func (s *Stream[Item, Result]) Abort() {
	s.end(&PlatformError{Code: codes.Canceled, Message: "the stream was aborted", Err: context.Canceled})
}

// Unacknowledged are the items that are not acknowledged, in order, each with its key: a caller that sends them again under
// their keys, on another stream or in another process, has none recorded twice.
func (s *Stream[Item, Result]) Unacknowledged() []Item {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	items := make([]Item, len(s.queue))
	for i, waiting := range s.queue {
		items[i] = proto.Clone(waiting.item).(Item)
	}
	return items
}

// end gives the stream up, once: the results that are waited for are this failure; nil where none is.
func (s *Stream[Item, Result]) end(failure *PlatformError) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.isOver {
		return
	}
	s.isOver, s.failure = true, failure
	for _, waiting := range s.queue {
		waiting.pending.err = failure
		close(waiting.pending.done)
	}
	s.stop()
}

// refusal says why nothing can be sent.
func (s *Stream[Item, Result]) refusal(ctx context.Context) *PlatformError {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	switch {
	case s.failure != nil:
		return s.failure
	case ctx.Err() != nil:
		return ended(ctx)
	case s.ctx.Err() != nil && !s.isClosing:
		return ended(s.ctx)
	}
	return &PlatformError{Code: codes.Canceled, Message: "the stream is closed"}
}

func (s *Stream[Item, Result]) release(weight int64) {
	s.items.Release(1)
	s.bytes.Release(weight)
}

func (s *Stream[Item, Result]) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// pauseUntil waits for a moment, and says whether it came before the stream's end.
func (s *Stream[Item, Result]) pauseUntil(moment time.Time) bool {
	return time.Until(moment) <= 0 || pause(s.ctx, time.Until(moment)) == nil
}

// protocolError is an acknowledgement that cannot be.
func protocolError(format string, of ...any) *PlatformError {
	return &PlatformError{Code: codes.Internal, Message: "the service acknowledged " + fmt.Sprintf(format, of...)}
}
