package platform

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/gowebpki/jcs"
)

const (
	openingBytes  = 32
	maxLeafBytes  = 65_535
	maxDepth      = 32
	leafVersion   = 1
	commitmentFor = "platform-ledger/v1/commitment"
)

// Record is what happened, as the log has it.
type Record struct {
	Kind          string          `json:"kind"` // such as "decision", "registration", "evidence"
	RecordID      string          `json:"record_id"`
	Log           string          `json:"log"` // origin of the log
	TenantID      string          `json:"tenant_id"`
	RecordedAt    string          `json:"recorded_at"` // RFC 3339 in UTC with milliseconds
	RequestID     string          `json:"request_id"`
	Caller        RecordCaller    `json:"caller"`
	Route         string          `json:"route"`
	Request       json.RawMessage `json:"request"` // as it was evaluated
	RequestDigest string          `json:"request_digest"`
	Outcome       json.RawMessage `json:"outcome"`
}

// RecordCaller is who caused a record.
type RecordCaller struct {
	AuthSource  string `json:"auth_source"`
	PrincipalID string `json:"principal_id"`
	Subject     string `json:"subject"`
}

// leaf is what the log shows of a record to anyone.
type leaf struct {
	Commitment     string  `json:"commitment"`
	Kind           string  `json:"kind"`
	PolicyRevision *string `json:"policy_revision"`
	RecordID       string  `json:"record_id"`
	RecordedAt     string  `json:"recorded_at"`
	V              int     `json:"v"`
}

var (
	leafMembers   = members{required: []string{"commitment", "kind", "record_id", "recorded_at"}, optional: []string{"policy_revision"}, others: []string{"v"}}
	recordMembers = members{
		required: []string{"kind", "record_id", "log", "tenant_id", "recorded_at", "request_id", "route", "request_digest"},
		others:   []string{"caller", "request", "outcome"},
	}
	callerMembers  = members{required: []string{"auth_source", "principal_id", "subject"}}
	commitmentForm = regexp.MustCompile(`^hmac-sha256:[0-9a-f]{64}$`)
)

func readLeaf(text []byte) (*leaf, error) {
	var read leaf
	if len(text) > maxLeafBytes {
		return nil, errors.New("is too large")
	}
	if err := readCanonical(text, &read, leafMembers); err != nil {
		return nil, err
	}
	if read.V != leafVersion || !isMoment(read.RecordedAt) || !commitmentForm.MatchString(read.Commitment) {
		return nil, errors.New("is none of this version")
	}
	return &read, nil
}

// checkCommitment shows that the leaf commits to the record's bytes under the opening.
func (l *leaf) checkCommitment(record, opening []byte) error {
	if len(opening) != openingBytes {
		return errors.New("the opening has not 32 bytes")
	}
	key, err := hkdf.Key(sha256.New, opening, nil, commitmentFor, sha256.Size)
	if err != nil {
		return err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(record)
	if l.Commitment != "hmac-sha256:"+hex.EncodeToString(mac.Sum(nil)) {
		return errors.New("the record is not the one that its leaf commits to")
	}
	return nil
}

func readRecord(text []byte) (*Record, error) {
	var read Record
	if err := readCanonical(text, &read, recordMembers); err != nil {
		return nil, err
	}
	var caller json.RawMessage
	if err := json.Unmarshal(text, &struct{ Caller *json.RawMessage }{&caller}); err != nil {
		return nil, err
	}
	for _, object := range [][]byte{caller, read.Request, read.Outcome} {
		if !bytes.HasPrefix(object, []byte("{")) {
			return nil, errors.New("has a member that is no object")
		}
	}
	return &read, callerMembers.check(caller)
}

// check says what a record says otherwise than its leaf, or than itself.
func (r *Record) check(leaf *leaf) error {
	if r.RecordID != leaf.RecordID || r.Kind != leaf.Kind || r.RecordedAt != leaf.RecordedAt {
		return errors.New("the record is not its leaf's")
	}
	var outcome map[string]json.RawMessage
	if err := json.Unmarshal(r.Outcome, &outcome); err != nil {
		return err
	}
	if named, isNamed := outcome["policy_revision"]; isNamed && r.Kind == "decision" {
		var revision *string
		if json.Unmarshal(named, &revision) != nil || revision == nil ||
			leaf.PolicyRevision == nil || *revision != *leaf.PolicyRevision {
			return errors.New("the record has another policy_revision than its leaf")
		}
	}
	// What is a part of a canonical text is canonical.
	digest := sha256.Sum256(r.Request)
	if r.RequestDigest != "sha256:"+hex.EncodeToString(digest[:]) {
		return errors.New("the record has another request than its digest")
	}
	return nil
}

// members are those that an object has, no more and no less.
type members struct {
	required []string // texts
	optional []string // texts that may be absent
	others   []string // of other types, required
}

func (m members) check(object []byte) error {
	var found map[string]json.RawMessage
	if err := json.Unmarshal(object, &found); err != nil {
		return err
	}
	isText := func(name string) bool { return bytes.HasPrefix(found[name], []byte(`"`)) }
	count := len(m.required) + len(m.others)
	for _, name := range m.required {
		if !isText(name) {
			return errors.New(name + " is absent, or no text")
		}
	}
	for _, name := range m.others {
		if found[name] == nil {
			return errors.New(name + " is absent")
		}
	}
	for _, name := range m.optional {
		if found[name] == nil {
			continue
		}
		count++
		if !isText(name) {
			return errors.New(name + " is no text")
		}
	}
	if len(found) != count {
		return errors.New("has other members")
	}
	return nil
}

// readCanonical reads canonical JSON (RFC 8785) of exactly these members; any other text of the same value is refused.
func readCanonical(text []byte, into any, exactly members) error {
	if err := checkValues(text); err != nil {
		return err
	}
	canonical, err := jcs.Transform(text)
	if err != nil || !bytes.Equal(canonical, text) {
		return errors.New("is not canonical JSON")
	}
	if err := exactly.check(text); err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// checkValues refuses what no record holds: U+0000, and nesting over 32 levels.
func checkValues(text []byte) error {
	tokens := json.NewDecoder(bytes.NewReader(text))
	tokens.UseNumber()
	for depth := 0; ; {
		token, err := tokens.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return errors.New("is not JSON")
		}
		switch token := token.(type) {
		case json.Delim:
			if token == '{' || token == '[' {
				depth++
			} else {
				depth--
			}
			if depth > maxDepth {
				return errors.New("is nested too deep")
			}
		case string:
			if strings.ContainsRune(token, 0) {
				return errors.New("holds U+0000")
			}
		}
	}
}

// isMoment says whether a text is a time as records have it: only then do texts compare as times do.
func isMoment(text string) bool {
	const form = "2006-01-02T15:04:05.000Z"
	moment, err := time.Parse(form, text)
	return err == nil && moment.Format(form) == text
}
