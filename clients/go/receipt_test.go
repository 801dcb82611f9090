package platform

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"svc-platform-client/sdkv1"
)

const testOrigin = "logs.example.com/evidence/0123456789abcdef0123456789abcdef"

// testLog is a log of one tenant, made by nothing but the Go project's packages.
type testLog struct {
	signer note.Signer
	key    string
	stored testHashes
	leaves []*sdkv1.Receipt
}

type testHashes []tlog.Hash

func (h testHashes) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	found := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		found[i] = h[index]
	}
	return found, nil
}

// newTestLog makes the same log in every process: fuzzing has several.
func newTestLog(t testing.TB, size int) *testLog { return newLogOfKey(t, size, 1) }

func newLogOfKey(t testing.TB, size int, first byte) *testLog {
	t.Helper()
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = first
	key, err := note.NewEd25519VerifierKey(testOrigin, ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey))
	must(t, err)
	id := strings.Split(key, "+")[1]
	private := fmt.Sprintf("PRIVATE+KEY+%s+%s+%s", testOrigin, id, base64.StdEncoding.EncodeToString(append([]byte{1}, seed...)))
	signer, err := note.NewSigner(private)
	must(t, err)
	log := &testLog{signer: signer, key: key}
	for range size {
		log.add(t)
	}
	return log
}

func (l *testLog) add(t testing.TB) {
	t.Helper()
	index := int64(len(l.leaves))
	id := fmt.Sprintf("01890a5d-ac96-774b-bcce-%012d", index)
	request := `{"operation":"protect"}`
	digest := sha256.Sum256([]byte(request))
	record := fmt.Sprintf(`{"caller":{"auth_source":"bearer_token","principal_id":"p","subject":"s"},"kind":"decision",`+
		`"log":"%s","outcome":{"allow":true,"policy_revision":"sha256:00"},"record_id":"%s",`+
		`"recorded_at":"2026-01-31T00:00:00.000Z","request":%s,"request_digest":"sha256:%s","request_id":"r",`+
		`"route":"/v1/sdk/protection-plan","tenant_id":"tenant-a"}`, testOrigin, id, request, hex.EncodeToString(digest[:]))
	opening := sha256.Sum256([]byte(id))
	l.append(t, id, "decision", record, opening[:], "sha256:00")
}

func (l *testLog) append(t testing.TB, id, kind, record string, opening []byte, revision string) {
	t.Helper()
	l.appendAt(t, id, kind, record, opening, revision, "2026-01-31T00:00:00.000Z")
}

func (l *testLog) appendAt(t testing.TB, id, kind, record string, opening []byte, revision, recordedAt string) {
	t.Helper()
	key, err := hkdf.Key(sha256.New, opening, nil, commitmentFor, sha256.Size)
	must(t, err)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(record))
	leaf := fmt.Sprintf(`{"commitment":"hmac-sha256:%s","kind":"%s","policy_revision":"%s","record_id":"%s",`+
		`"recorded_at":"%s","v":1}`, hex.EncodeToString(mac.Sum(nil)), kind, revision, id, recordedAt)
	hashes, err := tlog.StoredHashes(int64(len(l.leaves)), []byte(leaf), l.stored)
	must(t, err)
	l.stored = append(l.stored, hashes...)
	encode := base64.StdEncoding.EncodeToString
	l.leaves = append(l.leaves, &sdkv1.Receipt{
		RecordId: id, LogOrigin: testOrigin, LeafIndex: int64(len(l.leaves)), LeafHash: tlog.RecordHash([]byte(leaf)).String(),
		Leaf: new(encode([]byte(leaf))), Opening: new(encode(opening)), Record: new(encode([]byte(record))),
	})
}

func (l *testLog) receipt(t testing.TB, index, size int64) *sdkv1.Receipt {
	t.Helper()
	root, err := tlog.TreeHash(size, l.stored)
	must(t, err)
	signed, err := note.Sign(&note.Note{Text: fmt.Sprintf("%s\n%d\n%s\n", testOrigin, size, root)}, l.signer)
	must(t, err)
	path, err := tlog.ProveRecord(size, index, l.stored)
	must(t, err)
	lines := []string{"c2sp.org/tlog-proof@v1", fmt.Sprintf("index %d", index)}
	for _, hash := range path {
		lines = append(lines, hash.String())
	}
	receipt := proto.Clone(l.leaves[index]).(*sdkv1.Receipt)
	receipt.TreeSize = size
	receipt.Proof = strings.Join(lines, "\n") + "\n\n" + string(signed)
	return receipt
}

func TestReceiptsOfEverySize(t *testing.T) {
	log := newTestLog(t, 9)
	for size := int64(1); size <= 9; size++ {
		for index := range size {
			receipt := log.receipt(t, index, size)
			verified, err := VerifyReceipt(receipt, log.key)
			if err != nil {
				t.Fatalf("leaf %d of %d: %v", index, size, err)
			}
			if verified.LeafIndex != index || verified.TreeSize != size || verified.Record.RecordID != receipt.RecordId {
				t.Errorf("leaf %d of %d: %+v", index, size, verified)
			}
			receipt.Leaf, receipt.Opening, receipt.Record = nil, nil, nil
			if brief, err := VerifyReceipt(receipt, log.key); err != nil || brief.Record != nil {
				t.Errorf("brief, leaf %d of %d: %v", index, size, err)
			}
		}
	}
}

