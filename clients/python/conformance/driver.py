"""The driver of the clients' conformance suite: a JSON object a line in, one out. `--async` drives the other client."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message import Message

from svc_platform_client import (
    AsyncItemStream,
    AsyncPlatformClient,
    ClientCredentials,
    ItemStream,
    NotPermitted,
    Options,
    PlatformClient,
    PlatformError,
    ReceiptRefused,
    Retry,
    Tls,
    bulk_v1,
    v1,
    verify_receipt,
)

Json = dict[str, Any]

# Names of the methods, the same on both clients, and what they are asked with.
CALLS: dict[str, tuple[str, Callable[[], Message] | None]] = {
    "whoami": ("who_am_i", None),
    "capabilities": ("get_capabilities", None),
    "bootstrap": ("get_bootstrap", None),
    "cached-capabilities": ("capabilities", None),
    "cached-bootstrap": ("bootstrap", None),
    "protection-plan": ("plan_protection", v1.PlanProtectionRequest),
    "policy-resolve": ("resolve_policy", v1.ResolvePolicyRequest),
    "key-access-plan": ("plan_key_access", v1.PlanKeyAccessRequest),
    "artifact-register": ("register_artifact", v1.RegisterArtifactRequest),
    "evidence": ("record_evidence", v1.RecordEvidenceRequest),
    "bulk/protection-plans": ("plan_protections", bulk_v1.PlanProtectionsRequest),
    "bulk/policy-resolutions": ("resolve_policies", bulk_v1.ResolvePoliciesRequest),
    "bulk/key-access-plans": ("plan_key_accesses", bulk_v1.PlanKeyAccessesRequest),
    "bulk/artifact-registrations": ("register_artifacts", bulk_v1.RegisterArtifactsRequest),
    "bulk/evidence": ("record_events", bulk_v1.RecordEventsRequest),
}
HOLDERS = ("decision", "registration", "ingestion")


def settings(case: Json) -> tuple[str, Tls, ClientCredentials | None, Options]:
    tls, token, given = case.get("tls", {}), case.get("token"), case.get("options", {})
    tokens = token and ClientCredentials(
        token["issuer"], token["client_id"], token.get("client_secret"), token.get("scopes", [])
    )
    options = Options(
        deadline=given.get("deadline_ms", 10_000) / 1000,
        retry=Retry(
            max_attempts=given.get("max_attempts", 4),
            initial_backoff=given.get("initial_backoff_ms", 100) / 1000,
            max_backoff=given.get("max_backoff_ms", 5_000) / 1000,
        ),
        receipts=given.get("receipts"),
        log_keys=given.get("log_keys", []),
        caller=v1.Caller(**given["caller"]) if "caller" in given else None,
        understood_obligations=given.get("understood_obligations", []),
        understood_parameters=given.get("understood_parameters", {}),
        discovery_max_age=given.get("cache_ms", 60_000) / 1000,
        dpop=case.get("dpop", False),
    )
    return case["base_url"], Tls(tls.get("ca"), tls.get("cert"), tls.get("key")), tokens, options


def verdict(step: Json) -> Json:
    try:
        verify_receipt(ParseDict(step["receipt"], v1.Receipt()), step["log_key"])
    except (ReceiptRefused, ParseError, ValueError) as refused:
        print(refused, file=sys.stderr)
        return {"receipt": "refused"}
    return {"receipt": "verified"}


def call_of(client: PlatformClient | AsyncPlatformClient, step: Json) -> Callable[[], Any]:
    name, request = CALLS[step["call"]]
    arguments = [] if request is None else [ParseDict(step.get("request", {}), request())]
    options = {"idempotency_key": step["idempotency_key"]} if step.get("idempotency_key") else {}
    return lambda: getattr(client, name)(*arguments, **options)


def holder_of(answer: Message) -> Any:
    return next((getattr(answer, name) for name in HOLDERS if name in answer.DESCRIPTOR.fields_by_name), None)


def answered(client: PlatformClient | AsyncPlatformClient, step: Json, answer: Any) -> Json:
    is_bulk = step["call"].startswith("bulk/")
    holders = [holder for one in (answer.items if is_bulk else [answer]) if (holder := holder_of(one)) is not None]
    if step.get("require_allow"):
        asked: Json = step.get("request", {})
        for holder, item in zip(holders, asked["items"] if is_bulk else [asked], strict=True):
            own: list[str] = item.get("understoodObligations", [])
            client.require_allow(holder, own or None)
    known = client.options.log_keys and any(holder.HasField("receipt") for holder in holders)
    return {"answer": MessageToDict(answer), "receipt": "verified" if known else "absent"}


def failed(error: Exception) -> Json:
    if isinstance(error, ReceiptRefused) and error.answer is not None:
        print(error, file=sys.stderr)
        return {"answer": MessageToDict(error.answer), "receipt": "refused"}
    if isinstance(error, NotPermitted):
        unknown = list(error.unknown_obligations)
        return {"not_permitted": {"reasons": list(error.reasons), "unknown_obligations": unknown}}
    if not isinstance(error, PlatformError):
        raise error
    print(error, file=sys.stderr)
    return {"error": told(error)}


def told(error: PlatformError) -> Json:
    return {
        "code": error.code.name.lower(),
        "reason": error.reason,
        "request_id": error.request_id,
        "missing_scopes": list(error.missing_scopes),
        "violations": [{"field": violation.field} for violation in error.violations],
    }


# How streams are opened, and what their items hold.
STREAMS: dict[str, tuple[str, str, Callable[[], Message]]] = {
    "events": ("open_event_stream", "event", v1.RecordEvidenceRequest),
    "registrations": ("open_registration_stream", "registration", v1.RegisterArtifactRequest),
}


def open_stream(client: PlatformClient | AsyncPlatformClient, step: Json) -> Any:
    bounds = {name: step[name] for name in ("max_unacknowledged_items", "max_unacknowledged_bytes") if name in step}
    return getattr(client, STREAMS[step["stream"]][0])(**bounds)


def sent_item(step: Json, item: Json) -> tuple[Message, str | None]:
    _, member, message = STREAMS[step["stream"]]
    return ParseDict(item.get(member, {}), message()), item.get("idempotency_key")


def shipped(
    client: PlatformClient | AsyncPlatformClient,
    stream: ItemStream[Any, Any, Any] | AsyncItemStream[Any, Any, Any],
    outcomes: list[Any],
    error: PlatformError | None,
) -> Json:
    """The answer to a stream's step."""
    results: list[Json | None] = []
    receipt = "absent"
    for outcome in outcomes:
        result = outcome.answer if isinstance(outcome, ReceiptRefused) else outcome
        results.append(MessageToDict(result) if isinstance(result, Message) else None)
        if isinstance(outcome, ReceiptRefused):
            receipt = "refused"
        elif receipt == "absent" and client.options.log_keys and isinstance(outcome, Message):
            receipt = "verified" if holder_of(outcome).HasField("receipt") else "absent"
    answer: Json = {"results": results, "receipt": receipt}
    if error is not None:
        print(error, file=sys.stderr)
        answer |= {"error": told(error), "unacknowledged": [item.idempotency_key for item in stream.unacknowledged()]}
    return answer


