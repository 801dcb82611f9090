package platform

import (
	"fmt"
	"slices"
	"strings"

	"svc-platform-client/sdkv1"
)

// Decision is what the three calls that decide answer with.
type Decision interface {
	GetAllow() bool
	GetDecisionId() string
	GetReasons() []string
	GetObligations() []*sdkv1.Obligation
}

// NotPermittedError is a decision that must not be acted on: a denial, or an allow with an obligation that this
// program does not understand.
type NotPermittedError struct {
	DecisionID string
	// Reasons are the policies that decided.
	Reasons []string
	// UnknownObligations are the ids of those that are not understood, or that have a parameter which is not.
	UnknownObligations []string
}

// Error says why.
func (e *NotPermittedError) Error() string {
	text := "platform: not permitted"
	if len(e.Reasons) > 0 {
		text += ": " + strings.Join(e.Reasons, ", ")
	}
	if len(e.UnknownObligations) > 0 {
		text += fmt.Sprintf(" (obligations that are not understood: %s)", strings.Join(e.UnknownObligations, ", "))
	}
	return text
}

// Permitted says whether a decision allows, and all of its obligations are understood: see [Client.RequireAllow].
func (c *Client) Permitted(decision Decision, understood ...string) bool {
	return c.RequireAllow(decision, understood...) == nil
}

// RequireAllow returns a [*NotPermittedError] unless the decision allows and all of its obligations are understood.
// Those are then to be met before it is acted on, each with its parameters. What is understood is what the request
// listed: name that here where it was a list of its own; by default it is [Options.UnderstoodObligations].
func (c *Client) RequireAllow(decision Decision, understood ...string) error {
	if decision == nil {
		return &NotPermittedError{}
	}
	if len(understood) == 0 {
		understood = c.options.UnderstoodObligations
	}
	var unknown []string
	for _, obligation := range decision.GetObligations() {
		if !c.understands(obligation, understood) && !slices.Contains(unknown, obligation.GetId()) {
			unknown = append(unknown, obligation.GetId())
		}
	}
	if decision.GetAllow() && len(unknown) == 0 {
		return nil
	}
	return &NotPermittedError{
		DecisionID: decision.GetDecisionId(), Reasons: slices.Clone(decision.GetReasons()), UnknownObligations: unknown,
	}
}

func (c *Client) understands(obligation *sdkv1.Obligation, understood []string) bool {
	if !slices.Contains(understood, obligation.GetId()) {
		return false
	}
	known, isLimited := c.options.UnderstoodParameters[obligation.GetId()]
	for name := range obligation.GetParameters() {
		if isLimited && !slices.Contains(known, name) {
			return false
		}
	}
	return true
}
