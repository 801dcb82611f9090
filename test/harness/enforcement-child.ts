/**
 * One operation of local enforcement in a process that can be killed at any moment: it tells its parent of each, a JSON
 * object a line, and asks it instead of a platform. The request is its argument. Other languages have the same program.
 */
import { createInterface } from "node:readline";
import {
  createEnforcer,
  type KeyProvider,
  localKey,
  localSigningKey,
  type Platform,
} from "../../clients/typescript/src/enforce/index.ts";
import type { Work } from "../system/enforcement-languages.ts";

/** Messages to the parent, in order. All but progress is answered by `{ id, answer }`. */
export type Moment =
  | { readonly moment: "call"; readonly id: number; readonly call: keyof Platform; readonly given: readonly unknown[] }
  | { readonly moment: "content-key"; readonly id: number; readonly key: string }
  | { readonly moment: "progress" };

const waiting = new Map<number, (answer: unknown) => void>();
let asked = 0;
const lines = createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, answer } = JSON.parse(line) as { readonly id: number; readonly answer: unknown };
  waiting.get(id)?.(answer);
});
const tell = (moment: Moment) => void process.stdout.write(`${JSON.stringify(moment)}\n`);

function ask<Answer>(
  moment: { readonly call: keyof Platform; readonly given: readonly unknown[] } | { readonly key: string },
) {
  const id = asked++;
  return new Promise<Answer>((resolve) => {
    waiting.set(id, (answer) => resolve(answer as Answer));
    tell("key" in moment ? { moment: "content-key", id, ...moment } : { moment: "call", id, ...moment });
  });
}

const calls = ["deployment", "planProtection", "planKeyAccess", "registerArtifact", "recordEvidence"] as const;
const client = Object.fromEntries(
  calls.map((call) => [call, (...given: unknown[]) => ask({ call, given: given.filter((it) => it !== undefined) })]),
) as unknown as Platform;

/** The parent knows each content key before anything is done with it. */
function watched(provider: KeyProvider): KeyProvider {
  const show = (key: Uint8Array) => ask({ key: Buffer.from(key).toString("hex") });
  return {
    ...provider,
    async wrap(contentKey, associatedData) {
      await show(contentKey);
      return provider.wrap(contentKey, associatedData);
    },
    async unwrap(wrapped, associatedData) {
      const contentKey = await provider.unwrap(wrapped, associatedData);
      await show(contentKey);
      return contentKey;
    },
  };
}

const request = JSON.parse(process.argv[2] ?? "") as Work;
const { operation, source, target, spool, new_key_reference = "", profile = "envelope", signature } = request;
const { local = {}, signers = [] } = request.keys;
const enforcer = createEnforcer({
  client,
  workload: { application: "test" },
  keys: [
    ...Object.entries(local).map(([reference, key]) => watched(localKey(reference, Buffer.from(key, "hex")))),
    ...signers.map((jwk) => localSigningKey(jwk.kid, jwk)),
  ],
  spoolDirectory: spool,
});
const common = { input: source, output: target, onProgress: () => tell({ moment: "progress" }) };
if (operation === "protect") await enforcer.protect({ ...common, profile, resource: { kind: "test" } });
if (operation === "open") await enforcer.open({ ...common, ...(signature !== undefined && { signature }) });
if (operation === "rewrap") await enforcer.rewrap({ ...common, profile, newKeyReference: new_key_reference });
lines.close();
