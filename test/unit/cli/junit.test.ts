import { expect, test } from "vitest";
import { toJunit } from "../../../src/cli/policy/directory.ts";
import type { PolicyTestResult } from "../../../src/policy/engine/policy-tests.ts";

test("any text stays inside its attribute or element", () => {
  const result = {
    test: { name: '<a> & "b"\u0000\ud800\n', file: "tests/a.yaml", line: 3 },
    differences: ["allow: expected <true>", "second"],
  } as unknown as PolicyTestResult;
  expect(toJunit("set", [result])).toBe(`<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="1" failures="1">
  <testsuite name="set" tests="1" failures="1" errors="0" skipped="0">
    <testcase name="&#60;a&#62; &#38; &#34;b&#34;\ufffd\ufffd&#10;" classname="tests/a.yaml" file="tests/a.yaml" line="3">
      <failure message="allow: expected &#60;true&#62;">allow: expected &#60;true&#62;&#10;second</failure>
    </testcase>
  </testsuite>
</testsuites>
`);
});
