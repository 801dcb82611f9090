package main

import (
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
)

// describe says what is wrong, for a person: the reason from the service's closed list, what to do about it, and the
// id to name when asking the operator.
func describe(err error) string {
	refused := status.Convert(err)
	lines := []string{fmt.Sprintf("%s: %s", refused.Code(), refused.Message())}
	for _, detail := range refused.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			lines = append(lines, "reason: "+detail.Reason)
			if advice := advise(detail); advice != "" {
				lines = append(lines, advice)
			}
			lines = append(lines, "request id: "+detail.Metadata["request_id"])
		case *errdetails.BadRequest:
			for _, violation := range detail.FieldViolations {
				lines = append(lines, fmt.Sprintf("%s: %s", violation.Field, violation.Description))
			}
		}
	}
	return strings.Join(lines, "\n  ")
}

func advise(info *errdetails.ErrorInfo) string {
	switch info.Reason {
	case "missing_scope":
		return "ask the issuer for these scopes too: " + info.Metadata["missing_scopes"]
	case "proof_of_possession_failed":
		return "the token is bound to another client certificate than the one presented, or the service does not trust it"
	case "invalid_token", "expired_token":
		return "the service does not take tokens of this issuer, or for this audience"
	}
	return ""
}
