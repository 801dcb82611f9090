/** How a token issuer is asked about its tokens (RFC 7662). */
import type { IntrospectionRule } from "../base/issuers.ts";
import { isLoopbackHost } from "../base/network.ts";
import { membersOf, problemOf, textOf } from "./data-file.ts";
import { path as filePath, httpUrl, itemMatching, matching } from "./parsers.ts";
import { text } from "./raw.ts";

const names = [
  "endpoint",
  "client_id",
  "client_secret_file",
  "client_certificate_file",
  "client_key_file",
  "token_prefix",
] as const;

/** Visible ASCII without the colon that ends a user name (RFC 7617 §2). */
const clientId = matching(/^[\x21-\x39\x3b-\x7e]{1,256}$/, "1 to 256 visible ASCII characters without a colon");
/** token68 (RFC 9110 §11.2). */
const prefix = text(
  itemMatching(/^[A-Za-z0-9._~+/-]{1,64}$/, "the beginning of an access token, 64 characters at most"),
);
const endpointUrl = text((value) => httpUrl(value).href);

/** Parses the rule; undefined, after reporting problems, if it is invalid. */
export function introspectionOf(value: unknown, path: string, problems: string[]): IntrospectionRule | undefined {
  const before = problems.length;
  const given = membersOf(value, path, names, problems);
  const wanted = (name: (typeof names)[number], parse: Parameters<typeof textOf>[2]) => {
    if (given[name] === undefined) problems.push(`${path}.${name}: is required`);
    return textOf(given[name], "", parse, `${path}.${name}`, problems);
  };
  const endpoint = wanted("endpoint", endpointUrl);
  if (problemOf(() => endpointUrl(endpoint)) === undefined) {
    const { protocol, hostname } = new URL(endpoint);
    if (protocol === "http:" && (given.client_secret_file === undefined || !isLoopbackHost(hostname)))
      problems.push(`${path}.endpoint: must use https: plain http is accepted on loopback only, for a client secret`);
  }
  const id = wanted("client_id", clientId);
  const bySecret = given.client_secret_file !== undefined;
  const byCertificate = given.client_certificate_file !== undefined || given.client_key_file !== undefined;
  if (bySecret === byCertificate)
    problems.push(`${path}: must have client_secret_file, or client_certificate_file and client_key_file`);
  const credentials: IntrospectionRule["credentials"] = bySecret
    ? { kind: "secret", file: wanted("client_secret_file", filePath) }
    : {
        kind: "certificate",
        ...(byCertificate
          ? {
              certificateFile: wanted("client_certificate_file", filePath),
              keyFile: wanted("client_key_file", filePath),
            }
          : { certificateFile: "", keyFile: "" }),
      };
  const tokenPrefix = textOf(given.token_prefix, "", prefix, `${path}.token_prefix`, problems);
  return problems.length > before ? undefined : { endpoint, clientId: id, credentials, tokenPrefix };
}

/** Paths of the files that it names. */
export function filesOf({ credentials }: IntrospectionRule): readonly string[] {
  return credentials.kind === "secret" ? [credentials.file] : [credentials.certificateFile, credentials.keyFile];
}
