package platform

import (
	"context"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"svc-platform-client/sdkv1"
)

// method is one of the calls.
type method struct {
	path string
	// isRecordedOnce says that calls with one idempotency key are recorded once.
	isRecordedOnce bool
}

var (
	whoAmI           = method{path: sdkv1.DiscoveryService_WhoAmI_FullMethodName}
	getCapabilities  = method{path: sdkv1.DiscoveryService_GetCapabilities_FullMethodName}
	getBootstrap     = method{path: sdkv1.DiscoveryService_GetBootstrap_FullMethodName}
	planProtection   = method{path: sdkv1.ProtectionService_PlanProtection_FullMethodName}
	resolvePolicy    = method{path: sdkv1.ProtectionService_ResolvePolicy_FullMethodName}
	planKeyAccess    = method{path: sdkv1.ProtectionService_PlanKeyAccess_FullMethodName}
	registerArtifact = method{path: sdkv1.RegistrationService_RegisterArtifact_FullMethodName, isRecordedOnce: true}
	recordEvidence   = method{path: sdkv1.EvidenceService_RecordEvidence_FullMethodName, isRecordedOnce: true}
)

// Receipts says how much of a receipt an answer carries.
type Receipts string

const (
	// ReceiptsWhole prove offline that the log holds exactly this record. They are as confidential as the record.
	ReceiptsWhole Receipts = "full"
	// ReceiptsBrief prove the position of a hash.
	ReceiptsBrief Receipts = "brief"
	// ReceiptsNone leaves receipts out.
	ReceiptsNone Receipts = "none"
)

func (r Receipts) check() error {
	switch r {
	case ReceiptsWhole, ReceiptsBrief, ReceiptsNone:
		return nil
	}
	return invalid("no such kind of receipts: " + string(r))
}

// CallOption changes one call.
type CallOption func(*callOptions)

type callOptions struct {
	idempotencyKey string
	hasKey         bool
	receipts       Receipts
}

// WithIdempotencyKey names the key of a registration or event: 1 to 128 visible ASCII characters. A call that is made
// again with the same key, by another process too, is answered what it was answered first.
func WithIdempotencyKey(key string) CallOption {
	return func(options *callOptions) { options.idempotencyKey, options.hasKey = key, true }
}

// WithReceipts chooses the receipts of one call.
func WithReceipts(receipts Receipts) CallOption {
	return func(options *callOptions) { options.receipts = receipts }
}

// invoke makes a call: all of its attempts, within its deadline.
func invoke[Answer proto.Message](
	ctx context.Context, client *Client, called method, request proto.Message, answer Answer, options []CallOption,
) (Answer, error) {
	var none Answer
	if _, isBounded := ctx.Deadline(); !isBounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, client.options.Deadline)
		defer cancel()
	}
	headers, failure := client.headers(called, options)
	if failure != nil {
		return none, failure
	}
	call := &call{client: client, method: called, headers: headers, request: client.completed(request), answer: answer}
	if failure := call.run(ctx); failure != nil {
		return none, failure
	}
	return answer, nil
}

// headers are those that stay the same over all attempts.
func (c *Client) headers(called method, options []CallOption) (metadata.MD, *PlatformError) {
	chosen := callOptions{receipts: c.options.Receipts}
	for _, choose := range options {
		choose(&chosen)
	}
	if err := chosen.receipts.check(); err != nil {
		return nil, invalid(err.Error())
	}
	headers := metadata.Pairs(c.options.HeaderPrefix+"receipt", string(chosen.receipts))
	if !called.isRecordedOnce {
		return headers, nil
	}
	if !chosen.hasKey {
		chosen.idempotencyKey = uuid.NewString()
	}
	if !isVisible(chosen.idempotencyKey, 128) {
		return nil, invalid("an idempotency key has 1 to 128 visible ASCII characters")
	}
	headers.Set("idempotency-key", chosen.idempotencyKey)
	return headers, nil
}

func isVisible(text string, longest int) bool {
	for _, character := range []byte(text) {
		if character < 0x21 || character > 0x7e {
			return false
		}
	}
	return len(text) >= 1 && len(text) <= longest
}

// completed is the request with what the program leaves to this package: the obligations that it understands, where the
// request lists none of its own, and the keys of a bulk request's events and registrations. The caller's message is left
// as it is.
func (c *Client) completed(request proto.Message) proto.Message {
	if !request.ProtoReflect().IsValid() {
		return request
	}
	completed := c.understanding(request)
	giveKeys(completed.ProtoReflect())
	return completed
}

