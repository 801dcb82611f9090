package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"

	"golang.org/x/mod/sumdb/tlog"
)

// packLine is a line of an evidence pack, with the members that place leaves.
type packLine struct {
	Type       string
	Checkpoint string
	LeafIndex  int64 `json:"leaf_index"`
	Leaf       string
	Gap        []string
}

// growing is a tree that is built from left to right: the roots of its complete
// subtrees, from the largest to the smallest, as the bits of its size.
type growing struct {
	size  int64
	roots []tlog.Hash
}

// add appends a subtree of 1<<height leaves, which must begin where it can.
func (g *growing) add(hash tlog.Hash, height int) {
	for bit := int64(1) << height; g.size&bit != 0; bit <<= 1 {
		hash = tlog.NodeHash(g.roots[len(g.roots)-1], hash)
		g.roots = g.roots[:len(g.roots)-1]
		g.size -= bit
		height++
	}
	g.roots = append(g.roots, hash)
	g.size += 1 << height
}

// skip appends the subtrees that stand for the leaves before index.
func (g *growing) skip(index int64, gap []string) error {
	for ; g.size < index; gap = gap[1:] {
		height := 0
		for g.size%(2<<height) == 0 && g.size+(2<<height) <= index {
			height++
		}
		if len(gap) == 0 {
			return fmt.Errorf("leaf %d: a hash before it is missing", index)
		}
		bytes, err := base64.StdEncoding.Strict().DecodeString(gap[0])
		if err != nil || len(bytes) != tlog.HashSize {
			return fmt.Errorf("leaf %d: a hash before it is malformed", index)
		}
		g.add(tlog.Hash(bytes), height)
	}
	if g.size != index || len(gap) > 0 {
		return fmt.Errorf("leaf %d: is out of order, or has a hash too many", index)
	}
	return nil
}

func (g *growing) root() tlog.Hash {
	root := g.roots[len(g.roots)-1]
	for at := len(g.roots) - 2; at >= 0; at-- {
		root = tlog.NodeHash(g.roots[at], root)
	}
	return root
}

// verifyPack proves every leaf of a pack in its checkpoint.
func verifyPack(path, vkey string) (any, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	var signed checkpoint
	var tree growing
	leaves := 0
	for lines.Scan() {
		var line packLine
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return nil, err
		}
		switch line.Type {
		case "header":
			if signed, err = openCheckpoint([]byte(line.Checkpoint), vkey); err != nil {
				return nil, err
			}
		case "entry":
			if err := tree.skip(line.LeafIndex, line.Gap); err != nil {
				return nil, err
			}
			tree.add(tlog.RecordHash([]byte(line.Leaf)), 0)
			leaves++
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if leaves == 0 || tree.size != signed.tree.N || tree.root() != signed.tree.Hash {
		return nil, fmt.Errorf("the leaves do not lead to the checkpoint's root")
	}
	return map[string]any{"ok": true, "origin": signed.origin, "leaves": leaves, "tree_size": tree.size}, nil
}
