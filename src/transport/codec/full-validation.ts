/**
 * Full validation of messages, by the rules of their protobuf definitions as the rules' own engine evaluates them. It is
 * loaded when it is first needed: it takes 15 MiB and 120 ms, and ordinary messages never come here.
 */
import { createValidator, type Validator } from "@bufbuild/protovalidate";
import type { Matches } from "./fast-validation.ts";

/** @param regexMatch in the place of the engine's own regular expressions */
export function fullValidator(regexMatch: Matches): Validator {
  return createValidator({ regexMatch });
}
