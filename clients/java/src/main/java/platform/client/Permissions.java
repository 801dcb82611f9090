package platform.client;

import java.util.List;
import platform.sdk.v1.KeyAccessDecision;
import platform.sdk.v1.Obligation;
import platform.sdk.v1.PolicyDecision;
import platform.sdk.v1.ProtectionDecision;

/** Which decisions may be acted on. */
abstract class Permissions {
  final Understood understood;

  Permissions(Understood understood) {
    this.understood = understood;
  }

  /**
   * Whether a decision may be acted on: it allows, and demands nothing that is not understood.
   *
   * @param decision of {@link PlatformClient#planProtection}
   * @param listed obligations that its request listed itself
   * @return false for a denial too
   */
  public boolean permitted(ProtectionDecision decision, String... listed) {
    return Permission.of(decision).permits(understood.listed(listed));
  }

  /**
   * Whether a decision may be acted on: it allows, and demands nothing that is not understood.
   *
   * @param decision of {@link PlatformClient#resolvePolicy}
   * @param listed obligations that its request listed itself
   * @return false for a denial too
   */
  public boolean permitted(PolicyDecision decision, String... listed) {
    return Permission.of(decision).permits(understood.listed(listed));
  }

  /**
   * Whether a decision may be acted on: it allows, and demands nothing that is not understood.
   *
   * @param decision of {@link PlatformClient#planKeyAccess}
   * @param listed obligations that its request listed itself
   * @return false for a denial too
   */
  public boolean permitted(KeyAccessDecision decision, String... listed) {
    return Permission.of(decision).permits(understood.listed(listed));
  }

  /**
   * Goes on only where a decision may be acted on.
   *
   * @param decision of {@link PlatformClient#planProtection}
   * @param listed obligations that its request listed itself
   * @throws NotPermittedException where it may not
   */
  public void requireAllow(ProtectionDecision decision, String... listed) {
    Permission.of(decision).require(understood.listed(listed));
  }

  /**
   * Goes on only where a decision may be acted on.
   *
   * @param decision of {@link PlatformClient#resolvePolicy}
   * @param listed obligations that its request listed itself
   * @throws NotPermittedException where it may not
   */
  public void requireAllow(PolicyDecision decision, String... listed) {
    Permission.of(decision).require(understood.listed(listed));
  }

  /**
   * Goes on only where a decision may be acted on.
   *
   * @param decision of {@link PlatformClient#planKeyAccess}
   * @param listed obligations that its request listed itself
   * @throws NotPermittedException where it may not
   */
  public void requireAllow(KeyAccessDecision decision, String... listed) {
    Permission.of(decision).require(understood.listed(listed));
  }

  /** What the three kinds of decision say of whether they may be acted on. */
  private record Permission(boolean allow, List<String> reasons, List<Obligation> obligations) {
    static Permission of(ProtectionDecision decision) {
      return new Permission(decision.getAllow(), decision.getReasonsList(), decision.getObligationsList());
    }

    static Permission of(PolicyDecision decision) {
      return new Permission(decision.getAllow(), decision.getReasonsList(), decision.getObligationsList());
    }

    static Permission of(KeyAccessDecision decision) {
      return new Permission(decision.getAllow(), decision.getReasonsList(), decision.getObligationsList());
    }

    boolean permits(Understood understood) {
      return allow && unknown(understood).isEmpty();
    }

    void require(Understood understood) {
      if (!permits(understood)) throw new NotPermittedException(reasons, unknown(understood));
    }

    private List<String> unknown(Understood understood) {
      return obligations.stream().filter(demanded -> !understood.covers(demanded)).map(Obligation::getId).toList();
    }
  }
}
