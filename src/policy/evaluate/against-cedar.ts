/** Compares the evaluator with Cedar, policy by policy. */
import type { CedarRequest } from "./cedar-request.ts";
import type { CompiledSet } from "./compiled-set.ts";
import { PreparedSet } from "./prepared-set.ts";
import { type Paths, Scene } from "./scene.ts";
import { leftToCedar } from "./values.ts";

/** Effect of a policy on a request: it applies, or could not be evaluated. */
type Does = "applies" | "fails" | "nothing";

export interface Disagreement {
  readonly position: number;
  readonly cedar: Does;
  readonly compiled: Does;
}

/** Policies of one effect, so that Cedar names every one that applies. */
export class CedarPart {
  readonly #positions: readonly number[];
  readonly #prepared: PreparedSet;

  /**
   * @param positions of the policies in the compiled set
   * @param texts of the same
   */
  constructor(positions: readonly number[], texts: readonly string[]) {
    this.#positions = positions;
    this.#prepared = new PreparedSet(texts);
  }

  /**
   * Differences between the compiled set and Cedar on these policies. Undefined if either cannot evaluate. Throws if
   * Cedar's engine breaks, so that an uncompared set does not pass.
   */
  disagreements(set: CompiledSet, paths: Paths, request: CedarRequest): readonly Disagreement[] | undefined {
    const diagnosis = this.#prepared.diagnose(request);
    const compiled = said(set, paths, request);
    if (diagnosis === undefined || compiled === undefined) return undefined;
    return this.#positions.flatMap((position, index) => {
      if (compiled.unknown.has(position)) return [];
      const cedar = doing(index, diagnosis.reasons, diagnosis.failed);
      const ours = doing(position, compiled.applying, compiled.failed);
      return cedar === ours ? [] : [{ position, cedar, compiled: ours }];
    });
  }

  release(): void {
    this.#prepared.release();
  }
}

function said(set: CompiledSet, paths: Paths, request: CedarRequest) {
  try {
    const { permits, forbids, failed, unknown } = set.applying(new Scene(request, paths), request.action.id);
    return { applying: [...permits, ...forbids], failed, unknown: new Set(unknown) };
  } catch (error) {
    if (error !== leftToCedar) throw error;
    return undefined;
  }
}

function doing(position: number, applying: readonly number[], failed: readonly number[]): Does {
  if (failed.includes(position)) return "fails";
  return applying.includes(position) ? "applies" : "nothing";
}
