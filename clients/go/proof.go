package platform

import (
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

const (
	// Larger proofs are refused before anything else is looked at.
	maxProofBytes = 256 << 10
	maxSignatures = 64
	// A tree of 2^53 leaves has no longer path.
	maxPath = 53
	// Sizes and indices go as far as every language counts exactly.
	maxNumber = 1<<53 - 1
)

// logKey is a trusted key of a log.
type logKey struct {
	note.Verifier
	// maxSize is the largest tree that the key counts for, where it was retired.
	maxSize int64
}

var (
	retiredKey = regexp.MustCompile(`(?s)^(.*)@([0-9]+)$`)
	keyForm    = regexp.MustCompile(`(?s)^([^+]+)\+[0-9a-f]{8}\+(.+)$`)
	decimal    = regexp.MustCompile(`^(0|[1-9][0-9]{0,15})$`)
)

func parseLogKeys(texts []string) ([]logKey, error) {
	keys := make([]logKey, 0, len(texts))
	for _, text := range texts {
		key, err := parseLogKey(text)
		if err != nil {
			return nil, fmt.Errorf("platform: the log key cannot be read: %w", err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func parseLogKey(text string) (logKey, error) {
	key := logKey{maxSize: maxNumber}
	// No base64 has an @, so it never is of the key.
	if parts := retiredKey.FindStringSubmatch(text); parts != nil {
		size, err := parseDecimal(parts[2])
		if err != nil {
			return key, err
		}
		text, key.maxSize = parts[1], size
	}
	parts := keyForm.FindStringSubmatch(text)
	if parts == nil || !isKeyName(parts[1]) {
		return key, errors.New("it is no verifier key")
	}
	if _, err := parseBase64(parts[2]); err != nil {
		return key, err
	}
	verifier, err := note.NewVerifier(text)
	key.Verifier = verifier
	return key, err
}

// proof is a C2SP tlog-proof of version 1.
type proof struct {
	index      int64
	path       tlog.RecordProof
	checkpoint checkpoint
}

func parseProof(text string) (*proof, error) {
	if len(text) > maxProofBytes {
		return nil, errors.New("the proof is too large")
	}
	head, rest, isFound := strings.Cut(text, "\n\n")
	lines := strings.Split(head, "\n")
	if !isFound || lines[0] != "c2sp.org/tlog-proof@v1" {
		return nil, errors.New("the proof is no tlog-proof of version 1")
	}
	lines = lines[1:]
	if len(lines) > 0 && strings.HasPrefix(lines[0], "extra ") {
		if _, err := parseBase64(strings.TrimPrefix(lines[0], "extra ")); err != nil {
			return nil, fmt.Errorf("the proof's extra line: %w", err)
		}
		lines = lines[1:]
	}
	if len(lines) == 0 || !strings.HasPrefix(lines[0], "index ") {
		return nil, errors.New("the proof has no index")
	}
	index, err := parseDecimal(strings.TrimPrefix(lines[0], "index "))
	if err != nil {
		return nil, fmt.Errorf("the proof's index: %w", err)
	}
	if len(lines)-1 > maxPath {
		return nil, errors.New("the proof is too long")
	}
	path, err := parseHashes(lines[1:])
	if err != nil {
		return nil, fmt.Errorf("the proof's path: %w", err)
	}
	signed, err := parseCheckpoint(rest)
	if err != nil {
		return nil, err
	}
	return &proof{index, path, *signed}, nil
}

// checkpoint is a C2SP tlog-checkpoint, whose signatures have not been looked at.
type checkpoint struct {
	signedTree
	text       string
	signatures []signature
}

type signedTree struct {
	origin string
	size   int64
	root   tlog.Hash
}

// signature is a line of a C2SP signed-note.
type signature struct {
	name  string
	keyID uint32
	bytes []byte
}

func parseCheckpoint(signed string) (*checkpoint, error) {
	malformed := errors.New("the checkpoint is malformed")
	end := strings.LastIndex(signed, "\n\n")
	if !isNoteText(signed) || end < 0 || !strings.HasSuffix(signed, "\n") || end+2 == len(signed) {
		return nil, malformed
	}
	read := &checkpoint{text: signed[:end+1]}
	lines := strings.Split(signed[:end], "\n")
	if len(lines) < 3 || lines[0] == "" || slices.Contains(lines[3:], "") {
		return nil, malformed
	}
	read.origin = lines[0]
	var err error
	if read.size, err = parseDecimal(lines[1]); err != nil {
		return nil, malformed
	}
	if read.root, err = parseHash(lines[2]); err != nil {
		return nil, malformed
	}
	signatures := strings.Split(strings.TrimSuffix(signed[end+2:], "\n"), "\n")
	if len(signatures) > maxSignatures {
		return nil, errors.New("the checkpoint has too many signatures")
	}
	for _, line := range signatures {
		parts := strings.Split(line, " ")
		if len(parts) != 3 || parts[0] != "—" || !isKeyName(parts[1]) {
			return nil, malformed
		}
		bytes, err := parseBase64(parts[2])
		if err != nil || len(bytes) <= 4 {
			return nil, malformed
		}
		read.signatures = append(read.signatures, signature{parts[1], binary.BigEndian.Uint32(bytes), bytes[4:]})
	}
	return read, nil
}

// open returns the tree that one of the keys signed and may have signed. The whole is refused if the signature of any of
// them is wrong, as C2SP signed-note asks, or stands there twice; lines of other keys are ignored.
func (c *checkpoint) open(keys []logKey) (*signedTree, error) {
	problem := errors.New("the checkpoint is not signed by a trusted key")
	isSigned := false
	for _, key := range keys {
		lines := 0
		for _, line := range c.signatures {
			if line.name != key.Name() || line.keyID != key.KeyHash() {
				continue
			}
			if lines++; lines > 1 {
				return nil, errors.New("the trusted key has two signature lines")
			}
			if !key.Verify([]byte(c.text), line.bytes) {
				return nil, errors.New("the signature of the trusted key does not verify")
			}
			if c.origin != key.Name() {
				return nil, errors.New("the checkpoint is of another log")
			}
			if c.size <= key.maxSize {
				isSigned = true
			} else {
				problem = fmt.Errorf("the key was retired: it counts for trees of up to %d leaves", key.maxSize)
			}
		}
	}
	if !isSigned {
		return nil, problem
	}
	return &c.signedTree, nil
}

// isKeyName says whether a name is not empty and has no space, plus sign or control character (C2SP signed-note).
func isKeyName(name string) bool {
	return name != "" && utf8.ValidString(name) && !strings.ContainsFunc(name, func(letter rune) bool {
		return letter == '+' || letter == '\uFEFF' || unicode.IsSpace(letter) || unicode.IsControl(letter)
	})
}

// isNoteText says whether a text is well-formed and without control characters other than newlines.
func isNoteText(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(letter rune) bool {
		return letter < 0x20 && letter != '\n'
	})
}

func parseDecimal(text string) (int64, error) {
	if !decimal.MatchString(text) {
		return 0, errors.New("is no number")
	}
	number, err := strconv.ParseInt(text, 10, 64)
	if err == nil && number > maxNumber {
		err = errors.New("is too large")
	}
	return number, err
}

// linesOf leaves out empty lines.
func linesOf(text string) []string {
	return slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return line == "" })
}
