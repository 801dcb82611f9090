/** Exported logs, receipts and packs, checked by the Go project's packages for signed notes and transparency logs. */
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, onTestFinished, test, vi } from "vitest";
import type { Receipt } from "../../src/ledger/ports/ledger.ts";
import { openSqliteStores } from "../../src/stores/sqlite/open-ledger.ts";
import { recordKit, tenant } from "../contract/ledger-records.ts";
import { sqliteFixture } from "../contract/ledger-sqlite-fixture.ts";
import { folderForFile } from "../harness/folder.ts";
import { run as ours } from "../unit/cli/surroundings.ts";
import { startCommand } from "./clients-programs.ts";

/** Two full tiles on level 0, and a part of a third. */
const records = 700;
const { clock, random, makeRecord } = recordKit();
const alice = tenant("alice");

const directory = folderForFile("verifier");
const verifier = join(directory, "verifier");
execFileSync("go", ["-C", new URL("go-verifier", import.meta.url).pathname, "build", "-o", verifier, "."]);
const fixture = sqliteFixture(directory);
const originPrefix = "ledger.example/logs";
const { ledger } = await openSqliteStores({ ...fixture.store, originPrefix, clock, random });
const receipts: Receipt[] = [];
for (let count = 0; count < records; count += 100) {
  const batch = Array.from({ length: Math.min(100, records - count) }, () => ledger.append(makeRecord(alice)));
  receipts.push(...(await Promise.all(batch)).map(({ receipt }) => receipt));
}
await ledger.close();
const exported = join(directory, "out");
await cli("ledger", "export", "--tenant", "alice", "--out", exported);
const vkey = readFileSync(join(exported, "vkey"), "utf8").trim();
afterEach(() => {
  vi.unstubAllEnvs();
});

interface Ran {
  readonly code: number | null;
  readonly result: Readonly<Record<string, unknown>>;
}

async function goVerify(kind: "log" | "receipt" | "pack", path: string, key = vkey): Promise<Ran> {
  const { code, stdout } = await startCommand([verifier, kind, path, key], {}).done;
  return { code, result: JSON.parse(stdout) };
}

/** Runs a command of ours on the place's store. */
async function cli(...line: readonly string[]): Promise<Ran> {
  vi.stubEnv("SVC_STORE", `sqlite:${fixture.path}`);
  vi.stubEnv("SVC_LEDGER_KEY", fixture.store.keyPath);
  const { code, out } = await ours(...line, "--json");
  return { code, result: JSON.parse(out) };
}

/** Flips one bit of a file in a copy of the export. */
function damaged(file: string, offset: number): string {
  const copy = mkdtempSync(join(directory, "copy-"));
  cpSync(exported, copy, { recursive: true });
  const path = join(copy, file);
  const bytes = readFileSync(path);
  bytes[offset] = (bytes[offset] as number) ^ 1;
  writeFileSync(path, bytes);
  return copy;
}

test("the export verifies: checkpoint, every leaf, every tile, and proofs between sizes", async () => {
  const { code, result } = await goVerify("log", exported);
  expect(result).toMatchObject({ ok: true, leaves: records + 1 });
  expect(result.proofs).toBeGreaterThan(700);
  expect(code).toBe(0);
  expect(await cli("ledger", "verify")).toMatchObject({
    code: 0,
    result: { ok: true, logs: [{ leaves: records + 1, root: result.root }] },
  });
});

describe("one bit flipped in", () => {
  /** Where the nth leaf of a bundle begins. */
  const leafOffset = (bundle: string, leaf: number) => {
    const bytes = readFileSync(join(exported, bundle));
    let offset = 0;
    for (let index = 0; index < leaf; index++) offset += 2 + bytes.readUInt16BE(offset);
    return offset + 2;
  };

  test.each([
    ["tile/entries/001", leafOffset("tile/entries/001", 44) + 30, /^leaf 300: is not the one that tile /],
    ["tile/0/000", 7 * 32 + 3, /^leaf 7: tile .*tile\/0\/000 is not what the leaves give$/],
    ["tile/0/002.p/189", 188 * 32, /^leaf 700: tile .*tile\/0\/002.p\/189 is not what the leaves give$/],
    ["tile/1/000.p/2", 32, /^leaf 256: tile .*tile\/1\/000.p\/2 is not what the leaves give$/],
    ...[40, 60, 100, 160].map((offset) => ["checkpoint", offset, /^checkpoint: /] as const),
  ] as const)("the exported %s, at byte %i, is detected, and named", async (file, offset, problem) => {
    const { code, result } = await goVerify("log", damaged(file, offset));
    expect(code).toBe(1);
    expect(result.problem).toMatch(problem);
  });

  test.each([
    ["leaf", "entries", "leaf", "leaf_index = 300", 300, /leaf 300/],
    ["record", "entries", "sealed", "leaf_index = 301", 301, /leaf 301 does not open its record/],
    ["opening", "openings", "opening", "record_id = (SELECT record_id FROM entries WHERE leaf_index = 9)", 9, /leaf 9/],
    ["tile", "tiles", "hashes", "level = 0 AND tile_index = 1", 256, /tile 1 of level 0 .* from leaf 256/],
    ["head", "log_heads", "root", "1", undefined, /root is not that of its leaves|was rewritten/],
  ] as const)("a stored %s is detected, and named", async (_, table, column, where, index, message) => {
    const row = fixture.query(`SELECT hex(${column}) AS hex FROM ${table} WHERE ${where}`)[0] as { hex: string };
    const changed = Buffer.from(row.hex, "hex");
    changed[5] = (changed[5] as number) ^ 1;
    const write = (hex: string) => fixture.query(`UPDATE ${table} SET ${column} = unhex('${hex}') WHERE ${where}`);
    write(changed.toString("hex"));
    onTestFinished(() => void write(row.hex));
    const { code, result } = await cli("ledger", "verify");
    expect(code).toBe(1);
    expect(String(result.problems)).toMatch(message);
    expect((result.logs as { first_bad_index?: number }[])[0]?.first_bad_index).toBe(index);
  });
});

