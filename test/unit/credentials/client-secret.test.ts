import { argon2Sync } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { TenantId } from "../../../src/base/ids.ts";
import { formatSecretHash, hashSecret, isSecret, parseSecretHash } from "../../../src/credentials/client-secret.ts";
import { FileSessionClients, formatClientFile, parseClientFile } from "../../../src/credentials/session-clients.ts";
import { seededRandom } from "../../contract/ledger-records.ts";
import { must } from "../domain/world.ts";

const random = seededRandom();
const hashed = await hashSecret("secret", random);
const text = formatSecretHash(hashed);
const good = {
  tenant_id: "tenant-a",
  client_id: "payroll",
  scopes: ["a", "b"],
  secret: text,
};

describe("a client's secret", () => {
  test("matches its hash, and no other secret does", async () => {
    const read = must(parseSecretHash(text));
    expect(await isSecret("secret", read)).toBe(true);
    for (const wrong of ["Secret", "secret ", "", text]) expect(await isSecret(wrong, read)).toBe(false);
    expect(formatSecretHash(await hashSecret("secret", random))).not.toBe(text);
  });

  test("is hashed in the standard form, so that other programs can check it", () => {
    expect(text).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/);
    const [, , , , salt = "", hash = ""] = text.split("$");
    const parameters = { parallelism: 1, memory: 19_456, passes: 2, tagLength: 32 };
    const key = argon2Sync("argon2id", { message: "secret", nonce: Buffer.from(salt, "base64"), ...parameters });
    expect(key.toString("base64").replace("=", "")).toBe(hash);
  });

  test.each([
    ["memory that is cheap", text.replace("m=19456", "m=1024")],
    ["more memory than a service has", text.replace("m=19456", "m=65537")],
    ["leading zeros", text.replace("m=19456", "m=019456")],
    ["too many passes", text.replace("t=2", "t=11")],
    ["no passes", text.replace("t=2", "t=0")],
    ["too many lanes", text.replace("p=1", "p=5")],
    ["another variant", text.replace("argon2id", "argon2i")],
    ["another version", text.replace("v=19", "v=16")],
    ["a short hash", text.slice(0, -1)],
    ["padding", `${text}=`],
    ["a hash that is not canonical", `${text.slice(0, -1)}${text.endsWith("B") ? "C" : "B"}`],
    ["nothing", ""],
  ])("whose hash has %s is refused", (_name, hash) => {
    expect(parseSecretHash(hash)).toBeUndefined();
  });
});

describe("the file", () => {
  const fileOf = (client: unknown) => JSON.stringify({ clients: [client] });

  test("reads what was written", () => {
    const clients = parseClientFile(fileOf(good));
    expect(clients).toMatchObject([{ tenantId: "tenant-a", clientId: "payroll", scopes: ["a", "b"] }]);
    expect(parseClientFile(formatClientFile(clients))).toEqual(clients);
    expect(parseClientFile(fileOf({ ...good, scopes: ["a", "a"] }))[0]?.scopes).toEqual(["a"]);
  });

  test("a scope that is repeated counts once for the length of tokens", () => {
    const scope = "s".repeat(256);
    expect(parseClientFile(fileOf({ ...good, scopes: Array(32).fill(scope) }))).toMatchObject([{ scopes: [scope] }]);
  });

  test.each([
    ["", "is not JSON"],
    ["[]", "is not a JSON object"],
    ["{}", 'must be an object with "clients"'],
    ['{"clients": {}}', 'must be an object with "clients"'],
    ['{"clients": [], "more": 1}', "and nothing else"],
    [fileOf(1), "clients[0] must have"],
    [fileOf({ ...good, client_secret: "plain" }), "clients[0] must have"],
    [fileOf(good).replace("{", '{"clients":[],'), "two members of the same name"],
    [fileOf({ ...good, scopes: undefined }), "clients[0] must have"],
    [fileOf({ ...good, tenant_id: "../a" }), "clients[0].tenant_id is not a tenant id"],
    [fileOf({ ...good, client_id: "a b" }), "clients[0].client_id"],
    [fileOf({ ...good, scopes: ["a b"] }), "clients[0].scopes"],
    [fileOf({ ...good, secret: "plain" }), "clients[0].secret is not an Argon2id hash"],
    [JSON.stringify({ clients: [good, { ...good, scopes: [] }] }), "clients[1] is listed twice"],
  ])("%s is refused", (file, problem) => {
    expect(() => parseClientFile(file)).toThrow(problem);
    expect(() => parseClientFile(file)).not.toThrow("plain");
  });
});

describe("verifying", () => {
  const [tenantA, tenantB] = ["tenant-a", "tenant-b"] as [TenantId, TenantId];

  test("computes one hash of the same cost for a known and an unknown client", async () => {
    const costs: string[] = [];
    const registered = parseClientFile(JSON.stringify({ clients: [good] }));
    const watched = (list: typeof registered) =>
      new FileSessionClients(
        () => list,
        async (secret, hash) => {
          costs.push(`${hash.memoryKib} ${hash.passes} ${hash.lanes} ${hash.salt.length} ${hash.hash.length}`);
          return isSecret(secret, hash);
        },
      );
    await watched(registered).verify(tenantA, "payroll", "wrong");
    await watched(registered).verify(tenantA, "nobody", "wrong");
    await watched(registered).verify(tenantB, "payroll", "secret");
    await watched([]).verify(tenantA, "payroll", "wrong");
    expect(costs).toEqual(Array.from({ length: 4 }, () => "19456 2 1 16 32"));
  });

  test("takes an unknown client's cost from the file, the same each time for one name", async () => {
    const costly = text.replace("m=19456,t=2", "m=9216,t=4");
    const registered = parseClientFile(
      JSON.stringify({ clients: [good, { ...good, client_id: "other", secret: costly }] }),
    );
    const costOf = async (name: string) => {
      let cost = 0;
      const check = async (_secret: string, { memoryKib }: { memoryKib: number }) => {
        cost = memoryKib;
        return false;
      };
      await new FileSessionClients(() => registered, check).verify(tenantB, name, "wrong");
      return cost;
    };
    const names = Array.from({ length: 50 }, (_, i) => `unknown-${i}`);
    const first = await Promise.all(names.map(costOf));
    expect(new Set(first)).toEqual(new Set([19_456, 9_216]));
    expect(await Promise.all(names.map(costOf))).toEqual(first);
  });
});
