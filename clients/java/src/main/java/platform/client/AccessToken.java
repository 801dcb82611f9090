package platform.client;

import java.util.Objects;
import java.util.Optional;

/** An access token, and the key that it is bound to where there is one. */
public final class AccessToken {
  private final String value;
  private final DpopKey dpopKey;

  private AccessToken(String value, DpopKey dpopKey) {
    this.value = Objects.requireNonNull(value);
    this.dpopKey = dpopKey;
  }

  /**
   * A token that is sent as it is (RFC 6750). It may be bound to the client certificate.
   *
   * @param value the token
   * @return the token with its scheme
   */
  public static AccessToken bearer(String value) {
    return new AccessToken(value, null);
  }

  /**
   * A token that is bound to a key: each call carries a proof by it (RFC 9449).
   *
   * @param value the token
   * @param key the key that the token is bound to
   * @return the token with its scheme
   */
  public static AccessToken dpop(String value, DpopKey key) {
    return new AccessToken(value, Objects.requireNonNull(key));
  }

  /**
   * Returns the token itself: a secret.
   *
   * @return what is sent
   */
  public String value() {
    return value;
  }

  /**
   * Returns the key that the token is bound to.
   *
   * @return empty for a bearer token
   */
  public Optional<DpopKey> dpopKey() {
    return Optional.ofNullable(dpopKey);
  }

  /** Shows the scheme and not the secret. */
  @Override
  public String toString() {
    return dpopKey == null ? "Bearer token" : "DPoP token";
  }
}
