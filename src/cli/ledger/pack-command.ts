import { rmSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { Command } from "commander";
import { systemClock } from "../../base/clock.ts";
import type { TenantId } from "../../base/ids.ts";
import { isFileError } from "../../files/file-system.ts";
import { packLines } from "../../ledger/pack/build.ts";
import { PackError } from "../../ledger/pack/format.ts";
import type { PackSource } from "../../ledger/pack/found.ts";
import type { PackSelection } from "../../ledger/pack/selection.ts";
import type { StoreArchive } from "../../ledger/ports/archive.ts";
import type { LogState } from "../../ledger/ports/store.ts";
import { parseBundleContent, tellsOfOthers } from "../../policy/load/bundle.ts";
import { type CommonOptions, withCommonOptions } from "../options.ts";
import { createOutput, type Output } from "../output.ts";
import { createProgress, type Progress, type Terminal } from "../terminal.ts";
import { signOrReport } from "./checkpoint.ts";
import { type PackFlags, readSelection } from "./pack-selection.ts";
import { addLedgerPackVerifyCommand } from "./pack-verify-command.ts";
import { refuseSearch } from "./search-flags.ts";
import { logsOrReport, type OpenedStore, withStoreOrReport } from "./store.ts";

interface PackOptions extends CommonOptions, PackFlags {
  readonly tenant?: string;
  readonly out?: string;
  readonly allPolicies?: boolean;
}

/** How often progress is shown, in entries. */
const progressEvery = 1_024;

/** `ledger pack`: evidence for somebody outside, in one file; and `ledger pack verify`, which is for them. */
export function addLedgerPackCommands(ledger: Command, terminal: Terminal): void {
  const pack = withCommonOptions(ledger.command("pack"))
    .description("write records with all that proves them into one file: of a time range, or about one thing")
    // Required, but not of `pack verify`.
    .option("--tenant <tenant>", "whose records")
    .option("--out <file>", "where to; must not be there yet")
    .option("--from <time>", "everything recorded at this time or later (RFC 3339)")
    .option("--to <time>", "everything recorded before this time (RFC 3339)")
    .option("--artifact-digest <digest>", "what was said of this artifact, and the decisions behind it")
    .option("--cid <cid>", "the same, by CID")
    .option("--decision <id>", "a decision, and everything that cites it")
    .option("--principal <id>", "calls of this principal")
    .option("--on-behalf-of <type/id>", "what enforcement points asked for this subject; a slash in the type is ~1")
    .option("--all-policies", "show policy texts also where they tell of other tenants; left out otherwise")
    .action(async (options: PackOptions) => {
      const output = createOutput(options.json === true, terminal);
      const { tenant, out } = options;
      const selection = readSelection(options);
      const problems = [
        ...(tenant === undefined ? ["--tenant: is required"] : []),
        ...(out === undefined ? ["--out: is required"] : []),
        ...("problem" in selection ? [selection.problem] : []),
      ];
      if ("problem" in selection && selection.isForm === true) return refuseSearch(problems, output, terminal);
      if (tenant === undefined || out === undefined || "problem" in selection) return output.fail(problems);
      await withStoreOrReport(options, output, async (opened) => {
        const [head] = (await logsOrReport(opened.archive, tenant, output)) ?? [];
        if (head !== undefined)
          await writePack(opened, head, { ...options, out, ...selection }, output, createProgress(terminal));
      });
    });
  addLedgerPackVerifyCommand(pack, terminal);
}

/** What is packed, and where to. */
interface PackRequest {
  readonly selection: PackSelection;
  readonly out: string;
  readonly allPolicies?: boolean;
}

async function writePack(
  opened: OpenedStore,
  committed: LogState,
  { selection, out, allPolicies }: PackRequest,
  output: Output,
  progress: Progress,
): Promise<void> {
  const signed = await signOrReport(opened, committed, output);
  if (signed === undefined) return;
  const { checkpoint, head } = signed;
  let entries = 0;
  const unshown = new Map<string, string>();
  const onUnshown = (revision: string, reason: string) => unshown.set(revision, reason);
  const { archive } = opened;
  const hasOthers = (await archive.logs()).some(({ tenantId }) => tenantId !== head.tenantId);
  const source = allPolicies === true ? archive : withOwnPolicies(archive, head.tenantId, hasOthers, onUnshown);
  const request = { head, checkpoint, selection, nowMs: systemClock.now(), onUnshown };
  const lines = packLines(source, request, (leafIndex) => {
    entries += 1;
    if (entries % progressEvery === 0) progress.show(`${entries} entries, up to leaf ${leafIndex} of ${head.size}`);
  });
  const file = await createOrReport(out, output);
  if (file === undefined) return;
  try {
    await pipeline(Readable.from(lines), file.createWriteStream({ flush: true }));
  } catch (error) {
    rmSync(out, { force: true });
    if (error instanceof PackError) return output.fail([error.message]);
    throw error;
  } finally {
    progress.done();
  }
  const { origin, size } = head;
  output.succeed(
    {
      file: out,
      origin,
      tree_size: size,
      entries,
      verifier_keys: signed.verifierKeys,
      policies_left_out: [...unshown].map(([revision, reason]) => ({ revision, reason })),
    },
    [
      `${out}: ${entries} entries of ${origin}, proven in its ${size} leaves`,
      ...[...unshown].map(([revision, reason]) => `  without the text of policy revision ${revision}: ${reason}`),
    ].join("\n"),
  );
}

/** Makes the file: never over anything, and for the owner alone, since it holds what the log keeps sealed. */
async function createOrReport(path: string, output: Output): Promise<FileHandle | undefined> {
  try {
    return await open(path, "wx", 0o600);
  } catch (error) {
    output.fail([creationProblem(path, error)]);
    return undefined;
  }
}

function creationProblem(path: string, error: unknown): string {
  if (isFileError(error, ["EEXIST"])) return `${path} is there already`;
  if (isFileError(error, ["ENOENT", "ENOTDIR"])) return `--out: there is no directory ${dirname(resolve(path))}`;
  const code = error instanceof Error && "code" in error ? ` (${String(error.code)})` : "";
  return `--out: ${path} cannot be written${code}`;
}

/** A policy revision is the whole deployment's. One that tells of other tenants is not for whoever gets this tenant's pack. */
function withOwnPolicies(
  archive: StoreArchive,
  tenantId: TenantId,
  hasOthers: boolean,
  onUnshown: (revision: string, reason: string) => void,
): PackSource {
  return {
    entries: (head, first, end) => archive.entries(head, first, end),
    log: (head) => archive.log(head),
    search: (query) => archive.search(query),
    async policyRevision(revision) {
      const content = await archive.policyRevision(revision);
      const bundle = content === undefined ? undefined : parseBundleContent(content, revision);
      // What is damaged goes on as it is: whoever writes the pack says so.
      const reason = bundle && tellsOfOthers(bundle, tenantId, hasOthers);
      if (reason === undefined) return content;
      onUnshown(revision, `${reason} (--all-policies shows it)`);
      return undefined;
    },
  };
}
