"""Where the platform is and who calls it: from the environment. Secrets never come from arguments."""

import os
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    url: str  # base URL of the service
    issuer: str  # identifier of the token issuer, a URL
    client_id: str
    client_secret: str
    scope: str  # what to ask for, separated by spaces; empty for what the issuer grants unasked
    ca: str  # PEM files: authorities of the servers, certificate and key of this workload
    cert: str
    key: str

    @property
    def target(self) -> str:
        return self.url.removeprefix("https://").rstrip("/")


def read_settings() -> Settings:
    def required(name: str) -> str:
        value = os.environ.get(f"PLATFORM_{name}", "")
        if not value:
            sys.exit(f"PLATFORM_{name} is not set")
        return value

    return Settings(
        url=required("URL"),
        issuer=required("ISSUER"),
        client_id=required("CLIENT_ID"),
        client_secret=required("CLIENT_SECRET"),
        scope=os.environ.get("PLATFORM_SCOPE", ""),
        ca=required("CA"),
        cert=required("CERT"),
        key=required("KEY"),
    )
