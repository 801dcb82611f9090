package platform

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"google.golang.org/protobuf/proto"

	"svc-platform-client/sdkv1"
)

// CachedCapabilities is [Client.GetCapabilities], asked once in [Options.DiscoveryMaxAge] however many ask at once. An
// answer that is older is never used.
func (c *Client) CachedCapabilities(ctx context.Context) (*sdkv1.GetCapabilitiesResponse, error) {
	return c.capabilities.get(ctx)
}

// CachedBootstrap is [Client.GetBootstrap], kept as [Client.CachedCapabilities] keeps its answer.
func (c *Client) CachedBootstrap(ctx context.Context) (*sdkv1.GetBootstrapResponse, error) {
	return c.bootstrap.get(ctx)
}

// cached keeps one answer.
type cached[Answer proto.Message] struct {
	fetch  func(context.Context, ...CallOption) (Answer, error)
	maxAge time.Duration
	// Bounds a fetch, which several callers may share.
	timeout time.Duration
	flight  singleflight.Group

	mutex sync.Mutex
	held  *heldAnswer[Answer]
}

type heldAnswer[Answer any] struct {
	answer Answer
	until  time.Time
}

func newCached[Answer proto.Message](
	options Options, fetch func(context.Context, ...CallOption) (Answer, error),
) *cached[Answer] {
	return &cached[Answer]{fetch: fetch, maxAge: options.DiscoveryMaxAge, timeout: options.Deadline}
}

// get returns the caller's own copy.
func (c *cached[Answer]) get(ctx context.Context) (Answer, error) {
	var none Answer
	if held := c.fresh(); held != nil {
		return clone(held.answer), nil
	}
	fetched := c.flight.DoChan("", func() (any, error) {
		if held := c.fresh(); held != nil {
			return held.answer, nil
		}
		// One who gives up takes nothing from the others who wait.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timeout)
		defer cancel()
		asked := time.Now()
		answer, err := c.fetch(ctx)
		if err != nil {
			return nil, err
		}
		c.mutex.Lock()
		defer c.mutex.Unlock()
		c.held = &heldAnswer[Answer]{answer, asked.Add(c.maxAge)}
		return answer, nil
	})
	select {
	case result := <-fetched:
		if result.Err != nil {
			return none, result.Err
		}
		return clone(result.Val.(Answer)), nil
	case <-ctx.Done():
		return none, ended(ctx)
	}
}

func (c *cached[Answer]) fresh() *heldAnswer[Answer] {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.held == nil || !time.Now().Before(c.held.until) {
		return nil
	}
	return c.held
}

func clone[Answer proto.Message](answer Answer) Answer {
	return proto.Clone(answer).(Answer)
}
