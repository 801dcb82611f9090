package main

import (
	"fmt"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// checkpoint is the tree that a log's key has signed.
type checkpoint struct {
	origin string
	tree   tlog.Tree
}

// openCheckpoint verifies a checkpoint against the one key that is trusted.
func openCheckpoint(text []byte, vkey string) (checkpoint, error) {
	verifier, err := note.NewVerifier(vkey)
	if err != nil {
		return checkpoint{}, err
	}
	opened, err := note.Open(text, note.VerifierList(verifier))
	if err != nil {
		return checkpoint{}, fmt.Errorf("checkpoint: %w", err)
	}
	var origin, root string
	var size int64
	if n, err := fmt.Sscanf(opened.Text, "%s\n%d\n%s\n", &origin, &size, &root); n != 3 || err != nil {
		return checkpoint{}, fmt.Errorf("checkpoint: malformed text")
	}
	if opened.Text != fmt.Sprintf("%s\n%d\n%s\n", origin, size, root) || origin != verifier.Name() {
		return checkpoint{}, fmt.Errorf("checkpoint: not the canonical text of this log")
	}
	hash, err := tlog.ParseHash(root)
	if err != nil {
		return checkpoint{}, fmt.Errorf("checkpoint: %w", err)
	}
	return checkpoint{origin, tlog.Tree{N: size, Hash: hash}}, nil
}
