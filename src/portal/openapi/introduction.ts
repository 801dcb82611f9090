/**
 * What a caller reads first: the rules that hold on every route.
 *
 * @param headerPrefix lowercase prefix of the service's own headers
 */
export function introduction(headerPrefix: string): string {
  return `Tells workloads whether they may protect, access or rewrap data, and how they enforce it in their own
process. It is metadata-only: plaintext, keys and secrets never reach it.

## Calls

- Get an access token from the issuer with the client credentials grant, and present it as \`Authorization: Bearer\`.
  \`GET /v1/sdk/capabilities\` names the issuer, the audience and the scopes of every route. Tenant, principal and
  scopes come from the token: do not send \`${headerPrefix}tenant-id\`; where an edge forwards it, it must equal the
  token's tenant.
- Bodies are JSON objects in UTF-8, \`application/json\`. \`HEAD\` is answered wherever \`GET\` is.
- An optional member may be left out, or sent as \`null\` or, where it is text, as \`""\`: all three mean absent.
- Unknown members, members given twice, unknown words of an enumeration, U+0000 and lone surrogates are refused: a
  metadata-only service does not swallow a \`plaintext\` in silence.
- In an answer, every required member is present, empty or not; an optional member without a value is left out.
- A policy denial is an answer like any other, 200 with \`decision.allow\` false. 403 says that the token lacks a scope.
- Order of refusal: route (404, 405), credentials (401), tenant and scopes (403), all before the body is read; then
  type (415), size (413) and content (400). A path that is not in this document is answered 404, \`no_route\`.
- Every refusal carries the same envelope; its \`reason\` comes from a closed list. Every answer carries
  \`x-request-id\`. Answers are not to be cached by anything between service and caller.

## Receipts and retries

- Every decision, registration and event is on the tenant's log before its answer leaves, and the answer carries a
  \`receipt\`: with it anyone can check offline that the log holds exactly this record. The header
  \`${headerPrefix}receipt\` asks for less; the examples here are \`brief\`.
- Repeat artifact-register and evidence under an \`Idempotency-Key\`, and the others as you like: a decision changes
  nothing. Wait as long as \`Retry-After\` says on 429 and 503.

## Versions

The version is in the path. Members marked \`x-additive\` go beyond its first contract. Further members may be added to
answers, so ignore those that you do not know; nothing that is here is taken away or given another meaning.`;
}
