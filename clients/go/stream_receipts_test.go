package platform

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"svc-platform-client/bulkv1"
	"svc-platform-client/sdkv1"
)

// A stream verifies what it acknowledges: the result comes beside the error of its receipt, and the stream goes on.
func TestStreamVerifiesReceipts(t *testing.T) {
	log := newTestLog(t, 0)
	receipts := map[string]*sdkv1.Receipt{}
	for i, application := range []string{"payroll", "reports"} {
		log.addEvent(t, application)
		receipts[fmt.Sprint("k", i)] = log.receipt(t, int64(i), int64(i)+1)
	}
	service := serveBulk(t, func(stream *servedStream) error {
		for {
			request, err := stream.take()
			if err != nil {
				return nil
			}
			key := request.GetItem().GetIdempotencyKey()
			stream.Send(&bulkv1.StreamEventsResponse{Items: []*bulkv1.AcknowledgedEvent{{
				Sequence: request.Sequence,
				Result: &bulkv1.EventResult{
					Outcome: bulkv1.ItemOutcome_ITEM_OUTCOME_ANSWERED, IdempotencyKey: key,
					Ingestion: &sdkv1.Ingestion{
						Accepted: true, PlaintextTransport: "forbidden_by_default", Receipt: receipts[key],
					},
				},
			}}})
		}
	})
	// The second receipt is of an event of another application, and the third was cut out, unless none was asked for.
	for receipts, wrong := range map[Receipts][]bool{ReceiptsWhole: {false, true, true}, ReceiptsNone: {false, true, false}} {
		client := service.client(t, Options{LogKeys: []string{log.key}, Receipts: receipts})
		stream := openEvents(t, client, StreamOptions{})
		sent := sendEvents(t, stream, 0, 3)
		must(t, stream.Close(t.Context()))
		for i, isWrong := range wrong {
			result, err := sent[i].Result(t.Context())
			if errors.Is(err, ErrReceipt) != isWrong || status.Code(err) != codes.OK && !isWrong || result == nil {
				t.Errorf("%s, item %d: %v %v", receipts, i, result, err)
			}
		}
	}
}

// addEvent records what eventOf says, of this application.
func (l *testLog) addEvent(t testing.TB, application string) {
	t.Helper()
	id := fmt.Sprintf("01890a5d-ac96-774b-bcce-%012d", len(l.leaves))
	request := fmt.Sprintf(`{"attributes":{},"event_type":"protect","labels":[],"resource":{"kind":"record"},"workload":{"application":"%s"}}`, application)
	digest := sha256.Sum256([]byte(request))
	record := fmt.Sprintf(`{"caller":{"auth_source":"bearer_token","principal_id":"p","subject":"s"},"kind":"evidence",`+
		`"log":"%s","outcome":{"accepted":true},"record_id":"%s","recorded_at":"2026-01-31T00:00:00.000Z","request":%s,`+
		`"request_digest":"sha256:%s","request_id":"r","route":"/v1/sdk/evidence","tenant_id":"tenant-a"}`,
		testOrigin, id, request, hex.EncodeToString(digest[:]))
	opening := sha256.Sum256([]byte(id))
	l.append(t, id, "evidence", record, opening[:], "sha256:00")
}
