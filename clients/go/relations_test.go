package platform

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gowebpki/jcs"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"svc-platform-client/bulkv1"
	"svc-platform-client/sdkv1"
)

// madeCall is a call as the service answers it, with a receipt of a log of its own for all tenants: nothing but the
// comparison with the record tells it from another.
type madeCall struct {
	route, name string
	at          time.Time
	request     proto.Message
	answer      proto.Message
	sender      Sender
}

type object = map[string]any

// differences are what one call has otherwise than another of its route, as members of the recorded request, or as what
// is said of the sender.
var differences = map[string]object{
	"plain":       {},
	"tenant":      {"tenant": "tenant-b"},
	"principal":   {"principal": "q"},
	"application": {"workload": object{"application": "reports"}},
	"resource":    {"resource": object{"kind": "record", "id": "r-2"}},
	"type":        {"resource": object{"kind": "record", "id": "r-1", "mime_type": "text/plain"}},
	"operation":   {"operation": "rewrap", "event_type": "rewrap"},
	"labels":      {"labels": []any{"public"}},
	"attributes":  {"attributes": object{"region": "us"}},
	"purpose":     {"purpose": "audit"},
	"digest":      {"artifact_digest": "sha256:02", "content_digest": "sha256:02"},
	"key":         {"key_reference": "kms://b", "artifact_cid": "bafy-b"},
	"earlier":     {"earlier": true},
}

// memberNames are those of the recorded requests of each route, besides the ones that all have.
var memberNames = map[string][]string{
	"protection-plan":   {"operation", "content_digest", "artifact_digest", "artifact_cid"},
	"policy-resolve":    {"operation", "content_digest", "artifact_digest", "artifact_cid"},
	"key-access-plan":   {"operation", "content_digest", "artifact_digest", "artifact_cid", "key_reference"},
	"artifact-register": {"operation", "artifact_profile", "artifact_digest", "artifact_cid", "key_reference"},
	"evidence":          {"event_type", "artifact_profile", "artifact_digest", "artifact_cid", "outcome"},
}

var guidance = map[string]object{
	"protection-plan": {
		"handling_mode": "local_only", "local_enforcement_library": "sdk", "send_only": []any{"labels"},
		"artifact_profile": "envelope", "key_strategy": "wrapped", "policy_resolution": "central",
	},
	"policy-resolve": {
		"enforcement_mode": "local", "required_actions": []any{"log"}, "bind_policy_to": []any{"header"},
		"evidence_expected": []any{"protect"},
	},
	"key-access-plan": {
		"send_only": []any{"key_reference"}, "artifact_profile": "envelope", "authorization_strategy": "per_use",
		"key_transport": object{
			"mode": "local_provided", "key_material_origin": "kms", "stable_key_reference_preferred": true,
			"raw_key_delivery_forbidden": true,
		},
	},
}

// makeCalls makes one call of each route and difference.
func makeCalls(t testing.TB, log *testLog) []madeCall {
	now := time.Now()
	var calls []madeCall
	for _, route := range slices.Sorted(maps.Keys(memberNames)) {
		for _, name := range slices.Sorted(maps.Keys(differences)) {
			calls = append(calls, makeCall(t, log, route, name, now))
		}
	}
	for i := range calls {
		receipt := log.receipt(t, int64(i), int64(len(calls)))
		holder := calls[i].holder()
		holder.Set(holder.Descriptor().Fields().ByName("receipt"), protoreflect.ValueOfMessage(receipt.ProtoReflect()))
	}
	return calls
}

func (c madeCall) holder() protoreflect.Message {
	message := c.answer.ProtoReflect()
	name := protoreflect.Name(relations.Routes[c.route].Holder)
	return message.Mutable(message.Descriptor().Fields().ByName(name)).Message()
}

