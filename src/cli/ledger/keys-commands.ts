/** `keys …`: the keys that sign the checkpoints of the logs. */
import { existsSync } from "node:fs";
import { systemClock } from "../../base/clock.ts";
import { systemRandom } from "../../base/ids.ts";
import { formatBase64 } from "../../base/text-forms.ts";
import { systemTimers } from "../../base/timers.ts";
import type { ConfigFor } from "../../config/config.ts";
import { type SignedTree, signedTree } from "../../ledger/append/answering.ts";
import { findRotations } from "../../ledger/audit/audit.ts";
import type { LogState } from "../../ledger/ports/store.ts";
import { formatVerifierKey, type SigningKey, signingKeyOf } from "../../ledger/tlog/note-keys.ts";
import { cosigning, LogSigner } from "../../ledger/tlog/signer.ts";
import { sameHash } from "../../ledger/tlog/tree.ts";
import { formatTrustedKey } from "../../ledger/tlog/trusted-key.ts";
import { trustedWitnesses } from "../../ledger/witness/http-witness.ts";
import { isTree, WitnessLog, type WitnessLogSource } from "../../ledger/witness/witness-log.ts";
import { createKeyFile, readKeyFile, replaceKeyFile, type SigningKeys } from "../../stores/files/key-file.ts";
import type { OperatorArchive } from "../../stores/sql/archive.ts";
import {
  type Context,
  command,
  recordedStepFlags,
  type Step,
  type StepOptions,
  tellSecurity,
} from "../frame/command.ts";
import { type OpenedStore, withArchive } from "../frame/store.ts";
import { Refusal } from "../frame/terminal.ts";

export const keysGenerateCommand = command({
  name: "keys generate",
  says: "make the key file (SVC_LEDGER_KEY) if there is none",
  run({ load }) {
    const path = load("keys").ledgerKey;
    if (existsSync(path)) throw new Refusal(`${path} exists already; \`keys rotate\` changes it`);
    const key = newKey();
    createKeyFile(path, [key]);
    const publicKey = formatBase64(key.publicKey);
    return { value: { path, public_key: publicKey }, text: `${path}: public key ${publicKey}` };
  },
});

export const keysRotateCommand = command({
  name: "keys rotate",
  says: "put a new key before the old one: from the next start of the service both sign",
  options: {
    "--finish": "end the overlap: from the next start of the service the new key signs alone; takes no reason",
    ...recordedStepFlags,
  },
  run(context) {
    const { options, load, terminal } = context;
    const path = load("keys").ledgerKey;
    const keys = readKeys(path, "`keys generate` makes it");
    if (options.finish === true) return finishRotation(context, path, keys);
    const [current, ...retiring] = keys;
    if (retiring.length > 0)
      throw new Refusal(`${path}: a rotation is under way; \`keys rotate --finish\` ends its overlap`);
    const publicKey = formatBase64(current.publicKey);
    return {
      question: `Retire the key ${publicKey} of ${path}? From the next start of the service on, every log says so.`,
      preview: {
        text: `${path}: a new key would be put before ${publicKey}, which every log retires at the next start`,
        value: { path, would_retire: publicKey },
      },
      take(statement) {
        const next = { ...newKey(), statement };
        replaceKeyFile(path, [next, current]);
        const newest = formatBase64(next.publicKey);
        const said = { public_key: newest, operator: statement.operator };
        tellSecurity(terminal, "ledger_key_changed", said, "a new ledger key was made");
        const text =
          `${path}: public key ${newest}; the old one, ${publicKey}, signs too until \`keys rotate --finish\`\n` +
          "restart the service, and give verifiers the new lines of `keys show`";
        return { value: { path, public_keys: [newest, publicKey] }, text };
      },
    };
  },
});

async function finishRotation(context: Context<StepOptions>, path: string, keys: SigningKeys): Promise<Step> {
  if ((context.options.reason ?? context.options.operator) !== undefined)
    throw new Refusal("--reason, --operator: are recorded with the rotation; its end leaves no record");
  const [current, ...retiring] = keys;
  if (retiring.length === 0) throw new Refusal(`${path}: there is no rotation to finish`);
  await withArchive(context, async ({ archive }) => {
    const newest = (await archive.signingKeys()).at(-1);
    if (newest === undefined || !sameHash(newest, current.publicKey))
      throw new Refusal("the logs do not know the new key yet: start the service with it first");
  });
  const publicKey = formatBase64(current.publicKey);
  const removed = retiring.map((key) => formatBase64(key.publicKey));
  return {
    isUnstated: true,
    question: `Remove the retired key ${removed.join(", ")} from ${path} for good?`,
    preview: {
      text: `${path}: the retired key ${removed.join(", ")} would be removed; ${publicKey} signs alone from the next start`,
      value: { path, would_remove: removed },
    },
    take() {
      replaceKeyFile(path, [current]);
      const text = `${path}: public key ${publicKey} alone; restart the service`;
      return { value: { path, public_keys: [publicKey] }, text };
    },
  };
}

