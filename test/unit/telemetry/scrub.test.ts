import fc from "fast-check";
import { expect, test } from "vitest";
import { applyRules, scrub } from "../../../src/telemetry/logger.ts";

/** What the rules are made of, in every spelling, and what stands beside it in a line. */
const fragments = [
  ...["authorization", "Cookie", "DPOP", "client_secret", "client_assertion", "access_token", "Token", "password"],
  ...["private_key", "artifact_object_b64", "x-svc-mtls-client-certificate", "bearer", "Basic", "dpop"],
  ...['"', '":"', '" : "', '\\"', '\\":\\"', "\\", "\\\\", ":", "=", " ", "  ", ",", "{", "}", "&", "\n"],
  ...["eyJ", "eyj", ".", "abcdef", "A1-_b2", "user", "@", "://", "/", "-----BEGIN", "-----begin"],
  ...[" PRIVATE KEY", "-----", "%20", "+", "\\n", "-", "é", "\u017f", "\u212a", "\ud800"],
];
const lines = fc.array(fc.oneof(fc.constantFrom(...fragments), fc.string({ maxLength: 3 })), { maxLength: 12 });

test("no rule matches a line that is skipped", () => {
  let cut = 0;
  fc.assert(
    fc.property(lines, (parts) => {
      const line = parts.join("");
      const expected = applyRules(line);
      if (expected !== line) cut += 1;
      expect(scrub(line)).toBe(expected);
    }),
    { numRuns: 20_000 },
  );
  expect(cut).toBeGreaterThan(100);
});

test.each([
  '{"password":"s3cr3t"}',
  '{\\"Token\\":\\"s3cr3t\\"}',
  "token=s3cr3t",
  "Bearer s3cr3t",
  "eyJzM2NyM3Q",
  "-----BEGIN KEY-----s3cr3t",
  "-----BEGIN%20s3cr3t",
  "://s3cr3t@",
])("the shortest match of each rule is not skipped: %s", (line) => {
  expect(applyRules(line)).toContain("[cut]");
  expect(scrub(line)).toBe(applyRules(line));
});
