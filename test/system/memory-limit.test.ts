/**
 * Under a memory limit, as a container has it, floods of large bodies are refused and the service lives. Needs Linux and
 * the right to make a control group.
 */
import { existsSync, mkdirSync, rmdirSync, writeFileSync } from "node:fs";
import http, { type OutgoingHttpHeaders } from "node:http";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { afterAll, describe, expect, test } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import { encodeFrame } from "../../src/transport/grpc/frame.ts";
import { folderForFile } from "../harness/folder.ts";
import { fullRequest, spellings } from "../harness/full-bodies.ts";
import { rest } from "../harness/gateway.ts";
import { h2Call, h2Connect } from "../harness/h2.ts";
import { issuerForFile } from "../harness/issuer-for-file.ts";
import { forFile } from "../harness/lifetimes.ts";
import { methodOn } from "../harness/methods.ts";
import { serviceSettings, startService } from "../harness/process.ts";

const mebibyte = 1024 * 1024;
const groups = "/sys/fs/cgroup";

/** A group with so much memory, and no swap. Returns the command that puts a program into it. */
function limitedGroup(limitBytes: number): { readonly launcher: readonly string[]; readonly path: string } {
  const isFirst = existsSync(join(groups, "memory/memory.limit_in_bytes"));
  const path = join(groups, isFirst ? "memory" : "", `svc-test-${process.pid}`);
  mkdirSync(path, { recursive: true });
  const limits = isFirst
    ? { "memory.swappiness": "0", "memory.limit_in_bytes": String(limitBytes) }
    : { "memory.swap.max": "0", "memory.max": String(limitBytes) };
  for (const [file, text] of Object.entries(limits)) writeFileSync(join(path, file), text);
  return { path, launcher: ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', path] };
}

const register = methodOn("/v1/sdk/artifact-register");
const largest = fullRequest(register, 12 * mebibyte);
const json = spellings.rest(register, largest);
const canonical = spellings.canonical(register, largest);
const framed = encodeFrame(spellings.binary(register, largest));
const gzipped = gzipSync(canonical);

/** Sends over HTTP/1.1. Resolves with the status of the answer, or with what broke the connection. */
function post(url: string, more: OutgoingHttpHeaders, body: Buffer, isWhole = true): Promise<string> {
  return new Promise((resolve) => {
    const length = "transfer-encoding" in more ? {} : { "content-length": body.length };
    const headers = { "content-type": "application/json", ...length, ...more };
    const request = http.request(url, { method: "POST", headers, agent: false });
    request.on("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? "error"));
    request.on("response", (response) => {
      response.resume();
      response.on("end", () => resolve(String(response.statusCode)));
      if (!isWhole) request.destroy();
    });
    if (isWhole) return void request.end(body);
    request.write(body.subarray(0, mebibyte));
    setTimeout(() => request.destroy(), 3_000);
  });
}

const times = (count: number, send: () => Promise<string>) => Promise.all(Array.from({ length: count }, send));

/** Bodies of 12 MiB at once, as one tenant may send them, and what comes of each. */
const floods: Readonly<Record<string, (url: string, authorization: string) => Promise<readonly string[]>>> = {
  "64 whole bodies, REST": (url, authorization) =>
    times(64, () => post(url + register.restPath, { authorization }, json)),
  "64 whole bodies of no declared length": (url, authorization) =>
    times(64, () => post(url + register.restPath, { authorization, "transfer-encoding": "chunked" }, json)),
  "64 whole bodies, Connect": (url, authorization) =>
    times(64, () => post(url + register.rpcPath, { authorization }, canonical)),
  "256 bodies in gzip, Connect": (url, authorization) =>
    times(256, () => post(url + register.rpcPath, { authorization, "content-encoding": "gzip" }, gzipped)),
  "64 whole bodies, gRPC": async (url, authorization) => {
    // What this side has still to send counts as memory of the session.
    const session = await h2Connect(url, { maxSessionMemory: 4096 });
    const headers = { "content-type": "application/grpc", te: "trailers", authorization };
    const outcomes = await times(64, async () => {
      const answer = await h2Call(session, { path: register.rpcPath, headers, body: framed });
      return `grpc-status ${answer.trailers["grpc-status"] ?? answer.headers["grpc-status"] ?? "none"}`;
    });
    session.destroy();
    return outcomes;
  },
  "160 bodies that do not end": (url, authorization) =>
    times(160, () => post(url + register.restPath, { authorization }, json, false)),
};

const issuer = await issuerForFile();

describe.each([
  ["a container of 512 MiB", () => limitedGroup(512 * mebibyte), {}],
  [
    "a heap of 192 MiB",
    () => ({ path: undefined, launcher: [] }),
    { NODE_OPTIONS: "--max-old-space-size=192" } as Record<string, string>,
  ],
])("in %s", async (_what, limit, env) => {
  const folder = folderForFile("memory-limit");
  const { launcher, path } = limit();
  // Hooks run from the last to the first: a group goes when it is empty.
  afterAll(() => path && rmdirSync(path));
  const settings = { ...serviceSettings(folder, issuer.url), ...env };
  const service = await forFile(startService(folder, settings, undefined, launcher));

  test.each(Object.entries(floods))(
    "%s: the process refuses calls, and does not die",
    {
      timeout: 120_000,
    },
    async (_name, run) => {
      let isOver = false;
      const token = issuer.token({ scope: "platform-api.access policy.read artifacts.write" });
      const probe = async () => {
        while (!isOver) {
          expect((await fetch(`${service.opsUrl}/livez`)).status).toBe(200);
          await delay(50);
        }
      };
      const probing = probe();
      const outcomes = await run(service.url, `Bearer ${token}`).finally(() => {
        isOver = true;
      });
      await probing;
      // Of what is refused before it is read the connection may be gone before its sender has read the answer, and a body
      // may be too slow on a busy machine.
      const known = /^(200|503|408|grpc-status (0|4|14|none)|ECONNRESET|EPIPE|error)$/;
      for (const outcome of outcomes) expect(outcome).toMatch(known);
      // It serves as before, large bodies too.
      expect(service.child.exitCode).toBeNull();
      for (const route of ["/v1/sdk/protection-plan", "/v1/sdk/artifact-register"]) {
        const body = { ...sampleCalls().find((call) => call.route === route)?.body };
        const more = route.endsWith("register") && {
          artifact_digest: "own:1",
          artifact_object_b64: "A".repeat(4_000_000),
        };
        await expect
          .poll(async () => (await rest(service.url + route, { token, body: { ...body, ...more } })).status, {
            timeout: 20_000,
          })
          .toBe(200);
      }
    },
  );
});