export const keysShowCommand = command({
  name: "keys show",
  says: "print the verifier keys (C2SP vkey) of every log, or of one tenant's",
  options: {
    "--tenant <tenant>": "this tenant's log only",
    "--retired": "also keys that were retired, each with @ and the tree size that it counts up to; walks the log",
  },
  run(context) {
    const { tenant, retired } = context.options;
    return withArchive(context, async (opened) => {
      const { archive } = opened;
      const { keys } = await ownKeys(opened);
      const heads = (await archive.logs()).filter(({ tenantId }) => tenant === undefined || tenantId === tenant);
      if (heads.length === 0) throw new Refusal("there is no such log");
      const signer = new LogSigner(keys);
      const logs = await Array.fromAsync(heads, async (head) => {
        const { tenantId, origin } = head;
        const old = retired === true ? { retired_keys: await retiredKeys(archive, head) } : undefined;
        // A key of the file counts without a bound until this log has retired it.
        const isBounded = (vkey: string) => old?.retired_keys.some((each) => each.startsWith(`${vkey}@`)) === true;
        return {
          tenant_id: tenantId,
          origin,
          keys: signer.verifierKeys(origin).filter((vkey) => !isBounded(vkey)),
          ...old,
        };
      });
      return { value: { logs }, text: logs.flatMap((log) => [...log.keys, ...(log.retired_keys ?? [])]).join("\n") };
    });
  },
});

/** The newest first, like the keys of the file. */
async function retiredKeys(archive: OperatorArchive, head: LogState): Promise<readonly string[]> {
  const rotations = await findRotations(archive.entries(head, 0, head.size));
  return rotations
    .map(({ leafIndex, previous }) => formatTrustedKey(formatVerifierKey(head.origin, previous), leafIndex))
    .reverse();
}

function newKey(): SigningKey {
  return signingKeyOf(systemRandom(new Uint8Array(32)));
}

// Checkpoints that commands sign.

/** Its checkpoint has the stored cosignatures of this tree. */
interface SignedState extends SignedTree {
  /** Its state: the requested one, or the newest before it that the anchor confirms. */
  readonly head: LogState;
  /** Verifier keys of the log, the current one first. */
  readonly verifierKeys: readonly string[];
}

/**
 * Signs the newest state, up to the given one, that may be signed; throws a Refusal if the anchor, the witnesses or the
 * key do not allow it. Changes neither anchor nor key.
 */
export async function signed(opened: OpenedStore, committed: LogState): Promise<SignedState> {
  const { archive } = opened;
  const { signing } = await ownKeys(opened);
  const signable = await archive.signable(committed);
  if ("problem" in signable) throw new Refusal(signable.problem);
  const { head } = signable;
  await requireWitnesses(opened, head, new LogSigner(signing));
  const stored = (await archive.cosignatures()).filter((one) => one.tenantId === head.tenantId && isTree(one, head));
  const cosignatures = () => stored.map(({ line }) => line).join("");
  const signer = cosigning(new LogSigner(signing), { cosignatures });
  return { ...signedTree(head, signer), head, verifierKeys: signer.verifierKeys(head.origin) };
}

/**
 * More than half of the witnesses must find that the log, as it is now, continues both the state and what they have seen,
 * and none must have seen another log. Throws a Refusal.
 */
async function requireWitnesses({ now, witnesses }: OpenedStore, head: LogState, signer: LogSigner): Promise<void> {
  const asked = witnesses();
  const problems = await askWitnesses(head, asked, {
    head: (name) =>
      now(async (archive) => {
        const [log] = await archive.logs(name);
        // Makes it durable.
        if (log !== undefined) await archive.signable(log);
        return log;
      }),
    consistencyProof: (...trees) => now((archive) => archive.consistencyProof(...trees)),
    sign: signer.sign.bind(signer),
  });
  const unsound = problems.filter(({ isUnsound }) => isUnsound);
  const found = unsound.length > 0 || 2 * problems.length < asked.length ? unsound : problems;
  if (found.length > 0) throw new Refusal(found.map(({ message }) => message));
}

/**
 * Submits the log to all witnesses at once. Resolves with the problem of each that does not cosign it, and whether that
 * is another log that it has seen.
 */
export async function askWitnesses(
  log: LogState,
  witnesses: ConfigFor<"witnesses">["witnesses"],
  logs: WitnessLogSource,
) {
  const trusted = trustedWitnesses(witnesses, { fetch: globalThis.fetch, timers: systemTimers });
  const problems = trusted.map(async (witness) => {
    const atWitness = new WitnessLog(witness, log, undefined, { logs, clock: systemClock, onEnded: () => {} });
    await atWitness.cosign(log);
    const { status } = atWitness;
    if (!("message" in status)) return [];
    const isUnsound = status.kind === "unsound";
    const says = isUnsound ? "" : `witness ${witness.verifier.name} says nothing of ${log.origin}: `;
    return [{ message: says + status.message, isUnsound }];
  });
  return (await Promise.all(problems)).flat();
}

/**
 * The keys of the file, and those that sign: the store's newest, which must be among them, and those behind it. A
 * rotation puts the next key before it, which signs nothing until a service has handed the logs over to it.
 */
async function ownKeys({ archive, keyPath }: OpenedStore): Promise<Readonly<Record<"keys" | "signing", SigningKeys>>> {
  const keys = readKeys(keyPath, "if no key ever signed here, `keys generate` makes it");
  const newest = (await archive.signingKeys()).at(-1);
  const at = newest === undefined ? 0 : keys.findIndex(({ publicKey }) => sameHash(publicKey, newest));
  const [first, ...others] = at < 0 ? [] : keys.slice(at);
  if (first === undefined) throw new Refusal(`${keyPath} does not have the key that signs the logs of this store.`);
  return { keys, signing: [first, ...others] };
}

/** The keys of the file. Throws an error for the operator if it is missing or invalid. */
export function readKeys(path: string, remedy?: string): SigningKeys {
  const keys = readKeyFile(path);
  if (keys === undefined) throw new Refusal(`${path} is missing${remedy === undefined ? "" : `; ${remedy}`}`);
  return keys;
}
