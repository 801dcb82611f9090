/** The log of the development stack: one readable line for each request. */
import pretty from "pino-pretty";

/** Members that every line has, or that are shown elsewhere in it. */
const notShown = new Set(["level", "time", "service", "message", "request_id", "err"]);

interface Request {
  readonly method?: string;
  readonly rpc?: string;
  readonly protocol?: string;
  readonly status?: number;
  readonly reason?: string;
  readonly detail?: string;
  readonly duration_ms?: number;
  readonly tenant_id?: string;
  readonly allow?: boolean;
  readonly reasons?: readonly string[];
  readonly decision_id?: string;
}

/** Formats lines of the logger; a stack is shown only for defects. */
export function readableLog(write: (text: string) => void, colorize: boolean) {
  const format = pretty.prettyFactory({
    colorize,
    messageKey: "message",
    timestampKey: "time",
    translateTime: "SYS:HH:MM:ss",
    include: "time,level,err",
    messageFormat: (line) => (typeof line.rpc === "string" ? requestText(line) : otherText(line)),
  });
  return { write: (line: string) => write(format(line)) };
}

function requestText(request: Request): string {
  const { method, rpc, protocol, status, reason, detail, duration_ms, tenant_id, allow, reasons, decision_id } =
    request;
  const decided = [allow ? "allow" : "deny", `by ${reasons?.join(", ") || "nothing"}`, decision_id];
  return [
    ...[status, method, rpc, protocol, `${duration_ms?.toFixed(1)} ms`, tenant_id],
    ...(allow === undefined ? [] : decided),
    ...[reason, detail],
  ]
    .filter((part) => part !== undefined)
    .join(" ");
}

function otherText(line: Readonly<Record<string, unknown>>): string {
  const members = Object.entries(line).filter(([name]) => !notShown.has(name));
  return [line.message, ...members.map(([name, value]) => `${name}=${JSON.stringify(value)}`)].join(" ");
}
