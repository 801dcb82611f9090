#!/usr/bin/env bash
# A workload's calls to the platform in plain HTTP and JSON: who am I, what is there, may I, how, and what I did. Needs
# curl 7.82 or later.
set -euo pipefail

for name in URL ISSUER CLIENT_ID CLIENT_SECRET; do
  variable="PLATFORM_$name"
  [ -n "${!variable:-}" ] || { echo "$variable is not set" >&2; exit 1; }
done

# Limits the total and the connection time. curl retries after a refused connection and after 408, 429 and 5xx, with
# growing delays, and waits as long as `Retry-After` asks.
options=(--no-progress-meter --max-time 60 --connect-timeout 10 --retry 8 --retry-max-time 30 --retry-connrefused
  --fail-with-body)
# PEM files for TLS.
[ -z "${PLATFORM_CA:-}" ] || options+=(--cacert "$PLATFORM_CA")
[ -z "${PLATFORM_CERT:-}" ] || options+=(--cert "$PLATFORM_CERT" --key "${PLATFORM_KEY:-}")

# member NAME: the first string, number or boolean of this name in the JSON on standard input.
member() {
  sed -nE "s/.*\"$1\":(\"([^\"]*)\"|([a-z0-9.]+)).*/\2\3/p;T;q" <<<"$(sed -E "s/(\"$1\":)/\n\1/" | sed -n '2{p;q}')"
}

# Describes the error envelope for a person, with the id to give to the operator.
describe() {
  local answer=$1
  echo "$(member code <<<"$answer"): $(member message <<<"$answer")"
  echo "  reason: $(member reason <<<"$answer")"
  case $(member reason <<<"$answer") in
    missing_scope) echo "  ask the issuer for these scopes too: $(sed -E 's/.*"missing_scopes":\[([^]]*)\].*/\1/' <<<"$answer" | tr -d '"')" ;;
    proof_of_possession_failed)
      echo "  the token is bound to another client certificate than the one presented, or the service does not trust it" ;;
    invalid_token) echo "  the service does not take tokens of this issuer, or for this audience" ;;
  esac
  echo "  request id: $(member request_id <<<"$answer")"
}

# The issuer sees the client certificate and binds the token to it (RFC 8705 section 3). The secret is passed by a file
# descriptor, because everybody on the machine can read arguments.
fetch_token() {
  local endpoint answer
  endpoint=$(curl "${options[@]}" "${PLATFORM_ISSUER%/}/.well-known/openid-configuration" | member token_endpoint)
  if ! answer=$(curl "${options[@]}" --config <(printf 'user = "%s:%s"\n' "$PLATFORM_CLIENT_ID" "$PLATFORM_CLIENT_SECRET") \
    --data grant_type=client_credentials --data-urlencode "scope=${PLATFORM_SCOPE:-}" "$endpoint"); then
    echo "the issuer gave no token: $(member error <<<"$answer")" >&2
    exit 1
  fi
  member access_token <<<"$answer"
}

# call PATH [curl options]: one call; prints the answer, or describes the error and exits.
call() {
  local path=$1 answer
  shift
  if ! answer=$(curl "${options[@]}" --config <(printf 'header = "authorization: Bearer %s"\n' "$token") \
    "$@" "${PLATFORM_URL%/}$path"); then
    describe "$answer" >&2
    exit 1
  fi
  printf '%s' "$answer"
}

# post PATH JSON [curl options]
post() {
  local path=$1 body=$2
  shift 2
  call "$path" --json "$body" "$@"
}

# Marks a call that records something: however often it is sent, it is recorded once.
idempotency_key() {
  printf 'idempotency-key: %s' "$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')"
}

common='"workload":{"application":"payroll-export","environment":"production","component":"nightly-writer"},
  "resource":{"kind":"customer-record","id":"cust-8841","mime_type":"application/pdf"},
  "purpose":"quarterly-audit","labels":["confidential"],"attributes":{"region":"eu"}'
content='"content_digest":"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"'
artifact='"artifact_kind":"data_object","artifact_profile":"tdf",
  "artifact_digest":"sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"'

token=$(fetch_token)

answer=$(call /v1/sdk/whoami)
echo "whoami $(member principal_id <<<"$answer") of $(member tenant_id <<<"$answer")"
answer=$(call /v1/sdk/capabilities)
echo "capabilities $(grep -o '"route":' <<<"$answer" | wc -l) routes"
answer=$(call /v1/sdk/bootstrap)
echo "bootstrap $(member enforcement_model <<<"$answer")"

# Obligations that this workload can meet if a decision demands them, by the id that the operator hands out. If policy
# demands any other, the answer is a denial.
understood='"understood_obligations":["log-use"]'
answer=$(post /v1/sdk/protection-plan \
  "{\"operation\":\"protect\",\"preferred_artifact_profile\":\"tdf\",\"content_size_bytes\":48213,$understood,$content,$common}")
obligations=$(sed -nE 's/.*"obligations":\[([^]]*)\].*/\1/p' <<<"$answer")
decision=$(member decision_id <<<"$answer")
allow=$(member allow <<<"$answer")
echo "protection-plan allow $allow $decision"
answer=$(post /v1/sdk/policy-resolve "{\"operation\":\"access\",$understood,$content,$common}")
echo "policy-resolve allow $(member allow <<<"$answer") $(member decision_id <<<"$answer")"
answer=$(post /v1/sdk/key-access-plan \
  "{\"operation\":\"wrap\",\"artifact_profile\":\"tdf\",\"key_reference\":\"kms://tenant-a/keys/42\",$understood,$common}")
echo "key-access-plan allow $(member allow <<<"$answer") $(member decision_id <<<"$answer")"
if [ "$allow" != true ]; then
  echo "the platform denied the operation" >&2
  exit 1
fi
# Met before the decision is acted on.
if [[ $obligations =~ ^\{\"id\":\"log-use\",\"parameters\":\{\"audience\":\"([^\"]*)\"\}\}$ ]]; then
  echo "obligation log-use: told ${BASH_REMATCH[1]}"
elif [ -n "$obligations" ]; then
  echo "the platform demands what cannot be met: $obligations" >&2
  exit 1
fi

# The artifact was made locally: register it, and record what happened.
answer=$(post /v1/sdk/artifact-register "{\"operation\":\"protect\",$artifact,
  \"artifact_locator\":\"s3://archive/2026/cust-8841.tdf\",\"decision_id\":\"$decision\",$common}" \
  --header "$(idempotency_key)")
echo "artifact-register accepted $(member accepted <<<"$answer") $(member record_id <<<"$answer")"
answer=$(post /v1/sdk/evidence "{\"event_type\":\"protect\",$artifact,\"outcome\":\"completed\",
  \"occurred_at\":\"2026-03-01T12:00:00Z\",\"decision_id\":\"$decision\",$common}" --header "$(idempotency_key)")
echo "evidence accepted $(member accepted <<<"$answer") $(member record_id <<<"$answer")"