func makeCall(t testing.TB, log *testLog, route, name string, now time.Time) madeCall {
	t.Helper()
	is := object{
		"tenant": "tenant-a", "principal": "p", "operation": "protect", "event_type": "protect",
		"workload": object{"application": "payroll"}, "resource": object{"kind": "record", "id": "r-1"},
		"content_digest": "sha256:01", "artifact_digest": "sha256:01", "artifact_cid": "bafy-a", "artifact_profile": "envelope",
		"key_reference": "kms://a", "outcome": "completed", "labels": []any{"secret"}, "attributes": object{"region": "eu"},
	}
	if route == "key-access-plan" {
		is["operation"] = "wrap"
	}
	maps.Copy(is, differences[name])
	at := now
	if is["earlier"] != nil {
		at = now.Add(-time.Hour)
	}
	request := object{"workload": is["workload"], "resource": is["resource"], "labels": is["labels"], "attributes": is["attributes"]}
	for _, member := range memberNames[route] {
		request[member] = is[member]
	}
	if is["purpose"] != nil {
		request["purpose"] = is["purpose"]
	}
	id := fmt.Sprintf("01890a5d-ac96-774b-bcce-%012d", len(log.leaves))
	caller := object{"auth_source": "bearer_token", "principal_id": is["principal"], "subject": "s"}
	kind := relations.Routes[route].Kind
	outcome := object{"accepted": true, "citation": "none"}
	if kind == "decision" {
		outcome = object{
			"allow": true, "policy_revision": "sha256:00", "reasons": []any{"platform/allow"},
			"caller_scopes": []any{"policy.read"}, "guidance": guidance[route],
			"obligations": []any{object{"id": "note", "parameters": object{"to": "dpo"}}},
		}
	}
	if kind == "registration" {
		outcome["artifact_cid"] = request["artifact_cid"]
	}
	recordedAt := at.UTC().Format("2006-01-02T15:04:05.000Z")
	digest := sha256.Sum256(canonical(t, request))
	record := canonical(t, object{
		"caller": caller, "kind": kind, "log": testOrigin, "outcome": outcome, "record_id": id, "recorded_at": recordedAt,
		"request": request, "request_digest": "sha256:" + hex.EncodeToString(digest[:]), "request_id": "r",
		"route": "/v1/sdk/" + route, "tenant_id": is["tenant"],
	})
	opening := sha256.Sum256([]byte(id))
	log.appendAt(t, id, kind, string(record), opening[:], "sha256:00", recordedAt)
	made := madeCall{route: route, name: name, at: at, request: newMessage(t, answers[route].request), answer: newMessage(t, answers[route].answer)}
	fill(t, made.request.ProtoReflect(), request)
	fill(t, made.answer.ProtoReflect(), answerTo(route, id, is, request, caller, outcome))
	from := &sdkv1.Caller{}
	fill(t, from.ProtoReflect(), callerOf(is, caller))
	made.sender = Sender{Caller: from, Since: at}
	return made
}

func callerOf(is, caller object) object {
	return object{
		"tenant_id": is["tenant"], "principal_id": caller["principal_id"], "subject": caller["subject"],
		"auth_source": caller["auth_source"], "scopes": []any{"policy.read"},
	}
}

// answerTo is what the service answers.
func answerTo(route, id string, is, request, caller, outcome object) object {
	resource := is["resource"].(object)
	summary := object{
		"workload_application": is["workload"].(object)["application"], "resource_kind": resource["kind"],
		"resource_id": resource["id"], "label_count": 1, "attribute_count": 1,
	}
	answer := object{"status": "ready", "caller": callerOf(is, caller), "request_summary": summary}
	for name, value := range (object{"mime_type": resource["mime_type"], "purpose": is["purpose"]}) {
		if value != nil {
			summary[name] = value
		}
	}
	decision := object{
		"decision_id": id, "allow": true, "policy_revision": "sha256:00", "reasons": outcome["reasons"], "obligations": outcome["obligations"],
	}
	guided := func(names ...string) object {
		members := object{}
		for _, name := range names {
			if value := guidance[route][name]; value != nil {
				members[name] = value
			}
		}
		return members
	}
	switch route {
	case "protection-plan", "policy-resolve", "key-access-plan":
		summary["operation"], summary["content_digest_present"] = is["operation"], true
		answer["decision"] = decision
	case "artifact-register":
		summary["operation"], summary["artifact_profile"], summary["artifact_digest"] = is["operation"], "envelope", is["artifact_digest"]
		summary["artifact_cid"], summary["key_reference_present"] = is["artifact_cid"], true
		answer["registration"] = object{
			"accepted": true, "artifact_transport": "metadata_only", "catalog_actions": []any{"record_artifact_metadata"},
			"evidence_expected": []any{is["operation"]},
		}
	case "evidence":
		summary["event_type"], summary["artifact_profile"], summary["artifact_digest_present"] = is["event_type"], "envelope", true
		summary["artifact_cid"], summary["outcome"] = is["artifact_cid"], is["outcome"]
		answer["ingestion"] = object{
			"accepted": true, "plaintext_transport": "forbidden_by_default",
			"correlate_by": []any{"artifact_digest", "artifact_cid", "resource.id"},
		}
	}
	switch route {
	case "protection-plan":
		summary["preferred_artifact_profile"] = "envelope"
		maps.Copy(decision, guided("handling_mode"))
		decision["plaintext_transport"] = "forbidden_by_default"
		answer["execution"] = guided("local_enforcement_library", "send_only", "artifact_profile", "key_strategy", "policy_resolution")
		answer["execution"].(object)["protect_locally"] = true
	case "policy-resolve":
		maps.Copy(decision, guided("enforcement_mode", "required_actions"))
		answer["handling"] = guided("bind_policy_to", "evidence_expected")
		maps.Copy(answer["handling"].(object), object{"protect_locally": true, "plaintext_transport": "forbidden_by_default"})
	case "key-access-plan":
		summary["artifact_profile"], summary["key_reference_present"] = "envelope", true
		decision["operation"], decision["key_reference_present"] = is["operation"], true
		answer["execution"] = guided("send_only", "artifact_profile", "authorization_strategy", "key_transport")
		maps.Copy(answer["execution"].(object), object{"local_cryptographic_operation": true, "platform_role": "authorize_only"})
	}
	return answer
}

