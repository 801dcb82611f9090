/**
 * Under a memory limit, as a container has it, floods of large bodies are refused and the service lives. Needs Linux and
 * the right to make a control group.
 */
import { existsSync, mkdirSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, describe, expect, test } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import { bodyFloods } from "../harness/body-floods.ts";
import { folderForFile } from "../harness/folder.ts";
import { rest } from "../harness/gateway.ts";
import { issuerForFile } from "../harness/issuer-for-file.ts";
import { forFile } from "../harness/lifetimes.ts";
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

  const names = bodyFloods("", "").map(([name], position) => ({ name, position }));
  test.each(names)("$name: the process refuses calls, and does not die", { timeout: 120_000 }, async ({ position }) => {
    let isOver = false;
    const token = issuer.token({ scope: "platform-api.access policy.read artifacts.write" });
    const probe = async () => {
      while (!isOver) {
        expect((await fetch(`${service.opsUrl}/livez`)).status).toBe(200);
        await delay(50);
      }
    };
    const probing = probe();
    const [, run] = bodyFloods(service.url, token)[position] as ReturnType<typeof bodyFloods>[number];
    const outcomes = await run().finally(() => {
      isOver = true;
    });
    await probing;
    // Of what is refused before it is read the connection may be gone before its sender has read the answer, and a body
    // may be too slow on a busy machine.
    const known = /^(200|503|408|grpc-status (0|4|14|none)|ECONNRESET|EPIPE|error)$/;
    for (const outcome of outcomes.keys()) expect(outcome).toMatch(known);
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
  });
});
