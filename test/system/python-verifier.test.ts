/** The verifier that needs nothing but Python agrees with ours: on what services write, and on what was changed in it. */
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { base36 } from "multiformats/bases/base36";
import { base58btc } from "multiformats/bases/base58";
import { base256emoji } from "multiformats/bases/base256emoji";
import { CID } from "multiformats/cid";
import { describe, expect, test } from "vitest";
import ranges from "../../clients/conformance/vectors/ranges.json" with { type: "json" };
import type { JsonValue } from "../../src/base/json.ts";
import { rawCid } from "../../src/ledger/artifacts/cid.ts";
import type { PackLine } from "../../src/ledger/pack/format.ts";
import { canonicalText } from "../../src/ledger/record/canonical.ts";
import { findReceipt, verifyReceipt } from "../../src/ledger/record/receipt.ts";
import { subjectTerm } from "../../src/ledger/search/search-terms.ts";
import type { LogVerifier } from "../../src/ledger/tlog/checkpoint.ts";
import { parseNote } from "../../src/ledger/tlog/note.ts";
import { parseTlogProof } from "../../src/ledger/tlog/tlog-proof.ts";
import { openWithAny, parseTrustedKey } from "../../src/ledger/tlog/trusted-key.ts";
import { parseCosignerKey, requireQuorum } from "../../src/ledger/witness/cosignature.ts";
import { folderForFile } from "../harness/folder.ts";
import { randomOf } from "../harness/fuzz/random.ts";
import { cosigner } from "../harness/witness.ts";
import { type MemoryLog, memoryLog, moment } from "../unit/ledger/pack/memory-log.ts";
import { changedLines, otherValue } from "../unit/ledger/pack/mutations.ts";
import { linesIn, verifyText } from "../unit/ledger/pack/packs.ts";
import { decision, evidence, registration } from "../unit/ledger/pack/records.ts";
import { startCommand } from "./clients-programs.ts";

const program = new URL("../../examples/verifier/verify.py", import.meta.url).pathname;
/** Files of one run of Python. */
const filesEach = 250;
const directory = folderForFile("python-verifier");

interface Verdict {
  readonly ok: boolean;
  readonly problem?: string;
  readonly [member: string]: unknown;
}

/** What Python says of each text. */
async function pythonOn(
  kind: "receipt" | "range" | "pack",
  texts: readonly (string | Uint8Array)[],
  ...options: readonly string[]
): Promise<readonly Verdict[]> {
  const files = texts.map((text, index) => {
    const file = join(directory, `${index}`);
    writeFileSync(file, text);
    return file;
  });
  const lines: string[] = [];
  for (let first = 0; first < files.length; first += filesEach) {
    const command = ["python3", program, kind, ...options, ...files.slice(first, first + filesEach)] as const;
    const { stdout, stderr } = await startCommand(command, {}).done;
    if (stderr !== "") throw new Error(stderr);
    lines.push(...stdout.trim().split("\n"));
  }
  return lines.map((line) => JSON.parse(line) as Verdict);
}

const keysOf = (...vkeys: readonly string[]) => vkeys.map((vkey) => parseTrustedKey(vkey) as LogVerifier);

async function ours(text: string | Uint8Array, keys: readonly LogVerifier[]): Promise<boolean> {
  return verifyText(text, keys).then(
    () => true,
    () => false,
  );
}

/** What both say of packs under the log's key. They agree. */
async function agreed(log: MemoryLog, packs: readonly (string | Uint8Array)[]) {
  const verdicts = await pythonOn("pack", packs, "--key", log.vkey());
  const expected = await Promise.all(packs.map((pack) => ours(pack, keysOf(log.vkey()))));
  const differing = packs.filter((_, index) => verdicts[index]?.ok !== expected[index]);
  expect(differing.map((each) => String(each).slice(0, 2_000))).toEqual([]);
  return { verdicts, expected };
}

