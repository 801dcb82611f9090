/**
 * Signature algorithms that are accepted, of access tokens and of DPoP proofs: asymmetric ones only, so that a public
 * key can never pass for a secret, and named one by one, so that a new version of a library adds none. RSA keys have
 * at least 2048 bits (RFC 7518 §3.3).
 */
export const signatureAlgorithms = [
  ...["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"],
  ...["ES256", "ES384", "ES512", "EdDSA", "Ed25519"],
];
