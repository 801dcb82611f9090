/** Conditions that read inputs in every way that Cedar has, to be made into policies by property tests. */
export const conditions: readonly string[] = [
  'principal.tenant == "tenant-a"',
  'principal == Principal::"tenant-a/a"',
  'principal in [Principal::"tenant-a/b", Principal::"tenant-b/a"]',
  'principal.scopes.contains("a") || principal.scopes.containsAny(["eu", "us"])',
  'principal.auth_source like "*token" && principal.subject != "b"',
  'context.claimed.workload.application == "eu"',
  'context.claimed.workload has environment && context.claimed.workload.environment == "production"',
  'context has claimed.workload.component && !(context.claimed.workload.component == "a")',
  "context.claimed.resource == context.claimed.resource && context.claimed.resource has id",
  '["eu", context.claimed.resource.kind].containsAll(["us"])',
  'context.claimed.resource has mime_type && context.claimed.resource["mime_type"] like "*a"',
  'context.claimed has purpose && { why: context.claimed.purpose }.why == "eu"',
  'context.claimed.labels.contains("do-not-export") || context.claimed.labels.isEmpty()',
  'context.claimed.attributes.hasTag("region") && context.claimed.attributes.getTag("region") == "eu"',
  'context.claimed.attributes.hasTag("__entity")',
  'context.claimed.attributes.hasTag("constructor") && context.claimed.attributes.getTag("constructor") != "a"',
  "context.claimed.attributes.hasTag(context.claimed.workload.application)",
  'context.claimed has artifact_profile && ["tdf", "envelope"].contains(context.claimed.artifact_profile)',
  "if context.claimed.content_digest_present then resource is Resource else principal is Principal",
  "context.claimed has content_size_bytes && -1 + context.claimed.content_size_bytes * 1 >= 0",
  'context.claimed has key_reference && context.claimed.key_reference like "kms://*"',
  '(if context.claimed.content_digest_present then principal.scopes else context.claimed.labels).contains("a")',
  'decimal("1.5").lessThan(decimal("2.5")) && context.claimed.content_digest_present',
  'action == Action::"protect" || resource == Resource::"claimed"',
];

/** The same of what was registered. */
export const registeredConditions: readonly string[] = [
  "context has registered",
  'context has registered && context.registered.labels_ever.contains("eu")',
  "context has registered && context.registered.labels.containsAny(context.claimed.labels)",
  'context has registered.key_reference && context.registered.key_reference like "kms://*"',
  "context has registered && context.registered has resource.id && context.registered.resource.id == principal.subject",
  "context has registered && context.registered.resource.kind == context.claimed.resource.kind",
  "context has registered && context.registered.resource == context.registered.resource",
  'context has registered && context.registered.attributes.hasTag("owner") && context.registered.attributes.getTag("owner") == principal.subject',
  "context has registered && context.registered.attributes.hasTag(context.registered.application)",
  "context has registered && context.registered.attributes == context.claimed.attributes",
  "if context has registered then context.registered.principal == principal.principal_id else true",
  'context has registered && context.registered.citation_matched && context.registered["artifact_profile"] == "tdf"',
  "context has registered && context.registered.registered_at > 1600000000000",
];

/** The same of whom the caller asks for; those that count for another principal, and those that do not. */
export const onBehalfOfConditions: readonly string[] = [
  "context has on_behalf_of",
  "!(context has on_behalf_of)",
  'context has on_behalf_of && context.on_behalf_of.type == "a"',
  "context has on_behalf_of.id && context.on_behalf_of.id == context.claimed.resource.kind",
  'context has on_behalf_of && (context.on_behalf_of.id == "a" || principal.tenant == "tenant-a")',
  'context has on_behalf_of && context.on_behalf_of.properties.hasTag("region") && context.on_behalf_of.properties.getTag("region") != "eu"',
  'context has on_behalf_of && context.on_behalf_of.property_values.contains("region=eu")',
  "context has on_behalf_of && context.on_behalf_of.property_values.containsAny(context.claimed.labels)",
  'if context has on_behalf_of then context.on_behalf_of.id like "*a" else true',
  "context has on_behalf_of && context.on_behalf_of == context.on_behalf_of",
];

/** The same of the attributes that `declaringFiles` declares. */
export const attributeConditions: readonly string[] = [
  "principal.clearance >= 1",
  "principal.clearance + 0 == 0 || principal has on_call",
  "principal has on_call && principal.on_call",
  'principal has roles && principal.roles.contains("eu")',
  'principal has roles && principal["roles"].containsAny(context.claimed.labels)',
  'principal has constructor && principal.constructor like "a*"',
  "principal has constructor && { it: principal.constructor }.it == principal.subject",
  'Principal::"tenant-a/a" has roles && Principal::"tenant-a/a".roles.isEmpty()',
];

/** Fails for every question that names a size of at least one byte: the sum is beyond what a Long holds. */
export const overflowing =
  "context.claimed has content_size_bytes && context.claimed.content_size_bytes + 9223372036854775807 == 0";
