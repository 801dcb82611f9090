package platform.client;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.ByteString;
import com.google.protobuf.Descriptors.EnumValueDescriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.MapEntry;
import com.google.protobuf.Message;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.Test;
import platform.bulk.v1.EventItem;
import platform.bulk.v1.EventResult;
import platform.bulk.v1.ItemOutcome;
import platform.bulk.v1.RecordEventsRequest;
import platform.bulk.v1.RecordEventsResponse;
import platform.sdk.v1.PlanKeyAccessResponse;
import platform.sdk.v1.PlanProtectionResponse;
import platform.sdk.v1.Receipt;
import platform.sdk.v1.RecordEvidenceRequest;
import platform.sdk.v1.RecordEvidenceResponse;
import platform.sdk.v1.RegisterArtifactResponse;
import platform.sdk.v1.ResolvePolicyResponse;

/** Receipts of calls that are nearly alike: nothing is believed but what belongs together. */
class RelationsTest {
  private final TestLog log = new TestLog(0);
  private final List<MadeCall> calls = MadeCall.all(log);
  private final List<String> keys = List.of(log.key());

  RelationsTest() throws GeneralSecurityException {}

  @Test
  void validCallsAreVerified() {
    for (MadeCall call : calls) {
      assertDoesNotThrow(
          () -> Receipts.verifyAnswer(Optional.of(call.request()), call.answer(), call.sender(), keys), call.name());
      assertDoesNotThrow(
          () -> Receipts.verifyAnswer(Optional.empty(), call.answer(), Sender.UNKNOWN, keys), call.name());
    }
  }

  @Test
  void partsOfAnotherCallAreRefused() {
    int swaps = 0;
    for (MadeCall own : calls) {
      for (MadeCall other : calls) {
        if (own == other) continue;
        String what = other.name() + " in " + own.name();
        // An answer that is later than asked for may be the answer.
        boolean isOnlyLater = own.route().equals(other.route()) && own.isEarlier() && other.isPlain();
        if (!isOnlyLater) {
          refused(own.request(), other.answer(), own.sender(), "the answer of " + what);
          refused(own.request(), own.withReceiptOf(other), own.sender(), "the receipt of " + what);
          swaps += 2;
        }
        if (!own.request().equals(other.request())) {
          refused(other.request(), own.answer(), own.sender(), "the request of " + what);
          swaps++;
        }
        if (!own.sender().caller().equals(other.sender().caller())) {
          Sender mixed = new Sender(other.sender().caller(), own.sender().since());
          refused(own.request(), own.answer(), mixed, "the caller of " + what);
          swaps++;
        }
      }
    }
    assertTrue(swaps >= 2_000, swaps + " swaps");
  }

  @Test
  void everyMemberOfAnAnswerCounts() {
    JsonObject table = JsonParser.parseString(sharedTable()).getAsJsonObject();
    Set<String> unproven = texts(table, "unproven");
    Set<String> ofRetries = texts(table, "unproven_of_retries");
    for (MadeCall call : calls) {
      boolean isDecision = Relations.kindOf(call.route()).equals("decision");
      changes(call.answer(), "")
          .forEach(
              (path, answer) -> {
                String member = path.replace("[less]", "");
                boolean isFree = unproven.contains(member) || (!isDecision && ofRetries.contains(member));
                if (isFree || member.endsWith(".receipt") || member.contains(".receipt.")) return;
                assertThrows(
                    ReceiptException.class,
                    () -> Receipts.verifyAnswer(Optional.empty(), answer, Sender.UNKNOWN, keys),
                    () -> path + " of " + call.name());
              });
      changes(call.request(), "")
          .forEach(
              (path, request) -> {
                // Bytes are never recorded; of a locator no one can tell what was made of it.
                if (path.startsWith("artifact_object_b64") || path.startsWith("artifact_locator")) return;
                refused(request, call.answer(), Sender.UNKNOWN, path + " of the request of " + call.name());
              });
    }
  }

  @Test
  void whatNoServiceAnswersIsRefused() {
    for (MadeCall call : calls) {
      Message.Builder answer = call.answer().toBuilder();
      if (answer instanceof PlanProtectionResponse.Builder plan) plan.getExecutionBuilder().setSendPlaintextToPlatform(true);
      if (answer instanceof PlanKeyAccessResponse.Builder plan) plan.getExecutionBuilder().setSendPlaintextToPlatform(true);
      if (answer instanceof RegisterArtifactResponse.Builder registered)
        registered.getRegistrationBuilder().setSendPlaintextToPlatform(true);
      if (answer instanceof ResolvePolicyResponse.Builder resolved) resolved.getDecisionBuilder().clearReasons();
      if (!(answer instanceof RecordEvidenceResponse.Builder))
        refused(call.request(), answer.build(), call.sender(), call.name());
    }
  }

