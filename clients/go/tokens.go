package platform

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"
	"google.golang.org/grpc/codes"
)

// Token is an access token.
type Token struct {
	AccessToken string
	// DPoP is the key that the token is bound to; nil where it is not bound to one.
	DPoP *DPoP
}

func (t *Token) scheme() string {
	if t.DPoP != nil {
		return "DPoP"
	}
	return "Bearer"
}

func (t *Token) prove(method, target string) (proof, nonce string, err error) {
	if t.DPoP == nil {
		return "", "", nil
	}
	return t.DPoP.prove(method, target, t.AccessToken)
}

// TokenSource is where calls get their token from. Its methods are called by many goroutines at once.
type TokenSource interface {
	// Token returns a token that is good for some time yet. What fails is tried again by the next call.
	Token(ctx context.Context) (*Token, error)
	// Refused says that the service did not take the token: it is not to be handed out again.
	Refused(token *Token)
}

// StaticToken is a token that the caller keeps fresh.
func StaticToken(accessToken string) TokenSource {
	return staticToken{&Token{AccessToken: accessToken}}
}

type staticToken struct{ token *Token }

func (s staticToken) Token(context.Context) (*Token, error) { return s.token, nil }
func (s staticToken) Refused(*Token)                        {}

const (
	// A token is fetched again when less than this is left of its life, or a fifth of it, if that is less.
	refreshMargin = 30 * time.Second
	// For issuers that do not say how long a token lives.
	defaultLifetime = time.Minute
	// One fetch, shared by all waiters.
	fetchTimeout = 10 * time.Second
	// How long a token that is still good waits for its successor.
	refreshPatience = 2 * time.Second
)

// ClientCredentialsOptions say where tokens come from, and for which client. Issuer and ClientID are required.
type ClientCredentialsOptions struct {
	// Issuer is the issuer's identifier; its discovery document names the token endpoint.
	Issuer   string
	ClientID string
	// ClientSecret authenticates the client; without one its certificate does (tls_client_auth, RFC 8705 §2.1).
	ClientSecret string
	// SecretInBody sends the secret as a parameter (client_secret_post). Default: HTTP Basic (client_secret_basic).
	SecretInBody bool
	// Scopes to ask for. Default: what the issuer grants unasked.
	Scopes []string
	// Parameters of the token request besides, such as "resource" or "audience".
	Parameters url.Values
	// TLS must be the client's where tokens are bound to its certificate (RFC 8705 §3).
	TLS *TLS
	// DPoP is the key that tokens are to be bound to (RFC 9449). Default: none.
	DPoP *DPoP
}

// ClientCredentials gets tokens by the client-credentials grant (RFC 6749 §4.4), keeps each until shortly before it
// expires, and fetches one at a time however many calls wait for it. A token that is still good is used where the
// issuer is away.
type ClientCredentials struct {
	options ClientCredentialsOptions
	flight  singleflight.Group

	mutex sync.Mutex
	// Of the certificate in force, and of the one before, with which calls may be on their way.
	held     [2]heldToken
	endpoint *endpoint
}

type heldToken struct {
	token     *Token
	identity  *identity
	staleAt   time.Time
	expiresAt time.Time
}

// NewClientCredentials checks the options. It asks the issuer for nothing yet.
func NewClientCredentials(options ClientCredentialsOptions) (*ClientCredentials, error) {
	issuer, err := url.Parse(options.Issuer)
	if err == nil {
		err = requireSecure(issuer)
	}
	if err != nil {
		return nil, errors.Join(errors.New("platform: Issuer is no URL that secrets may be sent to"), err)
	}
	held, err := options.TLS.current()
	if err != nil {
		return nil, errors.Join(errors.New("platform: the issuer's TLS"), err)
	}
	switch {
	case options.ClientID == "":
		return nil, errors.New("platform: ClientID is empty")
	case options.ClientSecret == "" && held.certificate == nil:
		return nil, errors.New("platform: neither ClientSecret nor a client certificate authenticates the client")
	}
	options.Scopes = slices.Clone(options.Scopes)
	return &ClientCredentials{options: options}, nil
}

