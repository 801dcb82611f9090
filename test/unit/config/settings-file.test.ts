import { describe, expect, test } from "vitest";
import { configOf, problemsOf } from "./read.ts";

describe("the file", () => {
  test("gives values in YAML's own forms, and scalars as they are written", () => {
    const file = `
# comment
SVC_SERVICE_NAME: 1.0
SVC_LOG_LEVEL: "warn"
SVC_MAX_BODY_BYTES: 2048
SVC_EXPLORER: false
SVC_REFLECTION: off
SVC_SUPPORTED_PROFILES: [tdf, envelope]
SVC_SUPPORTED_OPERATIONS: protect,access
SVC_DEFAULT_REQUIRED_SCOPES: []
SVC_ROUTE_SCOPES:
  whoami: [me]
`;
    expect(configOf({}, file)).toMatchObject({
      serviceName: "1.0",
      logLevel: "warn",
      maxBodyBytes: 2048,
      explorer: false,
      reflection: false,
      supportedProfiles: ["tdf", "envelope"],
      supportedOperations: ["protect", "access"],
      defaultRequiredScopes: [],
      routeScopes: { whoami: ["me"], evidence: ["evidence.write"] },
    });
  });

  test("is overridden by the environment", () => {
    expect(configOf({ SVC_LOG_LEVEL: "error" }, "SVC_LOG_LEVEL: debug").logLevel).toBe("error");
  });

  test.each([
    ["", "nothing"],
    ["# only a comment\n", "a comment"],
    ["---\n", "an empty document"],
  ])("may be empty: %j", (file) => expect(problemsOf({}, file)).toEqual([]));

  test.each([
    ["- SVC_LISTEN", /^settings\.yaml: must be a map/],
    ["SVC_LISTEN: [", /^settings\.yaml: /],
    ["SVC_LOG_LEVEL: info\nSVC_LOG_LEVEL: warn", /^settings\.yaml: Map keys must be unique/],
    ["SVC_LISTEN:", /^SVC_LISTEN: is empty/],
    ["SVC_LISTEN: [127.0.0.1:80]", /^SVC_LISTEN: must be a single value/],
    ["SVC_SUPPORTED_PROFILES: []", /^SVC_SUPPORTED_PROFILES: must name at least one/],
    ["SVC_SUPPORTED_PROFILES: {tdf: 1}", /^SVC_SUPPORTED_PROFILES: must be a list/],
    ["SVC_SUPPORTED_PROFILES: [[tdf]]", /^SVC_SUPPORTED_PROFILES: must be a list of single values/],
    ["SVC_ROUTE_SCOPES: [a]", /^SVC_ROUTE_SCOPES: must be a map/],
    ["SVC_LOGLEVEL: info", /^SVC_LOGLEVEL: is not a setting; did you mean SVC_LOG_LEVEL/],
    ["listen: 127.0.0.1:80", /^listen: is not a setting/],
    ["SVC_PLATFORM_API_SERVICE_HOST: a", /^SVC_PLATFORM_API_SERVICE_HOST: is not a setting/],
  ])("%j is refused", (file, problem) => {
    const problems = problemsOf({}, file);
    expect(problems).toEqual([expect.stringMatching(problem)]);
  });

  test("with a syntax error is not quoted in the problem", () => {
    expect(problemsOf({}, "SVC_STORE: 'postgres://user:word@host\n").join()).not.toContain("word");
  });
});
