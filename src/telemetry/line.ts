/** The text of a log line, as pino makes it, for less. */
import { pino } from "pino";
import type { Clock } from "../base/clock.ts";
import { serializeError } from "./serialize-error.ts";

/**
 * Members of a line. `err` takes anything that was thrown. Nobody passes headers, tokens, secrets, labels or
 * attributes.
 */
export type LogFields = Readonly<Record<string, unknown>>;

// Destructured they would be any symbols to the compiler.
const asJsonSym: typeof pino.symbols.asJsonSym = pino.symbols.asJsonSym;
const chindingsSym: typeof pino.symbols.chindingsSym = pino.symbols.chindingsSym;
const lsCacheSym: typeof pino.symbols.lsCacheSym = pino.symbols.lsCacheSym;

/** Makes a line of the fields, the message, the number of the level, and the member with the time. */
type AsJson = (this: Internals, fields: LogFields, message: string, level: number, time: string) => string;

/** What pino keeps in a logger, inherited by its children. */
interface Internals {
  [asJsonSym]: AsJson;
  /** Members of a child, as text. */
  readonly [chindingsSym]: string;
  /** How a line of each level begins. */
  readonly [lsCacheSym]: Readonly<Record<number, string>>;
}

/**
 * Has the logger and its children write all members of a line in one go, where pino calls `JSON.stringify` twice for
 * each. Lines stay the same; what does not fit into JSON, such as a circle, is left to pino.
 */
export function writeMembersTogether(logger: object, messageKey: string): void {
  const internals = logger as Internals;
  const original = internals[asJsonSym];
  const messageMember = `,${JSON.stringify(messageKey)}:`;
  internals[asJsonSym] = function asJson(fields, message, level, time) {
    const members = membersOf(fields);
    if (members === undefined) return original.call(this, fields, message, level, time);
    return `${this[lsCacheSym][level]}${time}${this[chindingsSym]}${members}${messageMember}${JSON.stringify(message)}}\n`;
  };
}

/** The fields, each with a comma before it; undefined where they do not fit into JSON. */
function membersOf(fields: LogFields): string | undefined {
  try {
    const { err } = fields;
    const json = JSON.stringify(err === undefined ? fields : { ...fields, err: serializeError(err) });
    return json === "{}" ? "" : `,${json.slice(1, -1)}`;
  } catch {
    return undefined;
  }
}

/** pino's member with the time in RFC 3339: all but the milliseconds is made once a second. */
export function isoTimeMember(clock: Clock): () => string {
  let madeForSecond: number | undefined;
  let begin = "";
  return () => {
    const nowMs = clock.now();
    const second = Math.floor(nowMs / 1000);
    if (second !== madeForSecond) {
      begin = `,"time":"${new Date(second * 1000).toISOString().slice(0, -"000Z".length)}`;
      madeForSecond = second;
    }
    return `${begin}${String(nowMs - second * 1000).padStart(3, "0")}Z"`;
  };
}
