/**
 * Reads a policy directory: the manifest, the sets and entities that it names, a copy of the schema, and expected
 * decisions (docs/reference/policies.md).
 *
 * Every other entry is checked: see `judgeUnread`. Only names that the directory lists are opened, tenant ids are never
 * used as names, and a link out of the directory is refused (orchestrators mount files with links within it).
 */
import { isUtf8 } from "node:buffer";
import { join, sep } from "node:path";
import { type ArtifactProfile, artifactProfiles, type KeyReferenceRule } from "../../base/vocabulary.ts";
import { defaultKeyReferences } from "../guidance/key-references.ts";
import type { DeclaredEntities } from "../model/entities.ts";
import type { DeclaredInputs } from "../model/inputs.ts";
import { type PolicyProblem, sortProblems } from "../model/problem.ts";
import { engineVersion, isSchemaCopy, schemaFor } from "../model/schema.ts";
import type { PolicyBundle } from "./bundle.ts";
import type { EntitiesMember } from "./declarations.ts";
import { parseManifest } from "./manifest.ts";
import { testsFolder } from "./manifest-reader.ts";
import { type PolicyTest, parsePolicyTests } from "./policy-test-file.ts";

/** The required functions of a file system; `node:fs/promises` is one. */
export interface PolicyFileSystem {
  /** Names in the folder. */
  readdir(path: string): Promise<readonly string[]>;
  /** Type and size of the target, following links. */
  stat(path: string): Promise<{ isFile(): boolean; isDirectory(): boolean; readonly size: number }>;
  readFile(path: string): Promise<Uint8Array>;
  /** The path without links. */
  realpath(path: string): Promise<string>;
}

/** What decides besides the directory. */
export interface PolicySettings {
  /** Default: `defaultKeyReferences`. */
  readonly keyReferences?: readonly KeyReferenceRule[];
  /** Profiles of this deployment. Default: all. */
  readonly supportedProfiles?: readonly ArtifactProfile[];
}

/** Content of a directory when it was read: policies are not checked yet. */
export interface PolicyReading {
  /** Absent without a usable manifest. */
  readonly bundle?: PolicyBundle;
  /** Problems of files and manifest. A bundle with problems must not decide. */
  readonly problems: readonly PolicyProblem[];
}

/** Reads what decides in the directory. Does not reject. */
export async function readPolicyDirectory(
  path: string,
  fileSystem: PolicyFileSystem,
  settings: PolicySettings = {},
): Promise<PolicyReading> {
  // Without harmless entries: an editor's temporary file is not a change of the policy.
  return (await readEntries(await Directory.open(path, fileSystem), settings)).reading;
}

/** The same, with the paths of other, harmless entries, sorted. */
export async function readEntries(
  directory: Directory,
  settings: PolicySettings,
): Promise<{ readonly reading: PolicyReading; readonly ignored: readonly string[] }> {
  const supportedProfiles = settings.supportedProfiles ?? artifactProfiles;
  const manifestFile = directory.manifestFile();
  const manifestText = manifestFile === undefined ? undefined : await directory.read(manifestFile, limits.manifest);
  if (manifestFile === undefined || manifestText === undefined) {
    return { reading: { problems: sortProblems(directory.problems) }, ignored: [] };
  }

  const { manifest, problems } = parseManifest(manifestFile, manifestText, supportedProfiles);
  directory.problems.push(...problems);
  const { disclosable, actions } = manifest;
  const entities = manifest.entities && (await readEntities(directory, manifest.entities));
  const declared: DeclaredInputs = { ...manifest.declared, ...(entities !== undefined && { entities }) };
  await checkSchemaCopy(directory, declared);
  const bundle: PolicyBundle = {
    ...declared,
    ...(disclosable !== undefined && { disclosable }),
    ...(actions !== undefined && { actions }),
    engine: engineVersion,
    schema: schemaFor(declared),
    manifest: { platform: manifest.platform, tenants: manifest.tenants },
    guidance: manifest.guidance,
    strictness: manifest.strictness,
    keyReferences: settings.keyReferences ?? defaultKeyReferences,
    supportedProfiles,
    sets: await readSets(directory, manifestFile, [manifest.platform, ...Object.values(manifest.tenants)]),
  };
  if (directory.names.includes(testsFolder)) await directory.list(testsFolder, testFile);
  // An invalid manifest may have meant to name the entries that it does not name.
  const unread = problems.length > 0 ? undefined : judgeUnread(await directory.unread());
  directory.problems.push(...(unread?.problems ?? []));
  return { reading: { bundle, problems: sortProblems(directory.problems) }, ignored: unread?.ignored ?? [] };
}

