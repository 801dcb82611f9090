import { createReadStream } from "node:fs";
import { parseJson } from "../../base/json.ts";
import { contentAddress } from "../../base/text-forms.ts";
import { visibleLine } from "../../base/visible-text.ts";
import {
  linesOf,
  maxLineBytes,
  PackError,
  type PackHeader,
  type PackPolicy,
  parseLine,
  refuse,
} from "../../ledger/pack/format.ts";
import type { PolicyBundle } from "../../policy/load/bundle.ts";
import { command } from "../frame/command.ts";
import { Refusal } from "../frame/terminal.ts";

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
    if (error instanceof PackError) throw new Refusal(`${file}: ${error.message}`);
    if (!(error instanceof Error && "code" in error)) throw error;
    throw new Refusal(`${file}: cannot be read (${String(error.code)})`);
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
