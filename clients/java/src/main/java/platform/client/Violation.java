package platform.client;

/**
 * A broken rule of a request.
 *
 * @param field path of the member, such as {@code workload.application}; empty for the whole message
 * @param rule name of the rule, such as {@code string.min_len}
 * @param message what is wrong, for a person
 */
public record Violation(String field, String rule, String message) {}
