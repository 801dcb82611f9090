package platform.client;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.gson.JsonPrimitive;
import com.google.protobuf.Descriptors.EnumValueDescriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import platform.bulk.v1.EventItem;
import platform.bulk.v1.EventResult;
import platform.bulk.v1.KeyAccessPlanItem;
import platform.bulk.v1.PolicyResolutionItem;
import platform.bulk.v1.ProtectionPlanItem;
import platform.bulk.v1.RegistrationItem;
import platform.bulk.v1.RegistrationResult;
import platform.sdk.v1.Obligation;
import platform.sdk.v1.PlanKeyAccessResponse;
import platform.sdk.v1.PlanProtectionResponse;
import platform.sdk.v1.Receipt;
import platform.sdk.v1.RecordEvidenceResponse;
import platform.sdk.v1.RegisterArtifactResponse;
import platform.sdk.v1.ResolvePolicyResponse;

/** Whether a record is the one of an answer, or of an item's: what the answer says is what was recorded. */
final class Answers {
  private static final Answers PROTECTION = new Answers("decision", "decision", "protection-plan");
  private static final Answers POLICY = new Answers("decision", "decision", "policy-resolve");
  private static final Answers KEY_ACCESS = new Answers("decision", "decision", "key-access-plan");
  private static final Answers REGISTRATION = new Answers("registration", "registration", "artifact-register");
  private static final Answers EVIDENCE = new Answers("evidence", "ingestion", "evidence");
  private static final Map<Class<? extends Message>, Answers> KINDS =
      Map.of(
          PlanProtectionResponse.class, PROTECTION,
          ResolvePolicyResponse.class, POLICY,
          PlanKeyAccessResponse.class, KEY_ACCESS,
          RegisterArtifactResponse.class, REGISTRATION,
          RecordEvidenceResponse.class, EVIDENCE,
          ProtectionPlanItem.class, PROTECTION,
          PolicyResolutionItem.class, POLICY,
          KeyAccessPlanItem.class, KEY_ACCESS,
          RegistrationResult.class, REGISTRATION,
          EventResult.class, EVIDENCE);

  private final String kind;
  /** The answer's member that has the receipt. */
  private final String holder;

  private final String route;

  private Answers(String kind, String holder, String route) {
    this.kind = kind;
    this.holder = holder;
    this.route = route;
  }

  /** The receipt of an answer, or of what became of an item; empty where it has none. */
  static Optional<Receipt> receipt(Message answer) {
    Answers found = KINDS.get(answer.getClass());
    if (found == null) return Optional.empty();
    Message result = (Message) answer.getField(field(answer, found.holder));
    FieldDescriptor receipt = field(result, "receipt");
    return result.hasField(receipt) ? Optional.of((Receipt) result.getField(receipt)) : Optional.empty();
  }

  /**
   * Throws a ReceiptException where the record is not the answer's. Of a brief receipt there is no record: it names a decision
   * and nothing else of it.
   */
  static void require(Message answer, Receipt receipt, Optional<String> record) {
    Answers found = KINDS.get(answer.getClass());
    found.requireDecision(answer, receipt);
    record.ifPresent(text -> found.compareAnswer(answer, JsonParser.parseString(text)));
  }

  /**
   * Throws a ReceiptException where the record is not that of an item of a bulk call, or of a stream, whose results name no
   * caller.
   */
  static void requireItem(
      Message item, Message result, Optional<Message> caller, Receipt receipt, Optional<String> record) {
    Answers found = KINDS.get(result.getClass());
    found.requireDecision(result, receipt);
    record.ifPresent(text -> found.compareItem(item, result, caller, JsonParser.parseString(text)));
  }

  private void requireDecision(Message answer, Receipt receipt) {
    if (kind.equals("decision"))
      same("decision_id", at(answer, "decision", "decision_id"), new JsonPrimitive(receipt.getRecordId()));
  }

  private void compareAnswer(Message answer, JsonElement record) {
    compareKind(record);
    compareCaller((Message) answer.getField(field(answer, "caller")), record);
    same(done(), at(answer, "request_summary", done()), at(record, "request", done()));
    JsonElement application = at(record, "request", "workload", "application");
    same("workload_application", at(answer, "request_summary", "workload_application"), application);
    same("resource_kind", at(answer, "request_summary", "resource_kind"), at(record, "request", "resource", "kind"));
    same("resource_id", at(answer, "request_summary", "resource_id"), at(record, "request", "resource", "id"));
    compareOutcome(answer, record);
    if (!kind.equals("decision")) compareNames(answer, record);
  }

