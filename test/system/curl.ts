/** The real `curl`, and what it got. */
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { requireTool } from "./tools.ts";

const run = promisify(execFile);

export interface CurlAnswer {
  readonly status: number;
  /** `1.1` or `2`. */
  readonly httpVersion: string;
  /** Header lines of every answer in the order of arrival, interim ones such as `100 Continue` included. */
  readonly headerLines: readonly string[];
  /** Value of a header of the last answer. */
  header(name: string): string | undefined;
  readonly body: string;
  /** Bytes of the request body that were sent, and of the answer's that were received. */
  readonly uploadedBytes: number;
  readonly downloadedBytes: number;
}

/** Runs curl. Rejects where it gets no HTTP answer. `input` is what `@-` reads. */
export async function curl(args: readonly string[], input?: Uint8Array): Promise<CurlAnswer> {
  const folder = await mkdtemp(join(tmpdir(), "svc-curl-"));
  const bodyFile = join(folder, "body");
  const headerFile = join(folder, "headers");
  const own = ["--silent", "--show-error", "--max-time", "30", "--write-out", "%{json}"];
  try {
    const running = run(requireTool("curl"), [...own, "--output", bodyFile, "--dump-header", headerFile, ...args]);
    running.child.stdin?.on("error", () => {}); // curl stops reading when it is refused
    running.child.stdin?.end(input);
    const said = JSON.parse((await running).stdout);
    const headerLines = (await readFile(headerFile, "utf8")).split("\r\n").filter((line) => line !== "");
    return {
      status: said.http_code,
      httpVersion: said.http_version,
      headerLines,
      header: (name) => headerValue(headerLines, name),
      body: await readFile(bodyFile, "utf8").catch(() => ""), // no body, no file
      uploadedBytes: said.size_upload,
      downloadedBytes: said.size_download,
    };
  } finally {
    await rm(folder, { recursive: true });
  }
}

function headerValue(lines: readonly string[], name: string): string | undefined {
  const line = lines.findLast((candidate) => candidate.toLowerCase().startsWith(`${name}:`));
  return line?.slice(name.length + 1).trim();
}
