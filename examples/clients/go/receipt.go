package main

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	sdkv1 "platform-client/gen/platform/sdk/v1"
)

// verifyReceipt checks offline that the tenant's log holds exactly the record that the receipt speaks of. The key is
// the operator's, given beforehand, and never taken from the receipt. Formats: C2SP tlog-proof, tlog-checkpoint,
// signed-note; RFC 6962.
func verifyReceipt(receipt *sdkv1.Receipt, logKey string) error {
	verifier, err := note.NewVerifier(logKey)
	if err != nil {
		return err
	}
	index, path, checkpoint, err := parseProof(receipt.Proof)
	if err != nil {
		return err
	}
	signed, err := note.Open([]byte(checkpoint), note.VerifierList(verifier))
	if err != nil {
		return err
	}
	lines := strings.Split(signed.Text, "\n")
	if len(lines) < 3 || lines[0] != verifier.Name() || lines[0] != receipt.LogOrigin {
		return errors.New("the checkpoint is of another log")
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil {
		return err
	}
	root, err := tlog.ParseHash(lines[2])
	if err != nil {
		return err
	}
	if index != receipt.LeafIndex || size != receipt.TreeSize {
		return errors.New("the receipt's position is not the one that its proof shows")
	}
	leaf, err := base64.StdEncoding.DecodeString(receipt.GetLeaf())
	if err != nil {
		return err
	}
	if err := tlog.CheckRecord(path, size, root, index, tlog.RecordHash(leaf)); err != nil {
		return err
	}
	return verifyRecord(receipt, leaf)
}

// verifyRecord checks that the leaf commits to the receipt's record under its opening.
func verifyRecord(receipt *sdkv1.Receipt, leaf []byte) error {
	opening, err := base64.StdEncoding.DecodeString(receipt.GetOpening())
	if err != nil {
		return err
	}
	record, err := base64.StdEncoding.DecodeString(receipt.GetRecord())
	if err != nil {
		return err
	}
	var committed struct {
		RecordID   string `json:"record_id"`
		Commitment string `json:"commitment"`
	}
	if err := json.Unmarshal(leaf, &committed); err != nil {
		return err
	}
	key, err := hkdf.Key(sha256.New, opening, nil, "platform-ledger/v1/commitment", sha256.Size)
	if err != nil {
		return err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(record)
	if committed.Commitment != "hmac-sha256:"+hex.EncodeToString(mac.Sum(nil)) {
		return errors.New("the record is not the one that the leaf commits to")
	}
	if committed.RecordID != receipt.RecordId {
		return errors.New("the leaf is of another record")
	}
	return nil
}

// parseProof reads a C2SP tlog-proof: index, audit path and signed checkpoint.
func parseProof(text string) (index int64, path tlog.RecordProof, checkpoint string, err error) {
	head, checkpoint, found := strings.Cut(text, "\n\n")
	lines := strings.Split(head, "\n")
	if !found || len(lines) < 2 || lines[0] != "c2sp.org/tlog-proof@v1" {
		return 0, nil, "", errors.New("the proof is not a tlog-proof of version 1")
	}
	if index, err = strconv.ParseInt(strings.TrimPrefix(lines[1], "index "), 10, 64); err != nil {
		return 0, nil, "", fmt.Errorf("the proof's index: %w", err)
	}
	for _, line := range lines[2:] {
		hash, err := tlog.ParseHash(line)
		if err != nil {
			return 0, nil, "", err
		}
		path = append(path, hash)
	}
	return index, path, checkpoint, nil
}
