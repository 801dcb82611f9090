package platform

import "context"

// Pending is the result of one item, once it is acknowledged.
type Pending[Result any] struct {
	// IdempotencyKey of the item.
	IdempotencyKey string

	done   chan struct{}
	result Result
	err    error
}

// Done is closed when the result is there.
func (p *Pending[Result]) Done() <-chan struct{} { return p.done }

// Result waits for what became of the item. One that was refused has a result too, with its Error. The error is that of
// the stream which was given up, or of the context; where [Options.LogKeys] are given and the item's receipt does not
// verify it wraps [ErrReceipt], beside the result.
func (p *Pending[Result]) Result(ctx context.Context) (Result, error) {
	select {
	case <-p.done:
		return p.result, p.err
	default:
	}
	select {
	case <-p.done:
		return p.result, p.err
	case <-ctx.Done():
		var none Result
		return none, ended(ctx)
	}
}