describe("receipts", () => {
  const written = (receipt: Receipt, changes: Readonly<Record<string, unknown>> = {}) => {
    const file = join(mkdtempSync(join(directory, "receipt-")), "receipt.json");
    const { recordId, logOrigin, leafIndex, treeSize, leafHash, ...others } = receipt;
    const members = { record_id: recordId, log_origin: logOrigin, leaf_index: leafIndex, tree_size: treeSize };
    writeFileSync(file, JSON.stringify({ ...members, leaf_hash: leafHash, ...others, ...changes }));
    return file;
  };

  test("verify in any tree of the log, with the Go verifier and with ours", async () => {
    for (const receipt of [0, 99, 100, 254, 255, 511, 699].map((index) => receipts[index] as Receipt)) {
      const file = written(receipt);
      expect(await goVerify("receipt", file)).toMatchObject({ code: 0, result: { leaf_index: receipt.leafIndex } });
      expect(await cli("ledger", "receipt", "verify", file, "--key", vkey)).toMatchObject({
        code: 0,
        result: { ok: true, proves: "record", record: { record_id: receipt.recordId, tenant_id: "alice" } },
      });
    }
  });

  test("without leaf, opening and record prove a position only", async () => {
    const file = written(receipts[3] as Receipt, { leaf: undefined, opening: undefined, record: undefined });
    expect(await cli("ledger", "receipt", "verify", file, "--key", vkey)).toMatchObject({
      code: 0,
      result: { ok: true, proves: "position", leaf_index: 4 },
    });
  });

  test("of another leaf, or for another key, are refused by both", async () => {
    const [first, second] = receipts as [Receipt, Receipt];
    const swapped = written(first, { leaf: second.leaf, leaf_hash: second.leafHash });
    const otherKey = vkey.replace(/.{4}$/, "AAA=");
    const verify = (file: string, key: string) => cli("ledger", "receipt", "verify", file, "--key", key);
    expect((await goVerify("receipt", swapped)).code).toBe(1);
    expect((await verify(swapped, vkey)).code).toBe(1);
    expect((await goVerify("receipt", written(first), otherKey)).code).toBe(1);
    expect((await verify(written(first), otherKey)).code).toBe(1);
  });
});

describe("packs", () => {
  const packed = async (...selection: readonly string[]) => {
    const file = join(mkdtempSync(join(directory, "pack-")), "pack");
    await cli("ledger", "pack", "--tenant", "alice", "--out", file, ...selection);
    return file;
  };

  test("of everything and of one decision place every leaf in the log, for both", async () => {
    const everything = await packed("--to", "2100-01-01T00:00:00Z");
    const decision = await packed("--decision", receipts[300]?.recordId as string);
    for (const [file, leaves] of [
      [everything, records + 1],
      [decision, 2],
    ] as const) {
      expect(await goVerify("pack", file)).toMatchObject({ code: 0, result: { leaves, tree_size: records + 1 } });
      expect(await cli("ledger", "pack", "verify", file, "--key", vkey)).toMatchObject({ code: 0 });
    }
  });

  test("with a changed leaf are refused by both", async () => {
    const file = await packed("--decision", receipts[300]?.recordId as string);
    writeFileSync(file, readFileSync(file, "utf8").replace("hmac-sha256:", "hmac-sha257:"));
    expect((await goVerify("pack", file)).result.problem).toBe("the leaves do not lead to the checkpoint's root");
    expect((await cli("ledger", "pack", "verify", file, "--key", vkey)).code).toBe(1);
  });
});
