/** Reports are protected while they arrive, and opened while they leave. */
import { join } from "node:path";
import { PassThrough, type Readable } from "node:stream";
import fastify, { type FastifyInstance } from "fastify";
import { EnforcementError, type Enforcer } from "svc-platform-client/enforce";

export function reports(enforcer: Enforcer, folder: string): FastifyInstance {
  const app = fastify();
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", (_request, payload, done) => done(null, payload));
  app.setErrorHandler((error, _request, reply) => {
    if (!(error instanceof EnforcementError)) throw error;
    return reply.code(error.httpStatus).send({ error: error.failure, retry: error.isRetryable });
  });
  const path = "/reports/:id(^[a-z0-9-]+$)";
  app.put<{ Params: { id: string }; Body: Readable }>(path, async ({ params: { id }, body }, reply) => {
    const resource = { kind: "report", id };
    const { artifactDigest } = await enforcer.protect({ input: body, output: join(folder, id), resource });
    return reply.code(201).send({ artifactDigest });
  });
  app.get<{ Params: { id: string } }>(path, ({ params: { id } }, reply) => {
    const output = new PassThrough();
    const request = { input: join(folder, id), output, resource: { kind: "report", id }, purpose: "download" };
    const end = (error?: Error) => (error === undefined ? output.end() : output.destroy(error));
    enforcer.open(request).then(() => end(), end);
    return reply.send(output);
  });
  return app;
}
