/** Members that a JSON text gives more than once (RFC 8259 §4): a parsed value shows the last of them only. */
import type { DescMessage } from "@bufbuild/protobuf";

/** What opened and did not close yet, with where in it the scan is. */
interface Open {
  /** Position of each member by name; undefined in an array. */
  readonly members: Map<string, number> | undefined;
  /** Name of the member that is being read. */
  member: string;
  /** Position of the member or item that is being read. */
  position: number;
  expectsName: boolean;
}

/** Structure that is looked at. What a request may hold stays far below it. */
const maxTokens = 20_000;

/**
 * Paths of the members of a message that are given more than once, such as `workload.application` or
 * `attributes[3].key`, in the order of the text. What is below an unknown member is not looked into, nor what comes
 * after `maxTokens`.
 *
 * @param text valid JSON
 */
export function duplicateMembers(desc: DescMessage, text: string): string[] {
  const found: string[] = [];
  const open: Open[] = [];
  let tokens = 0;
  for (let at = 0; at < text.length && tokens < maxTokens; at++) {
    const inner = open.at(-1);
    switch (text[at]) {
      case "{":
        open.push({ members: new Map(), member: "", position: -1, expectsName: true });
        break;
      case "[":
        open.push({ members: undefined, member: "", position: 0, expectsName: false });
        break;
      case "}":
      case "]":
        open.pop();
        break;
      case ",":
        if (inner?.members === undefined) advance(inner);
        else inner.expectsName = true;
        break;
      case '"': {
        const end = endOfString(text, at);
        if (inner?.members !== undefined && inner.expectsName) {
          inner.expectsName = false;
          if (isRepeated(inner, inner.members, JSON.parse(text.slice(at, end + 1)) as string)) {
            const path = pathOf(desc, open);
            if (path !== undefined && !found.includes(path)) found.push(path);
          }
        }
        at = end;
        break;
      }
      default:
        continue;
    }
    tokens++;
  }
  return found;
}

function advance(array: Open | undefined): void {
  if (array !== undefined) array.position++;
}

/** Goes on to the member with this name; returns whether the object had one already. */
function isRepeated(object: Open, members: Map<string, number>, name: string): boolean {
  const known = members.get(name);
  object.member = name;
  object.position = known ?? members.size;
  if (known === undefined) members.set(name, object.position);
  return known !== undefined;
}

/** Position of the closing quote. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); ; end = text.indexOf('"', end + 1)) {
    let backslashes = 0;
    while (text[end - 1 - backslashes] === "\\") backslashes++;
    if (backslashes % 2 === 0) return end;
  }
}

/** Path of the innermost member; undefined where it is no member of the message, or below one that is not. */
function pathOf(desc: DescMessage, open: readonly Open[]): string | undefined {
  let message: DescMessage | undefined = desc;
  let path = "";
  for (const [depth, { members, member }] of open.entries()) {
    const isLast = depth === open.length - 1;
    if (members === undefined || message === undefined) return undefined;
    const field: DescMessage["fields"][number] | undefined = message.fields.find(
      ({ name, jsonName }) => name === member || jsonName === member,
    );
    if (field === undefined) return undefined;
    path += path === "" ? field.name : `.${field.name}`;
    if (isLast) return path;
    const inner = open[depth + 1];
    if (field.fieldKind === "map")
      return depth + 2 === open.length && inner?.members !== undefined ? `${path}[${inner.position}].key` : undefined;
    message = field.fieldKind === "message" ? field.message : undefined;
  }
  return undefined;
}
