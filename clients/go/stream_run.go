package platform

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
)

// run opens streams, one after the other, until everything is acknowledged and the stream is closed, or is given up.
func (s *Stream[Item, Result]) run() {
	defer close(s.ended)
	var notBefore time.Time
	for s.waitForItems() && s.pauseUntil(notBefore) {
		s.mutex.Lock()
		s.attempts++
		s.mutex.Unlock()
		notBefore = s.after(s.attempt())
	}
	s.mutex.Lock()
	isDone := s.isClosing && len(s.queue) == 0
	s.mutex.Unlock()
	if isDone {
		s.end(nil)
	} else {
		s.end(ended(s.ctx))
	}
}

// after says when the next stream may be opened after one that ended so, or gives up.
func (s *Stream[Item, Result]) after(failure *PlatformError) (notBefore time.Time) {
	s.mutex.Lock()
	attempts, left, isClosing := s.attempts, len(s.queue), s.isClosing
	s.mutex.Unlock()
	policy := s.client.options.Retry
	switch {
	case s.ctx.Err() != nil, isClosing && left == 0:
		// How it ended makes no difference any more.
		return notBefore
	case !mayResume(failure), left > 0 && attempts == policy.MaxAttempts:
		s.end(failure)
		return notBefore
	case left == 0:
		return time.Now().Add(failure.RetryAfter)
	}
	wait := policy.wait(max(1, attempts), failure.RetryAfter)
	if policy.OnRetry != nil {
		policy.OnRetry(failure, wait)
	}
	return time.Now().Add(wait)
}

// waitForItems says whether there is something to send. It waits until there is, or the stream is closed or over.
func (s *Stream[Item, Result]) waitForItems() bool {
	for {
		s.mutex.Lock()
		isWanted, isClosing := len(s.queue) > 0, s.isClosing
		s.mutex.Unlock()
		switch {
		case s.ctx.Err() != nil:
			return false
		case isWanted || isClosing:
			return isWanted
		}
		select {
		case <-s.wake:
		case <-s.ctx.Done():
		}
	}
}

// mayResume says whether another stream may help: after what single calls are tried again, where the service ended a
// stream on which nothing came, and with another token.
func mayResume(failure *PlatformError) bool {
	return mayRetry(failure) || failure.Code == codes.DeadlineExceeded ||
		failure.Code == codes.Unauthenticated && failure.Reason == "expired_token"
}

// attempt opens a stream, and again at once where another nonce is all that it takes. It returns why the stream ended.
func (s *Stream[Item, Result]) attempt() *PlatformError {
	for isNonceTaken := false; ; isNonceTaken = true {
		carried, failure := s.open()
		switch {
		case failure.Code != codes.Unauthenticated || carried.token == nil:
			return failure
		case failure.Reason == "expired_token" || failure.Reason == "invalid_token":
			s.client.options.Tokens.Refused(carried.token)
			return failure
		case !carried.isNonceNew || isNonceTaken:
			return failure
		}
	}
}

// open opens one stream, sends what is there and what comes, and takes acknowledgements until the stream ends.
func (s *Stream[Item, Result]) open() (sent, *PlatformError) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	connection, err := s.client.connections.acquire()
	if err != nil {
		return sent{}, failureOf(ctx, err)
	}
	defer s.client.connections.release(connection)
	carried, headers, failure := s.client.authorize(ctx, connection, s.kind.path, s.headers)
	if failure != nil {
		return carried, failure
	}
	description := &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	stream, err := connection.NewStream(metadata.NewOutgoingContext(ctx, headers), description, s.kind.path)
	if err != nil {
		return carried, failureOf(ctx, err)
	}
	s.mutex.Lock()
	s.sent = 0
	s.mutex.Unlock()
	// When everything is acknowledged the service ends the stream; it is not waited for without end.
	drain := sync.OnceFunc(func() { time.AfterFunc(s.client.options.Deadline, cancel) })
	var sending sync.WaitGroup
	sending.Go(func() { s.sendAll(ctx, stream, drain) })
	failure = s.receiveAll(ctx, stream, drain)
	cancel()
	sending.Wait()
	header, err := stream.Header()
	if err != nil {
		header = nil
	}
	carried.keepNonce(header, stream.Trailer())
	return carried, failure
}

