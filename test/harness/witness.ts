/** A witness on loopback (C2SP tlog-witness), as strict as the specification, and as faulty as a test wants it. */
import { sign } from "node:crypto";
import { createServer, type ServerResponse } from "node:http";
import { text as textOf } from "node:stream/consumers";
import { parseBase64, parseDecimal } from "../../src/base/text-forms.ts";
import { type Checkpoint, openCheckpoint, parseCheckpoint } from "../../src/ledger/tlog/checkpoint.ts";
import { formatSignature, parseNote } from "../../src/ledger/tlog/note.ts";
import {
  cosignatureType,
  formatVerifierKey,
  keyIdOf,
  type NoteVerifier,
  parseVerifierKey,
  signingKeyOf,
} from "../../src/ledger/tlog/note-keys.ts";
import { sameHash } from "../../src/ledger/tlog/tree.ts";
import { verifyConsistency } from "../../src/ledger/tlog/tree-verify.ts";
import { cosignedText } from "../../src/ledger/witness/cosignature.ts";
import { listenOnLoopback } from "./loopback.ts";

export interface TestWitness {
  /** Verifier key of its cosignatures. */
  readonly key: string;
  readonly url: string;
  /** Value of the setting that names it alone. */
  readonly setting: string;
  /** What it has cosigned, by origin. A test may change it. */
  readonly seen: Map<string, Checkpoint>;
  /** Requests so far, whatever became of them. */
  requests: number;
  /** Answers in the witness's place; undefined lets it answer. */
  answer: ((response: ServerResponse, body: string) => void) | undefined;
  /** Holds answers back from now on; the returned function lets them go. */
  hold(): () => void;
  stop(): Promise<void>;
}

export interface TestWitnessOptions {
  /** 32-byte public keys that sign the logs, whatever their origin; undefined while none is known. */
  readonly logKeys: () => readonly Uint8Array[];
  readonly name?: string;
  /** Another seed is another key. */
  readonly seed?: number;
  readonly port?: number;
}

export type WitnessCore = ReturnType<typeof witnessCore>;

/** What a witness signs with: its verifier key, and the line that it adds to a note. Another seed is another key. */
export function cosigner(name: string, seed: number) {
  const { privateKey, publicKey } = signingKeyOf(new Uint8Array(32).fill(seed));
  const keyId = keyIdOf(name, publicKey, cosignatureType);
  return {
    key: formatVerifierKey(name, publicKey, cosignatureType),
    /** @param flip bits of the signature that are wrong */
    cosign(text: string, seconds: number, flip = 0): string {
      const time = Buffer.alloc(8);
      time.writeBigUInt64BE(BigInt(seconds));
      const signature = sign(null, Buffer.from(cosignedText(text, seconds)), privateKey);
      signature[0] = (signature[0] ?? 0) ^ flip;
      return formatSignature({ name, keyId, signature: Buffer.concat([time, signature]) });
    },
  };
}

/**
 * A witness as the specification asks, without a network.
 *
 * @param nowMs its clock, in milliseconds since the Unix epoch
 */
export function witnessCore(
  { logKeys, name = "witness.example/w1", seed = 1 }: Omit<TestWitnessOptions, "port">,
  nowMs: () => number,
) {
  const { key, cosign } = cosigner(name, seed);
  const seenTrees = new Map<string, Checkpoint>();

  /** Answers the body of an `add-checkpoint`. */
  function judge(body: string): { readonly status: number; readonly text?: string; readonly type?: string } {
    const parsed = parseRequest(body);
    if (parsed === undefined) return { status: 400 };
    const { oldSize, proof, note } = parsed;
    const checkpoint = parseCheckpoint(note);
    const { origin } = checkpoint;
    const verifiers = logKeys().flatMap((key) => parseVerifierKey(formatVerifierKey(origin, key)) ?? []);
    if (verifiers.length === 0) return { status: 404 };
    if (!verifiers.some((verifier) => isSignedBy(note, verifier))) return { status: 403 };
    if (oldSize > checkpoint.size) return { status: 400 };
    const seen = seenTrees.get(origin);
    const seenSize = seen?.size ?? 0;
    if (oldSize !== seenSize) return { status: 409, text: `${seenSize}\n`, type: "text/x.tlog.size" };
    if (seen?.size === checkpoint.size && !sameHash(seen.root, checkpoint.root)) return { status: 409 };
    const isConsistent = seen === undefined ? proof.length === 0 : verifyConsistency(seen, checkpoint, proof);
    if (!isConsistent) return { status: 422 };
    seenTrees.set(origin, checkpoint);
    return { status: 200, text: cosign(parseNote(note).text, Math.floor(nowMs() / 1_000)) };
  }

  return { key, seen: seenTrees, judge };
}

/** Starts it on 127.0.0.1. */
export async function startWitness({ port = 0, ...options }: TestWitnessOptions): Promise<TestWitness> {
  const { key, seen, judge } = witnessCore(options, Date.now);
  let held: Promise<void> | undefined;

  const server = createServer(async (request, response) => {
    const body = await textOf(request);
    witness.requests += 1;
    await held;
    if (request.method !== "POST" || request.url !== "/base/add-checkpoint") return void response.writeHead(400).end();
    if (witness.answer !== undefined) return witness.answer(response, body);
    const { status, text = "", type = "text/plain" } = judge(body);
    response.writeHead(status, { "content-type": type }).end(text);
  });
  const { port: own, stop } = await listenOnLoopback(server, port);
  const url = `http://127.0.0.1:${own}/base/`;
  const witness: TestWitness = {
    key,
    url,
    setting: JSON.stringify({ [key]: url }),
    seen,
    requests: 0,
    answer: undefined,
    hold() {
      const gate = Promise.withResolvers<void>();
      held = gate.promise;
      return () => {
        held = undefined;
        gate.resolve();
      };
    },
    stop,
  };
  return witness;
}

function isSignedBy(note: string, verifier: NoteVerifier): boolean {
  try {
    openCheckpoint(note, verifier);
    return true;
  } catch {
    return false;
  }
}

/** Undefined for a body that is not what the specification asks for. */
function parseRequest(body: string) {
  const end = body.indexOf("\n\n");
  const [first = "", ...lines] = body.slice(0, end).split("\n");
  const oldSize = first.startsWith("old ") ? parseDecimal(first.slice(4)) : undefined;
  const proof = lines.map(parseBase64);
  if (end < 0 || oldSize === undefined || proof.length > 63 || proof.some((hash) => hash?.length !== 32))
    return undefined;
  return { oldSize, proof: proof as Uint8Array[], note: body.slice(end + 2) };
}
