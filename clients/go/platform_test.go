package platform

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"svc-platform-client/sdkv1"
)

// authority issues certificates for one test.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	serial      int64
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	certificate, err := x509.ParseCertificate(der)
	must(t, err)
	return &authority{certificate, key, 1}
}

// issue returns certificate and key as PEM.
func (a *authority) issue(t testing.TB, name string) (cert, key []byte) {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	a.serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, own.Public(), a.key)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(own)
	must(t, err)
	return pemOf("CERTIFICATE", der), pemOf("PRIVATE KEY", private)
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// pool has the authority alone.
func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// deployment is a service and an issuer that bind tokens to certificates.
type deployment struct {
	sdkv1.UnimplementedDiscoveryServiceServer
	sdkv1.UnimplementedProtectionServiceServer

	authority *authority
	files     *TLS
	folder    string
	url       string
	issuer    *httptest.Server

	granted  atomic.Int64 // tokens so far
	lifetime atomic.Int64 // of the next token, in seconds
	isAway   atomic.Bool  // whether the issuer answers with 503
	hold     atomic.Pointer[chan struct{}]
	refusal  atomic.Pointer[string] // reason that the next call is refused for
	mutex    sync.Mutex
	plans    []*sdkv1.PlanProtectionRequest
	headers  []metadata.MD
}

func deploy(t *testing.T) *deployment {
	t.Helper()
	d := &deployment{authority: newAuthority(t), folder: t.TempDir()}
	d.lifetime.Store(300)
	cert, key := d.authority.issue(t, "server")
	pair, err := tls.X509KeyPair(cert, key)
	must(t, err)
	config := &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: d.authority.pool(),
		NextProtos: []string{"h2", "http/1.1"},
	}

	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)))
	sdkv1.RegisterDiscoveryServiceServer(server, d)
	sdkv1.RegisterProtectionServiceServer(server, d)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	d.url = fmt.Sprintf("https://localhost:%d", listener.Addr().(*net.TCPAddr).Port)

	d.issuer = httptest.NewUnstartedServer(http.HandlerFunc(d.serveIssuer))
	d.issuer.TLS = config.Clone()
	d.issuer.StartTLS()
	t.Cleanup(d.issuer.Close)

	must(t, os.WriteFile(filepath.Join(d.folder, "ca.pem"), pemOf("CERTIFICATE", d.authority.certificate.Raw), 0o600))
	d.rotate(t)
	file := func(name string) string { return filepath.Join(d.folder, name) }
	d.files = &TLS{CAFile: file("ca.pem"), CertFile: file("cert.pem"), KeyFile: file("key.pem")}
	return d
}

// rotate gives the workload another certificate.
func (d *deployment) rotate(t *testing.T) {
	t.Helper()
	cert, key := d.authority.issue(t, "workload")
	must(t, os.WriteFile(filepath.Join(d.folder, "cert.pem"), cert, 0o600))
	must(t, os.WriteFile(filepath.Join(d.folder, "key.pem"), key, 0o600))
}

func (d *deployment) serveIssuer(writer http.ResponseWriter, request *http.Request) {
	switch {
	case d.isAway.Load():
		writer.WriteHeader(http.StatusServiceUnavailable)
	case request.URL.Path == "/.well-known/openid-configuration":
		json.NewEncoder(writer).Encode(map[string]string{"issuer": d.issuer.URL, "token_endpoint": d.issuer.URL + "/token"})
	default:
		number := d.granted.Add(1)
		if hold := d.hold.Load(); hold != nil {
			<-*hold
		}
		writer.Header().Set("content-type", "application/json")
		json.NewEncoder(writer).Encode(map[string]any{
			"access_token": fmt.Sprintf("%d.%s", number, fingerprint(request.TLS.PeerCertificates)),
			"token_type":   "Bearer", "expires_in": d.lifetime.Load(),
		})
	}
}

func fingerprint(chain []*x509.Certificate) string {
	if len(chain) == 0 {
		return "none"
	}
	digest := sha256.Sum256(chain[0].Raw)
	return hex.EncodeToString(digest[:])
}

// admit refuses a token that was given to the holder of another certificate.
func (d *deployment) admit(ctx context.Context) error {
	from, _ := peer.FromContext(ctx)
	headers, _ := metadata.FromIncomingContext(ctx)
	d.mutex.Lock()
	d.headers = append(d.headers, headers)
	d.mutex.Unlock()
	if reason := d.refusal.Swap(nil); reason != nil {
		refused, err := status.New(codes.Unauthenticated, "refused").WithDetails(&errdetails.ErrorInfo{Reason: *reason})
		if err != nil {
			return err
		}
		return refused.Err()
	}
	own := fingerprint(from.AuthInfo.(credentials.TLSInfo).State.PeerCertificates)
	token := headers.Get("authorization")
	if len(token) != 1 || len(token[0]) < len(own) || token[0][len(token[0])-len(own):] != own {
		return status.Error(codes.Unauthenticated, "the token is bound to another certificate")
	}
	return nil
}

func (d *deployment) WhoAmI(ctx context.Context, _ *sdkv1.WhoAmIRequest) (*sdkv1.WhoAmIResponse, error) {
	return &sdkv1.WhoAmIResponse{Status: "ok"}, d.admit(ctx)
}

func (d *deployment) GetBootstrap(ctx context.Context, _ *sdkv1.GetBootstrapRequest) (*sdkv1.GetBootstrapResponse, error) {
	return &sdkv1.GetBootstrapResponse{Status: "ready"}, d.admit(ctx)
}

func (d *deployment) PlanProtection(ctx context.Context, request *sdkv1.PlanProtectionRequest) (*sdkv1.PlanProtectionResponse, error) {
	d.mutex.Lock()
	d.plans = append(d.plans, request)
	d.mutex.Unlock()
	return &sdkv1.PlanProtectionResponse{Decision: &sdkv1.ProtectionDecision{Allow: true}}, d.admit(ctx)
}

func (d *deployment) client(t *testing.T, options Options) *Client {
	t.Helper()
	tokens, err := NewClientCredentials(ClientCredentialsOptions{
		Issuer: d.issuer.URL, ClientID: "payroll", ClientSecret: "secret", TLS: d.files,
	})
	must(t, err)
	options.BaseURL, options.TLS = d.url, d.files
	options.Tokens = orToken(options.Tokens, tokens)
	client, err := New(options)
	must(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

func orToken(given, fallback TokenSource) TokenSource {
	if given != nil {
		return given
	}
	return fallback
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// writeLater writes a file so that its time changes too, however coarse the file system's clock is.
func writeLater(t *testing.T, path string, text []byte) {
	t.Helper()
	must(t, os.WriteFile(path, text, 0o600))
	later := time.Now().Add(time.Second)
	must(t, os.Chtimes(path, later, later))
}
