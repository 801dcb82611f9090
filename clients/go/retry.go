package platform

import (
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
)

// Retry says how calls are tried again: after [codes.Unavailable], and after [codes.ResourceExhausted] where the
// service says how long to wait. The pause is random below a bound that doubles, on top of what the service asks for;
// where the deadline would pass meanwhile, the call fails at once. Registrations and events keep their idempotency key;
// a decision that is asked for again is decided, and recorded, again.
type Retry struct {
	// MaxAttempts is how often a call is sent at most, the first time included. Default 4; negative: until its deadline.
	MaxAttempts int
	// InitialBackoff bounds the first pause. Default 100 ms.
	InitialBackoff time.Duration
	// MaxBackoff bounds all pauses that the service does not ask for. Default 5 s.
	MaxBackoff time.Duration
	// OnRetry is called before each pause.
	OnRetry func(failure *PlatformError, wait time.Duration)
}

func (r Retry) withDefaults() Retry {
	r.MaxAttempts = orDefault(r.MaxAttempts, 4)
	r.InitialBackoff = orDefault(r.InitialBackoff, 100*time.Millisecond)
	r.MaxBackoff = orDefault(r.MaxBackoff, 5*time.Second)
	return r
}

// wait is the pause after the attempt, counted from 1.
func (r Retry) wait(attempt int, told time.Duration) time.Duration {
	bound := r.InitialBackoff
	for range attempt - 1 {
		if bound >= r.MaxBackoff {
			break
		}
		bound *= 2
	}
	// Spreads clients even if the service tells all to retry at the same time.
	return told + rand.N(max(1, min(bound, r.MaxBackoff)))
}

func mayRetry(failure *PlatformError) bool {
	return failure.Code == codes.Unavailable || failure.Code == codes.ResourceExhausted && failure.isToldWhen
}

func pause(ctx context.Context, wait time.Duration) *PlatformError {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ended(ctx)
	}
}
