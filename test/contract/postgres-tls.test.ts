/** Connections to a database whose certificate is verified: who it must be, and who must vouch for it. */
import { chmodSync, chownSync, copyFileSync, lstatSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, test, vi } from "vitest";
import { createAuthority, type IssuedCertificate } from "../harness/certificates.ts";
import { folderForFile } from "../harness/folder.ts";
import { forFile } from "../harness/lifetimes.ts";
import { startPostgres } from "../harness/postgres.ts";
import { type PostgresFixture, postgresFixture, targetOf } from "./ledger-postgres-fixture.ts";
import { recordKit, tenant } from "./ledger-records.ts";

const { clock, random, makeRecord } = recordKit();
const alice = tenant("alice");

const folder = folderForFile("postgres-tls");
const [ours, theirs] = await Promise.all([createAuthority(folder, "ours"), createAuthority(folder, "theirs")]);
const client = await ours.issue("client", "/CN=guarded");
const hba = ["hostssl all guarded 127.0.0.1/32 cert", "host all guarded 127.0.0.1/32 reject"];
const server = await forFile(startPostgres({ hba }));
await turnOnTls(await ours.issue("database", "/CN=database", "DNS:localhost"));
await server.query("CREATE ROLE guarded SUPERUSER LOGIN");
let fixture: PostgresFixture;
beforeEach(async () => {
  fixture = await postgresFixture(server);
});

/** The server reads its certificate from its data directory, and takes no key that others may read. */
async function turnOnTls({ certFile, keyFile }: IssuedCertificate): Promise<void> {
  const { uid, gid } = lstatSync(server.dataDirectory);
  const files = { "server.crt": certFile, "server.key": keyFile, "clients.crt": ours.certFile };
  for (const [name, from] of Object.entries(files)) {
    const path = join(server.dataDirectory, name);
    copyFileSync(from, path);
    chmodSync(path, 0o600);
    chownSync(path, uid, gid);
  }
  await server.query("ALTER SYSTEM SET ssl_ca_file = 'clients.crt'");
  await server.query("ALTER SYSTEM SET ssl = on");
  await server.query("SELECT pg_reload_conf()");
  await vi.waitFor(async () => expect(await server.query("SHOW ssl")).toEqual([{ ssl: "on" }]));
}

interface Way {
  /** Default `localhost`, which is the name in the server's certificate. */
  readonly host?: string;
  readonly parameters: Readonly<Record<string, string>>;
}

/** Opens a ledger by a URL, as an operator writes it. */
function openBy({ host = "localhost", parameters }: Way) {
  const search = new URLSearchParams(parameters);
  const target = targetOf(`postgres://guarded@${host}:${server.port}/${fixture.target.database}?${search}`);
  return fixture.open({ clock, random, target });
}

/** What a client that verifies and is let in has. */
const trusted = () => ({ sslmode: "verify-full", sslrootcert: ours.certFile, ...shown() });
const shown = () => ({ sslcert: client.certFile, sslkey: client.keyFile });

test("a database with the right certificate is used, and nothing is sent to it in the clear", async () => {
  const ledger = await openBy({ parameters: trusted() });
  const { recordId } = await ledger.append(makeRecord(alice));
  expect(await ledger.find(alice, recordId)).toMatchObject({ record_id: recordId });
  const connections = await server.query(
    "SELECT DISTINCT ssl, version FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'guarded'",
  );
  expect(connections).toEqual([{ ssl: true, version: "TLSv1.3" }]);
});

test.each<readonly [what: string, way: () => Way, message: RegExp]>([
  [
    "another authority vouches for",
    () => ({ parameters: { ...trusted(), sslrootcert: theirs.certFile } }),
    /unable to verify|self-signed|signature/,
  ],
  [
    "only unknown authorities vouch for",
    () => ({ parameters: { sslmode: "verify-full", ...shown() } }),
    /unable to verify|self-signed/,
  ],
  ["has another name", () => ({ host: "127.0.0.1", parameters: trusted() }), /does not match certificate's altnames/],
  [
    "asks for a certificate that is not shown",
    () => ({ parameters: { sslmode: "verify-full", sslrootcert: ours.certFile } }),
    /valid client certificate/,
  ],
  ["takes no plaintext", () => ({ parameters: { sslmode: "disable" } }), /pg_hba.conf rejects connection/],
])("a database that %s is not used", async (_what, way, message) => {
  await expect(openBy(way())).rejects.toThrow(message);
});
