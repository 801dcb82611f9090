package platform

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// PlatformError is a call that failed. Read it with [errors.As].
type PlatformError struct {
	// Code of the call. Where no answer came it is [codes.Unavailable], or [codes.DeadlineExceeded] where the time was up;
	// [codes.Unauthenticated] also where the issuer gave no token.
	Code codes.Code
	// Message for a person. It repeats nothing secret.
	Message string
	// Reason from the service's closed list, such as "missing_scope". Empty where the service did not answer.
	Reason string
	// RequestID is to be named when asking the operator.
	RequestID string
	// RequiredScopes and MissingScopes are those of the route, and those that the token lacks.
	RequiredScopes, MissingScopes []string
	// Violations are the broken rules of the request.
	Violations []Violation
	// RetryAfter is how long the service asks to wait; zero where it does not say.
	RetryAfter time.Duration
	// Err is what is behind the failure, such as [context.DeadlineExceeded] or a status of gRPC.
	Err error

	isToldWhen bool
}

// Violation is one broken rule of a request.
type Violation struct {
	Field   string // path of the member, such as "attributes[3].value"
	Rule    string // such as "string.min_len"
	Message string // for a person
}

// Error says what went wrong on one line.
func (e *PlatformError) Error() string {
	text := fmt.Sprintf("platform: %s: %s", e.CodeName(), e.Message)
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	return text
}

// Unwrap returns what is behind the failure.
func (e *PlatformError) Unwrap() error { return e.Err }

// GRPCStatus lets [status.FromError] and [status.Code] read the error.
func (e *PlatformError) GRPCStatus() *status.Status {
	var behind interface{ GRPCStatus() *status.Status }
	if errors.As(e.Err, &behind) && behind.GRPCStatus().Code() == e.Code {
		return behind.GRPCStatus()
	}
	return status.New(e.Code, e.Message)
}

// failureOf reads what a call over gRPC returned.
func failureOf(ctx context.Context, err error) *PlatformError {
	var known *PlatformError
	if errors.As(err, &known) {
		return known
	}
	refused := status.Convert(err)
	failure := &PlatformError{Code: refused.Code(), Message: refused.Message(), Err: err}
	for _, detail := range refused.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			failure.Reason = detail.GetReason()
			failure.RequestID = detail.GetMetadata()["request_id"]
			failure.RequiredScopes = strings.Fields(detail.GetMetadata()["required_scopes"])
			failure.MissingScopes = strings.Fields(detail.GetMetadata()["missing_scopes"])
		case *errdetails.BadRequest:
			for _, violation := range detail.GetFieldViolations() {
				failure.Violations = append(failure.Violations, Violation{
					Field: violation.GetField(), Rule: violation.GetReason(), Message: violation.GetDescription(),
				})
			}
		case *errdetails.RetryInfo:
			failure.RetryAfter, failure.isToldWhen = max(0, detail.GetRetryDelay().AsDuration()), true
		}
	}
	if failure.Reason == "" {
		failure.onTheWay(ctx)
	}
	return failure
}

// onTheWay gives what happened to a connection the one code that callers retry. A stream that was reset comes as one
// of several codes, and every refusal of the service has a reason.
func (e *PlatformError) onTheWay(ctx context.Context) {
	switch ended := ctx.Err(); {
	case errors.Is(ended, context.DeadlineExceeded):
		e.Code, e.Err = codes.DeadlineExceeded, errors.Join(ended, e.Err)
	case ended != nil:
		e.Code, e.Err = codes.Canceled, errors.Join(ended, e.Err)
	case e.Code == codes.Canceled,
		strings.HasPrefix(e.Message, "stream terminated by RST_STREAM"),
		strings.HasPrefix(e.Message, "server closed the stream without sending trailers"):
		e.Code = codes.Unavailable
	}
}

// ended is the error of a call whose time is up, or that was given up.
func ended(ctx context.Context) *PlatformError {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &PlatformError{Code: codes.DeadlineExceeded, Message: "the call's time is up", Err: ctx.Err()}
	}
	return &PlatformError{Code: codes.Canceled, Message: "the call was given up", Err: ctx.Err()}
}

// CodeName is the code's name in the service's JSON, such as "permission_denied".
func (e *PlatformError) CodeName() string {
	var name strings.Builder
	for i, letter := range e.Code.String() {
		if letter >= 'A' && letter <= 'Z' {
			if i > 0 {
				name.WriteByte('_')
			}
			letter += 'a' - 'A'
		}
		name.WriteRune(letter)
	}
	return name.String()
}
