/**
 * Messages that several answers hold. They are written whole, with the name of their type, so that nothing has to be
 * completed or copied when an answer is made of them.
 */
import type {
  KeyTransport as KeyTransportMessage,
  PlatformDomain as PlatformDomainMessage,
} from "../../../gen/platform/sdk/v1/common_pb.ts";
import type { KeyTransport } from "../../domain/answer.ts";
import type { PlatformDomain } from "../../domain/platform-domains.ts";

export function keyTransportMessage(transport: KeyTransport | undefined): KeyTransportMessage | undefined {
  if (transport === undefined) return undefined;
  return {
    $typeName: "platform.sdk.v1.KeyTransport",
    mode: transport.mode,
    keyMaterialOrigin: transport.keyMaterialOrigin,
    stableKeyReferencePreferred: transport.stableKeyReferencePreferred,
    rawKeyDeliveryForbidden: transport.rawKeyDeliveryForbidden,
    publicKeyDistribution: transport.publicKeyDistribution,
    exchangeAlgorithm: transport.exchangeAlgorithm,
  };
}

const messages = new WeakMap<readonly PlatformDomain[], PlatformDomainMessage[]>();

/** Made once for each list: one answer after the other carries the same. */
export function platformDomainMessages(domains: readonly PlatformDomain[]): PlatformDomainMessage[] {
  let made = messages.get(domains);
  if (made === undefined) {
    const $typeName = "platform.sdk.v1.PlatformDomain";
    made = domains.map(({ domain, configured, reason }) => ({ $typeName, domain, configured, reason }));
    messages.set(domains, made);
  }
  return made;
}
