/**
 * Questions at random in the words of the peer's load-test policies and requests: besides what its requests ask, so that
 * both sides are compared on rules that these never meet.
 */
import fc from "fast-check";
import type { Attributes, Loadtest, PeerRequest } from "./loadtest-templates.ts";

/** The same ones in every run. */
const seed = 1;

/** As many questions, each of one action. */
export function randomQuestions({ policies, requests }: Loadtest, count: number): readonly PeerRequest[] {
  const text = JSON.stringify(policies);
  const word = (pattern: RegExp) => [...new Set([...text.matchAll(pattern)].map((match) => match[1] as string))];
  const principals = requests.map(({ principal }) => principal);
  const resources = requests.flatMap((request) => request.resources.map(({ resource }) => resource));
  const asked = requests.flatMap((request) => request.resources.flatMap(({ actions }) => actions));
  const known = [...principals, ...resources].map(({ attr }) => attr);
  const literals = word(/== \\"([^"\\/]*)\\"/g);
  const valuesOf = (name: string) => {
    const own = known.flatMap((attr) => attr[name] ?? []);
    const values = typeof own[0] === "number" ? [0, 1, 2, 3, 4, 5] : [...own, ...literals, "GB"];
    return fc.constantFrom(...(name === "dev_record" ? [true, false] : values));
  };
  const attributes = (names: readonly string[], given: readonly { readonly attr: Attributes }[]) => {
    const always = [...new Set(given.flatMap(({ attr }) => Object.keys(attr)))];
    const all = [...new Set([...names, ...always])];
    const values = Object.fromEntries(all.map((name) => [name, valuesOf(name)]));
    // What every request says is always said: a policy of roles that lacks it narrows nothing at the peer.
    const requiredKeys = always.filter((name) => given.every(({ attr }) => attr[name] !== undefined));
    return fc.record(values, { requiredKeys }) as fc.Arbitrary<Attributes>;
  };
  const listed = policies.flatMap((policy) => actionsOf(policy)).filter((action) => !action.includes("*"));
  const actions = [...new Set([...asked, ...listed])];
  const kinds = [...new Set([...resources.map(({ kind }) => kind), ...word(/"resource":"([^"]+)"/g)])];
  const scopes = ["", "elsewhere", ...word(/"scope":"([^"]+)"/g)];
  const roles = ["stranger", ...principals.flatMap((principal) => principal.roles), ...rolesOf(policies)];
  const request = fc.record({
    requestId: fc.constant("random"),
    principal: fc.record({
      id: fc.constantFrom(...principals.map(({ id }) => id), ...word(/"principal":"([^"]+)"/g)),
      roles: fc.uniqueArray(fc.constantFrom(...new Set(roles)), { minLength: 1, maxLength: 2 }),
      policyVersion: fc.constant("20210210"),
      attr: attributes(word(/(?:P|request\.principal)\.attr\.(\w+)/g), principals),
    }),
    resources: fc.tuple(
      fc.record({
        actions: fc.tuple(fc.constantFrom(...actions)),
        resource: fc.record({
          kind: fc.constantFrom(...kinds),
          id: fc.constant("random"),
          policyVersion: fc.constantFrom("default", "20210210"),
          scope: fc.constantFrom(...scopes),
          attr: attributes(word(/(?:R|request\.resource)\.attr\.(\w+)/g), resources),
        }),
      }),
    ),
  });
  return fc.sample(request, { numRuns: count, seed });
}

interface Named {
  readonly actions?: readonly unknown[];
  readonly allowActions?: readonly unknown[];
}

function actionsOf(policy: unknown): readonly string[] {
  return rulesOf(policy).flatMap(({ actions = [], allowActions = [] }) =>
    [...actions, ...allowActions].filter((action) => typeof action === "string"),
  );
}

function rulesOf(policy: unknown): readonly Named[] {
  const members = Object.values(policy as object) as readonly { readonly rules?: readonly Named[] }[];
  return members.flatMap((member) => member.rules ?? []);
}

function rolesOf(policies: readonly unknown[]): readonly string[] {
  const lists = JSON.stringify(policies).matchAll(/"(?:roles|parentRoles)":(\[[^\]]*\])/g);
  return [...lists].flatMap(([, list]) => JSON.parse(list as string) as string[]);
}