  @Test
  void itemsOfAnotherPlaceAreRefused() {
    RecordEventsRequest.Builder request = RecordEventsRequest.newBuilder();
    RecordEventsResponse.Builder answer = RecordEventsResponse.newBuilder();
    Sender sender = Sender.UNKNOWN;
    for (MadeCall call : calls) {
      if (!(call.answer() instanceof RecordEvidenceResponse recorded)) continue;
      if (!recorded.getCaller().getTenantId().equals("tenant-a") || !recorded.getCaller().getPrincipalId().equals("p")) continue;
      request.addItems(EventItem.newBuilder().setEvent((RecordEvidenceRequest) call.request()));
      answer
          .setCaller(recorded.getCaller())
          .addItems(
              EventResult.newBuilder()
                  .setOutcome(ItemOutcome.ITEM_OUTCOME_ANSWERED)
                  .setIngestion(recorded.getIngestion()));
      sender = new Sender(Optional.of(recorded.getCaller()), Optional.empty());
    }
    RecordEventsResponse good = answer.build();
    Sender from = sender;
    assertEquals(good.getItemsCount(), Receipts.verifyItems(request.build(), good, from, keys).size());
    for (int i = 0; i < good.getItemsCount(); i++) {
      for (int j = 0; j < i; j++) {
        if (request.getItems(i).equals(request.getItems(j))) continue;
        itemsRefused(
            request.build(), good.toBuilder().setItems(i, good.getItems(j)).setItems(j, good.getItems(i)), from);
      }
    }
    EventResult first = good.getItems(0);
    for (ItemOutcome outcome : List.of(ItemOutcome.ITEM_OUTCOME_UNSPECIFIED, ItemOutcome.ITEM_OUTCOME_REFUSED))
      itemsRefused(request.build(), good.toBuilder().setItems(0, first.toBuilder().setOutcome(outcome)), from);
    itemsRefused(request.build(), good.toBuilder().setItems(0, first.toBuilder().clearIngestion()), from);
    itemsRefused(request.build(), good.toBuilder().clearCaller(), from);
  }

  @Test
  void aSecondLineOfTheKeyIsRefused() {
    Receipt receipt = Answers.receipt(calls.get(0).answer()).orElseThrow();
    String proof = receipt.getProof();
    String line = proof.substring(proof.lastIndexOf('\n', proof.length() - 2) + 1);
    Receipt doubled = receipt.toBuilder().setProof(proof + line).build();
    assertThrows(ReceiptException.class, () -> Receipts.verify(doubled, log.key()));
  }

  private void refused(Message request, Message answer, Sender sender, String what) {
    assertThrows(
        ReceiptException.class, () -> Receipts.verifyAnswer(Optional.of(request), answer, sender, keys), what);
  }

  private void itemsRefused(Message request, RecordEventsResponse.Builder answer, Sender sender) {
    assertThrows(ReceiptException.class, () -> Receipts.verifyItems(request, answer.build(), sender, keys));
  }

  private static String sharedTable() {
    try {
      return Files.readString(Path.of("../conformance/vectors/record-relations.json"));
    } catch (IOException unread) {
      throw new IllegalStateException(unread);
    }
  }

  private static Set<String> texts(JsonObject table, String name) {
    Set<String> texts = new HashSet<>();
    for (JsonElement text : table.getAsJsonArray(name)) texts.add(text.getAsString());
    return texts;
  }

  /** Copies of the message by the path of the member that is changed, or that is taken away. */
  private static Map<String, Message> changes(Message message, String prefix) {
    Map<String, Message> found = new LinkedHashMap<>();
    for (FieldDescriptor field : message.getDescriptorForType().getFields()) {
      String path = prefix + field.getName();
      boolean isThere = field.isRepeated() ? message.getRepeatedFieldCount(field) > 0 : hasValue(message, field);
      if (isThere) found.put(path + "[less]", message.toBuilder().clearField(field).build());
      if (field.isMapField()) {
        MapEntry<String, String> sample =
            MapEntry.newDefaultInstance(
                field.getMessageType(),
                com.google.protobuf.WireFormat.FieldType.STRING, "",
                com.google.protobuf.WireFormat.FieldType.STRING, "");
        Message entry = sample.toBuilder().setKey("other").setValue("x").build();
        found.put(path, message.toBuilder().addRepeatedField(field, entry).build());
      } else if (field.isRepeated()) {
        if (field.getJavaType() == FieldDescriptor.JavaType.STRING)
          found.put(path, message.toBuilder().addRepeatedField(field, "other").build());
      } else if (field.getJavaType() == FieldDescriptor.JavaType.MESSAGE) {
        if (message.hasField(field))
          changes((Message) message.getField(field), path + ".")
              .forEach((inner, changed) -> found.put(inner, message.toBuilder().setField(field, changed).build()));
      } else {
        found.put(path, message.toBuilder().setField(field, another(message.getField(field))).build());
      }
    }
    return found;
  }

  private static boolean hasValue(Message message, FieldDescriptor field) {
    return field.hasPresence() ? message.hasField(field) : !message.getField(field).equals(field.getDefaultValue());
  }

  private static Object another(Object value) {
    if (value instanceof String text) return text + "x";
    if (value instanceof Boolean truth) return !truth;
    if (value instanceof Integer number) return number + 1;
    if (value instanceof Long number) return number + 1;
    if (value instanceof ByteString bytes) return bytes.concat(ByteString.copyFromUtf8("x"));
    EnumValueDescriptor named = (EnumValueDescriptor) value;
    return named.getType().findValueByNumber(named.getNumber() % 2 + 1);
  }
}
