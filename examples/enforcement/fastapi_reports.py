"""Reports are protected when they arrive, and opened when they leave."""

from pathlib import Path
from tempfile import TemporaryFile
from fastapi import FastAPI, Request, UploadFile
from fastapi.responses import JSONResponse, StreamingResponse
from svc_platform_client.enforce import EnforcementError, Enforcer


def reports(enforcer: Enforcer, folder: Path) -> FastAPI:
    app = FastAPI()

    @app.exception_handler(EnforcementError)
    async def refuse(_: Request, error: EnforcementError) -> JSONResponse:
        return JSONResponse({"error": error.failure, "retry": error.is_retryable}, error.http_status)

    @app.put("/reports/{number}", status_code=201)
    def put(number: int, file: UploadFile) -> dict[str, str]:
        resource = {"kind": "report", "id": str(number)}
        return {"artifactDigest": enforcer.protect(file.file, folder / str(number), resource=resource).artifact_digest}

    @app.get("/reports/{number}")
    def get(number: int) -> StreamingResponse:
        plaintext, resource = TemporaryFile(), {"kind": "report", "id": str(number)}
        enforcer.open(folder / str(number), plaintext, resource=resource, purpose="download")
        plaintext.seek(0)
        return StreamingResponse(plaintext, media_type="application/octet-stream")

    return app
