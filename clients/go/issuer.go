package platform

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
	"google.golang.org/grpc/codes"
)

// maxDocument is more than any issuer's discovery document has.
const maxDocument = 1 << 20

// endpoint is what the discovery document says (OpenID Connect Discovery 1.0 §3).
type endpoint struct {
	Issuer        string `json:"issuer"`
	TokenEndpoint string `json:"token_endpoint"`
	// For clients that show a certificate (RFC 8705 §5).
	MTLSAliases struct {
		TokenEndpoint string `json:"token_endpoint"`
	} `json:"mtls_endpoint_aliases"`
}

// request makes one token request.
func (c *ClientCredentials) request(ctx context.Context, shown *identity) (*oauth2.Token, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = shown.config()
	// A fetch in many minutes, always with the certificate in force.
	transport.DisableKeepAlives = true
	client := &http.Client{
		Transport: transport,
		// What is sent is for this issuer alone.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	found, err := c.discover(ctx, client)
	if err != nil {
		return nil, err
	}
	location := found.TokenEndpoint
	if alias := found.MTLSAliases.TokenEndpoint; alias != "" && shown.certificate != nil {
		location = alias
	}
	if c.options.DPoP != nil {
		client.Transport = proving{transport, c.options.DPoP}
	}
	config := clientcredentials.Config{
		ClientID:       c.options.ClientID,
		ClientSecret:   c.options.ClientSecret,
		TokenURL:       location,
		Scopes:         c.options.Scopes,
		EndpointParams: c.options.Parameters,
		AuthStyle:      oauth2.AuthStyleInHeader,
	}
	if c.options.SecretInBody || c.options.ClientSecret == "" {
		config.AuthStyle = oauth2.AuthStyleInParams
	}
	granted, err := config.Token(context.WithValue(ctx, oauth2.HTTPClient, client))
	if err != nil {
		return nil, err
	}
	// RFC 9449 §5: an issuer that knows nothing of DPoP answers with another type.
	if isBound := strings.EqualFold(granted.TokenType, "DPoP"); isBound != (c.options.DPoP != nil) {
		return nil, &PlatformError{
			Code: codes.Unauthenticated, Message: fmt.Sprintf("the issuer gave a token of type %q", granted.TokenType),
		}
	}
	return granted, nil
}

// discover finds the token endpoint, once.
func (c *ClientCredentials) discover(ctx context.Context, client *http.Client) (*endpoint, error) {
	c.mutex.Lock()
	known := c.endpoint
	c.mutex.Unlock()
	if known != nil {
		return known, nil
	}
	found, err := readDocument(ctx, client, c.options.Issuer)
	if err != nil {
		return nil, err
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.endpoint = found
	return found, nil
}

func readDocument(ctx context.Context, client *http.Client, issuer string) (*endpoint, error) {
	location := strings.TrimSuffix(issuer, "/") + "/.well-known/openid-configuration"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, location, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxDocument))
	if err != nil {
		return nil, err
	}
	unusable := func(why string) error {
		code := codes.Unauthenticated
		if response.StatusCode >= 500 || response.StatusCode == http.StatusTooManyRequests {
			code = codes.Unavailable
		}
		return &PlatformError{Code: code, Message: "the issuer's discovery document is not usable: " + why}
	}
	if response.StatusCode != http.StatusOK {
		return nil, unusable(response.Status)
	}
	var found endpoint
	if err := json.Unmarshal(text, &found); err != nil {
		return nil, unusable("it is no JSON")
	}
	// §4.3: a document that names another issuer is not this issuer's.
	if found.Issuer != issuer {
		return nil, unusable("it is another issuer's")
	}
	for _, named := range []string{found.TokenEndpoint, found.MTLSAliases.TokenEndpoint} {
		location, err := url.Parse(named)
		if err == nil && (named != "" || found.TokenEndpoint == "") {
			err = requireSecure(location)
		}
		if err != nil {
			return nil, unusable("its token endpoint: " + err.Error())
		}
	}
	return &found, nil
}

// proving puts a DPoP proof on token requests, and sends one again that the issuer wants a nonce in (RFC 9449 §8).
type proving struct {
	http.RoundTripper
	key *DPoP
}

// RoundTrip sends the request.
func (p proving) RoundTrip(request *http.Request) (*http.Response, error) {
	response, isNonceNew, err := p.send(request)
	if err != nil || !isNonceNew || response.StatusCode != 400 && response.StatusCode != 401 || request.GetBody == nil {
		return response, err
	}
	response.Body.Close()
	again := request.Clone(request.Context())
	if again.Body, err = request.GetBody(); err != nil {
		return nil, err
	}
	response, _, err = p.send(again)
	return response, err
}

func (p proving) send(request *http.Request) (response *http.Response, isNonceNew bool, err error) {
	target := request.URL.Scheme + "://" + request.URL.Host + request.URL.EscapedPath()
	proof, nonce, err := p.key.prove(request.Method, target, "")
	if err != nil {
		return nil, false, err
	}
	request = request.Clone(request.Context())
	request.Header.Set("DPoP", proof)
	if response, err = p.RoundTripper.RoundTrip(request); err != nil {
		return nil, false, err
	}
	given := response.Header.Get("DPoP-Nonce")
	if given != "" {
		p.key.keep(target, given)
	}
	return response, given != "" && given != nonce, nil
}
