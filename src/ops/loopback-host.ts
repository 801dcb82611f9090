import { isLoopbackHost } from "../base/network.ts";

/** host [ ":" port ] (RFC 9110 §7.2). */
const authority = /^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::[0-9]{1,5})?$/;

/**
 * Whether a request's `Host` names this machine itself: `localhost`, `127.0.0.0/8` or `[::1]`, with any port. A page in
 * a browser on this machine can reach a loopback listener under a name of its own that it lets resolve to loopback (DNS
 * rebinding), and then read the answers; what it cannot do is send another `Host` than that name.
 */
export function isLoopbackAuthority(host: string | undefined): boolean {
  const [, name] = authority.exec(host ?? "") ?? [];
  return name !== undefined && isLoopbackHost(name.toLowerCase());
}
