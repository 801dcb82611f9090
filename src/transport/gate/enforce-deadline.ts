import type { Interceptor } from "@connectrpc/connect";
import { withinDeadline } from "../calls/deadline.ts";

/**
 * Answers as soon as the deadline passes, whatever the handler is waiting for. A record that was on its way to the
 * store may still become durable: it was not acknowledged, and a retry is the caller's choice.
 */
export const enforceDeadline: Interceptor = (next) => (request) => withinDeadline(() => next(request), request.signal);
