// Command verifier checks exported logs, receipts and packs with nothing but the Go
// project's own packages for signed notes and transparency logs.
//
//	verifier log DIRECTORY VKEY
//	verifier receipt FILE VKEY
//	verifier pack FILE VKEY
//
// It prints one JSON object, and ends with 1 where something does not hold.
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: verifier log|receipt|pack PATH VKEY")
		os.Exit(2)
	}
	var result any
	var err error
	switch os.Args[1] {
	case "log":
		result, err = verifyLog(os.Args[2], os.Args[3])
	case "receipt":
		result, err = verifyReceipt(os.Args[2], os.Args[3])
	case "pack":
		result, err = verifyPack(os.Args[2], os.Args[3])
	default:
		err = fmt.Errorf("unknown command %q", os.Args[1])
	}
	if err != nil {
		result = map[string]any{"ok": false, "problem": err.Error()}
	}
	json.NewEncoder(os.Stdout).Encode(result)
	if err != nil {
		os.Exit(1)
	}
}