// fill sets what the JSON routes call so.
func fill(t testing.TB, message protoreflect.Message, members object) {
	t.Helper()
	must(t, protojson.Unmarshal(canonical(t, named(message.Descriptor(), members)), message.Interface()))
}

// named has the words of enumerations as protobuf names them.
func named(descriptor protoreflect.MessageDescriptor, members object) object {
	result := object{}
	for name, value := range members {
		field := descriptor.Fields().ByName(protoreflect.Name(name))
		inner, isObject := value.(object)
		switch {
		case field.Enum() != nil:
			none := string(field.Enum().Values().ByNumber(0).Name())
			value = strings.TrimSuffix(none, "UNSPECIFIED") + strings.ToUpper(value.(string))
		case isObject && !field.IsMap():
			value = named(field.Message(), inner)
		}
		result[name] = value
	}
	return result
}

func newMessage(t testing.TB, name protoreflect.FullName) proto.Message {
	t.Helper()
	made := map[protoreflect.FullName]proto.Message{}
	for _, message := range []proto.Message{
		&sdkv1.PlanProtectionRequest{}, &sdkv1.PlanProtectionResponse{}, &sdkv1.ResolvePolicyRequest{}, &sdkv1.ResolvePolicyResponse{},
		&sdkv1.PlanKeyAccessRequest{}, &sdkv1.PlanKeyAccessResponse{}, &sdkv1.RegisterArtifactRequest{},
		&sdkv1.RegisterArtifactResponse{}, &sdkv1.RecordEvidenceRequest{}, &sdkv1.RecordEvidenceResponse{},
	} {
		made[nameOf(message)] = message
	}
	return made[name]
}

func canonical(t testing.TB, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	must(t, err)
	text, err = jcs.Transform(text)
	must(t, err)
	return text
}

// Every part of a valid call is swapped with that of every other: nothing is believed but what belongs together.
func TestPartsOfAnotherCallAreRefused(t *testing.T) {
	log := newTestLog(t, 0)
	calls := makeCalls(t, log)
	for _, call := range calls {
		if _, err := VerifyAnswer(call.request, call.answer, call.sender, log.key); err != nil {
			t.Fatalf("%s, %s: %v", call.route, call.name, err)
		}
		if _, err := VerifyAnswer(nil, call.answer, Sender{}, log.key); err != nil {
			t.Fatalf("%s, %s, alone: %v", call.route, call.name, err)
		}
	}
	swaps := 0
	refused := func(what string, own, other madeCall, request, answer proto.Message, sender Sender) {
		swaps++
		if _, err := VerifyAnswer(request, answer, sender, log.key); !errors.Is(err, ErrReceipt) {
			t.Errorf("%s of %s, %s in %s, %s: %v", what, other.route, other.name, own.route, own.name, err)
		}
	}
	for i, own := range calls {
		for j, other := range calls {
			if i == j {
				continue
			}
			// An answer that is later than asked for may be the answer.
			isOnlyLater := own.route == other.route && own.name == "earlier" && other.name == "plain"
			if !isOnlyLater {
				refused("the answer", own, other, own.request, other.answer, own.sender)
			}
			if !proto.Equal(own.request, other.request) || own.route != other.route {
				refused("the request", own, other, other.request, own.answer, own.sender)
			}
			if !proto.Equal(own.sender.Caller, other.sender.Caller) {
				refused("the caller", own, other, own.request, own.answer, Sender{Caller: other.sender.Caller, Since: own.sender.Since})
			}
			swapped := madeCall{route: own.route, answer: proto.Clone(own.answer)}
			holder, foreign := swapped.holder(), other.holder()
			receipt := holder.Descriptor().Fields().ByName("receipt")
			holder.Set(receipt, foreign.Get(foreign.Descriptor().Fields().ByName("receipt")))
			if relations.Routes[own.route].Kind == "decision" && relations.Routes[other.route].Kind == "decision" {
				holder.Set(holder.Descriptor().Fields().ByName("decision_id"), foreign.Get(foreign.Descriptor().Fields().ByName("decision_id")))
			}
			if !isOnlyLater {
				refused("the receipt", own, other, own.request, swapped.answer, own.sender)
			}
		}
	}
	if swaps < 2000 {
		t.Errorf("only %d swaps", swaps)
	}
}

