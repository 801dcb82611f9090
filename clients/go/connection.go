package platform

import (
	"net/url"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

const maxAnswerBytes = 64 << 20

// connections has the connection in use, and makes another one where the certificates have changed. The one before
// goes on until its last call is done.
type connections struct {
	base    *url.URL
	tls     *TLS
	options []grpc.DialOption

	mutex    sync.Mutex
	current  *connection
	isClosed bool
}

type connection struct {
	*grpc.ClientConn
	identity *identity
	// Both under the mutex of connections.
	users     int
	isRetired bool
}

// acquire returns a connection made with the certificates in force. It must be released.
func (c *connections) acquire() (*connection, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.isClosed {
		return nil, &PlatformError{Code: codes.Canceled, Message: "the client is closed"}
	}
	held, err := c.tls.current()
	if err != nil {
		return nil, &PlatformError{Code: codes.Unavailable, Message: "the certificates cannot be read", Err: err}
	}
	if c.current == nil || c.current.identity != held {
		made, err := c.dial(held)
		if err != nil {
			return nil, &PlatformError{Code: codes.Internal, Message: "no connection can be made", Err: err}
		}
		c.retire()
		c.current = &connection{ClientConn: made, identity: held}
	}
	c.current.users++
	return c.current, nil
}

func (c *connections) release(used *connection) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	used.users--
	if used.isRetired && used.users == 0 {
		used.Close()
	}
}

func (c *connections) close() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.isClosed = true
	return c.retire()
}

func (c *connections) retire() error {
	retired := c.current
	if retired == nil {
		return nil
	}
	c.current = nil
	retired.isRetired = true
	if retired.users > 0 {
		return nil
	}
	return retired.Close()
}

func (c *connections) dial(held *identity) (*grpc.ClientConn, error) {
	transport := insecure.NewCredentials()
	if c.base.Scheme == "https" {
		transport = credentials.NewTLS(held.config())
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithUserAgent("svc-platform-client-go/" + Version),
		// Retries are this package's own: they know RetryInfo, tokens and proofs.
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		// The whole receipts of a thousand items.
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswerBytes)),
		// A service that restarts is back in seconds: look often, and never wait longer than a call would.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		// A peer that is gone without a word is noticed while a call waits for it.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}),
	}
	return grpc.NewClient("dns:///"+hostPort(c.base), append(options, c.options...)...)
}