  private void compareItem(Message item, Message result, Optional<Message> caller, JsonElement record) {
    compareKind(record);
    caller.ifPresent(named -> compareCaller(named, record));
    Message request = requestOf(item);
    same(done(), at(request, done()), at(record, "request", done()));
    for (String[] path :
        List.of(
            new String[] {"workload", "application"}, new String[] {"resource", "kind"}, new String[] {"resource", "id"}))
      same(String.join("_", path), orNull(at(request, path)), orNull(at(at(record, "request"), path)));
    compareOutcome(result, record);
  }

  private static Message requestOf(Message item) {
    if (item instanceof EventItem event) return event.getEvent();
    return item instanceof RegistrationItem registration ? registration.getRegistration() : item;
  }

  /** An empty text that is optional is taken for none. */
  private static JsonElement orNull(JsonElement text) {
    return text.equals(new JsonPrimitive("")) ? JsonNull.INSTANCE : text;
  }

  /** The member of a request that says what is asked, or was done. */
  private String done() {
    return kind.equals("evidence") ? "event_type" : "operation";
  }

  private void compareKind(JsonElement record) {
    same("kind", new JsonPrimitive(kind), at(record, "kind"));
    same("route", new JsonPrimitive("/v1/sdk/" + route), at(record, "route"));
  }

  private static void compareCaller(Message caller, JsonElement record) {
    same("tenant_id", at(caller, "tenant_id"), at(record, "tenant_id"));
    same("principal_id", at(caller, "principal_id"), at(record, "caller", "principal_id"));
  }

  private void compareOutcome(Message answer, JsonElement record) {
    if (kind.equals("decision")) compareDecision(answer, record);
    else same("accepted", at(answer, holder, "accepted"), at(record, "outcome", "accepted"));
  }

  private static void compareDecision(Message answer, JsonElement record) {
    JsonElement reasons = at(answer, "decision", "reasons");
    // A deployment may keep them to itself.
    if (!reasons.equals(new JsonArray())) same("reasons", reasons, at(record, "outcome", "reasons"));
    for (String member : List.of("allow", "policy_revision"))
      same(member, at(answer, "decision", member), at(record, "outcome", member));
    JsonElement obligations = at(record, "outcome", "obligations");
    same("obligations", at(answer, "decision", "obligations"), obligations.isJsonNull() ? new JsonArray() : obligations);
  }

  private void compareNames(Message answer, JsonElement record) {
    // Of an object that came with the call it was derived.
    JsonElement derived = at(record, "outcome", "artifact_cid");
    JsonElement cid = derived.isJsonNull() ? at(record, "request", "artifact_cid") : derived;
    same("artifact_cid", at(answer, "request_summary", "artifact_cid"), cid);
    if (kind.equals("registration"))
      same("artifact_digest", at(answer, "request_summary", "artifact_digest"), at(record, "request", "artifact_digest"));
  }

  private static void same(String member, JsonElement ofAnswer, JsonElement ofRecord) {
    if (!ofAnswer.equals(ofRecord)) throw new ReceiptException("the receipt is of another " + member + " than the answer");
  }

  private static JsonElement at(JsonElement value, String... path) {
    JsonElement inner = value;
    for (String member : path)
      inner = inner instanceof JsonObject object && object.has(member) ? object.get(member) : JsonNull.INSTANCE;
    return inner;
  }

  /** A member as the JSON routes write it; null where it is optional and not there. */
  private static JsonElement at(Message message, String... path) {
    Object inner = message;
    FieldDescriptor field = null;
    for (String member : path) {
      field = field((Message) inner, member);
      if (field.toProto().getProto3Optional() && !((Message) inner).hasField(field)) return JsonNull.INSTANCE;
      inner = ((Message) inner).getField(field);
    }
    return json(inner);
  }

  private static JsonElement json(Object value) {
    if (value instanceof List<?> list) {
      JsonArray array = new JsonArray();
      list.forEach(item -> array.add(json(item)));
      return array;
    }
    if (value instanceof Obligation obligation) {
      JsonObject parameters = new JsonObject();
      obligation.getParametersMap().forEach(parameters::addProperty);
      JsonObject object = new JsonObject();
      object.addProperty("id", obligation.getId());
      object.add("parameters", parameters);
      return object;
    }
    if (value instanceof EnumValueDescriptor named) {
      String none = named.getType().getValues().get(0).getName();
      String prefix = none.substring(0, none.length() - "UNSPECIFIED".length());
      return new JsonPrimitive(named.getName().substring(prefix.length()).toLowerCase(Locale.ROOT));
    }
    return value instanceof Boolean truth ? new JsonPrimitive(truth) : new JsonPrimitive((String) value);
  }

  private static FieldDescriptor field(Message message, String name) {
    return message.getDescriptorForType().findFieldByName(name);
  }
}
