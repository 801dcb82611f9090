/** `ledger report`: what a template selects of a period, as a file for a person. */
import { rmSync } from "node:fs";
import { extname } from "node:path";
import { systemClock } from "../../base/clock.ts";
import { ServiceError } from "../../base/errors.ts";
import { reportHtml } from "../../ledger/report/html.ts";
import { type Report, readReport, reportCsv, reportTemplates } from "../../ledger/report/report.ts";
import { logNameOf } from "../../ledger/tlog/log-name.ts";
import { command, tellSecurity } from "../frame/command.ts";
import { logOf, oneTenantFlag, withArchive } from "../frame/store.ts";
import { Refusal } from "../frame/terminal.ts";
import { signed } from "./keys-commands.ts";
import { create } from "./pack-commands.ts";
import { userName } from "./search-command.ts";
import { readSearch, searchedParameters, searchRefusal } from "./search-flags.ts";

export const ledgerReportCommand = command({
  name: "ledger report",
  says: "write what happened in a period as one HTML file to read, print and file, with how to verify it",
  options: {
    "--tenant <tenant>": oneTenantFlag,
    "--template <name>": { says: "what to report", choices: reportTemplates, required: true },
    "--out <file>": { says: "where to; must not be there yet", required: true },
    "--csv": "also write the records as CSV beside it, under the same name with .csv",
    "--last <duration>": "recorded in the last minutes, hours or days, such as 90m, 12h or 30d",
    "--from <time>": "recorded at this time or later (RFC 3339)",
    "--to <time>": "recorded before this time (RFC 3339; default: now)",
  },
  async run(context) {
    const { tenant, template, out, csv, json, config, ...period } = context.options;
    const criteria = readSearch(period);
    if (!("limit" in criteria)) throw searchRefusal(criteria);
    const { fromMs, toMs = systemClock.now() } = criteria;
    if (fromMs === undefined) throw searchRefusal(["--last or --from: is required"]);
    if (fromMs >= toMs) throw searchRefusal(["--to: is not after the beginning of the period"]);
    const known = reportTemplates.find((each) => each === template) ?? "access";
    return withArchive(context, async (opened) => {
      const { archive } = opened;
      const { checkpoint, head } = await signed(opened, await logOf(archive, tenant));
      const { tenantId, origin, size } = head;
      const searched = { log: logNameOf(origin), tenant_id: tenantId, operator: userName() };
      const fields = ["template", ...searchedParameters(period)];
      tellSecurity(context.terminal, "ledger_searched", { ...searched, fields }, "a log is searched", "info");
      const scope = { template: known, tenantId, fromMs, toMs, checkpoint };
      const report = await readReport((query) => archive.search({ ...query, tenantId }), scope).catch(refuse);
      const files = await write(report, csv === true ? [out, `${out.slice(0, -extname(out).length)}.csv`] : [out]);
      const records = report.rows.length;
      return {
        value: { files, template, tenant_id: tenantId, origin, tree_size: size, records },
        text: `${files.join(", ")}: ${records} records of ${origin}, of ${size} leaves`,
      };
    });
  },
});

function refuse(error: unknown): never {
  throw error instanceof ServiceError && error.reason === "invalid_request" ? new Refusal(error.message) : error;
}

/** Writes the report, and the CSV if there is a second file; both or none. */
async function write(report: Report, files: readonly string[]): Promise<readonly string[]> {
  const written: string[] = [];
  try {
    for (const [at, file] of files.entries()) {
      const handle = await create(file);
      written.push(file);
      await handle.writeFile(at === 0 ? reportHtml(report) : reportCsv(report)).finally(() => handle.close());
    }
    return written;
  } catch (error) {
    for (const file of written) rmSync(file, { force: true });
    throw error;
  }
}
