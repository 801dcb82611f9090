/**
 * Proofs of artifacts, taken apart and put together wrongly: each part of a valid one in the place of the corresponding part
 * of another.
 */
import { generateKeyPairSync } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import type { JsonObject } from "@bufbuild/protobuf";
import {
  createEnforcer,
  EnforcementError,
  localKey,
  localSigningKey,
  receiptsPathOf,
  verifyArtifact,
} from "../../clients/typescript/src/enforce/index.ts";
import type { IssuerClient } from "../../dev/issuer.ts";
import { type EnforcementStack, enforcementClients, startEnforcementStack } from "./enforcement.ts";

/** A valid proof. */
export interface Proof {
  readonly name: string;
  readonly path: string;
  readonly kind: "artifact" | "opened";
}

/** A service with a second principal of the first tenant, beside another tenant. */
export function startProvers(): Promise<EnforcementStack> {
  const [base, ...others] = enforcementClients() as [IssuerClient, ...IssuerClient[]];
  return startEnforcementStack({}, [base, { ...base, ...second }, ...others]);
}

const second = { clientId: "payroll-two", principalId: "payroll-two" };

/**
 * Valid proofs that differ in one thing each: the time, the artifact, its resource, its labels, the purpose, the key, the
 * principal, the tenant, the operation, the profile.
 */
