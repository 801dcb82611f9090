package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// tokenSource fetches tokens by the client-credentials grant and keeps each until shortly before it expires. The
// issuer sees the client certificate, and binds the token to it (RFC 8705 §3).
func tokenSource(ctx context.Context, s *settings) (oauth2.TokenSource, error) {
	client := &http.Client{
		Transport: &http.Transport{TLSClientConfig: s.tls.Clone()},
		Timeout:   10 * time.Second,
	}
	endpoint, err := discoverTokenEndpoint(ctx, client, s.issuer)
	if err != nil {
		return nil, err
	}
	config := clientcredentials.Config{
		ClientID:     s.clientID,
		ClientSecret: s.clientSecret,
		TokenURL:     endpoint,
		Scopes:       s.scopes,
		AuthStyle:    oauth2.AuthStyleInHeader,
	}
	return config.TokenSource(context.WithValue(ctx, oauth2.HTTPClient, client)), nil
}

// discoverTokenEndpoint reads the issuer's discovery document (OpenID Connect Discovery 1.0 §4).
func discoverTokenEndpoint(ctx context.Context, client *http.Client, issuer string) (string, error) {
	url := strings.TrimSuffix(issuer, "/") + "/.well-known/openid-configuration"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var document struct {
		Issuer        string `json:"issuer"`
		TokenEndpoint string `json:"token_endpoint"`
	}
	if err := json.NewDecoder(response.Body).Decode(&document); err != nil {
		return "", fmt.Errorf("the issuer's discovery document cannot be read: %w", err)
	}
	if document.Issuer != issuer {
		return "", fmt.Errorf("the discovery document is of another issuer, %q", document.Issuer)
	}
	return document.TokenEndpoint, nil
}