func TestContinues(t *testing.T) {
	log := newTestLog(t, 8)
	at := func(size int64) *VerifiedReceipt {
		verified, err := VerifyReceipt(log.receipt(t, 0, size), log.key)
		must(t, err)
		return verified
	}
	for from := int64(1); from <= 8; from++ {
		for to := from; to <= 8; to++ {
			path, err := tlog.ProveTree(to, from, log.stored)
			must(t, err)
			var proof strings.Builder
			for _, hash := range path {
				fmt.Fprintln(&proof, hash)
			}
			if !Continues(at(from), at(to), proof.String()) {
				t.Errorf("%d does not continue %d", to, from)
			}
			if Continues(at(from), at(to), proof.String()+at(1).Root.String()) || Continues(at(from), at(to), "x") {
				t.Errorf("%d continues %d by a wrong proof", to, from)
			}
			if from < to && Continues(at(to), at(from), proof.String()) {
				t.Errorf("%d continues %d", from, to)
			}
		}
	}
	other := *at(8)
	other.LogOrigin = "logs.example.com/another"
	if Continues(&other, at(8), "") || Continues(nil, at(8), "") || Continues(at(8), nil, "") {
		t.Error("receipts of two logs continue each other")
	}
}

func TestKeysOfReceipts(t *testing.T) {
	log, stranger := newTestLog(t, 3), newLogOfKey(t, 1, 2)
	receipt := log.receipt(t, 2, 3)
	for name, test := range map[string]struct {
		keys  []string
		holds bool
	}{
		"its key":               {[]string{log.key}, true},
		"one of several":        {[]string{stranger.key, log.key}, true},
		"none":                  {nil, false},
		"another of the name":   {[]string{stranger.key}, false},
		"retired at its size":   {[]string{log.key + "@3"}, true},
		"retired before":        {[]string{log.key + "@2"}, false},
		"retired, and in force": {[]string{log.key + "@2", log.key}, true},
		"no number":             {[]string{log.key + "@03"}, false},
		"not canonical":         {[]string{log.key + "\n"}, false},
		"of another name":       {[]string{strings.Replace(log.key, "logs", "slog", 1)}, false},
	} {
		if _, err := VerifyReceipt(receipt, test.keys...); (err == nil) != test.holds {
			t.Errorf("%s: %v", name, err)
		}
	}
	client, err := New(Options{BaseURL: "https://platform.example.com", LogKeys: []string{log.key}})
	must(t, err)
	defer client.Close()
	if _, err := client.VerifyReceipt(receipt); err != nil {
		t.Error(err)
	}
	if _, err := client.VerifyReceipt(nil); !errors.Is(err, ErrReceipt) {
		t.Error(err)
	}
}