/** Reads the expected decisions of the directory; it may have none. */
export async function loadPolicyTests(
  path: string,
  fileSystem: PolicyFileSystem,
): Promise<{ readonly tests: readonly PolicyTest[]; readonly problems: readonly PolicyProblem[] }> {
  const directory = await Directory.open(path, fileSystem);
  const tests = await readTests(directory);
  return { tests, problems: sortProblems(directory.problems) };
}

async function readTests(directory: Directory): Promise<readonly PolicyTest[]> {
  const tests: PolicyTest[] = [];
  const names = directory.names.includes(testsFolder) ? await directory.list(testsFolder, testFile) : [];
  for (const file of names) {
    const text = await directory.read(`${testsFolder}/${file}`);
    if (text === undefined) continue;
    const parsed = parsePolicyTests(`${testsFolder}/${file}`, text);
    tests.push(...parsed.tests);
    directory.problems.push(...parsed.problems);
  }
  return tests;
}

/** A policy directory as texts by path, such as `default/handling.cedar`. */
export type FileTexts = Readonly<Record<string, string>>;

/** A file system of these files alone, whose directory is `/`. */
export function fileSystemOf(files: FileTexts): PolicyFileSystem {
  const texts = new Map(Object.entries(files).map(([path, text]) => [join("/", path), text]));
  const childrenOf = (path: string) => {
    const folder = path === sep ? sep : path + sep;
    const below = [...texts.keys()].filter((name) => name.startsWith(folder));
    return [...new Set(below.map((name) => name.slice(folder.length).split(sep, 1)[0] as string))];
  };
  const found = (path: string): string => {
    if (!texts.has(path) && childrenOf(path).length === 0) throw Object.assign(new Error(), { code: "ENOENT" });
    return path;
  };
  return {
    async readdir(path) {
      if (texts.has(path)) throw Object.assign(new Error(), { code: "ENOTDIR" });
      return childrenOf(found(path));
    },
    realpath: async (path) => found(path),
    readFile: async (path) => Buffer.from(texts.get(found(path)) ?? "", "utf8"),
    async stat(path) {
      const text = texts.get(found(path));
      return { isFile: () => text !== undefined, isDirectory: () => text === undefined, size: text?.length ?? 0 };
    },
  };
}

/** Copies the files that a service reads of the directory, and its tests, in the order of their paths; and its bundle. */
export async function copyPolicyFiles(
  path: string,
  fileSystem: PolicyFileSystem,
  settings: PolicySettings,
): Promise<{ readonly files: FileTexts; readonly bundle: PolicyBundle | undefined }> {
  const directory = await Directory.open(path, fileSystem);
  const { bundle } = (await readEntries(directory, settings)).reading;
  await readTests(directory);
  const texts = [...directory.texts].sort(([one], [other]) => (one < other ? -1 : 1));
  return { files: Object.fromEntries(texts), bundle };
}

async function readSets(
  directory: Directory,
  manifestFile: string,
  names: readonly string[],
): Promise<PolicyBundle["sets"]> {
  const sets: Record<string, Record<string, string>> = {};
  for (const set of new Set(names)) {
    if (set === "") continue; // the manifest's own problem
    if (!directory.names.includes(set)) {
      const hint = `make the folder ${set} with *.cedar files, or name another`;
      directory.problems.push({ file: manifestFile, message: `the set ${set} is missing`, hint });
      continue;
    }
    const files = await directory.list(set, /\.cedar$/);
    if (files.length === 0) {
      const hint = "a set without policies denies everything; say so with a forbid";
      directory.problems.push({ file: set, message: "the set has no *.cedar file", hint });
    }
    sets[set] = {};
    for (const file of files) {
      const text = await directory.read(`${set}/${file}`);
      if (text !== undefined) sets[set][file] = text;
    }
  }
  return sets;
}

