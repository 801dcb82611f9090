package platform

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"svc-platform-client/sdkv1"
)

func TestOptionsThatCannotBe(t *testing.T) {
	good := "https://platform.example.com"
	for name, options := range map[string]Options{
		"no URL":                    {},
		"no host":                   {BaseURL: "https://"},
		"tokens in the clear":       {BaseURL: "http://platform.example.com"},
		"a path":                    {BaseURL: good + "/v1"},
		"a query":                   {BaseURL: good + "?a=b"},
		"another scheme":            {BaseURL: "ftp://platform.example.com"},
		"no such receipts":          {BaseURL: good, Receipts: "long"},
		"a log key that is none":    {BaseURL: good, LogKeys: []string{"logs.example.com+00000000+AAAA"}},
		"a certificate not there":   {BaseURL: good, TLS: &TLS{CertFile: "absent.pem", KeyFile: "absent.key"}},
		"a certificate with no key": {BaseURL: good, TLS: &TLS{Cert: []byte("x")}},
		"authorities that are none": {BaseURL: good, TLS: &TLS{CA: []byte("x")}},
	} {
		if client, err := New(options); err == nil {
			client.Close()
			t.Errorf("%s: no error", name)
		}
	}
	for _, base := range []string{good, good + "/", "http://127.0.0.1:8080", "http://[::1]:8080", "http://localhost"} {
		client, err := New(Options{BaseURL: base})
		if err != nil {
			t.Errorf("%s: %v", base, err)
			continue
		}
		client.Close()
	}
	for name, options := range map[string]ClientCredentialsOptions{
		"a secret in the clear":  {Issuer: "http://issuer.example.com", ClientID: "a", ClientSecret: "b"},
		"no client":              {Issuer: good, ClientSecret: "b"},
		"nothing that proves it": {Issuer: good, ClientID: "a"},
	} {
		if _, err := NewClientCredentials(options); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A certificate that is replaced takes its token with it, while calls go on: none is refused.
func TestCertificateIsReplaced(t *testing.T) {
	d := deploy(t)
	client := d.client(t, Options{})
	_, err := client.WhoAmI(t.Context())
	must(t, err)
	for range 3 {
		var calls sync.WaitGroup
		stop := make(chan struct{})
		for range 4 {
			calls.Go(func() {
				for {
					if _, err := client.WhoAmI(t.Context()); err != nil {
						t.Error(err)
					}
					select {
					case <-stop:
						return
					default:
					}
				}
			})
		}
		before := d.granted.Load()
		d.rotate(t)
		for d.granted.Load() == before && !t.Failed() {
			_, err := client.WhoAmI(t.Context())
			must(t, err)
		}
		close(stop)
		calls.Wait()
	}
	if count := d.granted.Load(); count != 4 {
		t.Errorf("%d tokens for four certificates", count)
	}
}

// Half of a certificate's replacement is no reason to fail.
func TestCertificateIsHalfReplaced(t *testing.T) {
	d := deploy(t)
	client := d.client(t, Options{})
	held, err := d.files.current()
	must(t, err)
	cert, _ := d.authority.issue(t, "workload")
	writeLater(t, d.files.CertFile, cert)
	_, err = client.WhoAmI(t.Context())
	must(t, err)
	if now, _ := d.files.current(); now != held {
		t.Error("a certificate without its key is in force")
	}
}

// Files that are empty for a moment do not remove the certificate.
func TestCertificateFilesAreEmptyForAMoment(t *testing.T) {
	d := deploy(t)
	client := d.client(t, Options{})
	_, err := client.WhoAmI(t.Context())
	must(t, err)
	writeLater(t, d.files.CertFile, nil)
	writeLater(t, d.files.KeyFile, nil)
	_, err = client.WhoAmI(t.Context())
	must(t, err)
	if _, err := New(Options{BaseURL: d.url, TLS: &TLS{CertFile: d.files.CertFile, KeyFile: d.files.KeyFile}}); err == nil {
		t.Error("a client begins with empty files for a certificate")
	}
}

// A call that began with the certificate before has that one's token, and costs no other.
func TestTokensOfTwoCertificates(t *testing.T) {
	d := deploy(t)
	source := d.client(t, Options{}).options.Tokens
	before, err := d.files.current()
	must(t, err)
	first, err := source.Token(withIdentity(t.Context(), before))
	must(t, err)
	d.rotate(t)
	after, err := d.files.current()
	must(t, err)
	second, err := source.Token(withIdentity(t.Context(), after))
	must(t, err)
	for shown, want := range map[*identity]*Token{before: first, after: second} {
		if got, err := source.Token(withIdentity(t.Context(), shown)); err != nil || got != want {
			t.Error(got, err)
		}
	}
	if count := d.granted.Load(); count != 2 || first == second {
		t.Errorf("%d tokens", count)
	}
}

// A token that is still good is used where the issuer is away; one that is not is never used.
func TestIssuerIsAway(t *testing.T) {
	d := deploy(t)
	client := d.client(t, Options{Retry: Retry{MaxAttempts: 1}})
	d.lifetime.Store(2)
	_, err := client.WhoAmI(t.Context())
	must(t, err)
	d.isAway.Store(true)
	source := client.options.Tokens.(*ClientCredentials)
	expiresAt := source.held[0].expiresAt
	for {
		_, err := client.WhoAmI(t.Context())
		switch isGood := time.Now().Before(expiresAt); {
		case err != nil && isGood:
			t.Fatal("a good token was not used: ", err)
		case err == nil && !isGood:
			continue // It was sent while it was good.
		case err != nil:
			var failure *PlatformError
			if !errors.As(err, &failure) || failure.Code != codes.Unavailable {
				t.Fatal(err)
			}
			return
		}
	}
}

// A token of a key that the issuer withdrew is not good for another call, however long it would have lived.
func TestTokenThatIsRefusedIsForgotten(t *testing.T) {
	d := deploy(t)
	client := d.client(t, Options{})
	d.refusal.Store(new("invalid_token"))
	var failure *PlatformError
	if _, err := client.WhoAmI(t.Context()); !errors.As(err, &failure) || failure.Reason != "invalid_token" {
		t.Fatal(err)
	}
	if count := d.granted.Load(); count != 1 {
		t.Errorf("%d tokens for one call", count)
	}
	_, err := client.WhoAmI(t.Context())
	must(t, err)
	if count := d.granted.Load(); count != 2 {
		t.Errorf("%d tokens for two calls", count)
	}
}

// A caller that gives up does not cancel the fetch for others.
func TestOneWhoWaitsGivesUp(t *testing.T) {
	d := deploy(t)
	client := d.client(t, Options{})
	hold := make(chan struct{})
	d.hold.Store(&hold)
	impatient, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	calls.Go(func() {
		_, err := client.WhoAmI(impatient)
		if !errors.Is(err, context.Canceled) || status.Code(err) != codes.Canceled {
			t.Error(err)
		}
	})
	calls.Go(func() {
		_, err := client.WhoAmI(t.Context())
		if err != nil {
			t.Error(err)
		}
	})
	for d.granted.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	close(hold)
	calls.Wait()
	if count := d.granted.Load(); count != 1 {
		t.Errorf("%d tokens", count)
	}
}

// What the caller handed over is left as it was, and what it put into the context travels.
func TestRequestIsTheCallers(t *testing.T) {
	d := deploy(t)
	client := d.client(t, Options{UnderstoodObligations: []string{"note"}, Receipts: ReceiptsBrief})
	request := &sdkv1.PlanProtectionRequest{Workload: &sdkv1.WorkloadDescriptor{Application: "payroll"}}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-1-2-03", "authorization", "Bearer other")
	_, err := client.PlanProtection(ctx, request, WithReceipts(ReceiptsNone))
	must(t, err)
	if request.UnderstoodObligations != nil {
		t.Error("the caller's request was changed")
	}
	if got := d.plans[0].UnderstoodObligations; !slices.Equal(got, []string{"note"}) {
		t.Error(got)
	}
	headers := d.headers[0]
	for name, want := range map[string]string{"x-svc-receipt": "none", "traceparent": "00-1-2-03"} {
		if got := headers.Get(name); !slices.Equal(got, []string{want}) {
			t.Error(name, got)
		}
	}
	if got := headers.Get("authorization"); len(got) != 1 || got[0] == "Bearer other" {
		t.Error("authorization", got)
	}
	if _, err := client.PlanProtection(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

func TestIdempotencyKeys(t *testing.T) {
	d := deploy(t)
	client := d.client(t, Options{})
	for _, key := range []string{"", "a b", "a\nb", "é", strings.Repeat("k", 129)} {
		_, err := client.RecordEvidence(t.Context(), &sdkv1.RecordEvidenceRequest{}, WithIdempotencyKey(key))
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%q: %v", key, err)
		}
	}
}

func TestClosedClient(t *testing.T) {
	d := deploy(t)
	client := d.client(t, Options{})
	must(t, client.Close())
	if _, err := client.WhoAmI(t.Context()); status.Code(err) != codes.Canceled {
		t.Error(err)
	}
	must(t, client.Close())
}

// What is cached is the caller's own copy.
func TestCachedAnswersAreCopies(t *testing.T) {
	d := deploy(t)
	client := d.client(t, Options{})
	first, err := client.CachedBootstrap(t.Context())
	must(t, err)
	first.Status = "changed"
	second, err := client.CachedBootstrap(t.Context())
	must(t, err)
	if second.Status != "ready" {
		t.Error(second.Status)
	}
}

func TestRetryWaits(t *testing.T) {
	policy := Retry{InitialBackoff: 100 * time.Millisecond, MaxBackoff: time.Second}.withDefaults()
	for attempt, bound := range map[int]time.Duration{1: 100, 2: 200, 3: 400, 4: 800, 5: 1000, 60: 1000} {
		bound *= time.Millisecond
		for range 200 {
			if wait := policy.wait(attempt, 0); wait < 0 || wait >= bound {
				t.Fatalf("attempt %d: %s", attempt, wait)
			}
			if wait := policy.wait(attempt, time.Minute); wait < time.Minute || wait >= time.Minute+bound {
				t.Fatalf("attempt %d: told a minute, waits %s", attempt, wait)
			}
		}
	}
}

func TestDecisions(t *testing.T) {
	client, err := New(Options{
		BaseURL: "https://platform.example.com", UnderstoodObligations: []string{"note", "seal"},
		UnderstoodParameters: map[string][]string{"note": {"audience"}, "seal": {}},
	})
	must(t, err)
	defer client.Close()
	obliged := func(allow bool, obligations ...*sdkv1.Obligation) *sdkv1.KeyAccessDecision {
		return &sdkv1.KeyAccessDecision{Allow: allow, Obligations: obligations}
	}
	with := func(id string, names ...string) *sdkv1.Obligation {
		parameters := map[string]string{}
		for _, name := range names {
			parameters[name] = "x"
		}
		return &sdkv1.Obligation{Id: id, Parameters: parameters}
	}
	for name, test := range map[string]struct {
		decision Decision
		own      []string
		unknown  []string
		permits  bool
	}{
		"nothing":               {decision: nil},
		"no decision":           {decision: (*sdkv1.KeyAccessDecision)(nil)},
		"an allow":              {decision: obliged(true), permits: true},
		"a denial":              {decision: obliged(false)},
		"understood":            {decision: obliged(true, with("note", "audience"), with("seal")), permits: true},
		"unknown":               {decision: obliged(true, with("burn"), with("burn")), unknown: []string{"burn"}},
		"unknown parameter":     {decision: obliged(true, with("note", "hours")), unknown: []string{"note"}},
		"no parameter is known": {decision: obliged(true, with("seal", "x")), unknown: []string{"seal"}},
		"the request's own":     {decision: obliged(true, with("burn")), own: []string{"burn"}, permits: true},
		"not of the request's":  {decision: obliged(true, with("note")), own: []string{"burn"}, unknown: []string{"note"}},
		"a denial that obliges": {decision: obliged(false, with("burn")), unknown: []string{"burn"}},
	} {
		err := client.RequireAllow(test.decision, test.own...)
		if client.Permitted(test.decision, test.own...) != test.permits || (err == nil) != test.permits {
			t.Errorf("%s: %v", name, err)
		}
		var denied *NotPermittedError
		if errors.As(err, &denied) && !slices.Equal(denied.UnknownObligations, test.unknown) {
			t.Errorf("%s: %v", name, denied.UnknownObligations)
		}
	}
}
