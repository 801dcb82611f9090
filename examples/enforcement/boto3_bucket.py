"""Objects are protected while they are uploaded, and opened while they are read. The bucket gets ciphertext only."""

import re
from collections.abc import Mapping
from typing import Any, BinaryIO
from urllib.parse import quote

from svc_platform_client.enforce import Enforcer, Outcome


class SealedBucket:
    """`s3`: `boto3.client("s3")`."""

    def __init__(self, enforcer: Enforcer, s3: Any, bucket: str) -> None:
        self.enforcer, self.s3, self.bucket = enforcer, s3, bucket

    def put(self, key: str, source: BinaryIO, resource: Mapping[str, str]) -> Outcome:
        """The object is there only if its registration and event are recorded."""
        # The service removes what may be a credential or a query, so that other keys would share the locator.
        encoded = re.sub(r"[\x00-\x1f\x7f-\x9f\s%?#\\]|:(?=/)|(?<![^/])/", lambda found: quote(found[0], safe=""), key)
        locator = f"s3://{self.bucket}/{encoded}"
        with self.enforcer.protect_stream(source, resource=resource, artifact_locator=locator) as artifact:
            self.s3.upload_fileobj(artifact, self.bucket, key)
            assert artifact.outcome is not None
            return artifact.outcome

    def get(self, key: str, target: BinaryIO, resource: Mapping[str, str]) -> Outcome:
        body = self.s3.get_object(Bucket=self.bucket, Key=key)["Body"]
        return self.enforcer.open(body, target, resource=resource, purpose="download")
