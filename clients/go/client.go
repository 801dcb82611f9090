// Package platform is the client of the platform's control plane: the eight calls of its contract over gRPC, with what
// every caller needs around them. Tokens are fetched and kept, certificates are presented and read again when they
// change, calls are bounded in time and tried again where that may help, errors are typed, receipts are verified
// offline, and a decision counts only where all of its obligations are understood.
//
// Messages and enumerations are in package sdkv1.
package platform

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"svc-platform-client/sdkv1"
)

// Version of this package.
const Version = "0.1.0"

// Options say where the platform is, who calls it and how. Only BaseURL is required.
type Options struct {
	// BaseURL is where the service listens, such as "https://platform.example.com". Plain http is taken for loopback
	// hosts alone, since tokens travel with the calls.
	BaseURL string
	// TLS is what the service is trusted on and shown. Nil: the system's authorities, and no client certificate.
	TLS *TLS
	// Tokens are where calls get their access token from. Nil: calls carry none.
	Tokens TokenSource
	// Deadline bounds a call whose context has no deadline, all attempts together. Default 10 s.
	Deadline time.Duration
	// Retry says when and how often a call is tried again.
	Retry Retry
	// Receipts says how much of a receipt answers carry. Default [ReceiptsWhole].
	Receipts Receipts
	// LogKeys are the verifier keys of the tenant's log, which the operator hands out, each "<origin>+<id>+<key>"; with
	// "@<size>" behind it where the key was retired and counts for trees of up to so many leaves.
	LogKeys []string
	// Caller is this program as [Client.WhoAmI] answers, if it knows that without asking: the caller that the receipts that the client
	// checks must be of. Default: the caller that WhoAmI named last, and anyone before.
	Caller *sdkv1.Caller
	// UnderstoodObligations are what this program does where a decision demands it, by id. They are sent with every
	// request that lists none of its own, and [Client.RequireAllow] refuses a decision with any other.
	UnderstoodObligations []string
	// UnderstoodParameters are, by id, the parameters that are understood of an obligation. Of an id that is not in it
	// all are.
	UnderstoodParameters map[string][]string
	// DiscoveryMaxAge is how long the answers of [Client.CachedCapabilities] and [Client.CachedBootstrap] are used.
	// Default 5 minutes.
	DiscoveryMaxAge time.Duration
	// HeaderPrefix is what the deployment's own headers begin with. Default "x-svc-".
	HeaderPrefix string
	// DialOptions are added to the connection's, such as handlers of statistics.
	DialOptions []grpc.DialOption
}

// Client calls the platform. Its methods may be used by any number of goroutines at once. They return a
// [*PlatformError] where the call fails.
type Client struct {
	options      Options
	origin       string // scheme and host, which DPoP proofs name
	keys         []logKey
	connections  *connections
	capabilities *cached[*sdkv1.GetCapabilitiesResponse]
	bootstrap    *cached[*sdkv1.GetBootstrapResponse]
	// The caller that receipts must name; nil if that is not known.
	caller atomic.Pointer[sdkv1.Caller]
}

// New makes a client. It checks the options and reads the certificates, and connects at the first call.
func New(options Options) (*Client, error) {
	base, err := url.Parse(options.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("platform: BaseURL: %w", err)
	}
	if err := requireSecure(base); err != nil {
		return nil, fmt.Errorf("platform: BaseURL: %w", err)
	}
	if base.Path != "" && base.Path != "/" || base.RawQuery != "" || base.User != nil {
		return nil, errors.New("platform: BaseURL: is more than scheme, host and port")
	}
	options = withDefaults(options)
	if err := options.Receipts.check(); err != nil {
		return nil, err
	}
	keys, err := parseLogKeys(options.LogKeys)
	if err != nil {
		return nil, fmt.Errorf("platform: LogKeys: %w", err)
	}
	if _, err := options.TLS.current(); err != nil {
		return nil, fmt.Errorf("platform: TLS: %w", err)
	}
	client := &Client{
		options:     options,
		origin:      base.Scheme + "://" + base.Host,
		keys:        keys,
		connections: &connections{base: base, tls: options.TLS, options: options.DialOptions},
	}
	client.caller.Store(options.Caller)
	client.capabilities = newCached(options, client.GetCapabilities)
	client.bootstrap = newCached(options, client.GetBootstrap)
	return client, nil
}

// Close ends the connection once no call uses it. Later calls fail.
func (c *Client) Close() error {
	return c.connections.close()
}