/** Undefined, after reporting a problem, if a file cannot be read: the others' references would seem to be dangling. */
async function readEntities(
  directory: Directory,
  { schemaFile, files, references }: EntitiesMember,
): Promise<DeclaredEntities | undefined> {
  const schema = await directory.read(schemaFile, limits.manifest);
  const texts: Record<string, string> = {};
  let sizeBytes = 0;
  for (const file of files) {
    const text = await directory.read(file, { ...limits.entities, bytes: limits.entities.bytes - sizeBytes });
    if (text === undefined) continue;
    texts[file] = text;
    sizeBytes += Buffer.byteLength(text, "utf8");
  }
  const isWhole = schema !== undefined && Object.keys(texts).length === files.length;
  return isWhole ? { schemaFile, schema, files: texts, references } : undefined;
}

async function checkSchemaCopy(directory: Directory, declared: DeclaredInputs): Promise<void> {
  const file = "schema.cedarschema";
  if (!directory.names.includes(file)) return;
  const text = await directory.read(file, limits.manifest);
  if (text === undefined || isSchemaCopy(text, declared)) return;
  const hint =
    "remove it, or replace it with what `policy schema` writes; your own inputs are declared in the manifest";
  directory.problems.push({ file, message: "differs from the schema of this version", hint });
}

/** An open policy directory: reads by name, never outside, and collects problems. */
export class Directory {
  readonly problems: PolicyProblem[] = [];
  /** Texts of the files that were read, by path; of one that is not UTF-8, with replacement characters. */
  readonly texts = new Map<string, string>();
  /** Names in the directory itself. */
  readonly names: readonly string[];
  /** Requested files and folders, and the contents of listed folders. */
  readonly #asked = new Set<string>();
  readonly #listed = new Map<string, readonly string[]>();
  readonly #root: string;
  readonly #fileSystem: PolicyFileSystem;
  #leftBytes: number = limits.shared.bytes;

  private constructor(root: string, names: readonly string[], fileSystem: PolicyFileSystem) {
    this.#root = root;
    this.names = names;
    this.#fileSystem = fileSystem;
  }

  static async open(path: string, fileSystem: PolicyFileSystem): Promise<Directory> {
    try {
      const root = await fileSystem.realpath(path);
      return new Directory(root, await fileSystem.readdir(root), fileSystem);
    } catch (error) {
      const directory = new Directory(path, [], fileSystem);
      directory.problems.push({ file: ".", message: `the policy directory ${path} ${unreadable(error)}` });
      return directory;
    }
  }

  /** Name of the only manifest; undefined, after reporting a problem, if there is none or several. */
  manifestFile(): string | undefined {
    if (this.problems.length > 0) return undefined;
    const found = this.names.filter((name) => /^manifest\.(ya?ml|json)$/.test(name));
    if (found.length === 1) return found[0];
    const message = found.length === 0 ? "the manifest is missing" : `there are several manifests: ${found.join(", ")}`;
    this.problems.push({ file: "manifest.yaml", message, hint: "one file that maps tenants to sets" });
    return undefined;
  }

