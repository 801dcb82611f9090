package platform.client;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.gson.JsonPrimitive;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.protobuf.util.JsonFormat;
import java.security.GeneralSecurityException;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import platform.sdk.v1.Caller;
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

/**
 * A call as the service answers it, with a receipt of a log that is that of all tenants here: nothing but the comparison with
 * the record tells it from another.
 */
record MadeCall(String route, String difference, Message request, Message answer, Sender sender) {
  private record Form(Message request, Message answer, String members) {}

  private static final DateTimeFormatter MOMENT =
      DateTimeFormatter.ofPattern("uuuu-MM-dd'T'HH:mm:ss.SSS'Z'").withZone(ZoneOffset.UTC);
  private static final String ARTIFACT = " artifact_digest artifact_cid";
  private static final Map<String, Form> FORMS =
      new TreeMap<>(
          Map.of(
              "protection-plan",
              new Form(
                  PlanProtectionRequest.getDefaultInstance(),
                  PlanProtectionResponse.getDefaultInstance(),
                  "operation content_digest" + ARTIFACT),
              "policy-resolve",
              new Form(
                  ResolvePolicyRequest.getDefaultInstance(),
                  ResolvePolicyResponse.getDefaultInstance(),
                  "operation content_digest" + ARTIFACT),
              "key-access-plan",
              new Form(
                  PlanKeyAccessRequest.getDefaultInstance(),
                  PlanKeyAccessResponse.getDefaultInstance(),
                  "operation content_digest key_reference" + ARTIFACT),
              "artifact-register",
              new Form(
                  RegisterArtifactRequest.getDefaultInstance(),
                  RegisterArtifactResponse.getDefaultInstance(),
                  "operation artifact_profile key_reference" + ARTIFACT),
              "evidence",
              new Form(
                  RecordEvidenceRequest.getDefaultInstance(),
                  RecordEvidenceResponse.getDefaultInstance(),
                  "event_type artifact_profile outcome" + ARTIFACT)));

  private static final JsonObject PLAIN =
      json(
          """
          {"tenant": "tenant-a", "principal": "p", "operation": "protect", "event_type": "protect",
           "workload": {"application": "payroll"}, "resource": {"kind": "record", "id": "r-1"},
           "content_digest": "sha256:01", "artifact_digest": "sha256:01", "artifact_cid": "bafy-a",
           "artifact_profile": "envelope", "key_reference": "kms://a", "outcome": "completed", "labels": ["secret"],
           "attributes": {"region": "eu"}}""");

  /** What one call has otherwise than another of its route. */
  private static final JsonObject DIFFERENCES =
      json(
          """
          {"plain": {}, "earlier": {}, "tenant": {"tenant": "tenant-b"}, "principal": {"principal": "q"},
           "application": {"workload": {"application": "reports"}},
           "resource": {"resource": {"kind": "record", "id": "r-2"}},
           "type": {"resource": {"kind": "record", "id": "r-1", "mime_type": "text/plain"}},
           "operation": {"operation": "rewrap", "event_type": "rewrap"}, "labels": {"labels": ["public"]},
           "attributes": {"attributes": {"region": "us"}}, "purpose": {"purpose": "audit"},
           "digest": {"artifact_digest": "sha256:02", "content_digest": "sha256:02"},
           "key": {"key_reference": "kms://b", "artifact_cid": "bafy-b"}}""");

  private static final JsonObject GUIDANCE =
      json(
          """
          {"protection-plan":
            {"handling_mode": "local_only", "local_enforcement_library": "sdk", "send_only": ["labels"],
             "artifact_profile": "envelope", "key_strategy": "wrapped", "policy_resolution": "central"},
           "policy-resolve":
            {"enforcement_mode": "local", "required_actions": ["log"], "bind_policy_to": ["header"],
             "evidence_expected": ["protect"]},
           "key-access-plan":
            {"send_only": ["key_reference"], "artifact_profile": "envelope", "authorization_strategy": "per_use",
             "key_transport": {"mode": "local_provided", "key_material_origin": "kms",
               "stable_key_reference_preferred": true, "raw_key_delivery_forbidden": true}}}""");

  /** One call of each route and difference, in a log that is new. */
  static List<MadeCall> all(TestLog log) throws GeneralSecurityException {
    Instant now = Instant.now();
    List<MadeCall> made = new ArrayList<>();
    for (String route : FORMS.keySet())
      for (String difference : DIFFERENCES.keySet()) made.add(make(log, route, difference, made.size(), now));
    List<MadeCall> receipted = new ArrayList<>();
    for (int i = 0; i < made.size(); i++) receipted.add(made.get(i).with(log.receipt(i, made.size())));
    return receipted;
  }

