/**
 * Breaks the evaluator in many ways, one at a time, and asks whether the differential pairs see it:
 * `node test/harness/policy-mutants.ts [--only <a file or a part of the code>]`. Ends with 1 where one lives.
 */
import { registerHooks } from "node:module";
import { parseArgs } from "node:util";
import { caseOf, disagreementOn, type EvaluatorModules, evaluator, noCounts } from "./policy-differential.ts";

/** What stands in a file of the evaluator, once, and what would be wrong there. */
type Mutant = readonly [file: string, from: string, to: string];

const mutants: readonly Mutant[] = [
  // like: overlap, ends, order
  ["expression.ts", "return at <= end;", "return true;"],
  ["expression.ts", "at = found + part.length;", "at = found;"],
  ["expression.ts", "text.indexOf(part, at)", "text.indexOf(part)"],
  ["expression.ts", "|| !text.endsWith(last)) return false", ") return false"],
  [
    "expression.ts",
    "if (last === undefined) return text === first;",
    "if (last === undefined) return text.startsWith(first);",
  ],
  // what is evaluated, and of which type it must be
  ["expression.ts", "truth(left(scene)) && truth(right(scene))", "truth(left(scene)) && right(scene)"],
  ["expression.ts", "truth(left(scene)) || truth(right(scene))", "truth(left(scene)) || right(scene)"],
  [
    "expression.ts",
    "truth(left(scene)) && truth(right(scene))",
    "[truth(left(scene)), truth(right(scene))].every(Boolean)",
  ],
  [
    "expression.ts",
    "truth(left(scene)) || truth(right(scene))",
    "[truth(left(scene)), truth(right(scene))].some(Boolean)",
  ],
  [
    "expression.ts",
    "(truth(condition(scene)) ? then(scene) : otherwise(scene))",
    "(condition(scene) ? then(scene) : otherwise(scene))",
  ],
  ["expression.ts", "return (scene) => !truth(arg(scene));", "return (scene) => !arg(scene);"],
  ["expression.ts", "return (scene) => truth(evaluate(scene));", "return (scene) => evaluate(scene) === true;"],
  ["expression.ts", "longOf(left) < longOf(right)", "left < right"],
  ["expression.ts", "entityOf(entity(scene)).type === type", "(entity(scene) as EntityValue).type === type"],
  ["expression.ts", "      .items.map(entityOf)\n", "      .items\n"],
  [
    "expression.ts",
    'if (typeof value !== "boolean") throw evaluationFailed;',
    'if (typeof value !== "boolean") return false;',
  ],
  [
    "expression.ts",
    "hasTag: (left, right, scene) => scene.tag(entityOf(left), textOf(right))",
    "hasTag: (left, right, scene) => scene.tag(entityOf(left), String(right))",
  ],
  ["expression.ts", "if (index < names.length && !scene.hasMembers(each)) throw evaluationFailed;", ""],
  ["expression.ts", "if (index > 0) return false;", "return false;"],
  // numbers
  ["expression.ts", "if (BigInt.asIntN(64, exact) !== exact) throw evaluationFailed;", ""],
  [
    "expression.ts",
    "if (BigInt.asIntN(64, exact) !== exact) throw evaluationFailed;",
    "if (BigInt.asIntN(63, exact) !== exact) throw evaluationFailed;",
  ],
  [
    "expression.ts",
    "left + right : Number.NaN;\n  return Number.isSafeInteger(plain) ? plain",
    "left + right : Number.NaN;\n  return plain === plain ? plain",
  ],
  [
    "expression.ts",
    "left * right + 0 : Number.NaN;\n  return Number.isSafeInteger(plain) ? plain",
    "left * right : Number.NaN;\n  return plain === plain ? plain",
  ],
  ["expression.ts", "return Number.isSafeInteger(plain) ? plain : exact;", "return plain;"],
  ["expression.ts", "return (scene) => difference(0, longOf(arg(scene)));", "return (scene) => longOf(arg(scene));"],
  [
    "expression.ts",
    '"<=": (left, right) => longOf(left) <= longOf(right)',
    '"<=": (left, right) => longOf(left) < longOf(right)',
  ],
  ["program.ts", "|| Number.isSafeInteger(expression[1])", "|| true"],
  // values
  ["values.ts", "left === right) return true;", "left === right || left == right) return true;"],
  ["values.ts", "[...new Set(value.items.map(canonicalText))].sort().join()", "value.items.map(canonicalText).join()"],
  ["values.ts", "JSON.stringify([value.type, value.id])", "JSON.stringify([value.id])"],
  ["values.ts", "canonicalText(member)", '""'],
  ["values.ts", "id: string) {\n    this.type = type;", "id: string) {\n    this.type = type;\n    type = '';"],
  ["values.ts", 'typeof value === "string" ? JSON.stringify(value)', 'typeof value === "string" ? value'],
  // requests
  ["scene.ts", "entity.key === other.key || this.ancestors", "this.ancestors"],
  ["scene.ts", "next.push(above);", ""],
  ["scene.ts", "members !== undefined && Object.hasOwn(members, name) ? members[name] : undefined", "members?.[name]"],
  ["scene.ts", "isTag ? entity?.tags : entity?.attrs", "entity?.attrs"],
  [
    "scene.ts",
    "return isTag ? undefined : ownMember(from as Attributes, name);",
    "return ownMember(from as Attributes, name);",
  ],
  // what policies say
  [
    "program.ts",
    '? conjuncts(expressionOf(body)) : [["!", expressionOf(body)]]',
    "? conjuncts(expressionOf(body)) : [expressionOf(body)]",
  ],
  ["program.ts", "[{ is: { left, entity_type, in: value(within.entity) } }]", "[{ is: { left, entity_type } }]"],
  ["program.ts", '["&&", isType, ["in", first, expressionOf(within)]]', "isType"],
  // what is skipped
  ["demands.ts", 'if (!proof.is(condition, "bool", known)) break;', 'proof.is(condition, "bool", known);'],
  ["demands.ts", 'this.assumptions.push({ slot, is: "there" });', ""],
  ["demands.ts", "if (slot !== undefined) this.assumptions.push({ slot, is: type });", ""],
  [
    "demands.ts",
    'case "||":\n        return all(both(expression[1], expression[2], "bool"), "bool");',
    'case "||":\n        return this.is(expression[1], "bool", known) ? "bool" : undefined;',
  ],
  ["demands.ts", 'this.is(left, "bool", known) && this.is(right, "bool", implied)', 'this.is(left, "bool", known)'],
  [
    "demands.ts",
    "default: // arithmetic",
    'case "+":\n      case "*":\n        return "long";\n      default: // arithmetic',
  ],
  ["demands.ts", "hasValue(expression[1]) && hasValue(expression[2])", "hasValue(expression[1])"],
  ["demands.ts", "return joined(demandOf(left, paths), demandOf(right, paths));", "return demandOf(left, paths);"],
  ["demands.ts", "left.slot !== right?.slot || left.kind !== right.kind", "right === undefined"],
  ["demands.ts", 'this.assumptions.push({ slot, is: "members" });', ""],
  [
    "policy-index.ts",
    "if (!isSo(assumption, place, scene)) {",
    "if (isSo(assumption, place, scene)) continue;\n    if (all.length < 0) {",
  ],
  ["policy-index.ts", "group.found.get(numberOf(key))", "group.found.get(numberOf(key) + 1)"],
  ["policy-index.ts", 'return is !== "there" || parent === undefined || !scene.has(parent);', "return true;"],
  ["policy-index.ts", "[value.key, ...scene.ancestors(value)]", "[value.key]"],
  [
    "policy-index.ts",
    "lengths].map((length) => value.slice(-length))",
    "lengths].map((length) => value.slice(0, length))",
  ],
  ["compiled-set.ts", "if (actions.has(action)) find", 'if (actions.has(action) && action !== "access") find'],
  ["compiled-set.ts", "applying.failed.push(position);", ""],
  ["compiled-set.ts", "if (holds) continue;", "if (holds !== undefined) continue;"],
  ["compiled-set.ts", "if (this.#evaluation === evaluation) return", "if (this.#evaluation > 0) return"],
  ["compiled-set.ts", "throw error;\n      return undefined;", "throw error;\n      return false;"],
];

