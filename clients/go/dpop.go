package platform

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/url"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/uuid"
)

// DPoP is a key that tokens are bound to, and what proves on every call that the caller has it (RFC 9449).
type DPoP struct {
	signer jose.Signer

	mutex sync.Mutex
	// Nonces that servers want in the next proof, by scheme and host.
	nonces map[string]string
}

// NewDPoP takes a P-256 key, or makes one where the key is nil.
func NewDPoP(key *ecdsa.PrivateKey) (*DPoP, error) {
	if key == nil {
		made, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		key = made
	}
	if key.Curve != elliptic.P256() {
		return nil, errors.New("platform: a DPoP key is of the curve P-256")
	}
	options := (&jose.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt")
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, options)
	if err != nil {
		return nil, err
	}
	return &DPoP{signer: signer, nonces: map[string]string{}}, nil
}

// proofClaims are those of RFC 9449 §4.2.
type proofClaims struct {
	ID          string `json:"jti"`
	Method      string `json:"htm"`
	Target      string `json:"htu"`
	IssuedAt    int64  `json:"iat"`
	AccessToken string `json:"ath,omitempty"`
	Nonce       string `json:"nonce,omitempty"`
}

// prove makes the proof of one attempt. Target has neither query nor fragment; the access token is empty where the
// proof asks for one.
func (d *DPoP) prove(method, target, accessToken string) (proof, nonce string, err error) {
	nonce = d.nonceFor(target)
	claims := proofClaims{
		ID: uuid.NewString(), Method: method, Target: target, IssuedAt: time.Now().Unix(), Nonce: nonce,
	}
	if accessToken != "" {
		digest := sha256.Sum256([]byte(accessToken))
		claims.AccessToken = base64.RawURLEncoding.EncodeToString(digest[:])
	}
	proof, err = jwt.Signed(d.signer).Claims(claims).Serialize()
	return proof, nonce, err
}

func (d *DPoP) nonceFor(target string) string {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return d.nonces[originOf(target)]
}

// keep keeps the nonce for the next proof. Nonces of one server say nothing to another (§8.2).
func (d *DPoP) keep(target, nonce string) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.nonces[originOf(target)] = nonce
}

func originOf(target string) string {
	location, err := url.Parse(target)
	if err != nil {
		return target
	}
	return location.Scheme + "://" + location.Host
}