  String name() {
    return route + ", " + difference;
  }

  boolean isEarlier() {
    return difference.equals("earlier");
  }

  boolean isPlain() {
    return difference.equals("plain");
  }

  /** The answer, with the receipt of another and, of a decision, its id. */
  Message withReceiptOf(MadeCall other) {
    return with(Answers.receipt(other.answer).orElseThrow()).answer;
  }

  private MadeCall with(Receipt receipt) {
    FieldDescriptor field = answer.getDescriptorForType().findFieldByName(Relations.holderOf(route));
    Message holder = (Message) answer.getField(field);
    Message.Builder changed =
        holder.toBuilder().setField(holder.getDescriptorForType().findFieldByName("receipt"), receipt);
    FieldDescriptor id = holder.getDescriptorForType().findFieldByName("decision_id");
    if (id != null) changed.setField(id, receipt.getRecordId());
    return new MadeCall(route, difference, request, answer.toBuilder().setField(field, changed.build()).build(), sender);
  }

  private static MadeCall make(TestLog log, String route, String difference, int index, Instant now) {
    JsonObject is = PLAIN.deepCopy();
    if (route.equals("key-access-plan")) is.addProperty("operation", "wrap");
    DIFFERENCES.getAsJsonObject(difference).asMap().forEach(is::add);
    Instant at = difference.equals("earlier") ? now.minusSeconds(3_600) : now;
    JsonObject request = new JsonObject();
    for (String member : ("workload resource labels attributes purpose " + FORMS.get(route).members).split(" "))
      if (is.has(member)) request.add(member, is.get(member));
    String kind = Relations.kindOf(route);
    JsonObject outcome = json("{\"accepted\": true, \"citation\": \"none\"}");
    if (kind.equals("registration")) outcome.add("artifact_cid", request.get("artifact_cid"));
    if (kind.equals("decision")) {
      outcome =
          json(
              """
              {"allow": true, "policy_revision": "sha256:00", "reasons": ["platform/allow"],
               "caller_scopes": ["policy.read"], "obligations": [{"id": "note", "parameters": {"to": "dpo"}}]}""");
      outcome.add("guidance", GUIDANCE.get(route));
    }
    append(log, route, is, request, outcome, index, at);
    Message.Builder caller = filled(Caller.getDefaultInstance(), callerOf(is));
    return new MadeCall(
        route,
        difference,
        filled(FORMS.get(route).request, request).build(),
        filled(FORMS.get(route).answer, answerTo(route, is, outcome)).build(),
        new Sender(Optional.of((Caller) caller.build()), Optional.of(at)));
  }

  private static void append(
      TestLog log, String route, JsonObject is, JsonObject request, JsonObject outcome, int index, Instant at) {
    JsonObject record = new JsonObject();
    JsonObject caller = json("{\"auth_source\": \"bearer_token\", \"subject\": \"s\"}");
    caller.add("principal_id", is.get("principal"));
    record.add("caller", caller);
    record.addProperty("kind", Relations.kindOf(route));
    record.addProperty("log", TestLog.ORIGIN);
    record.add("outcome", outcome);
    record.addProperty("record_id", TestLog.idOf(index));
    record.addProperty("recorded_at", MOMENT.format(at));
    record.add("request", request);
    String digest = HexFormat.of().formatHex(Hashes.sha256(CanonicalJson.write(request)));
    record.addProperty("request_digest", "sha256:" + digest);
    record.addProperty("request_id", "r");
    record.addProperty("route", "/v1/sdk/" + route);
    record.add("tenant_id", is.get("tenant"));
    log.append(CanonicalJson.write(record), Relations.kindOf(route), MOMENT.format(at));
  }

  private static JsonObject callerOf(JsonObject is) {
    JsonObject caller = json("{\"subject\": \"s\", \"auth_source\": \"bearer_token\", \"scopes\": [\"policy.read\"]}");
    caller.add("tenant_id", is.get("tenant"));
    caller.add("principal_id", is.get("principal"));
    return caller;
  }