// sendAll sends until the stream ends, or everything is sent and the stream is closing.
func (s *Stream[Item, Result]) sendAll(ctx context.Context, stream grpc.ClientStream, drain func()) {
	for {
		s.mutex.Lock()
		isClosing := s.isClosing
		var item *queued[Item, Result]
		if s.sent < len(s.queue) {
			item = s.queue[s.sent]
			s.sent++
		}
		isDone := isClosing && len(s.queue) == 0
		s.mutex.Unlock()
		if item != nil {
			// Why it failed is what receiving returns.
			if stream.SendMsg(s.kind.request(item.sequence, item.item)) != nil {
				return
			}
			continue
		}
		if isClosing {
			if isDone {
				drain()
			}
			_ = stream.CloseSend()
			return
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return
		}
	}
}

// receiveAll takes acknowledgements until the stream ends, and returns why it did.
func (s *Stream[Item, Result]) receiveAll(ctx context.Context, stream grpc.ClientStream, drain func()) *PlatformError {
	for {
		read, err := s.kind.receive(stream)
		if errors.Is(err, io.EOF) {
			return &PlatformError{Code: codes.Unavailable, Message: "the service ended the stream"}
		}
		if err != nil {
			return failureOf(ctx, err)
		}
		taken, isDone, failure := s.acknowledge(read)
		if failure != nil {
			return failure
		}
		for i, item := range taken {
			s.settle(item, read[i].result)
		}
		if isDone {
			drain()
		}
	}
}

// acknowledge takes what is acknowledged out of the queue, all of it or nothing, and says whether that was all.
func (s *Stream[Item, Result]) acknowledge(read []acknowledgement[Result]) ([]*queued[Item, Result], bool, *PlatformError) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.isOver {
		return nil, false, s.failure
	}
	for i, one := range read {
		switch {
		case i >= s.sent || s.queue[i].sequence != one.sequence:
			return nil, false, protocolError("item %d, which was not the next", one.sequence)
		case s.queue[i].item.GetIdempotencyKey() != one.result.GetIdempotencyKey():
			return nil, false, protocolError("item %d under another key", one.sequence)
		case !s.ownsRecord(one.result):
			return nil, false, protocolError("item %d with the record of another item", one.sequence)
		}
	}
	taken := s.queue[:len(read)]
	s.queue, s.sent = s.queue[len(read):], s.sent-len(read)
	if len(taken) > 0 {
		s.attempts = 0
	}
	return taken, s.isClosing && len(s.queue) == 0, nil
}

// ownsRecord says whether the record of a result answers no item with another key. Items may ask the same, so that a record
// does not tell whose it is. As many records are remembered as a bulk call has items.
func (s *Stream[Item, Result]) ownsRecord(result Result) bool {
	receipt := receiptIn(result, s.kind.route)
	if receipt == nil {
		return true
	}
	at := place{receipt.LogOrigin, receipt.LeafIndex}
	if owner, isTaken := s.owners[at]; isTaken {
		return owner == result.GetIdempotencyKey()
	}
	s.owners[at] = result.GetIdempotencyKey()
	if s.places = append(s.places, at); len(s.places) > 1_000 {
		delete(s.owners, s.places[0])
		s.places = s.places[1:]
	}
	return true
}

// settle hands the result of an acknowledged item to its waiters.
func (s *Stream[Item, Result]) settle(item *queued[Item, Result], result Result) {
	item.pending.result = result
	item.pending.err = s.verify(item, result)
	close(item.pending.done)
	s.release(item.weight)
}

// verify checks the receipt of a result, if there are keys. Where one that was asked for is missing, what is in between may
// have cut it out.
func (s *Stream[Item, Result]) verify(item *queued[Item, Result], result Result) error {
	if len(s.client.keys) == 0 {
		return nil
	}
	read, request, err := readItem(item.item, result)
	receipts := orDefault(s.limits.Receipts, s.client.options.Receipts)
	if err != nil || read == nil || read.receipt == nil && receipts == ReceiptsNone {
		return err
	}
	// Acknowledgements do not name the caller.
	read.others = append(read.others, "caller")
	sender := s.client.sender(item.since)
	sender.isWhole = receipts == ReceiptsWhole
	_, err = read.verify(request, sender, s.client.keys)
	return err
}
