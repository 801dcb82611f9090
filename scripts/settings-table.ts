/**
 * The settings table of the README, made from the table that the service itself reads. `npm run docs:settings` writes
 * it between its two marks; a test compares.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Setting } from "../src/config/setting.ts";
import { type Key, settings } from "../src/config/settings.ts";
import { requiredKeysOf } from "../src/config/uses.ts";

const begin = "<!-- settings: npm run docs:settings -->\n";
const end = "<!-- end of settings -->";

/** The README with its settings table as it should be. Throws where the marks are missing. */
export function withSettingsTable(readme: string): string {
  const from = readme.indexOf(begin);
  const to = readme.indexOf(end);
  if (from === -1 || to < from) throw new Error("the README has no marks for the settings table");
  return `${readme.slice(0, from + begin.length)}\n${settingsTable()}\n${readme.slice(to)}`;
}

function settingsTable(): string {
  const rows = Object.entries(settings).map(([key, setting]) => row(key as Key, setting));
  return ["| setting | default | meaning |", "|---|---|---|", ...rows, ""].join("\n");
}

function row(key: Key, { name, help, absent, default: given }: Setting<unknown>): string {
  const required = (requiredKeysOf("serve") as readonly Key[]).includes(key);
  const fallback = given === undefined ? (absent ?? "") : `\`${given}\``;
  return `| \`${name}\` | ${required ? "**required**" : cell(fallback)} | ${cell(`${help}.`)} |`;
}

/** Text in a cell of a Markdown table. */
function cell(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("<", "&lt;");
}

if (import.meta.main) {
  const file = join(import.meta.dirname, "../README.md");
  writeFileSync(file, withSettingsTable(readFileSync(file, "utf8")));
}
