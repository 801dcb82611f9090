/** For fastify's `schemaController`: no route has a JSON schema; compilers would add 4 MiB and 40 ms to a start. */
export const noSchemas = { compilersFactory: { buildValidator: refuse, buildSerializer: refuse } };

function refuse(): never {
  throw new Error("routes of this service have no schema");
}
