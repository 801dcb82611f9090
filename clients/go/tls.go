package platform

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
)

// TLS is what servers are trusted on, and the certificate that this workload shows. Give one TLS to the client and to
// its tokens: a token that is bound to a certificate is then always sent with that certificate.
//
// Files are looked at on every attempt and read again when they change; calls from then on go over a new connection,
// with a new token. Where what was changed cannot be read, or certificate and key do not fit, the earlier ones stay.
type TLS struct {
	// CAFile has the authorities that servers' certificates may come from. Default: the system's.
	CAFile string
	// CertFile and KeyFile have the certificate chain and the key of this workload. Default: none is shown.
	CertFile, KeyFile string
	// CA, Cert and Key are the same as PEM text, for programs that keep them elsewhere.
	CA, Cert, Key []byte

	mutex  sync.Mutex
	held   *identity
	stamps [3]fileStamp
}

// identity is what TLS says at one moment. Two connections with the same one are interchangeable.
type identity struct {
	roots       *x509.CertPool // nil: the system's
	certificate *tls.Certificate
	digest      [sha256.Size]byte // of what was read
}

type fileStamp struct {
	modified int64
	size     int64
}

// current returns what is in force, the same pointer until a file changes. It fails only where there has never been
// anything readable.
func (t *TLS) current() (*identity, error) {
	if t == nil {
		return &systemIdentity, nil
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	stamps := [3]fileStamp{stampOf(t.CAFile), stampOf(t.CertFile), stampOf(t.KeyFile)}
	if t.held != nil && stamps == t.stamps {
		return t.held, nil
	}
	fresh, err := t.read()
	switch {
	case err == nil && t.held != nil && t.held.digest == fresh.digest:
		t.stamps = stamps
	case err == nil:
		t.held, t.stamps = fresh, stamps
	case t.held == nil:
		return nil, err
	}
	return t.held, nil
}

var systemIdentity identity

func (t *TLS) read() (*identity, error) {
	ca, err := fileOr(t.CAFile, t.CA)
	if err != nil {
		return nil, err
	}
	cert, err := fileOr(t.CertFile, t.Cert)
	if err != nil {
		return nil, err
	}
	key, err := fileOr(t.KeyFile, t.Key)
	if err != nil {
		return nil, err
	}
	read := &identity{digest: sha256.Sum256(bytes.Join([][]byte{ca, cert, key}, []byte{0}))}
	if len(ca) > 0 || t.CAFile != "" {
		read.roots = x509.NewCertPool()
		if !read.roots.AppendCertsFromPEM(ca) {
			return nil, errors.New("the authorities' file has no certificate")
		}
	}
	// Files that are empty for a moment are no wish to show nothing.
	if t.CertFile != "" || t.KeyFile != "" || len(cert) > 0 || len(key) > 0 {
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("the client certificate: %w", err)
		}
		read.certificate = &pair
	}
	return read, nil
}

func fileOr(path string, text []byte) ([]byte, error) {
	if path == "" {
		return text, nil
	}
	return os.ReadFile(path)
}

// stampOf is equal for a file that was not written in between.
func stampOf(path string) fileStamp {
	if path == "" {
		return fileStamp{}
	}
	info, err := os.Stat(path)
	if err != nil {
		return fileStamp{size: -1}
	}
	return fileStamp{info.ModTime().UnixNano(), info.Size()}
}

func (i *identity) config() *tls.Config {
	config := &tls.Config{RootCAs: i.roots, MinVersion: tls.VersionTLS12}
	if i.certificate != nil {
		// Whatever authorities the server names: one that does not take the certificate refuses it, and says so.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return i.certificate, nil
		}
	}
	return config
}

type identityKey struct{}

// withIdentity tells the token source which certificate the call is made with.
func withIdentity(ctx context.Context, held *identity) context.Context {
	return context.WithValue(ctx, identityKey{}, held)
}

func identityOf(ctx context.Context, fallback *TLS) (*identity, error) {
	if held, ok := ctx.Value(identityKey{}).(*identity); ok {
		return held, nil
	}
	return fallback.current()
}
