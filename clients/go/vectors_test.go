package platform

import (
	"encoding/json"
	"os"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"svc-platform-client/sdkv1"
)

// TestSharedVectors verifies what clients of every language verify.
func TestSharedVectors(t *testing.T) {
	text, err := os.ReadFile("../conformance/vectors/receipts.json")
	must(t, err)
	var vectors struct {
		Receipts []struct {
			Name    string
			LogKey  string `json:"log_key"`
			Receipt json.RawMessage
			Refused string
		}
		Consistency []struct {
			Earlier, Later, Proof string
			Continues             bool
		}
	}
	must(t, json.Unmarshal(text, &vectors))
	verified := map[string]*VerifiedReceipt{}
	for _, vector := range vectors.Receipts {
		var receipt sdkv1.Receipt
		err := protojson.Unmarshal(vector.Receipt, &receipt)
		if err == nil {
			verified[vector.Name], err = VerifyReceipt(&receipt, vector.LogKey)
		}
		if isRefused := vector.Refused != ""; isRefused != (err != nil) {
			t.Errorf("%s: %v, where %q", vector.Name, err, vector.Refused)
		}
	}
	for _, vector := range vectors.Consistency {
		if Continues(verified[vector.Earlier], verified[vector.Later], vector.Proof) != vector.Continues {
			t.Errorf("%s, then %s: %q", vector.Earlier, vector.Later, vector.Proof)
		}
	}
	if len(vectors.Receipts) < 50 || len(vectors.Consistency) < 50 {
		t.Errorf("%d receipts, %d proofs", len(vectors.Receipts), len(vectors.Consistency))
	}
}
