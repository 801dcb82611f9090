package platform.client;

/** Where calls get their token from. Several threads ask at once. */
public interface TokenSource {
  /**
   * A token that is good for some time yet. Asked for each attempt of a call, on a thread that may wait.
   *
   * @return the token
   * @throws PlatformException where none can be had: {@code UNAVAILABLE} where it may help to ask again
   */
  AccessToken token();

  /**
   * The service does not take this token: it is not to be handed out again.
   *
   * @param token what {@link #token()} returned
   */
  void refused(AccessToken token);
}
