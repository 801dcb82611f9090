/**
 * One operation of local enforcement in a process of its own, which tells its parent of every moment, asks it instead of
 * a platform, and can be killed at any of them. Started by `fork`, with the request as its argument.
 */

import {
  createEnforcer,
  type KeyProvider,
  type LocalProfile,
  localKey,
  localSigningKey,
  type Platform,
} from "../../clients/typescript/src/enforce/index.ts";

/** What the parent is told, in order. */
export type Moment =
  | { readonly moment: "call"; readonly id: number; readonly call: keyof Platform; readonly given: readonly unknown[] }
  | { readonly moment: "content-key"; readonly id: number; readonly key: string }
  | { readonly moment: "progress" };

export interface ChildRequest {
  readonly operation: "protect" | "open" | "rewrap";
  readonly profile: LocalProfile;
  readonly input: string;
  readonly output: string;
  readonly spoolDirectory: string;
  /** Key-encryption keys by reference, in hex. */
  readonly keys: Readonly<Record<string, string>>;
  /** Keys that sign. */
  readonly signers: readonly (Readonly<Record<string, unknown>> & { readonly kid: string })[];
  readonly newKeyReference: string;
  /** To open what is signed. */
  readonly signature?: string;
  readonly evidenceToleranceMs: number;
}

const waiting = new Map<number, (answer: unknown) => void>();
let asked = 0;
process.on("message", ({ id, answer }: { readonly id: number; readonly answer: unknown }) => waiting.get(id)?.(answer));

function ask<Answer>(
  moment: { readonly call: keyof Platform; readonly given: readonly unknown[] } | { readonly key: string },
) {
  const id = asked++;
  return new Promise<Answer>((resolve) => {
    waiting.set(id, (answer) => resolve(answer as Answer));
    process.send?.("key" in moment ? { moment: "content-key", id, ...moment } : { moment: "call", id, ...moment });
  });
}

const calls = ["deployment", "planProtection", "planKeyAccess", "registerArtifact", "recordEvidence"] as const;
const client = Object.fromEntries(
  calls.map((call) => [call, (...given: unknown[]) => ask({ call, given: given.filter((it) => it !== undefined) })]),
) as unknown as Platform;

/** The parent knows each content key before anything is done with it. */
function watched(provider: KeyProvider): KeyProvider {
  const tell = (key: Uint8Array) => ask({ key: Buffer.from(key).toString("hex") });
  return {
    ...provider,
    async wrap(contentKey, associatedData) {
      await tell(contentKey);
      return provider.wrap(contentKey, associatedData);
    },
    async unwrap(wrapped, associatedData) {
      const contentKey = await provider.unwrap(wrapped, associatedData);
      await tell(contentKey);
      return contentKey;
    },
  };
}

const request = JSON.parse(process.argv[2] ?? "") as ChildRequest;
const { operation, input, output, spoolDirectory, evidenceToleranceMs, newKeyReference, profile, signature } = request;
const enforcer = createEnforcer({
  client,
  workload: { application: "test" },
  keys: [
    ...Object.entries(request.keys).map(([reference, key]) => watched(localKey(reference, Buffer.from(key, "hex")))),
    ...request.signers.map((jwk) => localSigningKey(jwk.kid, jwk)),
  ],
  spoolDirectory,
  evidenceToleranceMs,
});
const onProgress = () => void process.send?.({ moment: "progress" });
const common = { input, output, onProgress };
if (operation === "protect") await enforcer.protect({ ...common, profile, resource: { kind: "test" } });
if (operation === "open") await enforcer.open({ ...common, ...(signature !== undefined && { signature }) });
if (operation === "rewrap") await enforcer.rewrap({ ...common, profile, newKeyReference });
process.disconnect?.();
