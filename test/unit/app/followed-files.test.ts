import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { FollowedFiles, type FollowedFilesMachine } from "../../../src/app/followed-files.ts";
import { configOf } from "../config/read.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "svc-followed-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

const quiet = { info: () => {}, error: () => {} } as unknown as FollowedFilesMachine["logger"];
const uncounted = { followed: () => {}, reloaded: () => {}, certificatesInForce: () => {} };
const timers = { after: () => () => {} };

test("a thread that starts while the others take up a change starts with it, and without one that they do not take", async () => {
  const quotas = join(folder, "quotas.yaml");
  writeFileSync(quotas, "default: {}");
  const seen: unknown[] = [];
  let isRefused = false;
  const files: FollowedFiles = new FollowedFiles(
    { ...configOf(), quotas },
    {
      ...{ timers, logger: quiet, metrics: uncounted },
      async share() {
        seen.push(files.texts().get("quotas"));
        if (isRefused) throw new Error("a thread cannot take it");
      },
    },
  );
  const followed = await files.follow("quotas", { parse: ([text]) => text });
  writeFileSync(quotas, "default: {} # changed");
  await files.reload();
  isRefused = true;
  writeFileSync(quotas, "default: {} # changed again");
  await files.reload();
  files.close();
  expect(seen).toEqual([["default: {} # changed"], ["default: {} # changed again"]]);
  expect([followed.current, files.texts().get("quotas")]).toEqual(["default: {} # changed", ["default: {} # changed"]]);
});
