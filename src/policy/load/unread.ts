/**
 * Checks the entries of a policy directory that are not read. A policy that is silently left out would be believed to
 * be in force, so anything that might be a policy is refused, and the rest is listed.
 */
import type { PolicyProblem } from "../model/problem.ts";
import { testsFolder } from "./manifest-reader.ts";

/** An entry of the directory, or of a folder that is read, that is not read itself. */
export interface UnreadEntry {
  /** Folder that is read, such as `default`; undefined for the directory itself. */
  readonly folder?: string;
  readonly name: string;
  readonly isFolder: boolean;
}

/** Names that version control, editors, file systems and orchestrators (`..data`, `..2026_01_31_…`) leave behind. */
const leftBehind = /^\.|^lost\+found$/;
const document =
  /^(?:readme|licen[cs]e|notice|changelog|codeowners)(?:[-_]\w+)*(?:\.[a-z]{2}(?:-[a-z]{2})?)?(?:\.(?:md|txt|rst|adoc|html))?$/i;

/** Names of files with expected decisions. They decide nothing, so they are read only when they are run. */
export const testFile = /^[^.].*\.ya?ml$/;

/** Paths of harmless entries, and a problem for every other one. */
export function judgeUnread(found: readonly UnreadEntry[]): {
  readonly ignored: readonly string[];
  readonly problems: readonly PolicyProblem[];
} {
  const isTest = ({ folder, name, isFolder }: UnreadEntry) =>
    folder === testsFolder && !isFolder && testFile.test(name);
  const entries = found.filter((entry) => !isTest(entry));
  const isHarmless = ({ name, isFolder }: UnreadEntry) => leftBehind.test(name) || (!isFolder && document.test(name));
  return {
    ignored: entries.filter(isHarmless).map(pathOf).sort(),
    problems: entries
      .filter((entry) => !isHarmless(entry))
      .map((entry) => ({ file: pathOf(entry), ...complaintOf(entry) })),
  };
}

function pathOf({ folder, name }: UnreadEntry): string {
  return folder === undefined ? name : `${folder}/${name}`;
}

function complaintOf({ folder, name, isFolder }: UnreadEntry): Pick<PolicyProblem, "message" | "hint"> {
  if (folder === testsFolder) return { message: "is not read", hint: "expected decisions are *.yaml files in tests" };
  if (folder !== undefined && isFolder) {
    return { message: "is not read: it is a folder within a set", hint: `move what it holds into ${folder}` };
  }
  if (folder !== undefined) return { message: "is not read", hint: "a set holds *.cedar files, in lowercase" };
  if (isFolder)
    return { message: "is not read: no tenant has this set", hint: "name it in the manifest, or remove it" };
  if (/\.cedar$/i.test(name)) return { message: "is not read", hint: "move it into the folder of a set" };
  return {
    message: "is not read",
    hint: "keep here what the policies need; documents are README, LICENSE and the like",
  };
}
