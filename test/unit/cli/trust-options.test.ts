/** Witnesses that a verifier of a receipt or a pack demands. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import type { Appended } from "../../../src/ledger/ports/ledger.ts";
import { parseNote } from "../../../src/ledger/tlog/note.ts";
import { parseTlogProof } from "../../../src/ledger/tlog/tlog-proof.ts";
import { givenOf, manualClock } from "../../contract/ledger-records.ts";
import { cosigner } from "../../harness/witness.ts";
import { linesIn, sealLines } from "../ledger/pack/packs.ts";
import { directory, enterWithStore, fileOf, leave, run, served } from "./surroundings.ts";

const nowSeconds = Math.floor(Date.now() / 1_000);

/** Appends its cosignature to a note. */
type Cosign = (note: string) => string;

function witness(number: number, name = `witness.example/w${number}`) {
  const { key: vkey, cosign } = cosigner(name, number);
  const withLine =
    (flip = 0): Cosign =>
    (note) =>
      note + cosign(parseNote(note).text, nowSeconds, flip);
  return { vkey, cosign: withLine };
}

const [first, second] = [witness(1), witness(2)];
const both = ["--witness", first.vkey, "--witness", second.vkey];
/** Base64 of both keys ends with a plus sign, which also separates the parts of a verifier key. */
const [alike, other] = [witness(77), witness(94)];

enterWithStore();
afterAll(leave);
const [recorded] = await served(["alice"], manualClock());
fileOf("receipt", JSON.stringify(givenOf((recorded as Appended).receipt)));
await run("ledger", "pack", "--tenant", "alice", "--to", "2100-01-01T00:00:00Z", "--out", join(directory, "pack"));
const key = (await run("keys", "show")).out.trim();

const commands = {
  async receipt(cosign: Cosign, ...options: string[]) {
    const receipt = JSON.parse(readFileSync(join(directory, "receipt"), "utf8"));
    const { checkpoint } = parseTlogProof(receipt.proof);
    const proof = receipt.proof.replace(checkpoint, cosign);
    const file = fileOf("cosigned", JSON.stringify({ ...receipt, proof }));
    return run("ledger", "receipt", "verify", file, "--key", key, "--json", ...options);
  },
  async pack(cosign: Cosign, ...options: string[]) {
    const lines = linesIn(readFileSync(join(directory, "pack"), "utf8"));
    const changed = lines.map((line) =>
      line.type === "header" ? { ...line, checkpoint: cosign(line.checkpoint) } : line,
    );
    const file = fileOf("cosigned", sealLines(changed));
    return run("ledger", "pack", "verify", file, "--key", key, "--json", ...options);
  },
};

describe.each(Object.entries(commands))("%s verify", (_, verify) => {
  test.each<[string, Cosign, string[], number[]]>([
    ["none demanded", first.cosign(), [], []],
    ["the one that is demanded", first.cosign(), ["--witness", first.vkey], [1]],
    ["both", (note) => second.cosign()(first.cosign()(note)), both, [1, 2]],
    ["one of two, where one is enough", second.cosign(), [...both, "--quorum", "1"], [2]],
    [
      "two whose keys end alike",
      (note) => other.cosign()(alike.cosign()(note)),
      ["--witness", alike.vkey, "--witness", other.vkey],
      [77, 94],
    ],
  ])("accepts cosignatures of %s, and names them", async (__, cosign, options, expected) => {
    const { code, out } = await verify(cosign, ...options);
    expect(code).toBe(0);
    const cosigned_at = new Date(nowSeconds * 1_000).toISOString();
    const name = (number: number) => expect.objectContaining({ name: `witness.example/w${number}`, cosigned_at });
    expect(JSON.parse(out).witnesses).toEqual(expected.map(name));
  });

  test.each<[string, Cosign, string[], RegExp]>([
    [
      "that are missing",
      (note) => note,
      ["--witness", first.vkey],
      /cosigned by 0 of the 1 witnesses that are trusted/,
    ],
    ["of another key of this name", witness(3, "witness.example/w1").cosign(), ["--witness", first.vkey], /by 0 of/],
    ["that are too few", first.cosign(), both, /by 1 of the 2 witnesses that are trusted, not by 2/],
    ["that do not verify", first.cosign(1), ["--witness", first.vkey], /w1: the cosignature does not verify/],
    [
      "of which one does not verify, though the others are enough",
      (note) => second.cosign(1)(first.cosign()(note)),
      [...both, "--quorum", "1"],
      /w2: the cosignature does not verify/,
    ],
  ])("refuses cosignatures %s", async (__, cosign, options, problem) => {
    expect(await verify(cosign, ...options)).toMatchObject({ code: 1, out: expect.stringMatching(problem) });
  });

  test.each<[string[], RegExp]>([
    [["--witness", "x"], /--witness: is not a verifier key/],
    [["--witness", "a+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"], /--witness: is not a verifier key/],
    [["--witness", first.vkey, "--witness", first.vkey], /--witness: names a key twice/],
    [["--witness", first.vkey, "--witness", witness(1, "other").vkey, "--quorum", "2"], /--witness: names a key twice/],
    [["--quorum", "1"], /--quorum: needs --witness/],
    [[...both, "--quorum", "3"], /--quorum: must be 1 to 2/],
    [[...both, "--quorum", "0"], /--quorum: must be 1 to 2/],
    [[...both, "--quorum", "1.0"], /--quorum: must be 1 to 2/],
    [["--key", "x"], /--key: is not a verifier key/],
  ])("%j is refused", async (options, problem) => {
    expect(await verify(first.cosign(), ...options)).toMatchObject({ code: 1, out: expect.stringMatching(problem) });
  });
});
