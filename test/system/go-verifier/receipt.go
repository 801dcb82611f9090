package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

// receipt has the members that a position is proven with.
type receipt struct {
	LeafIndex int64  `json:"leaf_index"`
	TreeSize  int64  `json:"tree_size"`
	LogOrigin string `json:"log_origin"`
	Proof     string `json:"proof"`
	Leaf      string `json:"leaf"`
}

// verifyReceipt checks that the log holds the receipt's leaf (C2SP tlog-proof).
// What the leaf commits to is the service's own format, and not looked at.
func verifyReceipt(file, vkey string) (any, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var r receipt
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, err
	}
	head, signed, found := strings.Cut(r.Proof, "\n\n")
	lines := strings.Split(head, "\n")
	if !found || len(lines) < 2 || lines[0] != "c2sp.org/tlog-proof@v1" || lines[1] != fmt.Sprintf("index %d", r.LeafIndex) {
		return nil, fmt.Errorf("the proof is malformed")
	}
	var proof tlog.RecordProof
	for _, line := range lines[2:] {
		hash, err := tlog.ParseHash(line)
		if err != nil {
			return nil, err
		}
		proof = append(proof, hash)
	}
	checkpoint, err := openCheckpoint([]byte(signed), vkey)
	if err != nil {
		return nil, err
	}
	if checkpoint.tree.N != r.TreeSize || checkpoint.origin != r.LogOrigin {
		return nil, fmt.Errorf("the receipt's members are not what its proof shows")
	}
	leaf, err := base64.StdEncoding.Strict().DecodeString(r.Leaf)
	if err != nil {
		return nil, err
	}
	if err := tlog.CheckRecord(proof, checkpoint.tree.N, checkpoint.tree.Hash, r.LeafIndex, tlog.RecordHash(leaf)); err != nil {
		return nil, err
	}
	return map[string]any{"ok": true, "leaf_index": r.LeafIndex, "tree_size": r.TreeSize}, nil
}
