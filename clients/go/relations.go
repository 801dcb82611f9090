package platform

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"svc-platform-client/sdkv1"
)

// The table that the packages of all languages share; build.sh puts it here.
//
//go:embed record-relations.json
var relationsText []byte

// relations say which member of an answer, of a request and of a caller must be which member of the record.
var relations = func() (read struct {
	Routes  map[string]struct{ Kind, Holder string }
	Answer  []relation
	Request struct {
		LeftOutIfEmpty []string `json:"left_out_if_empty"`
		NeverRecorded  []string `json:"never_recorded"`
		Rewritten      []string
		ZeroTime       []string `json:"zero_time"`
	}
	WhoAmI []relation
	Time   struct {
		ToleranceSeconds int `json:"tolerance_seconds"`
	}
}) {
	if err := unmarshalExact(relationsText, &read); err != nil {
		panic(err)
	}
	return read
}()

// relation is a member, and what it must be.
type relation struct {
	Member string
	Of     []string // routes; nil for all
	When   []condition
	expression
	List []struct {
		expression
		When []condition
	}
}

// condition holds if the record has what is at At, and if that is Is where Is is not nil.
type condition struct {
	At string
	Is any
}

// expression is a constant, what the record has at a path, whether it has it, or how many members or items that has.
type expression struct {
	Value, Else    any
	At, Has, Count string
}

// zeroTime is a time that counts as none.
var zeroTime = regexp.MustCompile(`^0001-01-01[Tt]00:00:00(\.0+)?([Zz]|[+-]00:00)$`)

// compare returns an error that names the first member of said that is not what the record settles. Members whose first
// step is among the others are left out.
func compare(rows []relation, route string, said, record any, others ...string) error {
	decided := map[string]bool{}
	for _, row := range rows {
		first, _, _ := strings.Cut(row.Member, ".")
		if decided[row.Member] || slices.Contains(others, first) || row.Of != nil && !slices.Contains(row.Of, route) ||
			!holdAll(row.When, record) {
			continue
		}
		decided[row.Member] = true
		value, isThere := at(said, row.Member)
		expected, isExpected := row.expected(record)
		if isThere != isExpected || !reflect.DeepEqual(value, expected) {
			return fmt.Errorf("is of another %s than the answer", row.Member)
		}
	}
	return nil
}

func (r relation) expected(record any) (any, bool) {
	if r.List == nil {
		return r.of(record)
	}
	items := []any{}
	for _, item := range r.List {
		if value, isThere := item.of(record); isThere && holdAll(item.When, record) {
			items = append(items, value)
		}
	}
	return items, true
}

func (e expression) of(record any) (any, bool) {
	switch {
	case e.Value != nil:
		return e.Value, true
	case e.Has != "":
		_, isThere := at(record, e.Has)
		return isThere, true
	case e.Count != "":
		counted, _ := at(record, e.Count)
		count := 0
		switch counted := counted.(type) {
		case []any:
			count = len(counted)
		case map[string]any:
			count = len(counted)
		}
		return json.Number(strconv.Itoa(count)), true
	}
	value, isThere := at(record, e.At)
	if !isThere && e.Else != nil {
		return e.Else, true
	}
	return value, isThere
}

func holdAll(conditions []condition, record any) bool {
	return !slices.ContainsFunc(conditions, func(condition condition) bool {
		value, isThere := at(record, condition.At)
		return !isThere || condition.Is != nil && !reflect.DeepEqual(value, condition.Is)
	})
}

// at is the member at a dotted path, and whether it is there.
func at(value any, path string) (any, bool) {
	for step := range strings.SplitSeq(path, ".") {
		members, _ := value.(map[string]any)
		inner, isThere := members[step]
		if !isThere {
			return nil, false
		}
		value = inner
	}
	return value, true
}