func withDefaults(options Options) Options {
	options.Deadline = orDefault(options.Deadline, 10*time.Second)
	options.DiscoveryMaxAge = orDefault(options.DiscoveryMaxAge, 5*time.Minute)
	options.HeaderPrefix = orDefault(options.HeaderPrefix, "x-svc-")
	options.Receipts = orDefault(options.Receipts, ReceiptsWhole)
	options.Retry = options.Retry.withDefaults()
	options.UnderstoodObligations = slices.Clone(options.UnderstoodObligations)
	options.LogKeys = slices.Clone(options.LogKeys)
	options.Caller = proto.CloneOf(options.Caller)
	return options
}

func orDefault[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

// requireSecure refuses URLs that tokens and secrets must not be sent to.
func requireSecure(location *url.URL) error {
	switch {
	case location.Host == "" || location.Hostname() == "":
		return errors.New("has no host")
	case location.Scheme == "https", location.Scheme == "http" && isLoopback(location.Hostname()):
		return nil
	}
	return errors.New("is not https")
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// hostPort is the address behind a URL.
func hostPort(location *url.URL) string {
	port := location.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[location.Scheme]
	}
	return net.JoinHostPort(location.Hostname(), port)
}

// WhoAmI returns the caller as the service sees it: the cheapest way to check that credentials work. The receipts that
// this client checks from then on must be of this caller, unless [Options.Caller] names one.
func (c *Client) WhoAmI(ctx context.Context, options ...CallOption) (*sdkv1.WhoAmIResponse, error) {
	answer, err := invoke(ctx, c, whoAmI, &sdkv1.WhoAmIRequest{}, &sdkv1.WhoAmIResponse{}, options)
	if err == nil && c.options.Caller == nil {
		c.caller.Store(proto.CloneOf(answer.GetCaller()))
	}
	return answer, err
}

// GetCapabilities returns the authentication contract in force and the scopes that each route requires.
func (c *Client) GetCapabilities(ctx context.Context, options ...CallOption) (*sdkv1.GetCapabilitiesResponse, error) {
	return invoke(ctx, c, getCapabilities, &sdkv1.GetCapabilitiesRequest{}, &sdkv1.GetCapabilitiesResponse{}, options)
}

// GetBootstrap describes the embedded-enforcement model of the deployment.
func (c *Client) GetBootstrap(ctx context.Context, options ...CallOption) (*sdkv1.GetBootstrapResponse, error) {
	return invoke(ctx, c, getBootstrap, &sdkv1.GetBootstrapRequest{}, &sdkv1.GetBootstrapResponse{}, options)
}

// PlanProtection asks whether data may be protected, accessed or rewrapped, and how. A denial is an answer, no error:
// see [Client.RequireAllow].
func (c *Client) PlanProtection(
	ctx context.Context, request *sdkv1.PlanProtectionRequest, options ...CallOption,
) (*sdkv1.PlanProtectionResponse, error) {
	return invoke(ctx, c, planProtection, request, &sdkv1.PlanProtectionResponse{}, options)
}

// ResolvePolicy asks how an operation is to be handled.
func (c *Client) ResolvePolicy(
	ctx context.Context, request *sdkv1.ResolvePolicyRequest, options ...CallOption,
) (*sdkv1.ResolvePolicyResponse, error) {
	return invoke(ctx, c, resolvePolicy, request, &sdkv1.ResolvePolicyResponse{}, options)
}

// PlanKeyAccess asks whether a key may be used, and how.
func (c *Client) PlanKeyAccess(
	ctx context.Context, request *sdkv1.PlanKeyAccessRequest, options ...CallOption,
) (*sdkv1.PlanKeyAccessResponse, error) {
	return invoke(ctx, c, planKeyAccess, request, &sdkv1.PlanKeyAccessResponse{}, options)
}

// RegisterArtifact tells the platform of an artifact that was made locally. However often it is sent, it is recorded
// once: it carries an idempotency key, one of its own unless [WithIdempotencyKey] names one.
func (c *Client) RegisterArtifact(
	ctx context.Context, request *sdkv1.RegisterArtifactRequest, options ...CallOption,
) (*sdkv1.RegisterArtifactResponse, error) {
	return invoke(ctx, c, registerArtifact, request, &sdkv1.RegisterArtifactResponse{}, options)
}

// RecordEvidence tells the platform what happened. However often it is sent, it is recorded once, as with
// [Client.RegisterArtifact].
func (c *Client) RecordEvidence(
	ctx context.Context, request *sdkv1.RecordEvidenceRequest, options ...CallOption,
) (*sdkv1.RecordEvidenceResponse, error) {
	return invoke(ctx, c, recordEvidence, request, &sdkv1.RecordEvidenceResponse{}, options)
}
