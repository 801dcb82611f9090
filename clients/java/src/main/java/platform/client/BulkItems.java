package platform.client;

import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.function.Function;
import platform.bulk.v1.EventItem;
import platform.bulk.v1.ItemOutcome;
import platform.bulk.v1.RegistrationItem;

/** Items of bulk calls and streams, of whatever kind. */
final class BulkItems {
  private BulkItems() {}

  /** The items of a bulk request or answer. */
  static List<Message> of(Message bulk) {
    FieldDescriptor items = bulk.getDescriptorForType().findFieldByName("items");
    if (items == null || !items.isRepeated()) throw new IllegalArgumentException("this is no bulk call's: " + bulk.getClass());
    return ((List<?>) bulk.getField(items)).stream().map(Message.class::cast).toList();
  }

  static Message caller(Message answer) {
    return (Message) answer.getField(answer.getDescriptorForType().findFieldByName("caller"));
  }

  /** The idempotency key of an item. */
  static Optional<String> key(Message item) {
    FieldDescriptor key = item.getDescriptorForType().findFieldByName("idempotency_key");
    return Optional.ofNullable(key).map(field -> (String) item.getField(field)).filter(text -> !text.isEmpty());
  }

  /** Whether what became of an item is that it was answered. */
  static boolean isAnswered(Message result) {
    Object outcome = result.getField(result.getDescriptorForType().findFieldByName("outcome"));
    return outcome.equals(ItemOutcome.ITEM_OUTCOME_ANSWERED.getValueDescriptor());
  }

  /** The requests, each with these obligations where it lists none. */
  static <Q extends Message> List<Q> understanding(List<Q> requests, Set<String> ids, Function<Message, Q> cast) {
    return requests.stream().map(request -> cast.apply(understanding(request, ids))).toList();
  }

  private static Message understanding(Message request, Set<String> ids) {
    FieldDescriptor listed = request.getDescriptorForType().findFieldByName("understood_obligations");
    if (request.getRepeatedFieldCount(listed) > 0) return request;
    return request.toBuilder().setField(listed, List.copyOf(ids)).build();
  }

  /** The item, with a key of its own where it has none. */
  static EventItem keyed(EventItem item) {
    return item.getIdempotencyKey().isEmpty() ? item.toBuilder().setIdempotencyKey(newKey()).build() : item;
  }

  /** The item, with a key of its own where it has none. */
  static RegistrationItem keyed(RegistrationItem item) {
    return item.getIdempotencyKey().isEmpty() ? item.toBuilder().setIdempotencyKey(newKey()).build() : item;
  }

  private static String newKey() {
    return UUID.randomUUID().toString();
  }
}
