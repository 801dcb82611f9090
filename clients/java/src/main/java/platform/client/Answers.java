package platform.client;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import platform.bulk.v1.EventItem;
import platform.bulk.v1.EventResult;
import platform.bulk.v1.KeyAccessPlanItem;
import platform.bulk.v1.PolicyResolutionItem;
import platform.bulk.v1.ProtectionPlanItem;
import platform.bulk.v1.RegistrationItem;
import platform.bulk.v1.RegistrationResult;
import platform.sdk.v1.PlanKeyAccessRequest;
import platform.sdk.v1.PlanKeyAccessResponse;
import platform.sdk.v1.PlanProtectionRequest;
import platform.sdk.v1.PlanProtectionResponse;
import platform.sdk.v1.Receipt;
import platform.sdk.v1.RecordEvidenceRequest;
import platform.sdk.v1.RecordEvidenceResponse;
import platform.sdk.v1.RegisterArtifactRequest;
import platform.sdk.v1.RegisterArtifactResponse;
import platform.sdk.v1.ResolvePolicyRequest;
import platform.sdk.v1.ResolvePolicyResponse;

/** Whether a record is the one of an answer, or of an item's: see {@link Relations}. */
final class Answers {
  /** What only the answer around items has. */
  private static final Set<String> NOT_OF_ITEMS = Set.of("status", "request_summary");
  /** Acknowledgements of a stream do not name the caller either. */
  private static final Set<String> NOT_OF_STREAMS = Set.of("status", "request_summary", "caller");

  /** Routes of records by what answers them, and by what asks for them. */
  private static final Map<Class<? extends Message>, String> ROUTES =
      Map.of(
          PlanProtectionResponse.class, "protection-plan",
          ResolvePolicyResponse.class, "policy-resolve",
          PlanKeyAccessResponse.class, "key-access-plan",
          RegisterArtifactResponse.class, "artifact-register",
          RecordEvidenceResponse.class, "evidence",
          ProtectionPlanItem.class, "protection-plan",
          PolicyResolutionItem.class, "policy-resolve",
          KeyAccessPlanItem.class, "key-access-plan",
          RegistrationResult.class, "artifact-register",
          EventResult.class, "evidence");

  private static final Map<Class<? extends Message>, String> ASKED =
      Map.of(
          PlanProtectionRequest.class, "protection-plan",
          ResolvePolicyRequest.class, "policy-resolve",
          PlanKeyAccessRequest.class, "key-access-plan",
          RegisterArtifactRequest.class, "artifact-register",
          RecordEvidenceRequest.class, "evidence");

  private Answers() {}

  /** The receipt of an answer, or of what became of an item; empty where it has none. */
  static Optional<Receipt> receipt(Message answer) {
    String route = ROUTES.get(answer.getClass());
    if (route == null) return Optional.empty();
    Message holder = (Message) answer.getField(field(answer, Relations.holderOf(route)));
    FieldDescriptor receipt = field(holder, "receipt");
    return holder.hasField(receipt) ? Optional.of((Receipt) holder.getField(receipt)) : Optional.empty();
  }

  /** Whether an item has a result, of whatever kind; an error is none. */
  static boolean hasResult(Message item) {
    return item.getAllFields().keySet().stream()
        .anyMatch(field -> field.getJavaType() == FieldDescriptor.JavaType.MESSAGE && !field.getName().equals("error"));
  }

  /**
   * Throws a ReceiptException where the record is not that of the answer, the request and the sender. Of a brief receipt there
   * is no record: it names a decision and nothing else of it.
   *
   * @param request empty where it was not kept
   */
  static void require(
      Optional<? extends Message> request, Message answer, Sender sender, Receipt receipt, Optional<String> record) {
    require(request, answer, NormalForm.of(answer), Set.of(), sender, receipt, record);
  }

  /**
   * Throws a ReceiptException where the record is not that of an item of a bulk call, or of a stream, whose results name no
   * caller.
   */
  static void requireItem(
      Message item, Message result, Optional<Message> caller, Sender sender, Receipt receipt, Optional<String> record) {
    JsonObject said = NormalForm.of(result);
    caller.ifPresent(named -> said.add("caller", NormalForm.of(named)));
    Set<String> others = caller.isPresent() ? NOT_OF_ITEMS : NOT_OF_STREAMS;
    require(Optional.of(requestOf(item)), result, said, others, sender, receipt, record);
  }

  private static void require(
      Optional<? extends Message> request,
      Message answer,
      JsonObject said,
      Set<String> others,
      Sender sender,
      Receipt receipt,
      Optional<String> record) {
    String route = ROUTES.get(answer.getClass());
    if (request.isPresent() && !route.equals(ASKED.get(request.get().getClass())))
      throw new ReceiptException("the receipt is of " + route + ", and the request is none");
    if (Relations.kindOf(route).equals("decision")
        && !Relations.at(said, "decision.decision_id").getAsString().equals(receipt.getRecordId()))
      throw new ReceiptException("the receipt is of another decision_id than the answer");
    if (record.isEmpty()) return;
    JsonObject recorded = JsonParser.parseString(record.get()).getAsJsonObject();
    if (!recorded.get("route").getAsString().equals("/v1/sdk/" + route)
        || !recorded.get("kind").getAsString().equals(Relations.kindOf(route)))
      throw new ReceiptException("the receipt is of another route than " + route);
    Relations.compareAnswer(route, said, recorded, others);
    request.ifPresent(sent -> Relations.compareRequest(sent, recorded));
    sender.caller().ifPresent(known -> Relations.compareCaller(route, NormalForm.of(known), recorded));
    Relations.compareTime(recorded, sender.since());
  }

  private static Message requestOf(Message item) {
    if (item instanceof EventItem event) return event.getEvent();
    return item instanceof RegistrationItem registration ? registration.getRegistration() : item;
  }

  private static FieldDescriptor field(Message message, String name) {
    return message.getDescriptorForType().findFieldByName(name);
  }
}
