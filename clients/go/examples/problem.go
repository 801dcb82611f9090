package main

import (
	"errors"
	"fmt"
	"strings"

	platform "svc-platform-client"
)

// describe says what is wrong, for a person: the reason from the service's closed list, what to do about it, and the
// id to name when asking the operator.
func describe(err error) string {
	var failure *platform.PlatformError
	if !errors.As(err, &failure) {
		return err.Error()
	}
	lines := []string{fmt.Sprintf("%s: %s", failure.CodeName(), failure.Message)}
	if failure.Reason != "" {
		lines = append(lines, "reason: "+failure.Reason)
	}
	if advice := advise(failure); advice != "" {
		lines = append(lines, advice)
	}
	if failure.RequestID != "" {
		lines = append(lines, "request id: "+failure.RequestID)
	}
	for _, violation := range failure.Violations {
		lines = append(lines, fmt.Sprintf("%s: %s", violation.Field, violation.Message))
	}
	return strings.Join(lines, "\n  ")
}

func advise(failure *platform.PlatformError) string {
	switch failure.Reason {
	case "missing_scope":
		return "ask the issuer for these scopes too: " + strings.Join(failure.MissingScopes, " ")
	case "proof_of_possession_failed":
		return "the token is bound to another client certificate than the one presented, or the service does not trust it"
	case "invalid_token", "expired_token":
		return "the service does not take tokens of this issuer, or for this audience"
	}
	return ""
}
