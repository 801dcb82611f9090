import { ServiceError } from "../base/errors.ts";

/** Parameters of a URL as they came: one that is given twice is a list. */
export type Query = Readonly<Record<string, unknown>>;

/**
 * A parameter that nobody reads is refused: whoever misspelt one would take the answer for that to another question.
 *
 * @throws ServiceError `invalid_request` where there are others than these
 */
export function refuseOthers(query: Query, parameters: readonly string[]): void {
  if (Object.keys(query).some((name) => !parameters.includes(name)))
    throw new ServiceError("invalid_request", `the parameters are ${parameters.join(", ")}`);
}