// understanding is the request with the obligations that the program understands, nil of none.
func (c *Client) understanding(request proto.Message) proto.Message {
	if request == nil || !request.ProtoReflect().IsValid() {
		return nil
	}
	completed := proto.Clone(request)
	c.listObligations(completed.ProtoReflect())
	return completed
}

func (c *Client) listObligations(message protoreflect.Message) {
	fields := message.Descriptor().Fields()
	if field := fields.ByName("understood_obligations"); field != nil && !message.Has(field) {
		list := message.Mutable(field).List()
		for _, id := range c.options.UnderstoodObligations {
			list.Append(protoreflect.ValueOfString(id))
		}
	}
	eachItem(message, c.listObligations)
}

func giveKeys(message protoreflect.Message) {
	if field := message.Descriptor().Fields().ByName("idempotency_key"); field != nil && !message.Has(field) {
		message.Set(field, protoreflect.ValueOfString(uuid.NewString()))
	}
	eachItem(message, giveKeys)
}

func eachItem(message protoreflect.Message, do func(protoreflect.Message)) {
	field := message.Descriptor().Fields().ByName("items")
	if field == nil {
		return
	}
	items := message.Mutable(field).List()
	for i := range items.Len() {
		do(items.Get(i).Message())
	}
}

// sender is who this client is, as far as it knows, and when it sent something.
func (c *Client) sender(since time.Time) Sender {
	return Sender{Caller: c.caller.Load(), Since: since, isWhole: c.options.Receipts == ReceiptsWhole}
}

// call is one call, whatever it takes.
type call struct {
	client          *Client
	method          method
	headers         metadata.MD
	request         proto.Message
	answer          proto.Message
	isTokenReplaced bool
}

func (c *call) run(ctx context.Context) *PlatformError {
	policy := c.client.options.Retry
	for attempt := 1; ; attempt++ {
		failure := c.attempt(ctx)
		if failure == nil {
			return nil
		}
		if ctx.Err() != nil || attempt == policy.MaxAttempts || !mayRetry(failure) {
			return failure
		}
		wait := policy.wait(attempt, failure.RetryAfter)
		if until, isBounded := ctx.Deadline(); isBounded && time.Until(until) <= wait {
			// No attempt could be made in time.
			return failure
		}
		if policy.OnRetry != nil {
			policy.OnRetry(failure, wait)
		}
		if failure := pause(ctx, wait); failure != nil {
			return failure
		}
	}
}

// attempt sends the call, and again at once, each once, where another token or another nonce is all that it takes.
func (c *call) attempt(ctx context.Context) *PlatformError {
	var isNonceTaken bool
	for {
		sent, failure := c.send(ctx)
		switch {
		case failure == nil || failure.Code != codes.Unauthenticated || sent.token == nil:
			return failure
		case failure.Reason == "expired_token" && !c.isTokenReplaced:
			c.isTokenReplaced = true
			c.client.options.Tokens.Refused(sent.token)
		case failure.Reason == "expired_token" || failure.Reason == "invalid_token":
			// Another one is no better now; it is once the issuer has replaced the key that signed this one.
			c.client.options.Tokens.Refused(sent.token)
			return failure
		case sent.isNonceNew && !isNonceTaken:
			isNonceTaken = true
		default:
			return failure
		}
	}
}

func (c *call) send(ctx context.Context) (sent, *PlatformError) {
	connection, err := c.client.connections.acquire()
	if err != nil {
		return sent{}, failureOf(ctx, err)
	}
	defer c.client.connections.release(connection)
	carried, headers, failure := c.client.authorize(ctx, connection, c.method.path, c.headers)
	if failure != nil {
		return sent{}, failure
	}
	var header, trailer metadata.MD
	err = connection.Invoke(metadata.NewOutgoingContext(ctx, headers), c.method.path, c.request, c.answer,
		grpc.Header(&header), grpc.Trailer(&trailer))
	carried.keepNonce(header, trailer)
	if err != nil {
		return carried, failureOf(ctx, err)
	}
	return carried, nil
}

func invalid(message string) *PlatformError {
	return &PlatformError{Code: codes.InvalidArgument, Message: message}
}
