package platform_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	platform "svc-platform-client"
	"svc-platform-client/bulkv1"
	"svc-platform-client/sdkv1"
)

// What the README shows, from here.

// ship sends events, and returns those that are to be kept, each with its key, because the service did not acknowledge them.
func ship(ctx context.Context, client *platform.Client, items []*bulkv1.EventItem) ([]*bulkv1.EventItem, error) {
	stream, err := client.OpenEventStream(ctx, platform.StreamOptions{})
	if err != nil {
		return items, err
	}
	var sent []*platform.Pending[*bulkv1.EventResult]
	for _, item := range items {
		pending, err := stream.Send(ctx, item) // waits while too much is unacknowledged
		if err != nil {
			break
		}
		sent = append(sent, pending)
	}
	err = stream.Close(ctx)
	for _, pending := range sent {
		if result, err := pending.Result(ctx); err == nil && result.Error != nil {
			fmt.Println(pending.IdempotencyKey, "was refused:", result.Error.Message)
		}
	}
	return append(stream.Unacknowledged(), items[len(sent):]...), err
}

// To here.

func TestReadmeShowsWhatRuns(t *testing.T) {
	source, err := os.ReadFile("readme_test.go")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(source), "// What the README shows, from here.\n\n")
	shown, _, _ = strings.Cut(shown, "\n// To here.")
	if !strings.Contains(string(readme), "```go\n"+shown+"```") {
		t.Error("the README shows another program")
	}
}

func TestReadmesProgram(t *testing.T) {
	for refusedAt, want := range map[int][]string{-1: nil, 0: {"k0", "k1", "k2"}, 2: {"k2"}} {
		client, err := platform.New(platform.Options{BaseURL: platform.ServeEvents(t, refusedAt)})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		var items []*bulkv1.EventItem
		for i := range 3 {
			items = append(items, &bulkv1.EventItem{IdempotencyKey: fmt.Sprint("k", i), Event: &sdkv1.RecordEvidenceRequest{}})
		}
		left, err := ship(t.Context(), client, items)
		var keys []string
		for _, item := range left {
			keys = append(keys, item.IdempotencyKey)
		}
		if (err != nil) != (want != nil) || !slices.Equal(keys, want) {
			t.Errorf("refused at %d: %v %v", refusedAt, keys, err)
		}
	}
}