def ship(client: PlatformClient, step: Json) -> Json:
    stream, futures, error = open_stream(client, step), [], None
    try:
        for item in step["items"]:
            time.sleep(item.get("pause_ms", 0) / 1000)
            futures.append(stream.send(*sent_item(step, item)))
        stream.close()
    except PlatformError as failure:
        error = failure
    outcomes = [future.exception() or future.result() for future in futures]
    return shipped(client, stream, [*outcomes, *[None] * (len(step["items"]) - len(outcomes))], error)


async def ship_async(client: AsyncPlatformClient, step: Json) -> Json:
    stream, futures, error = open_stream(client, step), [], None
    try:
        for item in step["items"]:
            await asyncio.sleep(item.get("pause_ms", 0) / 1000)
            futures.append(await stream.send(*sent_item(step, item)))
        await stream.close()
    except PlatformError as failure:
        error = failure
    outcomes = await asyncio.gather(*futures, return_exceptions=True)
    return shipped(client, stream, [*outcomes, *[None] * (len(step["items"]) - len(outcomes))], error)


def run_step(client: PlatformClient, step: Json) -> Json:
    time.sleep(step.get("pause_ms", 0) / 1000)
    if "stream" in step:
        return ship(client, step)
    if step["call"] == "verify-receipt":
        return verdict(step)
    if step["call"] == "concurrent":
        with ThreadPoolExecutor(len(step["calls"])) as pool:
            return {"steps": list(pool.map(lambda one: run_step(client, one), step["calls"]))}
    try:
        return answered(client, step, call_of(client, step)())
    except Exception as error:
        return failed(error)


def run_case(case: Json) -> list[Json]:
    base_url, tls, tokens, options = settings(case)
    with PlatformClient(base_url, tls=tls, tokens=tokens, options=options) as client:
        return [run_step(client, step) for step in case["steps"]]


async def run_step_async(client: AsyncPlatformClient, step: Json) -> Json:
    await asyncio.sleep(step.get("pause_ms", 0) / 1000)
    if "stream" in step:
        return await ship_async(client, step)
    if step["call"] == "verify-receipt":
        return verdict(step)
    if step["call"] == "concurrent":
        return {"steps": await asyncio.gather(*(run_step_async(client, one) for one in step["calls"]))}
    try:
        return answered(client, step, await call_of(client, step)())
    except Exception as error:
        return failed(error)


async def run_case_async(case: Json) -> list[Json]:
    base_url, tls, tokens, options = settings(case)
    async with AsyncPlatformClient(base_url, tls=tls, tokens=tokens, options=options) as client:
        return [await run_step_async(client, step) for step in case["steps"]]


def main() -> None:
    awaited = "--async" in sys.argv[1:]
    for line in sys.stdin:
        case: Json = json.loads(line)
        steps = asyncio.run(run_case_async(case)) if awaited else run_case(case)
        print(json.dumps({"case": case["case"], "steps": steps}), flush=True)


if __name__ == "__main__":
    main()