// Every member of an answer is changed in turn: the record settles all but those that the table lists.
func TestEveryMemberOfAnAnswerCounts(t *testing.T) {
	log := newTestLog(t, 0)
	var table struct {
		Unproven          []string
		UnprovenOfRetries []string `json:"unproven_of_retries"`
	}
	must(t, json.Unmarshal(relationsText, &table))
	for _, call := range makeCalls(t, log) {
		isFree := func(path string) bool {
			return slices.Contains(table.Unproven, path) || strings.HasSuffix(path, ".receipt") ||
				relations.Routes[call.route].Kind != "decision" && slices.Contains(table.UnprovenOfRetries, path)
		}
		for path, answer := range changes(call.answer.ProtoReflect(), "") {
			first, _, _ := strings.Cut(path, "[")
			if isFree(first) {
				continue
			}
			if _, err := VerifyAnswer(nil, answer.Interface(), Sender{}, log.key); !errors.Is(err, ErrReceipt) {
				t.Errorf("%s, %s, %s: %v", call.route, call.name, path, err)
			}
		}
		for path, request := range changes(call.request.ProtoReflect(), "") {
			// Bytes are never recorded; of a locator no one can tell what was made of it.
			if path == "artifact_object_b64" {
				continue
			}
			if _, err := VerifyAnswer(request.Interface(), call.answer, Sender{}, log.key); path != "artifact_locator" && !errors.Is(err, ErrReceipt) {
				t.Errorf("%s, %s, %s of the request: %v", call.route, call.name, path, err)
			}
		}
	}
}

// changes are copies of the message, each with another value of the member at the path.
func changes(message protoreflect.Message, prefix string) map[string]protoreflect.Message {
	found := map[string]protoreflect.Message{}
	fields := message.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		path := prefix + string(field.Name())
		with := func(mark string, change func(protoreflect.Message)) {
			copied := proto.Clone(message.Interface()).ProtoReflect()
			change(copied)
			found[path+mark] = copied
		}
		set := func(value protoreflect.Value) func(protoreflect.Message) {
			return func(copied protoreflect.Message) { copied.Set(field, value) }
		}
		value := message.Get(field)
		if message.Has(field) {
			with("[less]", func(copied protoreflect.Message) { copied.Clear(field) })
		}
		switch {
		case field.IsMap():
			with("", func(copied protoreflect.Message) {
				copied.Mutable(field).Map().Set(protoreflect.ValueOfString("other").MapKey(), protoreflect.ValueOfString("x"))
			})
		case field.IsList() && field.Message() == nil && field.Enum() == nil:
			with("", func(copied protoreflect.Message) {
				copied.Mutable(field).List().Append(protoreflect.ValueOfString("other"))
			})
		case field.IsList() || field.Message() != nil && !message.Has(field):
		case field.Message() != nil:
			for inner, changed := range changes(value.Message(), path+".") {
				copied := proto.Clone(message.Interface()).ProtoReflect()
				copied.Set(field, protoreflect.ValueOfMessage(changed))
				found[inner] = copied
			}
		case field.Kind() == protoreflect.StringKind:
			with("", set(protoreflect.ValueOfString(value.String()+"x")))
		case field.Kind() == protoreflect.BoolKind:
			with("", set(protoreflect.ValueOfBool(!value.Bool())))
		case field.Kind() == protoreflect.EnumKind:
			with("", set(protoreflect.ValueOfEnum(value.Enum()%2+1)))
		case field.Kind() == protoreflect.Int32Kind:
			with("", set(protoreflect.ValueOfInt32(int32(value.Int())+1)))
		case field.Kind() == protoreflect.Int64Kind:
			with("", set(protoreflect.ValueOfInt64(value.Int()+1)))
		}
	}
	return found
}

