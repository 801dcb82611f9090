#!/usr/bin/env node
import { homedir } from "node:os";
import { runCommandLine } from "./cli-program.ts";

// The first signal aborts with cleanup; the second one has its default effect.
const interrupted = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => interrupted.abort());

process.exitCode = await runCommandLine(process.argv.slice(2), {
  environment: process.env,
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  isWatched: process.stderr.isTTY === true,
  homeDirectory: homedir(),
  signal: interrupted.signal,
});
