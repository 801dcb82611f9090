import { expect, test } from "vitest";
import { parsePostgresUrl } from "../../../src/base/postgres-url.ts";

const plain = { port: 5432, database: "platform", user: "svc", password: undefined, tls: undefined };

test.each([
  ["postgres://svc@localhost/platform", { ...plain, host: "localhost" }],
  ["postgresql://svc@127.0.0.1:6543/platform?sslmode=disable", { ...plain, host: "127.0.0.1", port: 6543 }],
  ["postgres://svc:a%2Fb%40c@[::1]/platform", { ...plain, host: "::1", password: "a/b@c" }],
  ["postgres://svc@%2Frun%2Fpostgresql/platform", { ...plain, host: "/run/postgresql" }],
  [
    "postgres://svc@db.example/platform?sslmode=verify-full",
    { ...plain, host: "db.example", tls: { rootCertificate: undefined, certificate: undefined, key: undefined } },
  ],
  [
    "postgres://svc@127.0.0.1/platform?sslmode=verify-full&sslrootcert=/ca.pem&sslcert=/own.pem&sslkey=/own.key",
    {
      ...plain,
      host: "127.0.0.1",
      tls: { rootCertificate: "/ca.pem", certificate: "/own.pem", key: "/own.key" },
    },
  ],
])("a database is named: %s", (text, target) => {
  expect(parsePostgresUrl(text)).toEqual(target);
});

test.each([
  "mysql://svc@localhost/platform",
  "postgres:svc@localhost/platform",
  "postgres://svc@localhost",
  "postgres://localhost/platform",
  "postgres://svc@localhost/a/b",
  "postgres://svc@/platform",
  "postgres://svc@localhost:99999/platform",
  "postgres://svc%ff@localhost/platform",
  "postgres://svc@localhost/platform?host=/run",
  "postgres://svc@run%2Fpostgresql/platform",
  "postgres://svc@localhost/platform?sslmode=disable&sslmode=disable",
  "postgres://svc@localhost/platform?options=-csynchronous_commit%3Doff",
  "postgres://svc@localhost/platform?password=secret",
  "postgres://svc@localhost/platform?sslmode=prefer",
  "postgres://svc@localhost/platform?sslmode=require",
  "postgres://svc:secret@db.example/platform",
  "postgres://svc@db.example/platform?sslmode=disable",
  "postgres://svc@db.example/platform?sslmode=verify-ca",
  "postgres://svc@localhost.example/platform",
  "postgres://svc@localhost/platform?sslrootcert=/ca.pem",
  "postgres://svc@localhost/platform?sslmode=verify-full&sslcert=/own.pem",
])("a URL is refused: %s", (text) => {
  const parsed = parsePostgresUrl(text);
  expect(parsed).toEqual({ problem: expect.stringMatching(/^(must|names) /) });
  expect(JSON.stringify(parsed)).not.toContain("secret");
});