const folder = new URL("../../src/policy/evaluate/", import.meta.url).href;

registerHooks({
  /** What a mutant imports of its folder is the mutant's too. */
  resolve(specifier, context, next) {
    const resolved = next(specifier, context);
    const mutant = /[?]mutant=\d+$/.exec(specifier)?.[0] ?? /[?]mutant=\d+$/.exec(context.parentURL ?? "")?.[0] ?? "";
    const isOurs = resolved.url.startsWith(folder) && !resolved.url.includes("?");
    return isOurs ? { ...resolved, url: resolved.url + mutant } : resolved;
  },
  load(url, context, next) {
    const [file = "", number] = url.slice(folder.length).split("?mutant=");
    const [of, from, to] = (number === undefined ? undefined : mutants[Number(number)]) ?? [];
    if (!url.startsWith(folder) || number === undefined) return next(url, context);
    const loaded = next(`${folder}${file}`, context);
    if (file !== of) return { ...loaded, shortCircuit: true };
    const source = String(loaded.source);
    if (source.split(from as string).length !== 2) throw new Error(`${file} does not have once: ${from}`);
    return { ...loaded, source: source.replace(from as string, () => to as string), shortCircuit: true };
  },
});

async function modulesOf(mutant: number): Promise<EvaluatorModules> {
  const load = (name: string) => import(`${folder}${name}.ts?mutant=${mutant}`);
  const [compiledSet, program, scene, values] = await Promise.all(
    ["compiled-set", "program", "scene", "values"].map(load),
  );
  return { compiledSet, program, scene, values } as EvaluatorModules;
}

/** Cases by their seeds. Cedar is asked once for all mutants. */
const cases: ReturnType<typeof caseOf>[] = [];
const casesAtMost = 250;

function isSeen(modules: EvaluatorModules): boolean {
  for (let seed = 0; seed < casesAtMost; seed++) {
    const one = cases[seed] ?? caseOf(seed);
    cases[seed] = one;
    try {
      if (disagreementOn(one, modules, noCounts()) !== undefined) return true;
    } catch {
      return true;
    }
  }
  return false;
}

const { values } = parseArgs({ options: { only: { type: "string", default: "" } } });
let living = 0;
for (const [number, [file, from, to]] of mutants.entries()) {
  if (!`${file} ${from}`.includes(values.only)) continue;
  if (isSeen(await modulesOf(number))) continue;
  living++;
  process.stdout.write(`lives: ${file}: ${from}\n  as ${to}\n`);
}
const isSound = cases.every((one) => disagreementOn(one, evaluator, noCounts()) === undefined);
if (!isSound) throw new Error("the evaluator itself disagrees with Cedar");
process.stdout.write(`${mutants.length} mutants, of which ${living} live\n`);
process.exitCode = living === 0 ? 0 : 1;
