package platform.client;

import com.google.protobuf.Message;
import java.util.Optional;

/** A receipt does not show what it says. */
public final class ReceiptException extends RuntimeException {
  private static final long serialVersionUID = 1;

  /** Null where the receipt was verified by itself. */
  private final transient Message answer;

  ReceiptException(String message) {
    this(message, null, null);
  }

  ReceiptException(String message, Message answer, Throwable cause) {
    super(message, cause);
    this.answer = answer;
  }

  /**
   * Returns the answer that the receipt came with: what it says is the service's word alone.
   *
   * @return empty where the receipt was verified by itself
   */
  public Optional<Message> answer() {
    return Optional.ofNullable(answer);
  }
}
