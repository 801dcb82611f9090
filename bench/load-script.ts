/** What `wrk` is told to send, as scripts in Lua. */
import { randomUUID } from "node:crypto";
import type { Load, Turn } from "./load.ts";

/** The script that has `wrk` send such requests. */
export function luaScript(
  headers: Load["headers"],
  body: Load["body"],
  numbered?: Load["numbered"],
  tokens?: Load["tokens"],
): string {
  const lines = Object.entries(headers).map(([name, value]) => `wrk.headers[${lua(name)}] = ${lua(value)}`);
  if (body === undefined) return lines.join("\n");
  const text = Buffer.from(body).toString("latin1");
  lines.push('wrk.method = "POST"', `wrk.body = ${lua(text)}`);
  if (numbered !== undefined) {
    const parts = text.split(numbered).map(lua);
    const load = randomUUID().slice(0, 8);
    lines.push(
      "local number = 0",
      "function request()",
      "  number = number + 1",
      `  return wrk.format(nil, nil, nil, ${parts.join(` .. "${load}-" .. number .. `)})`,
      "end",
    );
  }
  if (tokens !== undefined) lines.push(...luaTurns(tokens));
  return lines.join("\n");
}

/** Requests that are written out once, for each token one. */
function luaTurns(tokens: readonly string[]): readonly string[] {
  return [
    `local tokens = { ${tokens.map(lua).join(", ")} }`,
    "local requests = {}",
    "function init()",
    "  for turn, token in ipairs(tokens) do",
    '    wrk.headers["authorization"] = "Bearer " .. token',
    "    requests[turn] = wrk.format()",
    "  end",
    "end",
    "local turn = 0",
    "function request()",
    "  turn = turn % #requests + 1",
    "  return requests[turn]",
    "end",
  ];
}

/** A Lua string of the given bytes, in decimal escapes. */
function lua(text: string): string {
  return `"${[...Buffer.from(text, "latin1")].map((byte) => `\\${String(byte).padStart(3, "0")}`).join("")}"`;
}

/** Digits of a number in requests that are sent in turn. */
const digits = 9;

/** The script that has `wrk` send these requests in turn, each with something of its own where it is `numbered`. */
export function turnsScript(turns: readonly Turn[], numbered?: Load["numbered"]): string {
  const load = randomUUID().slice(0, 8);
  // As long as what comes in its place, so that requests can be formatted once.
  const mark = `${load}-${"#".repeat(digits)}`;
  const requests = turns.map(({ headers, body }) => {
    const fields = Object.entries(headers).map(([name, value]) => `[${lua(name)}] = ${lua(value)}`);
    const text = numbered === undefined ? body : body.replaceAll(numbered, mark);
    return `  { { ${fields.join(", ")} }, ${lua(Buffer.from(text).toString("latin1"))} },`;
  });
  return [
    "local turns = {",
    ...requests,
    "}",
    "local function split(text)",
    "  local parts = {}",
    "  local from = 1",
    `  for first, last in function() return text:find(${lua(mark)}, from, true) end do`,
    "    parts[#parts + 1] = text:sub(from, first - 1)",
    "    from = last + 1",
    "  end",
    "  parts[#parts + 1] = text:sub(from)",
    "  return parts",
    "end",
    "function init()",
    '  for at, turn in ipairs(turns) do turns[at] = split(wrk.format("POST", nil, turn[1], turn[2])) end',
    "end",
    "local number = 0",
    "function request()",
    "  local parts = turns[number % #turns + 1]",
    "  number = number + 1",
    "  if #parts == 1 then return parts[1] end",
    `  return table.concat(parts, string.format("${load}-%0${digits}d", number))`,
    "end",
  ].join("\n");
}
