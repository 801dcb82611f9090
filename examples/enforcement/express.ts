/** Reports are protected while they arrive, and opened while they leave. */
import { join } from "node:path";
import express, { type Express, type NextFunction, type Request, type Response } from "express";
import { EnforcementError, type Enforcer } from "svc-platform-client/enforce";

export function reports(enforcer: Enforcer, folder: string): Express {
  const app = express();
  app.param("id", (_request, response, next, id: string) => {
    if (/^[a-z0-9-]+$/.test(id)) next();
    else response.sendStatus(404);
  });
  app.put("/reports/:id", async (request: Request<{ id: string }>, response) => {
    const resource = { kind: "report", id: request.params.id };
    const output = join(folder, resource.id);
    const { artifactDigest } = await enforcer.protect({ input: request, output, resource });
    response.status(201).json({ artifactDigest });
  });
  app.get("/reports/:id", async (request: Request<{ id: string }>, response) => {
    const resource = { kind: "report", id: request.params.id };
    const input = join(folder, resource.id);
    await enforcer.open({ input, output: response, resource, purpose: "download" });
    response.end();
  });
  app.use((error: unknown, _request: Request, response: Response, next: NextFunction) => {
    if (!(error instanceof EnforcementError) || response.headersSent) return next(error);
    response.status(error.httpStatus).json({ error: error.failure, retry: error.isRetryable });
  });
  return app;
}
