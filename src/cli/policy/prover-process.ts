/** Runs the prover: a separate program, which may be missing, crash, answer invalidly or hang. */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { messageOf } from "../../base/errors.ts";
import {
  type ProverAnswer,
  type ProverHead,
  type ProverOutcome,
  type ProverRequest,
  parseAnswer,
  parseHead,
} from "../../policy/diff/statements.ts";
import { cedarVersion } from "../../policy/model/cedar.ts";

export interface ProverOptions {
  /** Path of the program, or its name on the PATH. */
  readonly program: string;
  /** Called for each answer. */
  readonly onAnswer: (answered: number) => void;
  /** Ends the prover. */
  readonly signal?: AbortSignal | undefined;
  /** Time for the prover's own work besides the solver, for each question. Default 60 s. */
  readonly graceMs?: number;
}

/** A counterexample is a few kilobytes. */
const maxLineLength = 16 * 1024 * 1024;
const buildIt = "cargo install --locked --path tools/policy-prover";
const getSolver =
  "install cvc5 1.3.1, or its Python package as tools/policy-prover/README.md says, and name it with CVC5";

/** Asks the prover: an answer for each question, in their order; undecided without an answer. Does not reject. */
export async function askProver(request: ProverRequest, options: ProverOptions): Promise<ProverOutcome> {
  const answers: ProverAnswer[] = [];
  let head: ProverHead | undefined;
  const ended = await linesOf(request, options, (line) => {
    if (head === undefined) {
      head = parseHead(line);
      return head === undefined ? "gives an invalid answer" : undefined;
    }
    const answer = answers.length < request.questions.length ? parseAnswer(line) : undefined;
    if (answer === undefined) return "gives an invalid answer";
    answers.push(answer);
    options.onAnswer(answers.length);
    return undefined;
  });
  if (head === undefined) return { missing: `${options.program} ${ended ?? "does not answer"}: ${buildIt}` };
  const { cedar, solver, problem } = head as ProverHead;
  if (cedar !== cedarVersion) {
    return {
      missing: `${options.program} is of Cedar ${cedar}, policies are evaluated with ${cedarVersion}: ${buildIt}`,
    };
  }
  if (solver === undefined) return { missing: `the solver cannot be used (${problem}): ${getSolver}` };
  const undecided = `${options.program} ${ended ?? "does not answer"}`;
  // If a prover failed in any way, none of its answers is trusted.
  const isWhole = ended === undefined && answers.length === request.questions.length;
  return {
    solver,
    answers: request.questions.map((_, index) => {
      const answer = answers[index] ?? { undecided };
      return isWhole || !("equal" in answer) ? answer : { undecided };
    }),
  };
}

/**
 * Runs the program and passes on its output, line by line. Resolves with the problem, or undefined.
 *
 * @param onLine returns the problem of a line; the program is then ended
 */
function linesOf(
  request: ProverRequest,
  { program, signal, graceMs = 60_000 }: ProverOptions,
  onLine: (line: string) => string | undefined,
): Promise<string | undefined> {
  return new Promise((resolve) => {
    let problem: string | undefined;
    let rest = "";
    let said = "";
    const child = startOrExplain(program);
    if (typeof child === "string") return resolve(child);
    const end = (why: string) => {
      problem ??= why;
      endGroup(child);
      // A process that left the group may hold them open.
      child.stdout.destroy();
      child.stderr.destroy();
    };
    const interrupt = () => end("was interrupted");
    signal?.addEventListener("abort", interrupt);
    const limitMs = request.timeout_ms + graceMs;
    const limit = setTimeout(() => end(`does not answer within ${limitMs / 1000} s`), limitMs);
    const done = () => {
      clearTimeout(limit);
      signal?.removeEventListener("abort", interrupt);
      resolve(problem);
    };
    child.on("error", ({ message }) => {
      problem ??= cannotStart(message);
      done();
    });
    // A prover that crashes leaves the solver behind.
    child.on("exit", () => endGroup(child));
    child.on("close", (code, signal) => {
      const why = said.trim().split("\n").at(-1) ?? "";
      if (code !== 0) problem ??= `ended with ${code ?? signal}${why === "" ? "" : ` (${why})`}`;
      if (rest !== "") problem ??= "broke off its answer";
      done();
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      said = `${said}${text}`.slice(-4_096);
    });
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      limit.refresh();
      const lines = `${rest}${text}`.split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        const wrong = problem === undefined ? onLine(line) : undefined;
        if (wrong !== undefined) end(wrong);
      }
      if (rest.length > maxLineLength) end("gives an invalid answer");
    });
    // The exit code shows whether a program ended without reading.
    child.stdin.on("error", () => {});
    child.stdin.end(JSON.stringify(request));
    if (signal?.aborted === true) interrupt();
  });
}

/** Windows has no process groups. */
const hasGroups = process.platform !== "win32";

/** In its own process group, together with the solver; or the reason why it cannot be started. */
function startOrExplain(program: string): ChildProcessWithoutNullStreams | string {
  try {
    return spawn(program, [], { stdio: "pipe", detached: hasGroups, windowsHide: true });
  } catch (error) {
    return cannotStart(messageOf(error));
  }
}

function cannotStart(why: string): string {
  return `cannot be started (${why})`;
}

function endGroup(child: ChildProcessWithoutNullStreams): void {
  if (child.pid === undefined) return;
  if (!hasGroups) return void child.kill("SIGKILL");
  try {
    process.kill(-child.pid, "SIGKILL");
  } catch {
    // The whole group has ended.
  }
}

const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/**
 * Awaits work with child programs, which it ends when its argument aborts. A signal to this process aborts it, and ends
 * the process after the work.
 */
export async function interruptible<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  let received: NodeJS.Signals | undefined;
  const interrupt = (signal: NodeJS.Signals) => {
    received = signal;
    controller.abort();
  };
  for (const signal of signals) process.once(signal, interrupt);
  try {
    return await work(controller.signal);
  } finally {
    for (const signal of signals) process.off(signal, interrupt);
    if (received !== undefined) process.kill(process.pid, received);
  }
}
