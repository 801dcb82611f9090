/** What is kept of a call so that a retry gets the same answer, as one text to be sealed. */

/** The payload's digest on the first line, the answer's JSON after it. */
export function keptText(payloadDigest: string, answer: string): string {
  return `${payloadDigest}\n${answer}`;
}

/** The answer's JSON text where the payload is the same one; undefined where it is another. */
export function answerFor(payloadDigest: string, kept: string): string | undefined {
  const prefix = `${payloadDigest}\n`;
  return kept.startsWith(prefix) ? kept.slice(prefix.length) : undefined;
}
