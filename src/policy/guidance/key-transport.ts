/**
 * Syntax of key transport in annotations and the manifest:
 *
 *     none
 *     mode=<mode>, origin=<origin>[, public_key_distribution=<text>][, exchange_algorithm=<text>]
 *
 * in any order. It is one value instead of four, so that merging two policies cannot mix their transports.
 */
import { type KeyTransportMode, keyTransportModes } from "../../base/vocabulary.ts";

/** A managed transport, or `none` if the caller holds the key itself. */
export type KeyTransportChoice = "none" | ManagedKeyTransport;

export interface ManagedKeyTransport {
  readonly mode: KeyTransportMode;
  /** Origin of the key material, such as `kms`. */
  readonly origin: string;
  readonly publicKeyDistribution?: string;
  readonly exchangeAlgorithm?: string;
}

const memberNames = ["mode", "origin", "public_key_distribution", "exchange_algorithm"];
const valuePattern = /^[\x21-\x2b\x2d-\x7e]{1,256}$/;

/** Parses the text; a string is the problem, completing "must …". */
export function parseKeyTransport(text: string): { readonly choice: KeyTransportChoice } | string {
  if (text.trim() === "none") return { choice: "none" };
  const members = new Map<string, string>();
  for (const part of text.split(",")) {
    const [name = "", value = ""] = splitOnce(part.trim());
    if (!memberNames.includes(name)) return `be "none" or members of ${memberNames.join(", ")}`;
    if (members.has(name)) return `name ${name} once`;
    if (!valuePattern.test(value)) return `give ${name} a value of visible ASCII characters without a comma`;
    members.set(name, value);
  }
  const mode = keyTransportModes.find((candidate) => candidate === members.get("mode"));
  const [origin, distribution, algorithm] = memberNames.slice(1).map((name) => members.get(name));
  if (mode === undefined) return `have a mode of ${keyTransportModes.join(", ")}`;
  if (origin === undefined) return "name the origin of the key material";
  return {
    choice: {
      mode,
      origin,
      ...(distribution !== undefined && { publicKeyDistribution: distribution }),
      ...(algorithm !== undefined && { exchangeAlgorithm: algorithm }),
    },
  };
}

/** Canonical text: equal choices have equal texts. */
export function formatKeyTransport(choice: KeyTransportChoice): string {
  if (choice === "none") return choice;
  const { mode, origin, publicKeyDistribution, exchangeAlgorithm } = choice;
  const values = [mode, origin, publicKeyDistribution, exchangeAlgorithm];
  return memberNames.flatMap((name, i) => (values[i] === undefined ? [] : [`${name}=${values[i]}`])).join(", ");
}

function splitOnce(part: string): readonly string[] {
  const at = part.indexOf("=");
  return at < 0 ? [part] : [part.slice(0, at).trim(), part.slice(at + 1).trim()];
}
