/**
 * A process that enforces is killed at every moment: nothing half made has the output's name, no event is lost, and no
 * content key is on the disk.
 */
import { spawn } from "node:child_process";
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { beforeEach, expect, test } from "vitest";
import { createEnforcer, localKey, localSigningKey } from "../../clients/typescript/src/enforce/index.ts";
import type { Moment } from "../harness/enforcement-child.ts";
import { folderForTest } from "../harness/folder.ts";
import { type PermissivePlatform, permissivePlatform } from "../harness/permissive-platform.ts";
import {
  buildLanguages,
  type LanguageName,
  languageNames,
  programEnv,
  programs,
  type Work,
} from "./enforcement-languages.ts";

const local = { "local-old": randomBytes(32).toString("hex"), "local-new": randomBytes(32).toString("hex") };
const signers = ["signer-old", "signer-new"].map((kid) => ({
  ...generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" }),
  kid,
}));
const plaintext = randomBytes(2_300_000);
let folder: string;
let platform: PermissivePlatform;
buildLanguages();
beforeEach(() => {
  folder = folderForTest("kills");
  platform = permissivePlatform();
  writeFileSync(at("plain"), plaintext);
});

const at = (name: string) => join(folder, name);
const enforcer = () =>
  createEnforcer({
    client: platform,
    workload: { application: "test" },
    keys: [
      ...Object.entries(local).map(([reference, key]) => localKey(reference, Buffer.from(key, "hex"))),
      ...signers.map((jwk) => localSigningKey(jwk.kid, jwk)),
    ],
    spoolDirectory: at("spool"),
  });

interface Ending {
  /** Moments until it ended. */
  readonly moments: number;
  readonly contentKeys: readonly string[];
  readonly wasKilled: boolean;
}

/** Runs an operation and kills it at the moment of this number: when it is announced, or once it has been answered. */
async function runUntil(language: LanguageName, request: Work, killAt: number, isAnswered: boolean): Promise<Ending> {
  const [command, ...args] = programs[language].child;
  const child = spawn(command, [...args, JSON.stringify(request)], {
    stdio: ["pipe", "pipe", "inherit"],
    env: programEnv,
  });
  // It may be gone before it is answered.
  child.stdin.on("error", () => {});
  const contentKeys: string[] = [];
  let moments = 0;
  const answer = async (moment: Moment): Promise<unknown> => {
    if (moment.moment !== "call") return {};
    const call = platform[moment.call] as (...given: readonly unknown[]) => Promise<unknown>;
    return call(...moment.given);
  };
  createInterface({ input: child.stdout }).on("line", async (line) => {
    const moment = JSON.parse(line) as Moment;
    if (moment.moment === "content-key") contentKeys.push(moment.key);
    const isLast = moments++ === killAt;
    if (isLast && !isAnswered) return void child.kill("SIGKILL");
    if (moment.moment !== "progress")
      child.stdin.write(`${JSON.stringify({ id: moment.id, answer: await answer(moment) })}\n`);
    // Some microtasks of work more, up to a rename.
    if (isLast) setTimeout(() => child.kill("SIGKILL"), killAt % 4);
  });
  const wasKilled = await new Promise<boolean>((resolve) =>
    child.once("close", (_, signal) => resolve(signal !== null)),
  );
  return { moments, contentKeys, wasKilled };
}

function everyFile(directory: string): readonly string[] {
  return readdirSync(directory, { recursive: true, encoding: "utf8" })
    .map((name) => join(directory, name))
    .filter((path) => statSync(path).isFile());
}

function expectNoKey(contentKeys: readonly string[]): void {
  for (const path of everyFile(folder)) {
    const bytes = readFileSync(path);
    for (const hex of contentKeys) {
      const key = Buffer.from(hex, "hex");
      for (const spelling of [
        key,
        hex,
        hex.toUpperCase(),
        key.toString("base64").slice(0, 42),
        key.toString("base64url"),
      ])
        expect(bytes.includes(spelling), `${path} holds a content key`).toBe(false);
    }
  }
}

const works = (["envelope", "detached_signature"] as const).flatMap((profile) =>
  (["protect", "open", "rewrap"] as const).flatMap((operation) =>
    languageNames.map((language) => ({ language, profile, operation })),
  ),
);

test.each(works)(
  "$language, $profile: $operation",
  async ({ language, profile, operation }) => {
    const isSigned = profile === "detached_signature";
    const newKeyReference = isSigned ? "signer-new" : "local-new";
    await enforcer().protect({ input: at("plain"), output: at("sealed"), profile, resource: { kind: "test" } });
    const isOfPlain = operation === "protect" || (isSigned && operation === "open");
    const request: Work = {
      operation,
      profile,
      ...(isSigned && operation === "open" && { signature: at("sealed") }),
      source: at(isOfPlain ? "plain" : "sealed"),
      target: at("output"),
      spool: at("spool"),
      keys: { local, signers },
      new_key_reference: newKeyReference,
    };
    const isWhole = async () => {
      if (operation === "open") return readFileSync(at("output")).equals(plaintext);
      const made = isSigned ? { input: at("plain"), signature: at("output") } : { input: at("output") };
      await enforcer().open({ ...made, output: at("check"), replace: true });
      return readFileSync(at("check")).equals(plaintext);
    };
    const clean = () => {
      for (const name of readdirSync(folder)) if (/output|check/.test(name)) rmSync(at(name));
    };
    const { moments } = await runUntil(language, request, Number.POSITIVE_INFINITY, true);
    expect(await isWhole()).toBe(true);
    clean();
    const kind = operation === "open" ? "access" : operation;
    for (let killAt = 1; killAt < moments; killAt++) {
      for (const isAnswered of [false, true]) {
        platform.events.clear();
        const what = `killed at moment ${killAt} of ${moments}, ${isAnswered ? "answered" : "unanswered"}`;
        const { contentKeys, wasKilled } = await runUntil(language, request, killAt, isAnswered);
        expectNoKey(contentKeys);
        const isThere = existsSync(at("output"));
        const before = [...platform.events.values()];
        // What has its name was on the ledger before.
        if (isThere)
          expect(before, what).toContainEqual(expect.objectContaining({ event_type: kind, outcome: "completed" }));
        await enforcer().flush();
        expect(readdirSync(at("spool")), what).toEqual([]);
        const events = [...platform.events.values()].filter(({ event_type }) => event_type === kind);
        if (contentKeys.length > 0) expect(events.length, what).toBeGreaterThan(0);
        if (isThere) expect(await isWhole(), what).toBe(true);
        if (!isThere && wasKilled && contentKeys.length > 0)
          expect(events.map(({ outcome }) => outcome).join(), what).toMatch(/aborted|completed/);
        // The next one on the same name sweeps what is left.
        if (!isThere && killAt % 3 === 0) {
          const again = { input: request.source, output: request.target, profile };
          const { signature } = request;
          if (operation === "protect") await enforcer().protect({ ...again, resource: { kind: "test" } });
          else if (operation === "open")
            await enforcer().open({ ...again, ...(signature !== undefined && { signature }) });
          else await enforcer().rewrap({ ...again, newKeyReference });
          expect(
            readdirSync(folder).filter((name) => name.endsWith(".partial")),
            what,
          ).toEqual([]);
        }
        clean();
      }
    }
  },
  300_000,
);