// Every byte of a whole receipt counts.
func TestEveryByteOfAReceiptCounts(t *testing.T) {
	log := newTestLog(t, 5)
	good := log.receipt(t, 3, 5)
	fields := good.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if field.Kind().String() != "string" {
			continue
		}
		text := good.ProtoReflect().Get(field).String()
		for at := range len(text) {
			for _, changed := range []string{
				text[:at] + string(text[at]^1) + text[at+1:], text[:at] + text[at+1:], text[:at] + text[at:at+1] + text[at:],
			} {
				if changed == text {
					continue
				}
				bad := proto.Clone(good).(*sdkv1.Receipt)
				bad.ProtoReflect().Set(field, protoreflect.ValueOfString(changed))
				if _, err := VerifyReceipt(bad, log.key); !errors.Is(err, ErrReceipt) {
					t.Fatalf("%s, byte %d: %q for %q: %v", field.Name(), at, changed, text, err)
				}
			}
		}
	}
	for name, change := range map[string]func(*sdkv1.Receipt){
		"index":       func(r *sdkv1.Receipt) { r.LeafIndex = 2 },
		"size":        func(r *sdkv1.Receipt) { r.TreeSize = 6 },
		"no leaf":     func(r *sdkv1.Receipt) { r.Leaf = nil },
		"no opening":  func(r *sdkv1.Receipt) { r.Opening = nil },
		"no record":   func(r *sdkv1.Receipt) { r.Record = nil },
		"empty":       func(r *sdkv1.Receipt) { r.Leaf, r.Opening, r.Record = new(""), new(""), new("") },
		"rides along": func(r *sdkv1.Receipt) { r.ProtoReflect().SetUnknown([]byte{0x82, 0x7d, 1, 'x'}) },
	} {
		bad := proto.Clone(good).(*sdkv1.Receipt)
		change(bad)
		if _, err := VerifyReceipt(bad, log.key); !errors.Is(err, ErrReceipt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What the log's own key signed is refused too, where it is not in the one form.
func TestRecordsOfAnotherForm(t *testing.T) {
	good := newTestLog(t, 1)
	bytes, err := base64.StdEncoding.DecodeString(good.leaves[0].GetRecord())
	must(t, err)
	record := string(bytes)
	for name, changed := range map[string]string{
		"a space":           strings.Replace(record, ":", ": ", 1),
		"another order":     strings.Replace(record, `"auth_source":"bearer_token","principal_id":"p"`, `"principal_id":"p","auth_source":"bearer_token"`, 1),
		"a member more":     strings.Replace(record, `"tenant_id"`, `"tenancy":1,"tenant_id"`, 1),
		"a member twice":    strings.Replace(record, `"tenant_id"`, `"tenant_id":"tenant-a","tenant_id"`, 1),
		"a member less":     strings.Replace(record, `,"tenant_id":"tenant-a"`, ``, 1),
		"another type":      strings.Replace(record, `"tenant-a"`, `1`, 1),
		"null":              strings.Replace(record, `"tenant-a"`, `null`, 1),
		"a caller's more":   strings.Replace(record, `"subject":"s"`, `"subject":"s","x":""`, 1),
		"no object":         strings.Replace(record, `{"operation":"protect"}`, `"protect"`, 1),
		"another request":   strings.Replace(record, `"protect"`, `"access"`, 1),
		"another revision":  strings.Replace(record, `sha256:00`, `sha256:01`, 1),
		"another record":    strings.Replace(record, "01890a5d", "01890a5e", 1),
		"another log":       strings.Replace(record, testOrigin, "logs.example.com/another", 1),
		"another kind":      strings.Replace(record, "decision", "evidence", 1),
		"another time":      strings.Replace(record, "00.000Z", "01.000Z", 1),
		"U+0000":            strings.Replace(record, "tenant-a", `\u0000`, 1),
		"an escape":         strings.Replace(record, "tenant-a", `\u0074enant-a`, 1),
		"a surrogate alone": strings.Replace(record, "tenant-a", `\ud800`, 1),
		"deep":              strings.Replace(record, `"allow":true`, `"allow":`+strings.Repeat("[", 40)+strings.Repeat("]", 40), 1),
		"something behind":  record + "{}",
		"a number":          strings.Replace(record, `"allow":true`, `"allow":1.0`, 1),
	} {
		if changed == record {
			t.Fatal(name, "changes nothing")
		}
		log := newTestLog(t, 0)
		opening := sha256.Sum256([]byte("opening"))
		log.append(t, good.leaves[0].RecordId, "decision", changed, opening[:], "sha256:00")
		if _, err := VerifyReceipt(log.receipt(t, 0, 1), log.key); !errors.Is(err, ErrReceipt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzVerifyReceipt shows that no receipt ends the program, and that none holds but those that the log gave out.
func FuzzVerifyReceipt(f *testing.F) {
	log := newTestLog(f, 5)
	known := map[string]bool{}
	for index := range int64(5) {
		receipt := log.receipt(f, index, 5)
		known[receipt.GetRecord()] = true
		text, err := protojson.Marshal(receipt)
		must(f, err)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var receipt sdkv1.Receipt
		if protojson.Unmarshal(text, &receipt) != nil {
			return
		}
		verified, err := VerifyReceipt(&receipt, log.key)
		if err != nil && !errors.Is(err, ErrReceipt) {
			t.Fatal(err)
		}
		if err == nil && verified.Record != nil && !known[receipt.GetRecord()] {
			t.Fatal("a receipt holds that was never issued")
		}
	})
}

// FuzzParseProof reads proofs and checkpoints of any form, signed or not.
func FuzzParseProof(f *testing.F) {
	log := newTestLog(f, 5)
	f.Add(log.receipt(f, 3, 5).Proof)
	f.Add("c2sp.org/tlog-proof@v1\nextra AAAA\nindex 0\n\n" + testOrigin + "\n1\n" + tlog.Hash{}.String() + "\n\n— a AAAAAAA=\n")
	f.Fuzz(func(t *testing.T, text string) {
		read, err := parseProof(text)
		if err != nil {
			return
		}
		if read.index < 0 || read.checkpoint.size < 0 || read.checkpoint.origin == "" || len(read.checkpoint.signatures) == 0 {
			t.Fatalf("%q: %+v", text, read)
		}
	})
}

// FuzzReadRecord reads leaves and records of any form.
func FuzzReadRecord(f *testing.F) {
	log := newTestLog(f, 1)
	for _, text := range []string{log.leaves[0].GetLeaf(), log.leaves[0].GetRecord()} {
		bytes, err := base64.StdEncoding.DecodeString(text)
		must(f, err)
		f.Add(bytes)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if leaf, err := readLeaf(text); err == nil && leaf.V != leafVersion {
			t.Fatalf("%q", text)
		}
		if record, err := readRecord(text); err == nil && (record.Request == nil || record.Outcome == nil) {
			t.Fatalf("%q", text)
		}
	})
}
