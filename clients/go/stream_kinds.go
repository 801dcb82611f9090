package platform

import (
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"svc-platform-client/bulkv1"
)

// streamKind is what the two streams differ in.
type streamKind[Item, Result Keyed] struct {
	path, route string
	request     func(sequence int64, item Item) proto.Message
	// receive waits for the next acknowledgements.
	receive func(grpc.ClientStream) ([]acknowledgement[Result], error)
}

type acknowledgement[Result Keyed] struct {
	sequence int64
	result   Result
}

var eventStream = &streamKind[*bulkv1.EventItem, *bulkv1.EventResult]{
	path: bulkv1.BulkStreamService_StreamEvents_FullMethodName, route: "evidence",
	request: func(sequence int64, item *bulkv1.EventItem) proto.Message {
		return &bulkv1.StreamEventsRequest{Sequence: sequence, Item: item}
	},
	receive: func(stream grpc.ClientStream) ([]acknowledgement[*bulkv1.EventResult], error) {
		response := &bulkv1.StreamEventsResponse{}
		err := stream.RecvMsg(response)
		return acknowledgements[*bulkv1.EventResult](response.GetItems()), err
	},
}

var registrationStream = &streamKind[*bulkv1.RegistrationItem, *bulkv1.RegistrationResult]{
	path: bulkv1.BulkStreamService_StreamRegistrations_FullMethodName, route: "artifact-register",
	request: func(sequence int64, item *bulkv1.RegistrationItem) proto.Message {
		return &bulkv1.StreamRegistrationsRequest{Sequence: sequence, Item: item}
	},
	receive: func(stream grpc.ClientStream) ([]acknowledgement[*bulkv1.RegistrationResult], error) {
		response := &bulkv1.StreamRegistrationsResponse{}
		err := stream.RecvMsg(response)
		return acknowledgements[*bulkv1.RegistrationResult](response.GetItems()), err
	},
}

func acknowledgements[Result Keyed, Acknowledged interface {
	GetSequence() int64
	GetResult() Result
}](items []Acknowledged) []acknowledgement[Result] {
	read := make([]acknowledgement[Result], len(items))
	for i, item := range items {
		read[i] = acknowledgement[Result]{item.GetSequence(), item.GetResult()}
	}
	return read
}