  /** What the service answers. */
  private static JsonObject answerTo(String route, JsonObject is, JsonObject outcome) {
    JsonObject summary = json("{\"label_count\": 1, \"attribute_count\": 1}");
    summary.add("workload_application", Relations.at(is, "workload.application"));
    summary.add("resource_kind", Relations.at(is, "resource.kind"));
    summary.add("resource_id", Relations.at(is, "resource.id"));
    copy(is.getAsJsonObject("resource"), summary, "mime_type");
    copy(is, summary, "purpose");
    JsonObject answer = json("{\"status\": \"ready\"}");
    answer.add("caller", callerOf(is));
    answer.add("request_summary", summary);
    JsonObject guided = GUIDANCE.has(route) ? GUIDANCE.getAsJsonObject(route) : new JsonObject();
    JsonObject decision = new JsonObject();
    copy(outcome, decision, "allow", "policy_revision", "reasons", "obligations");
    JsonObject part = new JsonObject();
    if (Relations.kindOf(route).equals("decision")) {
      copy(is, summary, "operation");
      summary.addProperty("content_digest_present", true);
      answer.add("decision", decision);
    }
    switch (route) {
      case "protection-plan" -> {
        summary.addProperty("preferred_artifact_profile", "envelope");
        copy(guided, decision, "handling_mode");
        decision.addProperty("plaintext_transport", "forbidden_by_default");
        copy(
            guided, part, "local_enforcement_library", "send_only", "artifact_profile", "key_strategy", "policy_resolution");
        part.addProperty("protect_locally", true);
        answer.add("execution", part);
      }
      case "policy-resolve" -> {
        copy(guided, decision, "enforcement_mode", "required_actions");
        copy(guided, part, "bind_policy_to", "evidence_expected");
        part.addProperty("protect_locally", true);
        part.addProperty("plaintext_transport", "forbidden_by_default");
        answer.add("handling", part);
      }
      case "key-access-plan" -> {
        summary.addProperty("artifact_profile", "envelope");
        summary.addProperty("key_reference_present", true);
        copy(is, decision, "operation");
        decision.addProperty("key_reference_present", true);
        copy(guided, part, "send_only", "artifact_profile", "authorization_strategy", "key_transport");
        part.addProperty("local_cryptographic_operation", true);
        part.addProperty("platform_role", "authorize_only");
        answer.add("execution", part);
      }
      case "artifact-register" -> {
        copy(is, summary, "operation", "artifact_profile", "artifact_digest", "artifact_cid");
        summary.addProperty("key_reference_present", true);
        part =
            json(
                "{\"accepted\": true, \"artifact_transport\": \"metadata_only\","
                    + " \"catalog_actions\": [\"record_artifact_metadata\"]}");
        JsonArray expected = new JsonArray();
        expected.add(is.get("operation"));
        part.add("evidence_expected", expected);
        answer.add("registration", part);
      }
      default -> {
        copy(is, summary, "event_type", "artifact_profile", "artifact_cid", "outcome");
        summary.addProperty("artifact_digest_present", true);
        answer.add(
            "ingestion",
            json(
                "{\"accepted\": true, \"plaintext_transport\": \"forbidden_by_default\","
                    + " \"correlate_by\": [\"artifact_digest\", \"artifact_cid\", \"resource.id\"]}"));
      }
    }
    return answer;
  }

  private static void copy(JsonObject from, JsonObject to, String... members) {
    for (String member : members) if (from.has(member)) to.add(member, from.get(member));
  }

  private static JsonObject json(String text) {
    return JsonParser.parseString(text).getAsJsonObject();
  }

  /** A message of what the JSON routes call so. */
  private static Message.Builder filled(Message form, JsonObject members) {
    try {
      Message.Builder message = form.newBuilderForType();
      JsonFormat.parser().merge(named(form.getDescriptorForType(), members).toString(), message);
      return message;
    } catch (InvalidProtocolBufferException wrong) {
      throw new IllegalStateException(wrong);
    }
  }

  /** Has the words of enumerations as protobuf names them. */
  private static JsonObject named(Descriptor descriptor, JsonObject members) {
    JsonObject result = new JsonObject();
    members
        .asMap()
        .forEach(
            (name, value) -> {
              FieldDescriptor field = descriptor.findFieldByName(name);
              JsonElement spelled = value;
              if (field.getJavaType() == FieldDescriptor.JavaType.ENUM) {
                String none = field.getEnumType().getValues().get(0).getName();
                String prefix = none.substring(0, none.length() - "UNSPECIFIED".length());
                spelled = new JsonPrimitive(prefix + value.getAsString().toUpperCase(Locale.ROOT));
              } else if (value instanceof JsonObject inner && !field.isMapField()) {
                spelled = named(field.getMessageType(), inner);
              }
              result.add(name, spelled);
            });
    return result;
  }
}
