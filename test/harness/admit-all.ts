import type { Admit } from "../../src/http/admit.ts";

/** Admission without a queue: all starts at once. */
export const admitAll: Admit = {
  request: (_request, _response, start) => start(),
  operatorRequest: (_request, _response, start) => start(),
  probe: (_request, _response, start) => start(),
  stream: (_stream, _headers, _rawHeaders, start) => start(),
};
