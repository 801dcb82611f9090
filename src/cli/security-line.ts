/** What commands tell those who watch for events of security. */
import { type SecurityEvent, securityFields } from "../base/security-events.ts";
import type { Terminal } from "./terminal.ts";

/**
 * Writes the event as the service's log would, where standard error is collected rather than watched by a person, who
 * sees what the command says anyway.
 */
export function tellSecurity(
  terminal: Terminal,
  event: SecurityEvent,
  fields: Readonly<Record<string, unknown>>,
  message: string,
): void {
  const line = { level: "warn", time: new Date().toISOString(), ...securityFields(event), ...fields, message };
  terminal.log?.(`${JSON.stringify(line)}\n`);
}
