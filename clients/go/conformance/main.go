// Command conformance is the driver of the clients' conformance suite (clients/conformance): a JSON object a line in,
// one out, in order.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	platform "svc-platform-client"
	"svc-platform-client/sdkv1"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	requests, answers := json.NewDecoder(bufio.NewReader(in)), json.NewEncoder(out)
	for {
		var asked request
		if err := requests.Decode(&asked); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		steps, err := asked.run(context.Background())
		if err != nil {
			return fmt.Errorf("%s: %w", asked.Case, err)
		}
		if err := answers.Encode(map[string]any{"case": asked.Case, "steps": steps}); err != nil {
			return err
		}
	}
}

// request is a case: what the client is made of, and what it is to do.
type request struct {
	Case    string
	BaseURL string `json:"base_url"`
	TLS     struct{ CA, Cert, Key string }
	Token   *struct {
		Issuer       string
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
		Scopes       []string
	}
	DPoP    bool
	Options struct {
		DeadlineMs            int64 `json:"deadline_ms"`
		MaxAttempts           int   `json:"max_attempts"`
		InitialBackoffMs      int64 `json:"initial_backoff_ms"`
		MaxBackoffMs          int64 `json:"max_backoff_ms"`
		CacheMs               int64 `json:"cache_ms"`
		Receipts              string
		LogKeys               []string `json:"log_keys"`
		Caller                json.RawMessage
		UnderstoodObligations []string            `json:"understood_obligations"`
		UnderstoodParameters  map[string][]string `json:"understood_parameters"`
	}
	Steps []step
}

func (r *request) run(ctx context.Context) ([]any, error) {
	client, err := r.client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	answers := []any{}
	for _, step := range r.Steps {
		answers = append(answers, step.run(ctx, client, len(r.Options.LogKeys) > 0))
	}
	return answers, nil
}

func (r *request) client() (*platform.Client, error) {
	files := &platform.TLS{CAFile: r.TLS.CA, CertFile: r.TLS.Cert, KeyFile: r.TLS.Key}
	options := platform.Options{
		BaseURL:  r.BaseURL,
		TLS:      files,
		Deadline: milliseconds(r.Options.DeadlineMs),
		Retry: platform.Retry{
			MaxAttempts:    r.Options.MaxAttempts,
			InitialBackoff: milliseconds(r.Options.InitialBackoffMs),
			MaxBackoff:     milliseconds(r.Options.MaxBackoffMs),
		},
		Receipts:              map[string]platform.Receipts{"brief": platform.ReceiptsBrief}[r.Options.Receipts],
		LogKeys:               r.Options.LogKeys,
		UnderstoodObligations: r.Options.UnderstoodObligations,
		UnderstoodParameters:  r.Options.UnderstoodParameters,
		DiscoveryMaxAge:       milliseconds(r.Options.CacheMs),
	}
	if len(r.Options.Caller) > 0 {
		options.Caller = &sdkv1.Caller{}
		if err := protojson.Unmarshal(r.Options.Caller, options.Caller); err != nil {
			return nil, err
		}
	}
	if r.Token != nil {
		credentials := platform.ClientCredentialsOptions{
			Issuer: r.Token.Issuer, ClientID: r.Token.ClientID, ClientSecret: r.Token.ClientSecret,
			Scopes: slices.Clone(r.Token.Scopes), TLS: files,
		}
		if r.DPoP {
			key, err := platform.NewDPoP(nil)
			if err != nil {
				return nil, err
			}
			credentials.DPoP = key
		}
		tokens, err := platform.NewClientCredentials(credentials)
		if err != nil {
			return nil, err
		}
		options.Tokens = tokens
	}
	return platform.New(options)
}

func milliseconds(count int64) time.Duration { return time.Duration(count) * time.Millisecond }

// concurrently runs the steps at once; their answers are in the order of the steps.
func concurrently(steps []step, run func(step) any) []any {
	answers := make([]any, len(steps))
	var running sync.WaitGroup
	for i, step := range steps {
		running.Go(func() { answers[i] = run(step) })
	}
	running.Wait()
	return answers
}
