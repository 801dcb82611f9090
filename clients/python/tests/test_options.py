"""What would weaken the client, or cannot work, is refused when it is made."""

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from svc_platform_client import ClientCredentials, Options, PlatformClient, PlatformError, Retry, Tls, v1


@pytest.mark.parametrize(
    "url",
    ["http://platform.example.com", "ftp://localhost", "https://", "localhost:80", "https://h/path", "https://u@h", ""],
)
def test_urls(url: str) -> None:
    with pytest.raises(ValueError, match="URL"):
        PlatformClient(url)


def test_an_issuer_in_plaintext() -> None:
    with pytest.raises(ValueError, match="https"):
        ClientCredentials("http://issuer.example.com", "payroll", "secret")


def test_the_secret_is_not_shown() -> None:
    assert "s3cret" not in repr(ClientCredentials("https://issuer.example.com", "payroll", "s3cret"))


def test_half_a_certificate() -> None:
    with pytest.raises(ValueError, match="key"):
        Tls(cert="client.pem")


def test_neither_secret_nor_certificate() -> None:
    with pytest.raises(ValueError, match="certificate"):
        PlatformClient("http://localhost:1", tokens=ClientCredentials("https://issuer.example.com", "payroll"))


def test_bounds() -> None:
    with pytest.raises(ValueError, match="deadline"):
        Options(deadline=0)
    with pytest.raises(ValueError, match="max_attempts"):
        Retry(max_attempts=0)
    with pytest.raises(ValueError, match="backoff"):
        Retry(initial_backoff=2, max_backoff=1)


def test_log_keys() -> None:
    with pytest.raises(ValueError, match="log key"):
        Options(log_keys=["none"])


def test_a_dpop_key_of_another_curve() -> None:
    with pytest.raises(ValueError, match="P-256"):
        PlatformClient("http://localhost:1", options=Options(dpop=ec.generate_private_key(ec.SECP384R1())))


@pytest.mark.parametrize("token", ["", "a b", "a\r\nx-svc-user-id: root", "\u00fc", "=a"])
def test_what_is_no_token_is_not_sent(token: str) -> None:
    with PlatformClient("http://localhost:1", tokens=lambda: token) as client, pytest.raises(PlatformError) as raised:
        client.who_am_i()
    assert raised.value.code.name == "UNAUTHENTICATED"


@pytest.mark.parametrize("key", ["a b", "\u00fc", "a" * 129])
def test_what_is_no_idempotency_key_is_not_sent(key: str) -> None:
    with PlatformClient("http://localhost:1") as client, pytest.raises(ValueError, match="idempotency key"):
        client.record_evidence(v1.RecordEvidenceRequest(), idempotency_key=key)
