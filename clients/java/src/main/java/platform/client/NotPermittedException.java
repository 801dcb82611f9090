package platform.client;

import java.util.List;

/** The decision is not to be acted on: it denies, or demands what this program does not understand. */
public final class NotPermittedException extends RuntimeException {
  private static final long serialVersionUID = 1;

  private final transient List<String> reasons;
  private final transient List<String> unknownObligations;

  NotPermittedException(List<String> reasons, List<String> unknownObligations) {
    super(
        unknownObligations.isEmpty()
            ? "the platform denied the operation: " + reasons
            : "the platform demands what is not understood: " + unknownObligations);
    this.reasons = List.copyOf(reasons);
    this.unknownObligations = List.copyOf(unknownObligations);
  }

  /**
   * Returns what decided.
   *
   * @return ids of policies; empty where the deployment does not tell
   */
  public List<String> reasons() {
    return reasons;
  }

  /**
   * Returns the ids of the obligations that are not understood.
   *
   * @return each once for every time that the decision names it
   */
  public List<String> unknownObligations() {
    return unknownObligations;
  }
}
