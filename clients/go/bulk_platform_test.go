package platform

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"svc-platform-client/bulkv1"
	"svc-platform-client/sdkv1"
)

type eventServer = grpc.BidiStreamingServer[bulkv1.StreamEventsRequest, bulkv1.StreamEventsResponse]

// bulkService does what a test says, and keeps what it saw.
type bulkService struct {
	bulkv1.UnimplementedBulkDecisionServiceServer
	bulkv1.UnimplementedBulkRecordServiceServer
	bulkv1.UnimplementedBulkStreamServiceServer

	url string
	// What is done on each stream, the last one on all that follow.
	streams []func(stream *servedStream) error
	// What calls are refused with, one after the other.
	refusals []error
	answer   func(request proto.Message) proto.Message

	mutex    sync.Mutex
	seen     [][]*bulkv1.StreamEventsRequest
	opened   []time.Time
	headers  []metadata.MD
	requests []proto.Message
}

// servedStream is one stream, as the service has it.
type servedStream struct {
	eventServer
	service *bulkService
	number  int
}

func serveBulk(t *testing.T, streams ...func(*servedStream) error) *bulkService {
	t.Helper()
	service := &bulkService{streams: streams}
	server := grpc.NewServer()
	bulkv1.RegisterBulkDecisionServiceServer(server, service)
	bulkv1.RegisterBulkRecordServiceServer(server, service)
	bulkv1.RegisterBulkStreamServiceServer(server, service)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	service.url = fmt.Sprintf("http://127.0.0.1:%d", listener.Addr().(*net.TCPAddr).Port)
	return service
}

func (b *bulkService) client(t *testing.T, options Options) *Client {
	t.Helper()
	options.BaseURL = b.url
	options.Retry.InitialBackoff = orDefault(options.Retry.InitialBackoff, time.Millisecond)
	client, err := New(options)
	must(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

func (b *bulkService) StreamEvents(stream eventServer) error {
	headers, _ := metadata.FromIncomingContext(stream.Context())
	b.mutex.Lock()
	number := len(b.seen)
	b.seen, b.headers, b.opened = append(b.seen, nil), append(b.headers, headers), append(b.opened, time.Now())
	b.mutex.Unlock()
	return b.streams[min(number, len(b.streams)-1)](&servedStream{stream, b, number})
}

// take waits for one more item.
func (s *servedStream) take() (*bulkv1.StreamEventsRequest, error) {
	request, err := s.Recv()
	if err == nil {
		s.service.mutex.Lock()
		defer s.service.mutex.Unlock()
		s.service.seen[s.number] = append(s.service.seen[s.number], request)
	}
	return request, err
}

func (s *servedStream) acknowledge(requests ...*bulkv1.StreamEventsRequest) error {
	response := &bulkv1.StreamEventsResponse{}
	for _, request := range requests {
		response.Items = append(response.Items, &bulkv1.AcknowledgedEvent{
			Sequence: request.GetSequence(),
			Result: &bulkv1.EventResult{
				Outcome:        bulkv1.ItemOutcome_ITEM_OUTCOME_ANSWERED,
				IdempotencyKey: request.GetItem().GetIdempotencyKey(),
				Ingestion:      &sdkv1.Ingestion{Accepted: true},
			},
		})
	}
	return s.Send(response)
}

// acknowledgeThen takes items one by one, acknowledges each, and ends the stream after so many, or when no more come.
func acknowledgeThen(count int, end error) func(*servedStream) error {
	return func(stream *servedStream) error {
		for range count {
			request, err := stream.take()
			if err != nil {
				return nil
			}
			if err := stream.acknowledge(request); err != nil {
				return err
			}
		}
		return end
	}
}

var acknowledgeAll = acknowledgeThen(1<<30, nil)

// takeThen takes items, and ends the stream without a word of them.
func takeThen(count int, end error) func(*servedStream) error {
	return func(stream *servedStream) error {
		for range count {
			if _, err := stream.take(); err != nil {
				return nil
			}
		}
		return end
	}
}

func refused(code codes.Code, reason string, wait ...time.Duration) error {
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: reason}}
	for _, told := range wait {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(told)})
	}
	refusal, err := status.New(code, "refused").WithDetails(details...)
	if err != nil {
		return err
	}
	return refusal.Err()
}

// sequences are those of each stream, in the order in which they came.
func (b *bulkService) sequences() [][]int64 {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	all := make([][]int64, len(b.seen))
	for i, requests := range b.seen {
		for _, request := range requests {
			all[i] = append(all[i], request.GetSequence())
		}
	}
	return all
}

// called keeps a bulk call, and refuses or answers it.
func (b *bulkService) called(request proto.Message) (proto.Message, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.requests = append(b.requests, request)
	if len(b.refusals) > 0 {
		refusal := b.refusals[0]
		b.refusals = b.refusals[1:]
		return nil, refusal
	}
	return b.answer(request), nil
}

func answerAs[Answer proto.Message](answer proto.Message, err error) (Answer, error) {
	given, _ := answer.(Answer)
	return given, err
}

func (b *bulkService) PlanProtections(_ context.Context, request *bulkv1.PlanProtectionsRequest) (*bulkv1.PlanProtectionsResponse, error) {
	return answerAs[*bulkv1.PlanProtectionsResponse](b.called(request))
}

func (b *bulkService) ResolvePolicies(_ context.Context, request *bulkv1.ResolvePoliciesRequest) (*bulkv1.ResolvePoliciesResponse, error) {
	return answerAs[*bulkv1.ResolvePoliciesResponse](b.called(request))
}

func (b *bulkService) PlanKeyAccesses(_ context.Context, request *bulkv1.PlanKeyAccessesRequest) (*bulkv1.PlanKeyAccessesResponse, error) {
	return answerAs[*bulkv1.PlanKeyAccessesResponse](b.called(request))
}

func (b *bulkService) RecordEvents(_ context.Context, request *bulkv1.RecordEventsRequest) (*bulkv1.RecordEventsResponse, error) {
	return answerAs[*bulkv1.RecordEventsResponse](b.called(request))
}

func (b *bulkService) RegisterArtifacts(_ context.Context, request *bulkv1.RegisterArtifactsRequest) (*bulkv1.RegisterArtifactsResponse, error) {
	return answerAs[*bulkv1.RegisterArtifactsResponse](b.called(request))
}

// ServeEvents is a service for tests of the package as others see it: it acknowledges so many events and refuses the
// stream then; a negative number: all of them.
func ServeEvents(t *testing.T, count int) string {
	if count < 0 {
		return serveBulk(t, acknowledgeAll).url
	}
	return serveBulk(t, acknowledgeThen(count, refused(codes.PermissionDenied, "missing_scope"))).url
}

var errStore = refused(codes.Unavailable, "store_unavailable")

func eventOf(key string) *bulkv1.EventItem {
	return &bulkv1.EventItem{IdempotencyKey: key, Event: &sdkv1.RecordEvidenceRequest{
		EventType: sdkv1.EvidenceEventType_EVIDENCE_EVENT_TYPE_PROTECT,
		Workload:  &sdkv1.WorkloadDescriptor{Application: "payroll"}, Resource: &sdkv1.ResourceDescriptor{Kind: "record"},
	}}
}

func keysOf(items []*bulkv1.EventItem) []string {
	keys := []string{}
	for _, item := range items {
		keys = append(keys, item.GetIdempotencyKey())
	}
	return keys
}