// Token returns the token that is held, or fetches one. Its errors are [*PlatformError]: Unauthenticated where the
// issuer refuses, Unavailable where it does not answer.
func (c *ClientCredentials) Token(ctx context.Context) (*Token, error) {
	shown, err := identityOf(ctx, c.options.TLS)
	if err != nil {
		return nil, &PlatformError{Code: codes.Unavailable, Message: "the certificates cannot be read", Err: err}
	}
	held := c.tokenFor(shown)
	if time.Now().Before(held.staleAt) {
		return held.token, nil
	}
	fetched := c.flight.DoChan(fmt.Sprintf("%p", shown), func() (any, error) { return c.fetch(ctx, shown) })
	var patience <-chan time.Time
	if time.Now().Before(held.expiresAt) {
		timer := time.NewTimer(refreshPatience)
		defer timer.Stop()
		patience = timer.C
	}
	select {
	case result := <-fetched:
		if result.Err == nil {
			return result.Val.(heldToken).token, nil
		}
		if time.Now().Before(held.expiresAt) {
			return held.token, nil
		}
		return nil, tokenFailure(ctx, result.Err)
	case <-patience:
		return held.token, nil
	case <-ctx.Done():
		return nil, ended(ctx)
	}
}

// Refused forgets the token, so that the next call fetches another one.
func (c *ClientCredentials) Refused(token *Token) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for i := range c.held {
		if c.held[i].token == token {
			c.held[i] = heldToken{identity: c.held[i].identity}
		}
	}
}

// tokenFor returns the token that was fetched with this certificate, the zero value where there is none.
func (c *ClientCredentials) tokenFor(shown *identity) heldToken {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, held := range c.held {
		if held.identity == shown {
			return held
		}
	}
	return heldToken{}
}

func (c *ClientCredentials) keep(fresh heldToken) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for i := range c.held {
		if c.held[i].identity == fresh.identity {
			c.held[i] = fresh
			return
		}
	}
	c.held = [2]heldToken{fresh, c.held[0]}
}

// fetch asks the issuer, whether the one who began to wait still waits or not.
func (c *ClientCredentials) fetch(ctx context.Context, shown *identity) (heldToken, error) {
	// A caller that looked before the last fetch ended may come after it.
	if held := c.tokenFor(shown); time.Now().Before(held.staleAt) {
		return held, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
	defer cancel()
	asked := time.Now()
	granted, err := c.request(ctx, shown)
	if err != nil {
		return heldToken{}, err
	}
	lifetime := defaultLifetime
	if !granted.Expiry.IsZero() {
		lifetime = time.Until(granted.Expiry)
	}
	fresh := heldToken{
		token:     &Token{AccessToken: granted.AccessToken, DPoP: c.options.DPoP},
		identity:  shown,
		staleAt:   asked.Add(lifetime - min(refreshMargin, lifetime/5)),
		expiresAt: asked.Add(lifetime),
	}
	c.keep(fresh)
	return fresh, nil
}

// tokenFailure says that no token could be had: what the issuer refuses it will refuse again, what it cannot do now it
// may do another time (RFC 6749 §5.2).
func tokenFailure(ctx context.Context, err error) *PlatformError {
	var known *PlatformError
	if errors.As(err, &known) {
		return known
	}
	if ctx.Err() != nil {
		return ended(ctx)
	}
	failure := &PlatformError{Code: codes.Unavailable, Message: "the token issuer did not answer", Err: err}
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) {
		failure.Message = "the issuer gave no token: " + orDefault(refused.ErrorCode, refused.Response.Status)
		if status := refused.Response.StatusCode; status < 500 && status != 429 {
			failure.Code = codes.Unauthenticated
		}
	}
	return failure
}
