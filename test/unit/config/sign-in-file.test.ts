import { describe, expect, test } from "vitest";
import { parseSignInFile } from "../../../src/config/data-files.ts";
import { filesOf, problemsOf } from "./read.ts";

const good = {
  issuer: "https://id.example/realms/people",
  client_id: "console",
  client_secret_file: "/secret",
  url: "https://ops.example:9443/",
};
const secret = "s".repeat(32);

describe("a file for sign-in", () => {
  test("names issuer, client and address, and the claim of roles", () => {
    expect(parseSignInFile(JSON.stringify({ ...good, roles_claim: "https://example/roles" }))).toEqual({
      ...{ issuer: good.issuer, clientId: "console", clientSecretFile: "/secret", url: "https://ops.example:9443" },
      rolesClaim: "https://example/roles",
    });
    expect(parseSignInFile(JSON.stringify(good)).rolesClaim).toBe("roles");
  });

  test.each([
    ["an issuer over http", { issuer: "http://id.example" }, "issuer: must use https"],
    ["an address over http", { url: "http://ops.example" }, "url: must use https"],
    ["an address with a path", { url: "https://ops.example/console" }, "url: must have no path"],
    ["no secret", { client_secret_file: undefined }, "client_secret_file: is required"],
    ["another member", { scopes: "all" }, "scopes: is not known"],
  ])("is refused with %s", (_, change, problem) => {
    expect(() => parseSignInFile(JSON.stringify({ ...good, ...change }))).toThrow(problem);
  });

  test("may use loopback, with its issuer, for development", () => {
    const local = { ...good, issuer: "http://127.0.0.1:4400", url: "http://127.0.0.1:9090" };
    expect(parseSignInFile(JSON.stringify(local)).url).toBe("http://127.0.0.1:9090");
  });
});

describe("a service does not start", () => {
  const started = (texts: Readonly<Record<string, string>>, env = {}, modes = {}) =>
    problemsOf({ SVC_CONSOLE_SIGN_IN: "/sign-in", ...env }, undefined, filesOf(texts, modes));
  const texts = { "/sign-in": JSON.stringify(good), "/secret": secret };

  test("unless the file and its secret are valid", () => {
    expect(started(texts)).toEqual([]);
    expect(started({ "/sign-in": JSON.stringify(good) })[0]).toContain("SVC_CONSOLE_SIGN_IN: /secret cannot be read");
    expect(started({ ...texts, "/secret": "short" })[0]).toContain("fewer than 32 characters");
    expect(started(texts, {}, { "/secret": 0o666 })[0]).toContain("may be written by anyone");
    expect(started({ ...texts, "/sign-in": "{" })[0]).toContain("SVC_CONSOLE_SIGN_IN: ");
  });

  test("if sessions would cross a network in plaintext", () => {
    expect(started(texts, { SVC_OPS_LISTEN: "0.0.0.0:9090" })).toEqual([
      expect.stringContaining("SVC_CONSOLE_SIGN_IN: would send sessions in plaintext off loopback"),
    ]);
  });
});