  /** Sorted names of the folder that match and are not hidden. */
  async list(folder: string, pattern: RegExp): Promise<readonly string[]> {
    this.#asked.add(folder);
    const names = (await this.#attempt(folder, async (path) => await this.#fileSystem.readdir(path))) ?? [];
    this.#listed.set(folder, names);
    return names.filter((name) => pattern.test(name) && !name.startsWith(".")).sort();
  }

  /** Entries of the directory, and of its listed folders, that were not read. */
  async unread(): Promise<readonly UnreadEntry[]> {
    const unread: UnreadEntry[] = [];
    for (const [folder, names] of [["", this.names] as const, ...this.#listed]) {
      for (const name of names) {
        const path = join(folder, name);
        if (this.#asked.has(path)) continue;
        // An entry that has disappeared, or a dangling link, is not a folder.
        const found = await this.#fileSystem.stat(join(this.#root, path)).catch(() => undefined);
        unread.push({ folder, name, isFolder: found?.isDirectory() === true });
      }
    }
    return unread;
  }

  /**
   * Text of the file; undefined, after reporting a problem, if it cannot be read, is too large or is not UTF-8.
   * @param limit default: what remains of the limit that all files without their own one share
   */
  async read(file: string, limit: Limit = { ...limits.shared, bytes: this.#leftBytes }): Promise<string | undefined> {
    this.#asked.add(join(file));
    return await this.#attempt(file, async (path) => {
      // A pipe or a device could block the reader without end, and so every reload of the directory.
      const found = await this.#fileSystem.stat(path);
      if (!found.isFile() && !found.isDirectory()) throw Object.assign(new Error(), { code: "no regular file" });
      if (found.size > limit.bytes) throw Object.assign(new Error(), { code: tooLarge, limit });
      const bytes = await this.#fileSystem.readFile(path);
      if (limit.of === limits.shared.of) this.#leftBytes -= bytes.length;
      const text = new TextDecoder().decode(bytes);
      this.texts.set(file, text);
      if (!isUtf8(bytes)) throw Object.assign(new Error(), { code: notUtf8 });
      return text;
    });
  }

  async #attempt<T>(name: string, use: (path: string) => Promise<T>): Promise<T | undefined> {
    try {
      const path = await this.#fileSystem.realpath(join(this.#root, name));
      if (path.startsWith(this.#root.endsWith(sep) ? this.#root : this.#root + sep)) return await use(path);
      this.problems.push({ file: name, message: "is a link out of the policy directory", hint: "copy the file here" });
    } catch (error) {
      this.problems.push({ file: name, message: unreadable(error) });
    }
    return undefined;
  }
}

const tooLarge = "too large";
const notUtf8 = "not UTF-8";

/** Size limits of files: their texts are decoded, hashed and compared in single turns of the event loop. */
interface Limit {
  readonly bytes: number;
  readonly of: string;
}
const mebibyte = 1024 * 1024;
const limits = {
  manifest: { bytes: 4 * mebibyte, of: "a manifest or schema may take 4 MiB" },
  entities: { bytes: 32 * mebibyte, of: "entities may take 32 MiB together" },
  shared: { bytes: 32 * mebibyte, of: "policies, and their tests, may take 32 MiB together" },
} as const satisfies Readonly<Record<string, Limit>>;

function unreadable(error: unknown): string {
  const { code, name, limit } = error as { readonly code?: string; readonly name?: string; readonly limit?: Limit };
  if (code === tooLarge) return `is too large: ${limit?.of}`;
  if (code === notUtf8) return "is not UTF-8 text";
  return `cannot be read (${code ?? name ?? "unknown error"})`;
}

/*
 * Checks the entries of a policy directory that are not read. A policy that is silently left out would be believed to
 * be in force, so anything that might be a policy is refused, and the rest is listed.
 */

/** An entry of the directory, or of a folder that is read, that is not read itself. */
interface UnreadEntry {
  /** Folder that is read, such as `default`; empty for the directory itself. */
  readonly folder: string;
  readonly name: string;
  readonly isFolder: boolean;
}

/** Names that version control, editors, file systems and orchestrators (`..data`, `..2026_01_31_…`) leave behind. */
const leftBehind = /^\.|^lost\+found$/;
const document =
  /^(?:readme|licen[cs]e|notice|changelog|codeowners)(?:[-_]\w+)*(?:\.[a-z]{2}(?:-[a-z]{2})?)?(?:\.(?:md|txt|rst|adoc|html))?$/i;

/** Names of files with expected decisions. They decide nothing, so they are read only when they are run. */
const testFile = /^[^.].*\.ya?ml$/;

/** Paths of harmless entries, and a problem for every other one. */
function judgeUnread(found: readonly UnreadEntry[]): {
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
  return folder === "" ? name : `${folder}/${name}`;
}

function complaintOf({ folder, name, isFolder }: UnreadEntry): Pick<PolicyProblem, "message" | "hint"> {
  if (folder === testsFolder) return { message: "is not read", hint: "expected decisions are *.yaml files in tests" };
  if (folder !== "" && isFolder) {
    return { message: "is not read: it is a folder within a set", hint: `move what it holds into ${folder}` };
  }
  if (folder !== "") return { message: "is not read", hint: "a set holds *.cedar files, in lowercase" };
  if (isFolder)
    return { message: "is not read: no tenant has this set", hint: "name it in the manifest, or remove it" };
  if (/\.cedar$/i.test(name)) return { message: "is not read", hint: "move it into the folder of a set" };
  return {
    message: "is not read",
    hint: "keep here what the policies need; documents are README, LICENSE and the like",
  };
}
