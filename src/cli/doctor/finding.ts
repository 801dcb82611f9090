/** Findings of `doctor`. */
import { messageWithCause } from "../../base/errors.ts";
import { untilAborted } from "../../base/timers.ts";
import type { ConfigFor, Use } from "../../config/config.ts";
import type { Context } from "../frame/command.ts";
import { Refusal } from "../frame/terminal.ts";

export interface Finding {
  /** The checked subject. */
  readonly check: string;
  /** `failed`: the service does not start or does not serve. `warning`: it does, but soon or elsewhere will not. */
  readonly status: "ok" | "warning" | "failed" | "skipped";
  readonly detail: string;
  /** What to do about it. */
  readonly remedy?: string;
}

export interface Check {
  /** Remedy for a failure without its own. */
  readonly remedy: string;
  /** Returns all findings. Whatever it throws is a failure too. */
  readonly look: (found: Findings, deadline: AbortSignal) => Promise<void> | void;
}

/** The check does not apply. */
class Skipped extends Error {}

/** Clock tolerance of tokens and proofs; a witness tolerates more, and records carry this clock's time. */
const toleranceMs = 30_000;
const noticeableMs = 5_000;

/** Findings of one check. */
export class Findings {
  readonly all: Finding[] = [];
  readonly #check: string;
  readonly #remedy: string;
  readonly #load: Context["load"];

  constructor(check: string, remedy: string, load: Context["load"]) {
    this.#check = check;
    this.#remedy = remedy;
    this.#load = load;
  }

  /** The settings for the use; if they are invalid, ends the check, because the check of settings reports that. */
  readonly load = <U extends Use>(use: U): ConfigFor<U> => {
    try {
      return this.#load(use);
    } catch (error) {
      if (error instanceof Refusal) throw new Skipped("the settings are wrong");
      throw error;
    }
  };

  skip(why: string): never {
    throw new Skipped(why);
  }

  ok(detail: string, check = this.#check): void {
    this.all.push({ check, status: "ok", detail });
  }

  failed(detail: string, remedy = this.#remedy, check = this.#check): void {
    this.all.push({ check, status: "failed", detail, remedy });
  }

  warning(detail: string, remedy = this.#remedy, check = this.#check): void {
    this.all.push({ check, status: "warning", detail, remedy });
  }

  /** Compares this machine's clock with another's reading, taken between two readings of this one. */
  clock(whose: string, theirMs: number, beforeMs: number, afterMs: number): void {
    const offMs = theirMs < beforeMs ? beforeMs - theirMs : Math.max(0, theirMs - afterMs);
    const detail = `this machine's clock and ${whose}'s differ by ${Math.round(offMs / 1_000)} s`;
    const remedy =
      "let both follow a time server (NTP): tokens are judged with 30 s of tolerance, records by this clock";
    if (offMs > toleranceMs) this.failed(detail, remedy, "clock");
    else if (offMs > noticeableMs) this.warning(detail, remedy, "clock");
    else this.ok(detail, "clock");
  }
}

/** Never rejects, and resolves at the deadline at the latest. */
export async function runCheck(
  name: string,
  { look, remedy }: Check,
  load: Context["load"],
  deadline: AbortSignal,
): Promise<readonly Finding[]> {
  const alone = (status: Finding["status"], detail: string): Finding => ({
    check: name,
    status,
    detail,
    ...(status === "failed" && { remedy }),
  });
  const found = new Findings(name, remedy, load);
  const looking = (async () => look(found, deadline))().then(() => found.all);
  return untilAborted(looking, deadline, () => new Error("no answer in time")).catch((error: unknown) => {
    return error instanceof Skipped
      ? [alone("skipped", error.message)]
      : [...found.all, alone("failed", messageWithCause(error))];
  });
}
