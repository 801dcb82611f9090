package platform.client;

/**
 * How much may wait for its acknowledgement on a stream: {@link ResumingStream#send} waits where it is more. One item alone
 * may always go.
 *
 * @param maxUnacknowledgedItems how many items
 * @param maxUnacknowledgedBytes how large they are together, as protobuf
 */
public record StreamOptions(int maxUnacknowledgedItems, int maxUnacknowledgedBytes) {
  /** 256 items and 256 KiB: as far ahead as the service reads. */
  public static final StreamOptions DEFAULT = new StreamOptions(256, 256 << 10);

  /**
   * Checks the numbers.
   *
   * @param maxUnacknowledgedItems 1 or more
   * @param maxUnacknowledgedBytes 1 or more
   * @throws IllegalArgumentException where there is room for nothing
   */
  public StreamOptions {
    if (maxUnacknowledgedItems < 1 || maxUnacknowledgedBytes < 1)
      throw new IllegalArgumentException("a stream has room for one item at least");
  }
}
