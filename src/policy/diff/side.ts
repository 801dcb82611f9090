/** One of two bundles that are compared. */
import type { TenantId } from "../../base/ids.ts";
import { checkBundle } from "../check/check.ts";
import type { CheckedPolicy } from "../check/check-policy.ts";
import type { CompiledEngine } from "../engine/bundle-engine.ts";
import type { Layer, PolicyAction } from "../engine/decision.ts";
import { compilePolicyBundle } from "../engine/engine.ts";
import type { Evaluator } from "../engine/engine-sets.ts";
import { type InputCatalogue, inputCatalogue } from "../engine/inputs.ts";
import type { PolicyBundle } from "../load/bundle.ts";
import type { KnownEntities } from "../samples/terms.ts";

export interface Side {
  readonly bundle: PolicyBundle;
  readonly engine: CompiledEngine;
  readonly catalogue: InputCatalogue;
  /** Entities of both sides that stand for all. */
  readonly known: KnownEntities;
}

/** A layer's policies whose scope admits an action. */
export interface SideLayer {
  readonly layer: Layer;
  readonly set: string;
  readonly policies: readonly CheckedPolicy[];
}

/** Throws a TypeError for a bundle with problems. */
export function sideOf(bundle: PolicyBundle, known: KnownEntities, evaluator: Evaluator = "compiled"): Side {
  const { engine } = compilePolicyBundle(bundle, { cachedDecisions: 0, evaluator });
  if (engine === undefined) throw new TypeError("a bundle that is compared has no problems");
  return { bundle, engine, catalogue: inputCatalogue(bundle), known };
}

/** The layers that decide; undefined where the tenant has no set, so that everything is denied. */
export function layersOf(
  { bundle, engine }: Side,
  tenant: TenantId,
  action: PolicyAction,
): readonly SideLayer[] | undefined {
  const { sets } = checkBundle(bundle);
  const layer = (name: Layer, set: string): SideLayer => ({
    layer: name,
    set,
    policies: (sets.get(set) ?? []).filter(({ actions }) => actions.has(action)),
  });
  const own = engine.setOf("tenant", tenant);
  return own === undefined ? undefined : [layer("platform", bundle.manifest.platform), layer("tenant", own)];
}
