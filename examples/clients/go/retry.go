package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	baseDelay = 250 * time.Millisecond
	maxDelay  = 4 * time.Second
)

// retry sends a call again where the service could not answer it now, or told to come later. The pause is random
// below a bound that doubles, and never shorter than what the service asks for. The call's deadline covers all
// attempts; its idempotency key is in the context and stays the same.
func retry(
	ctx context.Context, method string, request, reply any,
	connection *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	bound := baseDelay
	for {
		err := invoke(ctx, method, request, reply, connection, options...)
		if err == nil {
			return nil
		}
		asked, told := retryDelay(err)
		again := status.Code(err) == codes.Unavailable || (status.Code(err) == codes.ResourceExhausted && told)
		if !again {
			return err
		}
		pause := asked + rand.N(bound)
		bound = min(2*bound, maxDelay)
		fmt.Fprintf(os.Stderr, "%s: %s; trying again in %s\n", method, status.Convert(err).Message(), pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

// retryDelay reads google.rpc.RetryInfo.
func retryDelay(err error) (delay time.Duration, told bool) {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			return info.RetryDelay.AsDuration(), true
		}
	}
	return 0, false
}
