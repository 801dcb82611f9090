/** A driver as a process: one line out, one line back. */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { DriverAnswer, DriverRequest } from "./protocol.ts";

export interface Driver {
  /** Rejects where no answer comes in time, or it is none. */
  ask(request: DriverRequest, timeoutMs: number): Promise<DriverAnswer>;
  /** Ends its input; resolves with its exit code, null where it had to be killed. */
  end(): Promise<number | null>;
}

/** Starts a driver. What it says on stderr is kept for its failures. */
export function startDriver([command = "", ...args]: readonly string[]): Driver {
  const child = spawn(command, args, { stdio: ["pipe", "pipe", "pipe"] });
  let said = "";
  child.stderr.on("data", (chunk: Buffer) => {
    said = (said + chunk.toString("utf8")).slice(-4_000);
  });
  child.stdin.on("error", () => {});
  const ended = new Promise<number | null>((done) => {
    child.once("exit", (code) => done(code));
    child.once("error", (error) => {
      said += String(error);
      done(null);
    });
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const complain = (what: string) => new Error(`${what}${said === "" ? "" : `; it said: ${said.trim()}`}`);
  return {
    async ask(request, timeoutMs) {
      said = "";
      child.stdin.write(`${JSON.stringify(request)}\n`);
      const line = await within(lines.next(), timeoutMs, () => complain(`no answer in ${timeoutMs} ms`));
      if (line.done === true) throw complain(`the driver ended with ${await ended}`);
      const answer = JSON.parse(line.value) as DriverAnswer;
      if (answer.case !== request.case) throw complain(`the answer is of ${answer.case}`);
      return answer;
    },
    async end() {
      child.stdin.end();
      return within(ended, 20_000, () => complain("the driver does not end")).catch(() => kill(child, ended));
    },
  };
}

async function kill(child: ChildProcess, ended: Promise<number | null>): Promise<null> {
  child.kill("SIGKILL");
  await ended;
  return null;
}

async function within<T>(work: Promise<T>, timeoutMs: number, error: () => Error): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(error()), timeoutMs);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}
