/** The logs over HTTP: what C2SP tlog-tiles asks for, a list of the logs, and consistency proofs. */
import type { FastifyInstance, FastifyReply } from "fastify";
import { ServiceError } from "../base/errors.ts";
import type { PublishedLogs } from "../ledger/ports.ts";

/** Tiles never change: whoever has one may keep it. */
const immutable = "public, max-age=31536000, immutable";

/**
 * Adds `GET /ledger` (names, origins, sizes, verifier keys) and, below `/ledger/<name>/`: `checkpoint`, `tile/<L>/<N>`
 * and `tile/entries/<N>` with or without `.p/<W>`, and `consistency?from=<size>&to=<size>`. What the log has not
 * reached is a 404. Does not ask who asks: whoever adds the routes answers for who reaches them.
 */
export function addLedgerRoutes(server: FastifyInstance, serviceName: string, logs: PublishedLogs): void {
  server.get("/ledger", async () => {
    const published = await logs.published();
    return {
      service: serviceName,
      logs: published.map(({ name, tenantId, origin, size, verifierKeys }) => ({
        name,
        tenant_id: tenantId,
        origin,
        size,
        verifier_keys: verifierKeys,
      })),
    };
  });
  server.get<{ Params: { log: string } }>("/ledger/:log/checkpoint", async ({ params }, reply) =>
    answer(reply, "text/plain; charset=utf-8", await logs.checkpoint(params.log)),
  );
  server.get<{ Params: { log: string; "*": string } }>("/ledger/:log/tile/*", async ({ params }, reply) => {
    const tile = await logs.tile(params.log, params["*"]);
    if (tile !== undefined) reply.header("cache-control", immutable);
    return answer(reply, "application/octet-stream", tile && Buffer.from(tile));
  });
  server.get<{ Params: { log: string }; Querystring: Readonly<Record<string, unknown>> }>(
    "/ledger/:log/consistency",
    async ({ params, query }, reply) => {
      const [from, to] = [sizeOf(query.from), sizeOf(query.to)];
      if (from === undefined || to === undefined)
        throw new ServiceError("invalid_request", "from and to must be sizes of the log");
      const proof = await logs.consistencyProof(params.log, from, to);
      const lines = proof?.map((hash) => `${Buffer.from(hash).toString("base64")}\n`).join("");
      return answer(reply, "text/plain; charset=utf-8", lines);
    },
  );
}

function answer(reply: FastifyReply, type: string, content: string | Buffer | undefined): FastifyReply {
  if (content === undefined) throw new ServiceError("no_route", "the log has no such thing");
  return reply.header("content-type", type).send(content);
}

function sizeOf(text: unknown): number | undefined {
  return typeof text === "string" && /^(0|[1-9][0-9]{0,14})$/.test(text) ? Number(text) : undefined;
}
