/** Questions about a policy's syntax tree other than the inputs it reads (`reads.ts`). */
import type { EntityUidJson, PolicyJson, TypeAndId } from "@cedar-policy/cedar-wasm/nodejs";
import { parseTenantId } from "../../base/ids.ts";
import type { PolicyAction } from "../model/decision.ts";
import { actionGroups, policyActions } from "../model/schema.ts";

/** Actions that the scope of the policy allows; conditions may narrow them further. */
export function scopeActions({ action }: PolicyJson): ReadonlySet<PolicyAction> {
  if (action.op === "All") return new Set(policyActions);
  const entities = "entities" in action ? action.entities : "entity" in action ? [action.entity] : [];
  const names = entities.map((entity) => uidOf(entity).id);
  return new Set(policyActions.filter((name) => names.includes(name) || names.some((group) => inGroup(name, group))));
}

function inGroup(action: PolicyAction, group: string): boolean {
  return Object.hasOwn(actionGroups, group) && (actionGroups[group] ?? []).includes(action);
}

/** Whether the policy applies to every question about its actions. */
export function isUnconditional({ principal, resource, conditions }: PolicyJson): boolean {
  const open = (op: string, narrowed: boolean): boolean => op === "All" || (op === "is" && !narrowed);
  return (
    conditions.length === 0 &&
    open(principal.op, "in" in principal) &&
    // The resource has one id, so equality with it narrows nothing.
    (resource.op === "==" || open(resource.op, "in" in resource))
  );
}

/**
 * Actions and groups that the policy may test with `in`: groups anywhere, and actions in its conditions. Sorted; every
 * name counts, whether it is tested or not.
 */
export function namedActions({ action, conditions }: PolicyJson): readonly string[] {
  const named = new Set(entityIds("Action", conditions));
  for (const id of entityIds("Action", action)) if (Object.hasOwn(actionGroups, id)) named.add(id);
  return [...named].sort();
}

/** A message for each principal that the policy names by an impossible id: it would never match. */
export function foreignPrincipalIds(policy: PolicyJson): readonly string[] {
  const bad = [...entityIds("Principal", [policy.principal, policy.conditions])].filter((id) => !isPrincipalId(id));
  return bad.map((id) => `no principal has the id ${JSON.stringify(id)}`);
}

/** Ids of the type's entities in a part of the tree, in order of appearance. */
function entityIds(ofType: string, part: unknown): ReadonlySet<string> {
  const ids = new Set<string>();
  const visit = (node: unknown): void => {
    if (typeof node !== "object" || node === null) return;
    const { type, id } = node as Partial<TypeAndId>;
    if (type === ofType && typeof id === "string") ids.add(id);
    for (const child of Object.values(node)) visit(child);
  };
  visit(part);
  return ids;
}

function isPrincipalId(id: string): boolean {
  const slash = id.indexOf("/");
  return slash > 0 && slash < id.length - 1 && parseTenantId(id.slice(0, slash)) !== undefined;
}

function uidOf(entity: EntityUidJson): TypeAndId {
  return "__entity" in entity ? entity.__entity : entity;
}
