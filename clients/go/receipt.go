package platform

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"svc-platform-client/sdkv1"
)

// ErrReceipt is in every error of a receipt that does not show what it says.
var ErrReceipt = errors.New("platform: the receipt does not hold")

// VerifiedReceipt is what a receipt proves: that the log held this record, or for a brief receipt a leaf of this hash,
// at this place when its checkpoint was signed. Not that the record tells the truth, nor that it was not erased since.
type VerifiedReceipt struct {
	// LogOrigin is the name of the tenant's log.
	LogOrigin string
	// LeafIndex is the place, from 0, in a tree of TreeSize leaves whose root is Root.
	LeafIndex, TreeSize int64
	Root                tlog.Hash
	// Record is nil for a brief receipt.
	Record *Record
}

// VerifyReceipt checks a receipt offline, against the keys of [Options.LogKeys]. It never trusts a key or an origin
// that the receipt itself names.
func (c *Client) VerifyReceipt(receipt *sdkv1.Receipt) (*VerifiedReceipt, error) {
	return verifyReceipt(receipt, c.keys)
}

// VerifyReceipt checks a receipt offline against the verifier keys of the tenant's log, any of which may have signed:
// see [Options.LogKeys]. Errors wrap [ErrReceipt] where the receipt does not hold.
func VerifyReceipt(receipt *sdkv1.Receipt, logKeys ...string) (*VerifiedReceipt, error) {
	keys, err := parseLogKeys(logKeys)
	if err != nil {
		return nil, err
	}
	return verifyReceipt(receipt, keys)
}

// Continues says whether the log of the later receipt holds all that the log of the earlier one held, in the same
// places (RFC 6962 §2.1.2). Proof is what the operator's listener answers at /ledger/<log>/consistency for the two tree
// sizes: a hash in base64 a line.
func Continues(earlier, later *VerifiedReceipt, proof string) bool {
	if earlier == nil || later == nil || earlier.LogOrigin != later.LogOrigin {
		return false
	}
	path, err := parseHashes(linesOf(proof))
	return err == nil && tlog.CheckTree(path, later.TreeSize, later.Root, earlier.TreeSize, earlier.Root) == nil
}

func verifyReceipt(receipt *sdkv1.Receipt, keys []logKey) (*VerifiedReceipt, error) {
	verified, err := checkReceipt(receipt, keys)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrReceipt, err)
	}
	return verified, nil
}

func checkReceipt(receipt *sdkv1.Receipt, keys []logKey) (*VerifiedReceipt, error) {
	if receipt == nil {
		return nil, errors.New("there is none")
	}
	// Nothing rides along that nothing vouches for.
	if len(receipt.ProtoReflect().GetUnknown()) > 0 {
		return nil, errors.New("members are not those of a receipt")
	}
	leafHash, err := parseHash(receipt.LeafHash)
	if err != nil {
		return nil, fmt.Errorf("leaf_hash: %w", err)
	}
	proof, err := parseProof(receipt.Proof)
	if err != nil {
		return nil, err
	}
	tree, err := proof.checkpoint.open(keys)
	if err != nil {
		return nil, err
	}
	if err := tlog.CheckRecord(proof.path, tree.size, tree.root, proof.index, leafHash); err != nil {
		return nil, errors.New("the proof does not lead from the leaf to the checkpoint's root")
	}
	if receipt.LogOrigin != tree.origin || receipt.LeafIndex != proof.index || receipt.TreeSize != tree.size {
		return nil, errors.New("log_origin, leaf_index and tree_size are not what the proof shows")
	}
	verified := &VerifiedReceipt{LogOrigin: tree.origin, LeafIndex: proof.index, TreeSize: tree.size, Root: tree.root}
	if receipt.Leaf == nil && receipt.Opening == nil && receipt.Record == nil {
		return verified, nil
	}
	if receipt.Leaf == nil || receipt.Opening == nil || receipt.Record == nil {
		return nil, errors.New("it has only a part of leaf, opening, record")
	}
	verified.Record, err = checkMaterial(receipt, leafHash)
	return verified, err
}

// checkMaterial shows that the record is the one that the leaf with this hash commits to.
func checkMaterial(receipt *sdkv1.Receipt, leafHash tlog.Hash) (*Record, error) {
	var leafBytes, opening, recordBytes []byte
	for member, read := range map[*string]*[]byte{receipt.Leaf: &leafBytes, receipt.Opening: &opening, receipt.Record: &recordBytes} {
		var err error
		if *read, err = parseBase64(*member); err != nil {
			return nil, fmt.Errorf("leaf, opening or record: %w", err)
		}
	}
	if tlog.RecordHash(leafBytes) != leafHash {
		return nil, errors.New("leaf_hash is not the leaf's")
	}
	leaf, err := readLeaf(leafBytes)
	if err != nil {
		return nil, fmt.Errorf("leaf: %w", err)
	}
	if err := leaf.checkCommitment(recordBytes, opening); err != nil {
		return nil, err
	}
	record, err := readRecord(recordBytes)
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	if err := record.check(leaf); err != nil {
		return nil, err
	}
	if record.RecordID != receipt.RecordId || record.Log != receipt.LogOrigin {
		return nil, errors.New("record, leaf and members do not name the same record")
	}
	return record, nil
}

func parseHashes(lines []string) ([]tlog.Hash, error) {
	var hashes []tlog.Hash
	for _, line := range lines {
		hash, err := parseHash(line)
		if err != nil {
			return nil, err
		}
		hashes = append(hashes, hash)
	}
	return hashes, nil
}

func parseHash(text string) (hash tlog.Hash, err error) {
	read, err := parseBase64(text)
	if err == nil && len(read) != tlog.HashSize {
		err = errors.New("a hash has 32 bytes")
	}
	copy(hash[:], read)
	return hash, err
}

// parseBase64 takes the one text that writing gives (RFC 4648 §4): no line breaks, no bits left over.
func parseBase64(text string) ([]byte, error) {
	read, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || !bytes.Equal([]byte(base64.StdEncoding.EncodeToString(read)), []byte(text)) {
		return nil, errors.New("is not base64")
	}
	return read, nil
}
