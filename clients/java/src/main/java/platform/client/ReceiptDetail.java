package platform.client;

/** How much of a receipt answers carry. */
public enum ReceiptDetail {
  /** With the record itself: shows what the log holds. */
  WHOLE("full"),
  /** Without the record: shows a position in the log only. */
  BRIEF("brief"),
  /** No receipt. */
  NONE("none");

  /** Value of {@code x-svc-receipt}. */
  final String wireName;

  ReceiptDetail(String wireName) {
    this.wireName = wireName;
  }
}
