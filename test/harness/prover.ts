#!/usr/bin/env node
/** Stands in for the prover, and behaves as the environment's PROVER says (`ProverBehaviour`). */
import { spawn } from "node:child_process";
import { connect } from "node:net";
import { text } from "node:stream/consumers";

export interface ProverBehaviour {
  /** First line of the answer. */
  readonly head?: unknown;
  /** The answer to every question. */
  readonly each?: unknown;
  /** What it writes besides, as it stands. */
  readonly text?: string;
  readonly error?: string;
  /** What it ends with. */
  readonly code?: number;
  /** Does not read its input. */
  readonly isDeaf?: boolean;
  /** Never ends, nor does a program that it starts: each is connected to this port of the loopback for as long as it runs. */
  readonly hangsAt?: number;
  /** It is killed itself, when the program that it started hangs. */
  readonly isKilled?: boolean;
  /** Writes a line of so many characters at the end, and does not end it. */
  readonly padding?: number;
}

/** Path of this program. */
export const standInProver = import.meta.filename;

if (import.meta.main) await behave(JSON.parse(process.env.PROVER ?? "{}"));

async function behave(behaviour: ProverBehaviour): Promise<void> {
  const { head, each, text: more = "", padding = 0, error = "", code = 0, isDeaf, hangsAt, isKilled } = behaviour;
  const questions = isDeaf === true ? [] : JSON.parse(await text(process.stdin)).questions;
  const answers = each === undefined ? [] : questions.map(() => each);
  const lines = [...(head === undefined ? [] : [head]), ...answers];
  process.stdout.write(`${lines.map((line) => `${JSON.stringify(line)}\n`).join("")}${more}${"x".repeat(padding)}`);
  process.stderr.write(error);
  process.exitCode = code;
  if (hangsAt === undefined) return;
  connect(hangsAt, "127.0.0.1");
  const hanging = `require("node:net").connect(${hangsAt}, "127.0.0.1", () => console.log("connected"))`;
  const child = spawn(process.execPath, ["-e", hanging], { stdio: ["ignore", "pipe", "ignore"] });
  if (isKilled === true) child.stdout.once("data", () => process.kill(process.pid, "SIGKILL"));
}
