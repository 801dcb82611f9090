/**
 * For fastify's option `schemaController`: no route of this service has a JSON schema, and what compiles them would take
 * 4 MiB and 40 ms of every start.
 */
export const noSchemas = { compilersFactory: { buildValidator: refuse, buildSerializer: refuse } };

function refuse(): never {
  throw new Error("routes of this service have no schema");
}
