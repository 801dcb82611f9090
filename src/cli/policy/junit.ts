/** Results of policy tests as JUnit XML, the form that build servers read. */
import type { PolicyTestResult } from "../../policy/tools/policy-tests.ts";

/** One suite, one case a test; the file is the case's class. */
export function toJunit(suite: string, results: readonly PolicyTestResult[]): string {
  const failures = results.filter(({ differences }) => differences.length > 0).length;
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites tests="${results.length}" failures="${failures}">`,
    `  <testsuite name="${escapeXml(suite)}" tests="${results.length}" failures="${failures}" errors="0" skipped="0">`,
    ...results.map(toCase),
    "  </testsuite>",
    "</testsuites>",
    "",
  ].join("\n");
}

function toCase({ test, differences }: PolicyTestResult): string {
  const attributes = `name="${escapeXml(test.name)}" classname="${escapeXml(test.file)}" file="${escapeXml(test.file)}" line="${test.line}"`;
  if (differences.length === 0) return `    <testcase ${attributes}/>`;
  const message = escapeXml(differences[0] ?? "");
  return [
    `    <testcase ${attributes}>`,
    `      <failure message="${message}">${escapeXml(differences.join("\n"))}</failure>`,
    "    </testcase>",
  ].join("\n");
}

/** Text for XML 1.0, in an attribute or an element. Characters that XML cannot hold become U+FFFD. */
function escapeXml(text: string): string {
  return text
    .toWellFormed()
    .replace(/[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/gu, "\uFFFD")
    .replace(/[&<>"'\t\n\r]/g, (character) => `&#${character.charCodeAt(0)};`);
}
