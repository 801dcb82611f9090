import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { TLSSocket } from "node:tls";
import { afterEach, expect, test, vi } from "vitest";
import { inboundOf } from "../../../src/http/inbound-request.ts";

const certificate = new X509Certificate(readFileSync(join(import.meta.dirname, "../config/fixtures/server.crt.pem")));
afterEach(() => {
  vi.useRealTimers();
});

test.each([
  ["counts until it expires", -1, true],
  ["that expired on an open connection is none", 0, false],
])("a client certificate %s", (_name, afterEndMs, counts) => {
  vi.useFakeTimers({ toFake: ["Date"], now: certificate.validToDate.getTime() + afterEndMs });
  const socket = { encrypted: true, authorized: true, getPeerX509Certificate: () => certificate } as TLSSocket;
  const shown = inboundOf({ method: "GET", url: "/", rawHeaders: [], socket }).clientCertificate?.();
  expect(shown !== undefined).toBe(counts);
});
