"""How a call is made: deadline, token, proof, retries, receipt. The same for both clients."""

from __future__ import annotations

import math
import random
import re
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

import grpc
from google.protobuf.message import Message

from . import _methods as methods
from . import v1
from ._certificates import Connection, Identity
from ._dpop import Prover
from ._methods import Answer, Method, Request
from ._replies import Reply
from ._runtime import Runtime, SingleFlight
from ._tokens import GivenTokens, IssuedTokens, OwnTokens, TokenSource
from .errors import Metadata, PlatformError, ReceiptRefused, read_refusal
from .options import ClientCredentials, Options, SessionTokens, Tls, Tokens
from .receipts import ItemRequest, RecordedAnswer, receipt_of, verify_answer

Question = TypeVar("Question", v1.PlanProtectionRequest, v1.ResolvePolicyRequest, v1.PlanKeyAccessRequest)
T = TypeVar("T")
Send = Callable[[Any, Metadata], Awaitable[Reply[T]]]
"""Sends something once, over a channel, with its metadata."""
Discovered = TypeVar("Discovered", v1.GetCapabilitiesResponse, v1.GetBootstrapResponse)


@dataclass
class Attempts:
    """What is done once in a call, however often it is sent."""

    deadline: float
    metadata: Metadata
    may_replace_token: bool = True

    def remaining(self) -> float:
        remaining = self.deadline - time.monotonic()
        if remaining <= 0:
            raise PlatformError(grpc.StatusCode.DEADLINE_EXCEEDED, "the deadline passed")
        return remaining


