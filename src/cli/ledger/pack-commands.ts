/**
 * `ledger pack`: evidence for an outsider, in one file. `ledger pack verify` and `ledger pack show` are for the outsider.
 */
import { createReadStream, rmSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { systemClock } from "../../base/clock.ts";
import { defined, parseJson } from "../../base/json.ts";
import { contentAddress, isMoment } from "../../base/text-forms.ts";
import { plural, visibleLine } from "../../base/visible-text.ts";
import { type EvidenceCounts, type Lineage, LineageCollector } from "../../domain/lineage/lineage.ts";
import type { Step } from "../../domain/lineage/remarks.ts";
import { type PackReport, packReport } from "../../domain/lineage/report.ts";
import { codeText, isFileError } from "../../files/file-system.ts";
import { packLines } from "../../ledger/pack/build.ts";
import {
  hasEnds,
  linesOf,
  maxLineBytes,
  PackError,
  type PackHeader,
  type PackPolicy,
  type PackSelection,
  packFields,
  parseLine,
  refuse,
  type TimeRange,
} from "../../ledger/pack/format.ts";
import { verifyPack } from "../../ledger/pack/verify.ts";
import { formOf, isIdPrefix } from "../../ledger/search/search-query.ts";
import { NoteError } from "../../ledger/tlog/note.ts";
import { requireQuorum } from "../../ledger/witness/cosignature.ts";
import { type PolicyBundle, parseBundleContent, tellsOfOthers } from "../../policy/load/bundle.ts";
import { type Context, command } from "../frame/command.ts";
import { logOf, type OpenedStore, oneTenantFlag, withArchive } from "../frame/store.ts";
import { type Answer, Refusal } from "../frame/terminal.ts";
import { signed } from "./keys-commands.ts";
import { flagOf, givenValues, readSearch, searchRefusal, type TermCriteria } from "./search-flags.ts";
import { requireTrust, trustFlags } from "./verify-commands.ts";

/** Progress interval, in entries. */
const progressEvery = 1_024;

export const ledgerPackCommand = command({
  name: "ledger pack",
  says: "write records with all that proves them into one file: of a time range, about one thing, or both",
  options: {
    "--tenant <tenant>": oneTenantFlag,
    // Required, except for `pack verify`.
    "--out <file>": "output file; must not exist yet",
    "--last <duration>": "recorded in the last minutes, hours or days, such as 90m, 12h or 30d",
    "--from <time>": "recorded at this time or later (RFC 3339): everything, or what one of the following selects",
    "--to <time>": "recorded before this time (RFC 3339)",
    "--artifact-digest <digest>": "what was said of this artifact, and the decisions behind it",
    "--cid <cid>": "the same, by CID",
    "--decision <id>": "a decision, and everything that cites it, of any time",
    "--principal <id>": "calls of this principal",
    "--on-behalf-of <type/id>": "what enforcement points asked for this subject; a slash in the type is ~1",
    "--resource <id>": "requests about the resource with this id",
    "--label <label>": "requests with this label",
    "--all-policies": "include policy texts that name other tenants; omitted otherwise",
  },
  run(context) {
    const { out } = context.options;
    if (out === undefined) throw new Refusal("--out: is required");
    const selection = readSelection(context.options);
    return withArchive(context, (opened) => writePack(opened, out, selection, context));
  },
});

async function writePack(
  opened: OpenedStore,
  out: string,
  selection: PackSelection,
  { options: { tenant, allPolicies = false }, progress }: Context<{ tenant?: string; allPolicies?: boolean }>,
): Promise<Answer> {
  const { archive } = opened;
  const { checkpoint, head, verifierKeys } = await signed(opened, await logOf(archive, tenant));
  let entries = 0;
  const unshown = new Map<string, string>();
  const onUnshown = (revision: string, reason: string) => unshown.set(revision, reason);
  const tenants = (await archive.logs()).map(({ tenantId }) => tenantId);
  const others = tenants.filter((tenantId) => tenantId !== head.tenantId);
  // A policy revision belongs to the whole deployment: one that names other tenants must not be in one tenant's pack.
  const hides = (revision: string, content: string) => {
    const bundle = allPolicies ? undefined : parseBundleContent(content, revision);
    const reason = bundle && tellsOfOthers(bundle, head.tenantId, others);
    return reason && `${reason} (--all-policies shows it)`;
  };
  const request = { head, checkpoint, selection, nowMs: systemClock.now(), hides, onUnshown };
  const lines = packLines(archive, request, (leafIndex) => {
    entries += 1;
    if (entries % progressEvery === 0) progress(`${entries} entries, up to leaf ${leafIndex} of ${head.size}`);
  });
  await writeNew([[out, lines]]);
  const { origin, size } = head;
  const leftOut = [...unshown].map(([revision, reason]) => ({ revision, reason }));
  return {
    value: {
      file: out,
      origin,
      tree_size: size,
      entries,
      verifier_keys: verifierKeys,
      policies_left_out: leftOut,
    },
    text: [
      `${out}: ${entries} entries of ${origin}, proven in its ${size} leaves`,
      ...leftOut.map(({ revision, reason }) => `  without the text of policy revision ${revision}: ${reason}`),
    ].join("\n"),
  };
}

type NewFile = readonly [path: string, text: string | AsyncIterable<string>];

/** Writes new files, all or none. Returns their paths. */
export async function writeNew(files: readonly NewFile[]): Promise<readonly string[]> {
  const created: string[] = [];
  try {
    for (const [path, text] of files) {
      const file = await create(path);
      created.push(path);
      await file
        .writeFile(text)
        .then(() => file.sync())
        .finally(() => file.close());
    }
    return created;
  } catch (error) {
    for (const path of created) rmSync(path, { force: true });
    throw error;
  }
}

/**
 * Creates the file: never over an existing one, and readable by the owner only, because it contains what the log keeps
 * sealed.
 */
async function create(path: string): Promise<FileHandle> {
  try {
    return await open(path, "wx", 0o600);
  } catch (error) {
    throw new Refusal(creationProblem(path, error));
  }
}

function creationProblem(path: string, error: unknown): string {
  if (isFileError(error, ["EEXIST"])) return `${path} exists already`;
  if (isFileError(error, ["ENOENT", "ENOTDIR"])) return `--out: there is no directory ${dirname(resolve(path))}`;
  return `--out: ${path} cannot be written${codeText(error)}`;
}

type PackFlags = TermCriteria & { readonly last?: string };

/** One value at most, of a time range or of all time; or a time range. */
function readSelection(flags: PackFlags): PackSelection {
  const ends = readEnds(flags);
  const [given, ...others] = givenValues(flags).flatMap(([parameter, text]) => {
    const field = packFields.find((one) => one === parameter);
    return field === undefined || text === "" ? [] : [{ field, text }];
  });
  if (others.length > 0 || (given === undefined && !hasEnds(ends)))
    throw new Refusal(
      `--last, or --from and --to, say what to pack, or one of ${packFields.map(flagOf).join(", ")}, or both`,
    );
  if (given === undefined) return ends;
  const { field, text } = given;
  if (field === "decision_id" && hasEnds(ends))
    throw new Refusal("--decision: is of any time: give no --last, --from or --to");
  // A pack names what it is about, and a verifier compares that with whole ids.
  if (field === "decision_id" && isIdPrefix(text)) throw searchRefusal([`${flagOf(field)}: must be a whole id`]);
  const { parse, message } = formOf(field);
  const value = parse(text);
  // No record can have this value.
  if (value === undefined) throw searchRefusal([`${flagOf(field)}: ${message}`]);
  return { field, value, ...ends };
}

/** The time range, as searches read it. */
function readEnds({ last, from, to }: PackFlags): TimeRange {
  const criteria = readSearch(defined({ last, from, to }));
  if (!("limit" in criteria)) throw new Refusal(criteria);
  const { fromMs, toMs } = criteria;
  if (fromMs !== undefined && toMs !== undefined && fromMs >= toMs) throw new Refusal("--to: is not after --from");
  const ends = defined({ from: momentOf(fromMs), to: momentOf(toMs) });
  // An offset leads to the years beside them, whose texts are not in the order of time.
  if (!Object.values(ends).every(isMoment))
    throw new Refusal("--from, --to: must be in the years 0000 to 9999, in UTC");
  return ends;
}

/** In the form of records. */
function momentOf(ms: number | undefined): string | undefined {
  return ms === undefined ? undefined : new Date(ms).toISOString();
}

/** Needs only the pack and the trusted keys. */
export const ledgerPackVerifyCommand = command({
  name: "ledger pack verify",
  says: "check offline that a log holds exactly what a pack says, and report what that is",
  arguments: { "<file>": "a pack" },
  options: trustFlags("a trusted verifier key of the log: never from the pack; several times if keys were rotated"),
  async run({ options, args: [file = ""], progress }) {
    const { keys, witnesses } = requireTrust(options);
    const lineage = new LineageCollector();
    const shares = { records: 0, erased: 0, leavesOnly: 0 };
    let entries = 0;
    try {
      const pack = await verifyPack(createReadStream(file), keys, (entry) => {
        lineage.add(entry);
        shares[entry.record !== undefined ? "records" : entry.erased ? "erased" : "leavesOnly"] += 1;
        entries += 1;
        if (entries % progressEvery === 0) progress(`${entries} entries, up to leaf ${entry.leafIndex}`);
      });
      const cosigned = witnesses === undefined ? [] : requireQuorum(pack.note, witnesses, systemClock.now());
      const report = packReport(pack, shares, lineage.report(pack.range), cosigned);
      return { value: report, text: reportText(report) };
    } catch (error) {
      throw refusalOf(file, error);
    }
  },
});

// The report on a pack, for a person.

/**
 * The report as lines. Text of callers is shown without control characters, because it may be made to deceive a
 * terminal.
 */
export function reportText(report: PackReport): string {
  const { lineages, others } = report;
  return [
    `verified: ${plural(report.records, "record")} of ${report.log}`,
    "",
    ...table([
      ["tenant", report.tenant_id],
      ["selection", selectionText(report.selection)],
      ...(report.evidence === undefined ? [] : [["evidence", evidenceText(report.evidence)] as const]),
      ["erased", `${plural(report.erased, "record")}, of which the leaf alone is left`],
      ["log", `${plural(report.tree_size, "leaf", "leaves")}, the newest recorded at ${report.newest_recorded_at}`],
      ["root", report.root],
      ["signed by", `key ${report.key_id}`],
      ...report.witnesses.map(({ name, cosigned_at }) => ["cosigned by", `${name}, ${cosigned_at}`] as const),
      ["pack made", `${report.made_at}, according to its maker`],
    ]),
    ...(lineages === undefined ? tooMany : lineages.flatMap((lineage) => ["", ...lineageLines(lineage)])),
    ...(others === undefined || others.length === 0 ? [] : ["", "other records", ...others.map(stepLine)]),
    ...(report.policies.length === 0 ? [] : ["", "policy revisions that decided"]),
    ...report.policies.map(({ revision, shown }) => `  ${revision}${shown ? "" : "  (its text is not in the pack)"}`),
    "",
    "proven",
    ...report.proven.map((line) => `  + ${line}`),
    "not proven",
    ...report.not_proven.map((line) => `  - ${line}`),
  ]
    .map(visibleLine)
    .join("\n");
}

const tooMany = ["", "too many records to put in order by artifact: packs of shorter ranges show that"];

function lineageLines({ artifact_digests, cids, steps, remarks }: Lineage): readonly string[] {
  const names = [...artifact_digests, ...cids.map((cid) => `CID ${cid}`)];
  const marks = Map.groupBy(remarks, ({ leaf_index }) => leaf_index);
  return [
    names.length === 0 ? "no artifact named" : `artifact ${names.join(", ")}`,
    ...steps.flatMap((step) => [
      stepLine(step),
      ...(marks.get(step.leaf_index) ?? []).map(({ message }) => `      ! ${message}`),
    ]),
  ];
}

function stepLine(step: Step): string {
  const { leaf_index, recorded_at, kind, record_id, erased, operation, outcome, principal, subject } = step;
  const what = [kind.replace("_", " "), operation, erased === true ? "ERASED" : outcome].filter(isGiven).join(" ");
  const who = principal === undefined ? "" : `  by ${principal}${subject === principal ? "" : ` (${subject})`}`;
  return `  ${recorded_at}  leaf ${leaf_index}  ${what}${who}  ${record_id}${citationText(step)}${ofEvidence(step)}`;
}

function evidenceText({ allowed, ...codes }: EvidenceCounts): string {
  const counts = Object.entries(codes).map(([code, number]) => `${number} ${code.replaceAll("_", " ")}`);
  return `${plural(allowed, "allowed decision")}${counts.length === 0 ? "" : `: ${counts.join(", ")}`}`;
}

/** Whether the policy expects evidence, and what arrived. */
function ofEvidence({ evidence, expects_evidence: isExpected }: Step): string {
  if (evidence === undefined) return "";
  return `  evidence ${isExpected === false ? "not expected" : "expected"}${evidence === "not_expected" ? "" : `, ${evidence.replaceAll("_", " ")}`}`;
}

function citationText({ kind, citation, decision_id, relied_on }: Step): string {
  if (relied_on !== undefined)
    return `  relies on ${relied_on.length === 0 ? "nothing registered" : relied_on.join(", ")}`;
  if (kind === "decision" || citation === undefined || decision_id === undefined) return "";
  return `  cites ${decision_id}: ${citation}`;
}

function selectionText({ from, to, ...field }: PackReport["selection"]): string {
  const times = [from && `from ${String(from)}`, to && `before ${String(to)}`].filter(isGiven).join(", ");
  const values = Object.entries(field).map(([name, value]) => `${name.replaceAll("_", " ")} ${String(value)}`);
  return [...values, times && `recorded ${times}`].filter(isGiven).join(", ");
}

function table(rows: readonly (readonly [name: string, value: string])[]): readonly string[] {
  return rows.map(([name, value]) => `  ${name.padEnd(13)}${value}`);
}

function isGiven(text: unknown): text is string {
  return typeof text === "string" && text !== "";
}

/** Needs only the pack, and no trusted key. */
export const ledgerPackShowCommand = command({
  name: "ledger pack show",
  says: "show what a pack says it is, without a check: `ledger pack verify` checks it",
  arguments: { "<file>": "a pack" },
  options: { "--policies": "print the texts of its policies" },
  async run({ options, args: [file = ""] }) {
    const { header, policies } = await readPack(file);
    const { tenant_id, selection, made_at } = header;
    const shown = policies.map(({ revision, content }) => ({
      revision,
      shown: content !== undefined,
      ...(options.policies === true && content !== undefined && { bundle: parseJson(content) as PolicyBundle }),
    }));
    const lines = [
      `tenant ${tenant_id}, ${JSON.stringify(selection)}, made ${made_at}; not verified`,
      ...shown.flatMap(({ revision, shown: isShown, bundle }) => [
        `policy revision ${revision}${isShown ? "" : ": its text is not in the pack"}`,
        ...(bundle === undefined ? [] : textsOf(bundle)),
      ]),
    ];
    return { value: { tenant_id, selection, made_at, policies: shown }, text: lines.join("\n") };
  },
});

/** The Refusal of a pack that does not verify or cannot be read; any other error unchanged. */
function refusalOf(file: string, error: unknown): unknown {
  if (error instanceof PackError || error instanceof NoteError) return new Refusal(`${file}: ${error.message}`);
  return codeText(error) === "" ? error : new Refusal(`${file}: cannot be read${codeText(error)}`);
}

/** The header and the policies, whose texts are those of their revisions. Throws a Refusal if the file is no pack. */
async function readPack(file: string): Promise<{ header: PackHeader; policies: readonly PackPolicy[] }> {
  let header: PackHeader | undefined;
  const policies: PackPolicy[] = [];
  try {
    for await (const { number, text } of linesOf(createReadStream(file), maxLineBytes)) {
      const line = parseLine(text);
      if (line.type === "header") header = line;
      if (line.type !== "policy") continue;
      if (line.content !== undefined && contentAddress(line.content) !== line.revision)
        refuse(number, `the policy text is not that of revision ${line.revision}`);
      policies.push(line);
    }
  } catch (error) {
    throw refusalOf(file, error);
  }
  if (header === undefined) throw new Refusal(`${file}: has no header`);
  return { header, policies };
}

/** Each file under the name of its set. */
function textsOf({ sets, manifest }: PolicyBundle): readonly string[] {
  const files = Object.entries(sets).flatMap(([set, texts]) =>
    Object.entries(texts).flatMap(([name, text]) => ["", visibleLine(`// ${set}/${name}`), text.trimEnd()]),
  );
  return [visibleLine(`// manifest: ${JSON.stringify(manifest)}`), ...files];
}
