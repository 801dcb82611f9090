/** Full validation by protovalidate's engine, loaded on first use (15 MiB, 120 ms). */
import { createValidator, type Validator } from "@bufbuild/protovalidate";
import type { Matches } from "./fast-validation.ts";

/** @param regexMatch replaces the engine's own regular expressions */
export function fullValidator(regexMatch: Matches): Validator {
  return createValidator({ regexMatch });
}
