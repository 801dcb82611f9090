/** Where a service listens. */
import type { ServeConfig } from "./gateway.ts";

/** Base URLs of both listeners, for their ports. */
export function urlsOf(
  config: ServeConfig,
  port: number,
  opsPort: number,
): { readonly url: string; readonly opsUrl: string } {
  const scheme = config.tlsCert === undefined ? "http" : "https";
  return {
    url: config.publicUrl ?? `${scheme}://${hostInUrl(config.listen.host)}:${port}`,
    opsUrl: `${config.opsTlsCert === undefined ? "http" : "https"}://${hostInUrl(config.opsListen.host)}:${opsPort}`,
  };
}

/** The address, or a rejection that names the setting. The system's own words name the address and what is wrong. */
export async function bound<Address>(setting: string, listening: Promise<Address>): Promise<Address> {
  try {
    return await listening;
  } catch (cause) {
    throw new Error(`${setting}: ${cause instanceof Error ? cause.message : "cannot be listened on"}`, { cause });
  }
}

function hostInUrl(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}
