/** Answers of other systems over HTTP. */

/** Reads the body of an answer as UTF-8. Rejects if it is longer than `maxBytes`. */
export async function readText(response: Response, maxBytes: number): Promise<string> {
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  for await (const chunk of response.body ?? []) {
    sizeBytes += chunk.byteLength;
    if (sizeBytes > maxBytes) throw new Error(`longer than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(chunks));
}

/** Why there is no answer. The runtime's fetch says "fetch failed", and has the reason, such as ECONNREFUSED, in the cause. */
export function fetchProblem(error: unknown): string {
  if (!(error instanceof Error)) return "unknown error";
  const { cause } = error;
  if (!(cause instanceof Error)) return error.message;
  return "code" in cause && typeof cause.code === "string" ? cause.code : cause.message;
}
