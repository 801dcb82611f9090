package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/sumdb/tlog"
)

// hashes is every hash that tlog stores for a log, by storage index.
type hashes []tlog.Hash

func (h hashes) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		out[i] = h[index]
	}
	return out, nil
}

// verifyLog rebuilds the tree from the leaves alone, and compares it with the
// checkpoint and with every tile; then proves consistency between sizes, and
// inclusion of every leaf, through the tiles.
func verifyLog(dir, vkey string) (any, error) {
	d := directory(dir)
	text, err := os.ReadFile(filepath.Join(dir, "checkpoint"))
	if err != nil {
		return nil, err
	}
	signed, err := openCheckpoint(text, vkey)
	if err != nil {
		return nil, err
	}
	tree := signed.tree
	var stored hashes
	err = d.entries(tree.N, func(index int64, entry []byte) error {
		more, err := tlog.StoredHashesForRecordHash(index, tlog.RecordHash(entry), stored)
		stored = append(stored, more...)
		return err
	})
	if err != nil {
		return nil, err
	}
	root, err := tlog.TreeHash(tree.N, stored)
	if err != nil {
		return nil, err
	}
	if err := compareTiles(d, tree.N, stored, root == tree.Hash); err != nil {
		return nil, err
	}
	if root != tree.Hash {
		return nil, fmt.Errorf("the leaves do not give the checkpoint's root")
	}
	proofs, err := proveAll(d, tree, stored)
	if err != nil {
		return nil, err
	}
	return map[string]any{"ok": true, "origin": signed.origin, "leaves": tree.N, "root": root.String(), "proofs": proofs}, nil
}

// compareTiles finds the first hash of a tile that is not what the leaves give.
// Where the leaves give the signed root the tile is at fault, else the leaf.
func compareTiles(d directory, size int64, stored hashes, leavesAreSound bool) error {
	for _, tile := range tlog.NewTiles(tileHeight, 0, size) {
		want, err := tlog.ReadTileData(tile, stored)
		if err != nil {
			return err
		}
		have, err := os.ReadFile(d.path(tile))
		if err != nil {
			return err
		}
		if bytes.Equal(have, want) {
			continue
		}
		place := 0
		for place < tile.W-1 && bytes.HasPrefix(have[min(place*tlog.HashSize, len(have)):], want[place*tlog.HashSize:(place+1)*tlog.HashSize]) {
			place++
		}
		leaf := (tile.N<<tileHeight + int64(place)) << (tileHeight * tile.L)
		if leavesAreSound {
			return fmt.Errorf("leaf %d: tile %s is not what the leaves give", leaf, d.path(tile))
		}
		return fmt.Errorf("leaf %d: is not the one that tile %s has", leaf, d.path(tile))
	}
	return nil
}

// proveAll checks what the tiles prove: every leaf, and every size of a sample.
func proveAll(d directory, tree tlog.Tree, stored hashes) (int, error) {
	reader := tlog.TileHashReader(tree, d)
	proofs := 0
	for index := int64(0); index < tree.N; index += 1 + tree.N/512 {
		proof, err := tlog.ProveRecord(tree.N, index, reader)
		if err != nil {
			return 0, fmt.Errorf("leaf %d: %w", index, err)
		}
		if err := tlog.CheckRecord(proof, tree.N, tree.Hash, index, stored[tlog.StoredHashIndex(0, index)]); err != nil {
			return 0, fmt.Errorf("leaf %d: %w", index, err)
		}
		old, err := tlog.TreeHash(index+1, stored)
		if err != nil {
			return 0, err
		}
		consistency, err := tlog.ProveTree(tree.N, index+1, reader)
		if err != nil {
			return 0, fmt.Errorf("size %d: %w", index+1, err)
		}
		if err := tlog.CheckTree(consistency, tree.N, tree.Hash, index+1, old); err != nil {
			return 0, fmt.Errorf("size %d: %w", index+1, err)
		}
		proofs += 2
	}
	return proofs, nil
}