// An answer that the service never gives is refused whatever was recorded.
func TestPlaintextIsNeverSentToThePlatform(t *testing.T) {
	log := newTestLog(t, 0)
	for _, call := range makeCalls(t, log) {
		switch answer := call.answer.(type) {
		case *sdkv1.PlanProtectionResponse:
			answer.Execution.SendPlaintextToPlatform = true
		case *sdkv1.PlanKeyAccessResponse:
			answer.Execution.SendPlaintextToPlatform = true
		case *sdkv1.RegisterArtifactResponse:
			answer.Registration.SendPlaintextToPlatform = true
		case *sdkv1.ResolvePolicyResponse:
			answer.Decision.Reasons = nil
		default:
			continue
		}
		if _, err := VerifyAnswer(call.request, call.answer, call.sender, log.key); !errors.Is(err, ErrReceipt) {
			t.Errorf("%s, %s: %v", call.route, call.name, err)
		}
	}
}

// Results of a bulk call that change places are refused, and so is a result that says that there is none.
func TestItemsOfAnotherPlaceAreRefused(t *testing.T) {
	log := newTestLog(t, 0)
	request, answer := &bulkv1.RecordEventsRequest{}, &bulkv1.RecordEventsResponse{}
	var sender Sender
	for _, call := range makeCalls(t, log) {
		if event, isEvent := call.request.(*sdkv1.RecordEvidenceRequest); isEvent && call.name != "tenant" && call.name != "principal" {
			recorded := call.answer.(*sdkv1.RecordEvidenceResponse)
			request.Items = append(request.Items, &bulkv1.EventItem{Event: event})
			answer.Caller, sender.Caller = recorded.Caller, recorded.Caller
			answer.Items = append(answer.Items, &bulkv1.EventResult{
				Outcome: bulkv1.ItemOutcome_ITEM_OUTCOME_ANSWERED, Ingestion: recorded.Ingestion,
			})
		}
	}
	if _, err := VerifyItems(request, answer, sender, log.key); err != nil {
		t.Fatal(err)
	}
	refused := func(what string) {
		if _, err := VerifyItems(request, answer, sender, log.key); !errors.Is(err, ErrReceipt) {
			t.Errorf("%s: %v", what, err)
		}
	}
	items := answer.Items
	for i := range items {
		for j := range i {
			if proto.Equal(request.Items[i], request.Items[j]) {
				continue
			}
			answer.Items = slices.Clone(items)
			answer.Items[i], answer.Items[j] = items[j], items[i]
			refused(fmt.Sprint(i, " and ", j))
		}
	}
	answer.Items = items
	for _, outcome := range []bulkv1.ItemOutcome{0, bulkv1.ItemOutcome_ITEM_OUTCOME_REFUSED} {
		items[0].Outcome = outcome
		refused("a result of no answer")
	}
	items[0] = &bulkv1.EventResult{Outcome: bulkv1.ItemOutcome_ITEM_OUTCOME_ANSWERED}
	refused("an answer without a result")
}

func TestTheTableIsTheSharedOne(t *testing.T) {
	shared, err := os.ReadFile("../conformance/vectors/record-relations.json")
	must(t, err)
	if string(shared) != string(relationsText) {
		t.Error("build.sh was not run since the table changed")
	}
}

// The checkpoint of a receipt has one line of the trusted key, not its line twice.
func TestASecondLineOfTheKeyIsRefused(t *testing.T) {
	log := newTestLog(t, 3)
	receipt := log.receipt(t, 1, 3)
	lines := strings.SplitAfter(receipt.Proof, "\n")
	receipt.Proof += lines[len(lines)-2]
	if _, err := VerifyReceipt(receipt, log.key); !errors.Is(err, ErrReceipt) {
		t.Error(err)
	}
}

// A client that asks for whole receipts does not take what was cut out of one.
func TestABriefReceiptIsNoWholeOne(t *testing.T) {
	log := newTestLog(t, 0)
	call := makeCalls(t, log)[0]
	holder := call.holder()
	receipt := holder.Mutable(holder.Descriptor().Fields().ByName("receipt")).Message()
	for _, name := range []protoreflect.Name{"leaf", "opening", "record"} {
		receipt.Clear(receipt.Descriptor().Fields().ByName(name))
	}
	for receipts, isTaken := range map[Receipts]bool{"": false, ReceiptsWhole: false, ReceiptsBrief: true} {
		client, err := New(Options{BaseURL: "https://platform.example.com", LogKeys: []string{log.key}, Receipts: receipts})
		must(t, err)
		defer client.Close()
		if _, err := client.VerifyAnswer(call.request, call.answer, call.at); errors.Is(err, ErrReceipt) == isTaken {
			t.Errorf("%q: %v", receipts, err)
		}
	}
}