// compareRequest compares what was sent with the request of the record, all of it.
func compareRequest(sent protoreflect.Message, record any) error {
	form, rules := normalForm(sent, true), relations.Request
	held, _ := at(record, "request")
	recorded, _ := held.(map[string]any)
	recorded = maps.Clone(recorded)
	for _, name := range rules.NeverRecorded {
		delete(form, name)
	}
	for _, name := range rules.LeftOutIfEmpty {
		if list, isList := form[name].([]any); isList && len(list) == 0 {
			delete(form, name)
		}
	}
	for _, name := range rules.ZeroTime {
		if text, isText := form[name].(string); isText && zeroTime.MatchString(text) {
			delete(form, name)
		}
	}
	for _, name := range rules.Rewritten {
		// What was made of it cannot be told; that there was one can.
		if form[name] != nil {
			delete(form, name)
			delete(recorded, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(form)) {
		if !reflect.DeepEqual(form[name], recorded[name]) {
			return fmt.Errorf("is of another %s than the request", name)
		}
		delete(recorded, name)
	}
	for name := range recorded {
		return fmt.Errorf("is of a request with %s, which was not sent", name)
	}
	return nil
}

// compareTime says whether a record was made in the time in which it can have been.
func compareTime(recordedAt string, since time.Time) error {
	tolerance := time.Duration(relations.Time.ToleranceSeconds) * time.Second
	recorded, err := time.Parse(time.RFC3339, recordedAt)
	switch {
	case err != nil:
		return err
	case recorded.After(time.Now().Add(tolerance)):
		return fmt.Errorf("is of a time that is still to come: %s", recordedAt)
	case !since.IsZero() && recorded.Before(since.Add(-tolerance)):
		return fmt.Errorf("is of a time before the request: %s", recordedAt)
	}
	return nil
}

// normalForm is a message in the spelling of the JSON routes: proto names of fields, words of enumerations, 64-bit
// integers as numbers. Every member that is not optional is there. An optional one without a value is left out, and in a
// request one that is empty.
func normalForm(message protoreflect.Message, isRequest bool) map[string]any {
	form := map[string]any{}
	fields := message.Descriptor().Fields()
	for i := range fields.Len() {
		field, name := fields.Get(i), string(fields.Get(i).Name())
		value := message.Get(field)
		switch {
		case field.HasPresence() && !message.Has(field), isRequest && field.HasPresence() && isEmpty(field, value):
		case field.IsMap():
			entries := map[string]any{}
			value.Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
				entries[key.String()] = normalValue(field.MapValue(), value, isRequest)
				return true
			})
			form[name] = entries
		case field.IsList():
			items := make([]any, value.List().Len())
			for i := range items {
				items[i] = normalValue(field, value.List().Get(i), isRequest)
			}
			form[name] = items
		default:
			form[name] = normalValue(field, value, isRequest)
		}
	}
	return form
}

func isEmpty(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
	return field.Kind() == protoreflect.StringKind && value.String() == "" ||
		field.Kind() == protoreflect.EnumKind && value.Enum() == 0
}

func normalValue(field protoreflect.FieldDescriptor, value protoreflect.Value, isRequest bool) any {
	switch field.Kind() {
	case protoreflect.MessageKind:
		return normalForm(value.Message(), isRequest)
	case protoreflect.EnumKind:
		return wordOf(field.Enum(), value.Enum())
	case protoreflect.StringKind:
		return value.String()
	case protoreflect.BoolKind:
		return value.Bool()
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		return json.Number(strconv.FormatInt(value.Int(), 10))
	}
	// No message of the contract has any other; a value of one would differ from every record.
	return value
}

// wordOf spells an enumeration's value as the JSON routes do: "protect" for PROTECTION_OPERATION_PROTECT.
func wordOf(enum protoreflect.EnumDescriptor, number protoreflect.EnumNumber) string {
	named, none := enum.Values().ByNumber(number), enum.Values().ByNumber(0)
	if named == nil || none == nil {
		return ""
	}
	prefix := strings.TrimSuffix(string(none.Name()), "UNSPECIFIED")
	return strings.ToLower(strings.TrimPrefix(string(named.Name()), prefix))
}

// asValue is the record as a value of JSON.
func (r *Record) asValue() (value any, err error) {
	text, err := json.Marshal(r)
	if err == nil {
		err = unmarshalExact(text, &value)
	}
	return value, err
}

// unmarshalExact keeps numbers as they are written.
func unmarshalExact(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(into)
}

// Sender says who sent a request, and when: the caller and the time of its record are compared with them.
type Sender struct {
	// Caller as [Client.WhoAmI] answered. Nil: not known, and not compared.
	Caller *sdkv1.Caller
	// Since is when the request was first sent, up to the table's tolerance of five minutes. Zero: not known, as of a
	// registration or an event that may have been recorded before under the program's own idempotency key.
	Since time.Time
	// isWhole says that whole receipts were asked for: what is in between may have cut a brief one out of one.
	isWhole bool
}
