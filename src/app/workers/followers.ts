/** Sets of policies in all workers of a service. */
import type { PolicyStatus } from "../../policy/load/reloader.ts";
import type { PolicyRole } from "../../telemetry/policy-metrics.ts";
import type { GoodPolicy, PolicyFollowers } from "../live-policy.ts";
import type { Fleet } from "./fleet.ts";
import { PolicyOffers, type PolicyPart } from "./policy-offers.ts";
import type { OfferedPolicy } from "./protocol.ts";
import type { WorkerThread } from "./thread.ts";

/** The sets that the workers decide by: all of them compile one before the first decides by it. */
export class Followers implements PolicyFollowers {
  readonly #fleet: () => Fleet | undefined;
  readonly #policies = new Map<PolicyRole, GoodPolicy>();
  readonly #offers = new PolicyOffers();
  #status: PolicyStatus = { newest: "in_force" };
  #prepared: ReadonlySet<WorkerThread> = new Set();
  /** Revisions that Cedar alone decides under, as one of them found. */
  readonly #cedarAlone = new Set<string>();

  constructor(fleet: () => Fleet | undefined) {
    this.#fleet = fleet;
  }

  /** What a worker starts with, until it says that it has it. */
  offerCurrent(): { readonly offered: OfferedPolicy; readonly end: () => void } {
    const [active, shadow] = [this.#policies.get("active"), this.#policies.get("shadow")];
    if (active === undefined) throw new Error("there is no policy set yet");
    const offered = {
      active: this.#offers.add(active),
      shadow: shadow && this.#offers.add(shadow),
      status: this.#status,
      cedarAlone: [...this.#cedarAlone],
    };
    const end = () => {
      this.#offers.end(offered.active);
      if (offered.shadow !== undefined) this.#offers.end(offered.shadow);
    };
    return { offered, end };
  }

  /** Part of what is on offer. Throws where it is not any more. */
  part(offer: number, index: number): PolicyPart {
    return this.#offers.part(offer, index);
  }

  async prepare(role: PolicyRole, policy: GoodPolicy): Promise<void> {
    const threads = this.#fleet()?.threads ?? [];
    this.#prepared = new Set(threads);
    await this.#prepareIn(threads, role, policy);
  }

  async #prepareIn(threads: readonly WorkerThread[], role: PolicyRole, policy: GoodPolicy): Promise<void> {
    const offer = this.#offers.add(policy);
    try {
      await Promise.all(threads.map(({ peer }) => peer.ask("preparePolicy", role, offer)));
    } finally {
      this.#offers.end(offer);
    }
  }

  async install(role: PolicyRole, policy: GoodPolicy): Promise<void> {
    this.#policies.set(role, policy);
    const threads = this.#fleet()?.threads ?? [];
    await Promise.all(threads.map((thread) => this.#installIn(thread, role, policy)));
  }

  async #installIn(thread: WorkerThread, role: PolicyRole, policy: GoodPolicy): Promise<void> {
    try {
      // A worker that was started while the others prepared has begun with the set before.
      if (!this.#prepared.has(thread)) await this.#prepareIn([thread], role, policy);
      await thread.peer.ask("installPolicy", role);
    } catch {
      // What does not decide by the set in force must not decide; where it is gone already, nothing happens.
      await thread.terminate();
    }
  }

  useCedar(revision: string): void {
    this.#cedarAlone.add(revision);
    for (const { peer } of this.#fleet()?.threads ?? []) peer.tell("useCedar", revision);
  }

  changed(status: PolicyStatus): void {
    this.#status = status;
    for (const { peer } of this.#fleet()?.threads ?? []) peer.tell("policyChanged", status);
  }
}
