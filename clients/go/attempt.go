package platform

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
)

// sent is what an attempt carried.
type sent struct {
	token         *Token
	target, nonce string
	// isNonceNew says that the answer came with a nonce that the proof did not carry.
	isNonceNew bool
}

// keepNonce takes note of the nonce that an answer came with.
func (s *sent) keepNonce(header, trailer metadata.MD) {
	if s.token == nil || s.token.DPoP == nil {
		return
	}
	if given := first(header, trailer, "dpop-nonce"); given != "" {
		s.token.DPoP.keep(s.target, given)
		s.isNonceNew = given != s.nonce
	}
}

// authorize adds to the headers what this attempt alone carries, and what the caller put into the context.
func (c *Client) authorize(ctx context.Context, used *connection, path string, headers metadata.MD) (sent, metadata.MD, *PlatformError) {
	headers = withOwn(ctx, headers.Copy())
	carried := sent{target: c.origin + path}
	if c.options.Tokens == nil {
		return carried, headers, nil
	}
	token, err := c.options.Tokens.Token(withIdentity(ctx, used.identity))
	if err != nil {
		return sent{}, nil, tokenFailure(ctx, err)
	}
	carried.token = token
	var proof string
	if proof, carried.nonce, err = token.prove("POST", carried.target); err != nil {
		return sent{}, nil, &PlatformError{Code: codes.Internal, Message: "the DPoP proof cannot be made", Err: err}
	}
	headers.Set("authorization", token.scheme()+" "+token.AccessToken)
	if proof != "" {
		headers.Set("dpop", proof)
	}
	return carried, headers, nil
}

// withOwn adds what the caller put into the context, such as a trace; ours count where both name a header.
func withOwn(ctx context.Context, headers metadata.MD) metadata.MD {
	own, _ := metadata.FromOutgoingContext(ctx)
	for name, values := range own {
		if _, isTaken := headers[name]; !isTaken {
			headers[name] = values
		}
	}
	return headers
}

func first(header, trailer metadata.MD, name string) string {
	for _, given := range [][]string{trailer.Get(name), header.Get(name)} {
		if len(given) > 0 {
			return given[0]
		}
	}
	return ""
}
