// Opens and makes files with the OpenTDF Go SDK, over a key access service in this process. The first argument is a
// file with the private keys by name, in PEM. Writes the service's address, and then for each job of standard input,
// one JSON object on a line, its result.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"connectrpc.com/connect"
	"github.com/opentdf/platform/lib/ocrypto"
	"github.com/opentdf/platform/protocol/go/kas"
	"github.com/opentdf/platform/protocol/go/kas/kasconnect"
	"github.com/opentdf/platform/protocol/go/policy"
	"github.com/opentdf/platform/sdk"
	"golang.org/x/oauth2"
	"google.golang.org/protobuf/encoding/protojson"
)

type job struct {
	Operation string   `json:"operation"`
	Source    string   `json:"source"`
	Target    string   `json:"target"`
	Kid       string   `json:"kid"`
	PublicKey string   `json:"public_key"`
	Algorithm string   `json:"algorithm"`
	Fqns      []string `json:"fqns"`
	// Keys of each share of the payload key, any of which opens it; instead of the four members above.
	Shares [][]wrapping `json:"shares"`
}

type wrapping struct {
	Kid       string `json:"kid"`
	PublicKey string `json:"public_key"`
	Algorithm string `json:"algorithm"`
}

// A platform plans the keys of a file by its attributes: all attributes must be met, and each by any of its values.
// Here each share is an attribute, and each of its keys is one of the values.
func valuesOf(address string, shares [][]wrapping) []*policy.Value {
	namespace := &policy.Namespace{Name: "example.com", Fqn: "https://example.com"}
	var values []*policy.Value
	for i, keys := range shares {
		attribute := &policy.Attribute{
			Namespace: namespace,
			Name:      fmt.Sprintf("share%d", i),
			Fqn:       fmt.Sprintf("https://example.com/attr/share%d", i),
			Rule:      policy.AttributeRuleTypeEnum_ATTRIBUTE_RULE_TYPE_ENUM_ANY_OF,
		}
		for _, key := range keys {
			algorithm := policy.Algorithm_ALGORITHM_RSA_2048
			if key.Algorithm == "ec:secp256r1" {
				algorithm = policy.Algorithm_ALGORITHM_EC_P256
			}
			public := &policy.SimpleKasPublicKey{Algorithm: algorithm, Kid: key.Kid, Pem: key.PublicKey}
			values = append(values, &policy.Value{
				Attribute: attribute,
				Value:     key.Kid,
				Fqn:       attribute.GetFqn() + "/value/" + key.Kid,
				KasKeys:   []*policy.SimpleKasKey{{KasUri: address, PublicKey: public}},
			})
		}
	}
	return values
}

type service struct {
	kasconnect.UnimplementedAccessServiceHandler
	keys map[string]string
}

// Rewrap gives every caller the shares whose keys it has. Policy bindings are verified, as a service must.
func (s service) Rewrap(_ context.Context, in *connect.Request[kas.RewrapRequest]) (*connect.Response[kas.RewrapResponse], error) {
	parts := strings.Split(in.Msg.GetSignedRequestToken(), ".")
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil, err
	}
	var token struct {
		RequestBody string `json:"requestBody"`
	}
	if err := json.Unmarshal(claims, &token); err != nil {
		return nil, err
	}
	var body kas.UnsignedRewrapRequest
	if err := protojson.Unmarshal([]byte(token.RequestBody), &body); err != nil {
		return nil, err
	}
	answer := &kas.RewrapResponse{}
	for _, request := range body.GetRequests() {
		results := &kas.PolicyRewrapResult{PolicyId: request.GetPolicy().GetId()}
		for _, wanted := range request.GetKeyAccessObjects() {
			result := &kas.KeyAccessRewrapResult{KeyAccessObjectId: wanted.GetKeyAccessObjectId(), Status: "permit"}
			key, err := s.rewrap(wanted.GetKeyAccessObject(), request.GetPolicy().GetBody(), body.GetClientPublicKey())
			if err != nil {
				result.Status, result.Result = "fail", &kas.KeyAccessRewrapResult_Error{Error: err.Error()}
			} else {
				result.Result = &kas.KeyAccessRewrapResult_KasWrappedKey{KasWrappedKey: key}
			}
			results.Results = append(results.Results, result)
		}
		answer.Responses = append(answer.Responses, results)
	}
	return connect.NewResponse(answer), nil
}

