/** What the suite expects and the contract decides otherwise. Nothing else may fail. */

export interface Difference {
  readonly reason: string;
  /** Of the case, where the difference is of some alone. */
  readonly cases?: RegExp;
  /** What the suite says of it, one of them. */
  readonly says: readonly RegExp[];
}

const closedCodes = "(aborted|data_loss|failed_precondition|out_of_range)";

export const differences: readonly Difference[] = [
  {
    reason: "Every refusal carries details of its own, google.rpc.ErrorInfo first; details of a handler never leave.",
    says: [
      /^actual error detail #\d+ does not match expected error detail/,
      /^actual error contain \d+ details; expecting \d+$/,
      /^connect error JSON: details\[\d+\]: could not check debug data because message type "google\.rpc\.\w+"/,
    ],
  },
  {
    reason: "Error codes are a closed list, without four of them.",
    cases: /(aborted|data-loss|failed-precondition|out-of-range)(-mapping)?$/,
    says: [
      new RegExp(`^actual error \\{code: 2 \\(unknown\\), .* does not match expected code \\d+ \\(${closedCodes}\\)`),
      /^actual HTTP status code does not match: wanted \d+; got 500$/,
    ],
  },
  {
    reason: "A refusal's trailers are its own: what a handler set before it refused does not leave.",
    says: [/^actual response trailers missing "x-custom-trailer"$/],
  },
  {
    reason: "Handlers get a deadline that the service has cut to its own, not the caller's header.",
    cases: /^Deadline Propagation\//,
    says: [/^server did not echo back a timeout but one was expected/],
  },
  {
    reason: "A verb or type that is not there is a refusal with a code and a reason, not a bare HTTP status.",
    cases: /\/unexpected-(verb|codec|content-type)$/,
    says: [
      /"method must be POST"\} does not match expected code/,
      /"content type is not supported by this method"\} does not match expected code/,
      // Clients of gRPC do not read the body of an answer that is none of theirs.
      /^connect error JSON: unexpected end of JSON input$/,
    ],
  },
];