class Calls:
    def __init__(
        self,
        runtime: Runtime[Any],
        base_url: str,
        tls: Tls,
        tokens: Tokens | None,
        options: Options,
    ) -> None:
        self.options = options
        self._runtime = runtime
        self._named_caller: v1.Caller | None = None
        """By the latest `who_am_i`."""
        parts = urlsplit(base_url)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._prover: Prover | None = None
        if options.dpop is not False:
            self._prover = Prover(None if options.dpop is True else options.dpop)
        self._tokens: TokenSource | None = None
        if isinstance(tokens, ClientCredentials):
            self._tokens = IssuedTokens(tokens, runtime, self._prover, tls.cert is not None)
        elif isinstance(tokens, SessionTokens):
            if self._prover is not None:
                raise ValueError("tokens of the session route are bound to no DPoP key")
            self._tokens = OwnTokens(tokens, runtime, self._origin)
        elif tokens is not None:
            self._tokens = GivenTokens(tokens)
        self._capabilities = SingleFlight(
            runtime, lambda: self._discover(methods.GET_CAPABILITIES, v1.GetCapabilitiesRequest())
        )
        self._bootstrap = SingleFlight(runtime, lambda: self._discover(methods.GET_BOOTSTRAP, v1.GetBootstrapRequest()))

    async def call(
        self,
        method: Method[Request, Answer],
        request: Request,
        deadline: float | None = None,
        idempotency_key: str | None = None,
    ) -> Answer:
        """Raises PlatformError, and ReceiptRefused where log keys are known."""
        metadata = self.wanted_receipts()
        sent_at = sent_with(idempotency_key if method.recorded else None)
        if method.recorded:
            # One for all attempts: however often it arrives, it is recorded once.
            metadata.append(("idempotency-key", made_key(idempotency_key)))
        answer = await self.carry_out(method, request, deadline, metadata)
        if isinstance(answer, RecordedAnswer) and self.are_verified():
            assert isinstance(request, ItemRequest)
            with refusing(answer):
                # Whole ones come unasked.
                require_detail(receipt_of(answer), is_whole=self.options.receipts != "brief")
                verify_answer(answer, self.options.log_keys, request=request, caller=self.caller, sent_at=sent_at)
        if isinstance(answer, v1.WhoAmIResponse):
            self._named_caller = answer.caller
        return answer

    @property
    def caller(self) -> v1.Caller | None:
        """Who the program is, as far as it was told so."""
        return self.options.caller or self._named_caller

    def are_verified(self) -> bool:
        return len(self.options.log_keys) > 0 and self.options.receipts != "none"

    def wanted_receipts(self) -> list[tuple[str, str]]:
        wanted = self.options.receipts
        return [] if wanted is None else [("x-svc-receipt", "full" if wanted == "whole" else wanted)]

    async def carry_out(
        self, method: Method[Request, Answer], request: Request, deadline: float | None, metadata: Metadata
    ) -> Answer:
        """The call, tried again where that may help. Raises PlatformError."""
        attempts = Attempts(time.monotonic() + (deadline or self.options.deadline), metadata)
        retry = self.options.retry
        bound = retry.initial_backoff
        attempt = 1
        while True:
            try:
                return await self.attempt(method.path, partial(self._unary, method, request, attempts), attempts)
            except PlatformError as error:
                pause = (error.retry_after or 0.0) + random.uniform(0.0, bound)
                left = attempts.deadline - time.monotonic()
                if attempt >= retry.max_attempts or not may_retry(error) or pause >= left:
                    raise
                if retry.on_retry is not None:
                    retry.on_retry(error, pause)
            await self._runtime.sleep(pause)
            bound = min(2 * bound, retry.max_backoff)
            attempt += 1

    async def ask(self, method: Method[Question, Answer], request: Question, deadline: float | None) -> Answer:
        """A question that says which obligations are understood."""
        if self.options.understood_obligations and not request.understood_obligations:
            asked = type(request)()
            asked.CopyFrom(request)
            asked.understood_obligations.extend(self.options.understood_obligations)
            request = asked
        return await self.call(method, request, deadline)

    async def capabilities(self, deadline: float | None) -> v1.GetCapabilitiesResponse:
        return await self._cached(self._capabilities, deadline)

    async def bootstrap(self, deadline: float | None) -> v1.GetBootstrapResponse:
        return await self._cached(self._bootstrap, deadline)

    async def _cached(self, cache: SingleFlight[Discovered], deadline: float | None) -> Discovered:
        timeout = deadline or self.options.deadline
        try:
            kept = await cache.get(timeout, patience=3 * self.options.deadline)
        except TimeoutError:
            raise PlatformError(grpc.StatusCode.DEADLINE_EXCEEDED, "the deadline passed") from None
        copy = type(kept)()
        copy.CopyFrom(kept)  # messages can be changed, and what is kept must not be
        return copy

    async def _discover(self, method: Method[Request, Answer], request: Request) -> tuple[Answer, float]:
        asked_at = time.monotonic()
        return await self.call(method, request), asked_at + self.options.discovery_max_age

    async def _unary(
        self,
        method: Method[Request, Answer],
        request: Request,
        attempts: Attempts,
        channel: Any,
        metadata: Metadata,
    ) -> Reply[Answer]:
        return await self._runtime.unary(channel, method, request, attempts.remaining(), metadata)

    async def attempt(self, path: str, send: Send[T], attempts: Attempts) -> T:
        """
        Sends with a token and a proof, again where the proof lacked a nonce or the token had expired. Raises
        PlatformError.
        """
        # One connection for token and call: what the token is bound to is what is shown.
        connection = self._runtime.acquire()
        try:
            return await self._attempt_over(connection, path, send, attempts)
        finally:
            await self._runtime.release(connection)

    async def _attempt_over(self, connection: Connection[Any], path: str, send: Send[T], attempts: Attempts) -> T:
        url = self._origin + path
        may_prove_again = True
        while True:
            token, credentials = await self._authorize(url, connection.identity, attempts)
            reply = await send(connection.channel, [*attempts.metadata, *credentials])
            nonce = next((value for name, value in reply.metadata if name == "dpop-nonce"), None)
            # Even one that another call has kept meanwhile: this call's proof lacked it.
            learnt = self._prover is not None and self._prover.learn(url, nonce if isinstance(nonce, str) else None)
            if reply.answer is not None:
                return reply.answer
            refused = read_refusal(reply.code, reply.message, reply.metadata)
            if learnt and may_prove_again and refused.code is grpc.StatusCode.UNAUTHENTICATED:
                may_prove_again = False
                continue
            if self._tokens is not None and token is not None and refused.reason in ("expired_token", "invalid_token"):
                # Not used for the next call either: the key that signed it may have been withdrawn.
                self._tokens.refused(token)
                if refused.reason == "expired_token" and attempts.may_replace_token:
                    attempts.may_replace_token = False
                    continue
            raise refused from reply.error

    async def _authorize(self, url: str, identity: Identity, attempts: Attempts) -> tuple[str | None, Metadata]:
        if self._tokens is None:
            return None, []
        try:
            token = await self._tokens.token(identity, attempts.remaining())
        except TimeoutError:
            raise PlatformError(
                grpc.StatusCode.DEADLINE_EXCEEDED, "the deadline passed before there was a token"
            ) from None
        if self._prover is None:
            return token, [("authorization", f"Bearer {token}")]
        # Section 7.1, and a proof for each attempt: none is taken twice.
        return token, [("authorization", f"DPoP {token}"), ("dpop", self._prover.proof("POST", url, token))]


def may_retry(error: PlatformError) -> bool:
    if error.code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return error.retry_after is not None
    return error.code is grpc.StatusCode.UNAVAILABLE


def made_key(given: str | None) -> str:
    """The given idempotency key, or a new one. Raises ValueError."""
    key = given or str(uuid.uuid4())
    if not re.fullmatch(r"[\x21-\x7e]{1,128}", key):
        raise ValueError("an idempotency key is 1 to 128 visible characters")
    return key


def sent_with(given_key: str | None) -> float:
    """When a record can have been made at the earliest: now, or at any time if its key may have been used before."""
    return time.time() if given_key is None else -math.inf


def require_detail(receipt: v1.Receipt | None, is_whole: bool) -> None:
    """What was asked for is not left out on the way. Raises ReceiptRefused."""
    if receipt is None:
        raise ReceiptRefused("the answer has no receipt")
    if is_whole and not receipt.HasField("record"):
        raise ReceiptRefused("the receipt is a brief one, and a whole one was asked for")


@contextmanager
def refusing(answer: Message) -> Iterator[None]:
    """Names the answer in a refusal."""
    try:
        yield
    except ReceiptRefused as refused:
        refused.answer = answer
        raise
