package main

import (
	"fmt"
	"os"
	"strings"

	platform "svc-platform-client"
)

// settings say where the platform is and who calls it. They come from the environment; secrets never from arguments,
// which every user of the machine can read.
type settings struct {
	url          string
	issuer       string // identifier of the token issuer, a URL
	clientID     string
	clientSecret string
	scopes       []string // what to ask for; none asks for what the issuer grants unasked
	tls          platform.TLS
	logKey       string // verifier key of the tenant's log; empty where receipts are not checked
}

func readSettings() (*settings, error) {
	s := &settings{}
	required := map[string]*string{
		"PLATFORM_URL": &s.url, "PLATFORM_ISSUER": &s.issuer, "PLATFORM_CLIENT_ID": &s.clientID,
		"PLATFORM_CLIENT_SECRET": &s.clientSecret,
	}
	for name, value := range required {
		if *value = os.Getenv(name); *value == "" {
			return nil, fmt.Errorf("%s is not set", name)
		}
	}
	// None of them where there is no TLS, or where the system's authorities and no certificate of one's own will do.
	s.tls.CAFile, s.tls.CertFile, s.tls.KeyFile = os.Getenv("PLATFORM_CA"), os.Getenv("PLATFORM_CERT"), os.Getenv("PLATFORM_KEY")
	s.scopes = strings.Fields(os.Getenv("PLATFORM_SCOPE"))
	s.logKey = os.Getenv("PLATFORM_LOG_KEY")
	return s, nil
}