export async function makeProofs(stack: EnforcementStack, folder: string): Promise<readonly Proof[]> {
  const at = (name: string) => join(folder, name);
  const keys = ["one-key", "two-key"].map((reference, i) => localKey(reference, Buffer.alloc(32, i + 1)));
  const signers = ["one-signer", "two-signer"].map((reference) =>
    localSigningKey(reference, { ...generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" }) }),
  );
  const enforcerOf = (clientId = "payroll-service") =>
    createEnforcer({
      client: stack.platform(clientId),
      workload: { application: "payroll-export" },
      keys: [...keys, ...signers],
      spoolDirectory: at(`spool-${clientId}`),
    });
  const first = enforcerOf();
  const resource = { kind: "customer-record", id: "cust-8841" };
  const asked = { input: at("plain"), resource, labels: ["confidential"], purpose: "audit" };
  const signed = { ...asked, profile: "detached_signature" } as const;
  const use = { labels: ["confidential"], purpose: "audit" };
  writeFileSync(at("plain"), "what is protected");
  writeFileSync(at("other"), "what else is protected");
  const proofs: Proof[] = [];
  const made = async (name: string, work: (output: string) => Promise<unknown>, kind: Proof["kind"] = "artifact") => {
    await work(at(name));
    proofs.push({ name, path: at(name), kind });
  };
  for (const name of ["sealed", "sealed-later"]) await made(name, (output) => first.protect({ ...asked, output }));
  await made("sealed-other-data", (output) => first.protect({ ...asked, input: at("other"), output }));
  const another = { ...resource, id: "cust-1" };
  await made("sealed-other-resource", (output) => first.protect({ ...asked, resource: another, output }));
  await made("sealed-other-labels", (output) => first.protect({ ...asked, labels: ["internal"], output }));
  await made("sealed-other-purpose", (output) => first.protect({ ...asked, purpose: "payroll", output }));
  await made("sealed-other-key", (output) => first.protect({ ...asked, keyReference: "two-key", output }));
  await made("sealed-other-principal", (output) => enforcerOf(second.clientId).protect({ ...asked, output }));
  await made("sealed-other-tenant", (output) => enforcerOf("payroll-c").protect({ ...asked, output }));
  const rewrap = { ...use, newKeyReference: "two-key" };
  for (const name of ["rewrapped", "rewrapped-later"])
    await made(name, (output) => first.rewrap({ ...rewrap, input: at("sealed"), output }));
  await made("rewrapped-other", (output) => first.rewrap({ ...rewrap, input: at("sealed-later"), output }));
  const back = { ...use, newKeyReference: "one-key" };
  await made("rewrapped-twice", (output) => first.rewrap({ ...back, input: at("rewrapped"), output }));
  for (const [name, input] of [
    ["opened", "sealed"],
    ["opened-later", "sealed"],
    ["opened-other", "sealed-later"],
  ] as const)
    await made(name, (output) => first.open({ ...use, input: at(input), output }), "opened");
  for (const name of ["signed", "signed-later"]) await made(name, (output) => first.protect({ ...signed, output }));
  await made("signed-other-data", (output) => first.protect({ ...signed, input: at("other"), output }));
  const again = { ...use, profile: "detached_signature", newKeyReference: "two-signer" } as const;
  await made("signed-again", (output) => first.rewrap({ ...again, input: at("signed"), output }));
  const checked = { ...use, input: at("plain"), signature: at("signed") };
  await made("signed-opened", (output) => first.open({ ...checked, output }), "opened");
  return proofs;
}

/** Every part of each proof replaced by that of each other one; undefined if that changes nothing. */
function* allSwaps(proofs: readonly Proof[]): Generator<() => Swap | undefined> {
  for (const one of proofs) for (const other of proofs) if (one !== other) yield* swapsOf(one, other);
}

/**
 * Verifies one in so many of all swaps.
 *
 * @returns how many, and the names of those that hold although they prove something else than a valid proof does
 */
export async function trySwaps(
  proofs: readonly Proof[],
  path: string,
  oneIn: number,
  logKeys: readonly string[],
): Promise<{ readonly tried: number; readonly held: readonly string[] }> {
  const held: string[] = [];
  let [tried, count] = [0, 0];
  for (const make of allSwaps(proofs)) {
    const swap = count++ % oneIn === 0 ? make() : undefined;
    if (swap === undefined) continue;
    tried += 1;
    if (await isWronglyAccepted(swap, path, proofs, logKeys)) held.push(swap.name);
  }
  return { tried, held };
}

type Taken = ReturnType<typeof taken>;

function taken(proof: Proof) {
  const file = JSON.parse(readFileSync(receiptsPathOf(proof.path), "utf8"));
  return { proof, bytes: readFileSync(proof.path), file: file as JsonObject & { readonly receipts: JsonObject } };
}

/** A proof that is put together from two, and what is the other's. */
interface Swap {
  readonly name: string;
  readonly bytes: Buffer;
  readonly file: JsonObject;
  readonly kind: Proof["kind"];
}

/** The members of a receipts file that say something about the artifact. */
const members = ["operation", "artifact_profile", "artifact_digest", "artifact_cid", "decision_id"];

/** Every part of the first replaced by that of the second, one by one and each two of them. */
function* swapsOf(first: Proof, second: Proof): Generator<() => Swap | undefined> {
  const [own, other] = [taken(first), taken(second)];
  const name = (what: string) => `${first.name} with ${what} of ${second.name}`;
  const kind = first.kind;
  const parts: { readonly what: string; readonly apply: (from: Swap) => Swap | undefined }[] = [
    { what: "the bytes", apply: (from) => ({ ...from, bytes: other.bytes }) },
    ...members.map((member) => ({
      what: member,
      apply: (from: Swap): Swap => ({ ...from, file: { ...from.file, [member]: other.file[member] as string } }),
    })),
    { what: "previous", apply: (from) => ({ ...from, file: withMember(from.file, "previous", other.file.previous) }) },
    ...[...new Set([...Object.keys(own.file.receipts), ...Object.keys(other.file.receipts)])].map((receipt) => ({
      what: `the ${receipt}`,
      apply: (from: Swap): Swap => withReceipt(from, receipt, other.file.receipts[receipt] as JsonObject | undefined),
    })),
    // The receipts of the one as those of other parts.
    ...Object.entries(other.file.receipts).flatMap(([receipt, value]) =>
      Object.keys(own.file.receipts)
        .filter((place) => place !== receipt)
        .map((place) => ({
          what: `the ${receipt} as its ${place}`,
          apply: (from: Swap): Swap => withReceipt(from, place, value as JsonObject),
        })),
    ),
    ...["plan", "key_access", "new_key_access", "registration", "evidence"].map((receipt) => ({
      what: `the ${receipt} in its chain`,
      apply: (from: Swap): Swap | undefined => {
        const [link, others] = [from.file.previous, other.file.previous ?? other.file] as (JsonObject | undefined)[];
        if (link === undefined) return undefined;
        const value = (others?.receipts as JsonObject | undefined)?.[receipt] as JsonObject | undefined;
        const receipts = withMember(link.receipts as JsonObject, receipt, value);
        return { ...from, file: { ...from.file, previous: { ...link, receipts } } };
      },
    })),
    { what: "the receipts", apply: (from) => ({ ...from, file: { ...from.file, receipts: other.file.receipts } }) },
    { what: "the file", apply: (from) => ({ ...from, file: other.file }) },
  ];
  const whole: Swap = { name: "", kind, bytes: own.bytes, file: own.file };
  const valid = [whole, { ...whole, bytes: other.bytes, file: other.file }].map(textOf);
  for (const [i, one] of parts.entries()) {
    for (const two of [undefined, ...parts.slice(i + 1)]) {
      yield () => {
        const swapped = one.apply(whole);
        const twice = swapped && two ? two.apply(swapped) : swapped;
        if (twice === undefined || valid.includes(textOf(twice))) return undefined;
        return { ...twice, name: name([one.what, ...(two ? [two.what] : [])].join(" and ")) };
      };
    }
  }
}

/** Without the event, which may come later; it is a valid proof still. */
function textOf({ bytes, file }: Swap): string {
  return `${bytes.toString("base64").slice(-64)} ${JSON.stringify(file)}`;
}

function withMember(file: JsonObject, member: string, value: JsonObject[string] | undefined): JsonObject {
  const { [member]: _, ...others } = file;
  return value === undefined ? others : { ...others, [member]: value };
}

function withReceipt(from: Swap, receipt: string, value: JsonObject | undefined): Swap {
  const receipts = withMember(from.file.receipts as JsonObject, receipt, value);
  return { ...from, file: { ...from.file, receipts } };
}

/**
 * Whether it holds, and is no valid proof: nor one whose event or chain is left out, which holds all the same, and whose
 * result says so.
 */
async function isWronglyAccepted(
  { bytes, file, kind }: Swap,
  path: string,
  valid: readonly Proof[],
  logKeys: readonly string[],
): Promise<boolean> {
  writeFileSync(path, bytes);
  writeFileSync(receiptsPathOf(path), JSON.stringify(file));
  try {
    await verifyArtifact({ logKeys, artifact: path, kind });
  } catch (error) {
    if (error instanceof EnforcementError && ["invalid", "not_authentic"].includes(error.failure)) return false;
    throw error;
  }
  return !valid.some((proof) => isPartOf({ bytes, file }, taken(proof)));
}

/** Whether it is the valid proof, or that without its event or its chain. */
function isPartOf({ bytes, file }: Pick<Swap, "bytes" | "file">, { proof, bytes: own, file: whole }: Taken): boolean {
  // No record names the plaintext of an envelope, and the result says so.
  const isNamed = proof.kind === "artifact" || whole.artifact_profile === "detached_signature";
  if (isNamed && !bytes.equals(own)) return false;
  return isLessThan(file, whole);
}

/** Whether the receipts are these, or these without events or without the end of their chain. */
function isLessThan({ previous, ...link }: JsonObject, { previous: ownPrevious, ...own }: JsonObject): boolean {
  const isOwnChain =
    previous === undefined ||
    (ownPrevious !== undefined && isLessThan(previous as JsonObject, ownPrevious as JsonObject));
  const [event, ownEvent] = [link, own].map(({ receipts }) => (receipts as JsonObject).evidence);
  const isOwnEvent = event === undefined || isDeepStrictEqual(event, ownEvent);
  return isOwnChain && isOwnEvent && isDeepStrictEqual(withoutEvent(link), withoutEvent(own));
}

function withoutEvent({ evidence_id: _, receipts, ...others }: JsonObject): object {
  const { evidence: __, ...shown } = receipts as JsonObject;
  return { ...others, shown };
}
