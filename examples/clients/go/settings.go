package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
)

// settings say where the platform is and who calls it. They come from the environment; secrets never from arguments,
// which everybody on the machine can read.
type settings struct {
	target       string // host:port of the service
	issuer       string // identifier of the token issuer, a URL
	clientID     string
	clientSecret string
	scopes       []string // what to ask for; none asks for what the issuer grants unasked
	tls          *tls.Config
	logKey       string // verifier key of the tenant's log; empty where receipts are not checked
}

func readSettings() (*settings, error) {
	s := &settings{}
	var url, ca, cert, key string
	required := map[string]*string{
		"PLATFORM_URL": &url, "PLATFORM_ISSUER": &s.issuer, "PLATFORM_CLIENT_ID": &s.clientID,
		"PLATFORM_CLIENT_SECRET": &s.clientSecret, "PLATFORM_CA": &ca, "PLATFORM_CERT": &cert, "PLATFORM_KEY": &key,
	}
	for name, value := range required {
		if *value = os.Getenv(name); *value == "" {
			return nil, fmt.Errorf("%s is not set", name)
		}
	}
	s.target = strings.TrimSuffix(strings.TrimPrefix(url, "https://"), "/")
	s.scopes = strings.Fields(os.Getenv("PLATFORM_SCOPE"))
	s.logKey = os.Getenv("PLATFORM_LOG_KEY")

	authorities, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authorities) {
		return nil, fmt.Errorf("%s has no certificate", ca)
	}
	own, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	s.tls = &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12}
	return s, nil
}
