/**
 * OpenTDF's names of obligations. `drm.watermark` is `https://<namespace>/obl/drm/value/watermark`, and `audit` is
 * `https://<namespace>/obl/audit/value/required`. A name carries no parameters, so an obligation with parameters has
 * none, nor has one with another dot.
 */
import type { Obligation } from "../model/decision.ts";

export function obligationName({ id, parameters }: Obligation, namespace: string): string | undefined {
  const [name, value = "required", ...others] = id.split(".");
  if (others.length > 0 || Object.keys(parameters).length > 0) return undefined;
  return `https://${namespace}/obl/${name}/value/${value}`;
}

/** @param understood ids of obligations, or their names */
export function isUnderstood(obligation: Obligation, understood: readonly string[]): boolean {
  return understood.some((entry) => {
    const [, namespace] = /^https:\/\/([^/]+)\/obl\//.exec(entry) ?? [];
    return entry === obligation.id || (namespace !== undefined && entry === obligationName(obligation, namespace));
  });
}