func (s service) rewrap(access *kas.KeyAccess, policy string, client string) ([]byte, error) {
	pem, found := s.keys[access.GetKid()]
	if !found {
		return nil, errors.New("no such key")
	}
	share, err := unwrap(access, pem)
	if err != nil {
		return nil, err
	}
	bound := fmt.Sprintf("%x", ocrypto.CalculateSHA256Hmac(share, []byte(policy)))
	if access.GetPolicyBinding().GetHash() != base64.StdEncoding.EncodeToString([]byte(bound)) {
		return nil, errors.New("the policy is another one")
	}
	public, err := ocrypto.FromPublicPEM(client)
	if err != nil {
		return nil, err
	}
	return public.Encrypt(share)
}

func unwrap(access *kas.KeyAccess, pem string) ([]byte, error) {
	switch access.GetKeyType() {
	case "wrapped":
		private, err := ocrypto.FromPrivatePEM(pem)
		if err != nil {
			return nil, err
		}
		return private.Decrypt(access.GetWrappedKey())
	case "ec-wrapped":
		agreed, err := ocrypto.ComputeECDHKey([]byte(pem), []byte(access.GetEphemeralPublicKey()))
		if err != nil {
			return nil, err
		}
		key, err := ocrypto.CalculateHKDF(ocrypto.CalculateSHA256([]byte("TDF")), agreed)
		if err != nil {
			return nil, err
		}
		gcm, err := ocrypto.NewAESGcm(key)
		if err != nil {
			return nil, err
		}
		return gcm.Decrypt(access.GetWrappedKey())
	}
	return nil, errors.New("another type of key")
}

func work(tdf *sdk.SDK, address string, asked job) error {
	source, err := os.Open(asked.Source)
	if err != nil {
		return err
	}
	defer source.Close()
	var made bytes.Buffer
	switch asked.Operation {
	case "open":
		reader, err := tdf.LoadTDF(source, sdk.WithSchemaValidation(sdk.Strict), sdk.WithIgnoreAllowlist(true))
		if err != nil {
			return err
		}
		if _, err := reader.WriteTo(&made); err != nil {
			return err
		}
	case "make":
		info := sdk.KASInfo{URL: address, PublicKey: asked.PublicKey, KID: asked.Kid, Algorithm: asked.Algorithm}
		options := []sdk.TDFOption{sdk.WithKasInformation(info), sdk.WithAutoconfigure(false),
			sdk.WithDataAttributes(asked.Fqns...)}
		if len(asked.Shares) > 0 {
			options = []sdk.TDFOption{sdk.WithDataAttributeValues(valuesOf(address, asked.Shares)...)}
		}
		if _, err := tdf.CreateTDF(&made, source, options...); err != nil {
			return err
		}
	default:
		return errors.New("no such operation")
	}
	return os.WriteFile(asked.Target, made.Bytes(), 0o600)
}

func main() {
	keys := map[string]string{}
	bytes, err := os.ReadFile(os.Args[1])
	if err == nil {
		err = json.Unmarshal(bytes, &keys)
	}
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle(kasconnect.NewAccessServiceHandler(service{keys: keys}))
	server := httptest.NewServer(mux)
	defer server.Close()
	tokens := oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "token"})
	tdf, err := sdk.New(server.URL, sdk.WithInsecurePlaintextConn(), sdk.WithOAuthAccessTokenSource(tokens),
		sdk.WithPlatformConfiguration(sdk.PlatformConfiguration{}), sdk.WithTokenEndpoint(server.URL))
	if err != nil {
		panic(err)
	}
	answer := json.NewEncoder(os.Stdout)
	answer.Encode(map[string]string{"address": server.URL})
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var asked job
		err := json.Unmarshal(lines.Bytes(), &asked)
		if err == nil {
			err = work(tdf, server.URL, asked)
		}
		result := map[string]string{}
		if err != nil {
			result["error"] = err.Error()
		}
		answer.Encode(result)
	}
}