/** A log with everything that a pack can show. */
function richLog(): MemoryLog {
  const log = memoryLog();
  const allowed = log.append(decision(true));
  log.append(registration({ digest: "sha256:a", cid: "cid-a", decision: allowed }));
  log.append(evidence("protect", { cid: "cid-a", decision: allowed }));
  const gone = log.append(evidence("access", { digest: "sha256:a" }));
  const denied = decision(false, "access");
  const about = { on_behalf_of: { type: "user", id: "alice" }, labels: ["pii"] };
  log.append({ ...denied, request: { ...denied.request, ...about } });
  log.erase(gone);
  for (let count = 0; count < 9; count++)
    log.append(evidence("access", { digest: `sha256:${count} é\u{1f600}\u0001` }));
  return log;
}

describe("packs", () => {
  test.each([
    ["everything", { to: moment(100) }],
    ["a range with a leaf on either side", { from: moment(3), to: moment(6) }],
    ["an open range", { from: moment(4) }],
    ["an artifact", { field: "artifact_digest", value: "sha256:a" }],
    ["an artifact in a period", { field: "artifact_digest", value: "sha256:a", from: moment(1), to: moment(6) }],
    ["a resource since a moment", { field: "resource_id", value: "f1", from: moment(3) }],
    ["a label until a moment", { field: "label", value: "pii", to: moment(6) }],
    ["a CID", { field: "cid", value: "cid-a" }],
    ["a principal", { field: "principal", value: "principal-1" }],
    ["a subject of enforcement points", { field: "on_behalf_of", value: "user/alice" }],
  ] as const)("of %s are accepted, and refused with every change that we refuse", async (name, selection) => {
    const log = richLog();
    const text = await log.pack(selection);
    const lines = linesIn(text);
    const seed = createHash("sha256").update(name).digest().readInt32BE();
    const { below: next } = randomOf(seed, 0);
    const texts: (string | Uint8Array)[] = [text];
    for (let count = 0; count < 100; count++) {
      texts.push(seal(changedLines(lines, next)));
      const bytes = Buffer.from(text);
      const place = next(bytes.length);
      bytes[place] = (bytes[place] ?? 0) ^ (1 << next(8));
      texts.push(bytes);
    }
    const { verdicts, expected } = await agreed(log, texts);
    expect(expected[0]).toBe(true);
    const { range, part } = await verifyText(text, keysOf(log.vkey()));
    if (range !== undefined) expect(verdicts[0]?.range).toEqual({ leaves: range.leaves, closed: range.closed });
    const { leaves, shown, closed } = part ?? {};
    expect(verdicts[0]?.part).toEqual(part && { leaves, shown, closed });
    // Undetectable changes are few: of the maker's word on the time, of the selection's ends.
    expect(expected.filter((ok) => ok).length).toBeLessThan(30);
  });

  test("of an artifact have its records, however they spell its digest or CID", async () => {
    const hex = "ab".repeat(32);
    const cid = rawCid(hex);
    const log = memoryLog();
    const spellings = [
      { digest: `sha256:${hex}`, cid },
      { digest: `sha-256:${hex.toUpperCase()}`, cid: cid.toUpperCase() },
      { digest: `sha2-256:${Buffer.from(hex, "hex").toString("base64url")}`, cid: CID.parse(cid).toString(base58btc) },
      { digest: `sha256:${Buffer.from(hex, "hex").toString("base64")}`, cid: CID.parse(cid).toString(base36) },
      { digest: `sha256:${hex}`, cid: CID.parse(cid).toString(base256emoji) },
    ];
    for (const named of spellings) log.append(evidence("access", named));
    log.append(evidence("access", { digest: `sha256:${"cd".repeat(32)}`, cid: rawCid("cd".repeat(32)) }));
    const packs = [
      await log.pack({ field: "artifact_digest", value: `sha256:${hex}` }),
      await log.pack({ field: "cid", value: cid }),
    ];
    for (const verdict of await pythonOn("pack", packs, "--key", log.vkey()))
      expect(verdict).toMatchObject({ ok: true, records: spellings.length });
  });

  test("of a subject have the questions about it only, whatever the names look like", async () => {
    const log = memoryLog();
    const about = (on_behalf_of: JsonValue) => {
      const plain = decision(true);
      return log.append({ ...plain, request: { ...plain.request, on_behalf_of } });
    };
    const subjects = [
      { type: "user", id: "alice" },
      { type: "user/alice", id: "x" },
      { type: "user", id: "alice/x" },
      { type: "user~1alice", id: "x" },
      { type: "user~", id: "é\u{1f600}" },
    ];
    for (const subject of subjects) about({ ...subject, properties: {}, property_values: [] });
    const gone = about({ type: "user", id: "gone" });
    for (const malformed of [
      "user/alice",
      ["user", "alice"],
      { type: "user" },
      { type: "", id: "alice" },
      { type: 1, id: 2 },
    ])
      about(malformed);
    log.erase(gone);
    const values = [...subjects.map(({ type, id }) => subjectTerm(type, id)), "/alice"];
    const names = [...values, "user/gone", "user/nobody", "user/"];
    const packs = await Promise.all(values.map((value) => log.pack({ field: "on_behalf_of", value })));
    // Each as it is, and as if it were of every other.
    const texts = packs.flatMap((pack) => {
      const [header, ...lines] = linesIn(pack);
      return names.map((value) => seal([{ ...header, selection: { on_behalf_of: value } } as PackLine, ...lines]));
    });
    const { expected } = await agreed(log, texts);
    expect(expected).toEqual(packs.flatMap((_, own) => names.map((__, other) => other === own)));
  });

  test("without a record prove no tenant, and the verdict says so", async () => {
    const log = richLog();
    const pack = await log.pack({ from: moment(90), to: moment(100) });
    const [header, ...lines] = linesIn(pack);
    const renamed = seal([{ ...header, tenant_id: "mallory" } as PackLine, ...lines]);
    const texts = [renamed, await log.pack({ to: moment(100) })];
    const [empty, whole] = await pythonOn("pack", texts, "--key", log.vkey());
    expect(empty).toMatchObject({ ok: true, records: 0, tenant_id: "mallory", not_proven: ["tenant_id"] });
    expect(whole).toMatchObject({ ok: true });
    expect(whole).not.toHaveProperty("not_proven");
  });

  test("of one thing in a period are accepted, and refused for every other period or thing, and without any leaf", async () => {
    const log = richLog();
    const values = [{ artifact_digest: "sha256:a" }, { resource_id: "f1" }, { label: "pii" }];
    const seconds = [undefined, 1, 3, 6, 90];
    const ends = seconds.flatMap((from) =>
      seconds.map((to) => ({ ...(from && { from: moment(from) }), ...(to && { to: moment(to) }) })),
    );
    const selections = values.flatMap((value) => ends.map((each) => ({ ...value, ...each })));
    const texts: string[] = [];
    for (const own of [{ from: moment(1), to: moment(6) }, { to: moment(3) }, { from: moment(3) }]) {
      const lines = linesIn(await log.pack({ field: "resource_id", value: "f1", ...own }));
      const [header, ...others] = lines;
      for (const selection of [...selections, { decision_id: "x", ...own }, { ...values[0], ...values[1], ...own }])
        texts.push(seal([{ ...header, selection } as PackLine, ...others]));
      for (const line of others) texts.push(seal(lines.filter((each) => each !== line)));
    }
    const verdicts = await pythonOn("pack", texts, "--key", log.vkey());
    const expected = await Promise.all(
      texts.map((text) =>
        verifyText(text, keysOf(log.vkey())).then(
          ({ part }) => part ?? "of all time",
          () => undefined,
        ),
      ),
    );
    const told = expected.map((each) => (typeof each === "object" ? { leaves: each.leaves, shown: each.shown } : each));
    expect(verdicts.map(({ ok, part }) => (ok ? (part ?? "of all time") : undefined))).toMatchObject(told);
    expect(expected.filter((each) => each !== undefined).length).toBeGreaterThanOrEqual(3);
  });

  test("of members in an undocumented form are refused", async () => {
    const log = richLog();
    const text = await log.pack({ from: moment(3), to: moment(6) });
    const lines = linesIn(text);
    const withMembers = (members: object) =>
      seal(lines.map((line) => (line.type === "entry" ? ({ ...members, ...line } as PackLine) : line)));
    const texts = [withMembers({}), withMembers({ gap: [] }), withMembers({ erased: false })];
    texts.push(text.replace('"sha256":"', '"sha256":"sha256:'));
    texts.push(text.replace(/(?<="sha256":")[0-9a-f]{64}/, (hex) => Buffer.from(hex, "hex").toString("base64")));
    const { expected } = await agreed(log, texts);
    expect(expected).toEqual([true, ...texts.slice(1).map(() => false)]);
  });

  test("of logs with contradicting records are refused", async () => {
    type Members = Record<string, unknown>;
    const forgeries: readonly ((leaf: Members, record: Members) => unknown)[] = [
      () => {},
      (leaf, record) => Object.assign(leaf, { kind: Object.assign(record, { kind: "evidence" }).kind }),
      (leaf, record) => Object.assign(leaf, { kind: Object.assign(record, { kind: "erasure" }).kind }),
      (leaf, record) => Object.assign(leaf, { kind: Object.assign(record, { kind: "key_rotation" }).kind }),
      (leaf) => Object.assign(leaf, { note: 1 }),
      (leaf) => Object.assign(leaf, { policy_revision: null }),
      (leaf) => Object.assign(leaf, { v: 2 }),
      (_, record) => Object.assign(record, { tenant_id: "bob" }),
      (_, record) => Object.assign(record, { note: 1 }),
      (_, record) => Object.assign(record, { caller: { subject: "x" } }),
      (_, record) => Object.assign(record, { request: {} }),
      (_, record) => Object.assign(record, { outcome: { policy_revision: null } }),
      (_, record) => Object.assign(record, { outcome: { numbers: [1e21, 1e-7, 0.1, -5, 2 ** 53, 5e-324, 1.5e300] } }),
      ...[
        ...["1.0", "1e2", "-0", "1E3", "0.10", "9007199254740993", "1e999", "NaN"],
        ...['"\\ud800"', '"\\u0000"', '"\\/"', '"\\u001F"', '"\\u001f"'],
      ].map((spelling) => (_: Members, record: Members) => {
        const { outcome: __, ...others } = record;
        const text = JSON.stringify(Object.fromEntries(Object.entries({ ...others, outcome: { x: 0 } }).sort()));
        return Object.assign(record, { text: text.replace('{"x":0}', `{"x":${spelling}}`) });
      }),
    ];
    for (const forgery of forgeries) {
      const log = memoryLog();
      log.append();
      log.forge(forgery);
      const pack = await log.pack({ to: moment(100) }).catch(() => undefined);
      if (pack === undefined) continue;
      await agreed(log, [pack]);
    }
  });

  test("with two records of one id, and one erasure, are refused", async () => {
    const log = memoryLog();
    log.forgeTwins();
    const [verdict] = await pythonOn("pack", [await log.pack({ to: moment(100) })], "--key", log.vkey());
    expect(verdict).toMatchObject({ ok: false, problem: expect.stringContaining("the id of another erased record") });
  });

  test("under several keys, with retired ones and rotations, are accepted", async () => {
    const log = memoryLog();
    log.append();
    const first = log.rotate();
    const [old, current] = [log.vkey(), first.vkey()];
    const packs = [await log.pack({ to: moment(9) }, first.both()), await log.pack({ to: moment(9) }, first.alone())];
    packs.push(await log.pack({ to: moment(9) }));
    const second = log.rotate(first.next);
    for (const { both } of [first, second]) packs.push(await log.pack({ to: moment(9) }, both()));
    for (const trusted of [
      [old],
      [current],
      [old, current],
      [`${old}@2`],
      [`${old}@9`],
      [`${old}@2`, current],
      [`${current}@1`],
    ]) {
      const verdicts = await pythonOn("pack", packs, ...trusted.flatMap((key) => ["--key", key]));
      const expected = await Promise.all(packs.map((pack) => ours(pack, keysOf(...trusted))));
      expect([trusted, ...verdicts.map(({ ok }) => ok)]).toEqual([trusted, ...expected]);
    }
  });
});

/** With an end that fits, and without a check of what the lines are. */
function seal(lines: readonly PackLine[]): string {
  const body = lines.filter((line) => line.type !== "end");
  const text = body.map((line) => `${textOf(line)}\n`).join("");
  const sha256 = createHash("sha256").update(text).digest("hex");
  const entries = body.filter(({ type }) => type === "entry").length;
  return `${text}${textOf({ type: "end", entries, sha256 })}\n`;
}

function textOf(line: PackLine): string {
  try {
    return canonicalText(line);
  } catch {
    return JSON.stringify(line);
  }
}

describe("receipts", () => {
  const keyOf = () => log.vkey();
  const log = richLog();
  const receipt = log.receipt(2);

  function accepts(text: string): boolean {
    try {
      const found = findReceipt(JSON.parse(text));
      if (found === undefined) return false;
      const { checkpoint } = parseTlogProof(found.proof);
      verifyReceipt(found, openWithAny(checkpoint, keysOf(keyOf())).verifier);
      return true;
    } catch {
      return false;
    }
  }

  test("are accepted whole, brief, and in an answer; and refused with every change of any byte or member", async () => {
    const { leaf: _, opening: __, record: ___, ...brief } = receipt;
    const answers = [
      receipt,
      brief,
      { receipt },
      { decision: { receipt } },
      { ingestion: { receipt: brief } },
      { context: { receipt } },
    ];
    const { below: next } = randomOf(1, 0);
    const texts = answers.map((answer) => JSON.stringify(answer));
    for (const [name, value] of Object.entries(receipt))
      for (let count = 0; count < 30; count++)
        texts.push(JSON.stringify({ ...receipt, [name]: otherValue(value, next) }));
    for (const name of Object.keys(receipt)) texts.push(JSON.stringify({ ...receipt, [name]: undefined }));
    texts.push(
      JSON.stringify({ ...receipt, note: "" }),
      "{}",
      "[]",
      "x",
      JSON.stringify({ ...brief, leaf: receipt.leaf }),
    );
    const text = JSON.stringify(receipt);
    for (let count = 0; count < 300; count++) {
      const place = next(text.length);
      const character = String.fromCharCode(text.charCodeAt(place) ^ (1 << next(7)));
      texts.push(text.slice(0, place) + character + text.slice(place + 1));
    }
    const verdicts = await pythonOn("receipt", texts, "--key", keyOf());
    const differing = texts.filter((each, index) => verdicts[index]?.ok !== accepts(each));
    expect(differing).toEqual([]);
    expect(verdicts.slice(0, answers.length).map(({ ok }) => ok)).toEqual(answers.map(() => true));
    expect(verdicts[0]).toMatchObject({ proves: "record", record: JSON.parse(atob(receipt.record ?? "")) });
    expect(verdicts[1]).toMatchObject({ proves: "position" });
  });

  test("with witnesses are verified", async () => {
    const { key: vkey, cosign } = cosigner("witness.example/w1", 3);
    const { checkpoint } = parseTlogProof(receipt.proof);
    const cosigned = (seconds: number, flip = 0) => cosign(parseNote(checkpoint).text, seconds, flip);
    const now = Math.floor(Date.now() / 1_000);
    const lines = [
      "",
      cosigned(now),
      cosigned(now, 1),
      cosigned(now + 900),
      cosigned(0),
      cosigned(now) + cosigned(now, 1),
    ];
    const texts = lines.map((line) => JSON.stringify({ ...receipt, proof: receipt.proof + line }));
    const verdicts = await pythonOn("receipt", texts, "--key", keyOf(), "--witness", vkey);
    const witness = parseCosignerKey(vkey);
    if (witness === undefined) throw new Error("no key");
    const expected = lines.map((line) => {
      try {
        return requireQuorum(checkpoint + line, { witnesses: [witness], quorum: 1 }, Date.now()).length === 1;
      } catch {
        return false;
      }
    });
    expect(verdicts.map(({ ok }) => ok)).toEqual(expected);
    expect(expected).toEqual([false, true, false, false, false, false]);
  });
});

describe("receipts of whole calls", () => {
  const vectors: readonly {
    readonly name: string;
    readonly answer: object;
    readonly log_key: string;
    readonly records?: readonly string[];
    readonly refused?: string;
  }[] = ranges.ranges;

  test("are accepted as every client accepts them", async () => {
    const bare = vectors.filter(({ records }) => records === undefined);
    for (const key of new Set(bare.map(({ log_key }) => log_key))) {
      const own = bare.filter(({ log_key }) => log_key === key);
      const answers = own.map(({ answer }) => JSON.stringify(answer));
      const verdicts = await pythonOn("range", answers, "--key", key);
      expect(own.map(({ name }, i) => [name, verdicts[i]?.ok])).toEqual(
        own.map(({ name, refused }) => [name, refused === undefined]),
      );
    }
  });

  test("are accepted with the records of their leaves", async () => {
    const file = join(directory, "records");
    for (const { name, answer, log_key, records = [], refused } of vectors.filter((vector) => vector.records)) {
      writeFileSync(file, records.map((record) => `${record}\n`).join(""));
      const [verdict] = await pythonOn("range", [JSON.stringify(answer)], "--key", log_key, "--records", file);
      // They are found by their ids, in whatever order.
      const isHeld = refused === undefined || name === "another record";
      expect([name, verdict?.ok], verdict?.problem).toEqual([name, isHeld]);
      if (isHeld) expect(verdict).toMatchObject({ proves: "records", records: records.length });
    }
  });

  test("are refused with every change of any byte or member", async () => {
    const { answer, log_key } = vectors.find(({ name }) =>
      name.startsWith("leaves 2, 9, 17"),
    ) as (typeof vectors)[number];
    const text = JSON.stringify(answer);
    const texts = [text];
    for (let place = 0; place < text.length; place++) {
      const put = text[place] === "0" ? "1" : "0";
      texts.push(text.slice(0, place) + put + text.slice(place + 1));
    }
    const verdicts = await pythonOn("range", texts, "--key", log_key);
    const held = texts.filter((_, i) => verdicts[i]?.ok === true);
    // Only a record shows its opening, and the id of what is no decision. Nothing says why an item has no leaf.
    const shown = (of: string) =>
      JSON.stringify(JSON.parse(of), (name, value) => {
        if (name === "items") return (value as object[]).map((item) => ("leaf" in item ? item : {}));
        return ["opening", "record_id"].includes(name) ? "" : value;
      });
    expect(held.map(shown).filter((each) => each !== shown(text))).toEqual([]);
    expect(held.length).toBeLessThan(texts.length / 4);
    expect(verdicts[0]).toMatchObject({ ok: true, proves: "positions", leaves: 3 });
  });
});

test("the program is one file that imports the standard library only", () => {
  const imports = readFileSync(program, "utf8").match(/^(?:import|from) \w+/gm) ?? [];
  const standard = "argparse base64 binascii datetime decimal hashlib hmac json re sys time unicodedata".split(" ");
  expect(imports.map((line) => line.split(" ")[1])).toEqual(standard);
});
