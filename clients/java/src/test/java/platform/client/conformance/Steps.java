package platform.client.conformance;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.protobuf.util.JsonFormat;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import platform.bulk.v1.EventResult;
import platform.bulk.v1.KeyAccessPlanItem;
import platform.bulk.v1.PlanKeyAccessesRequest;
import platform.bulk.v1.PlanKeyAccessesResponse;
import platform.bulk.v1.PlanProtectionsRequest;
import platform.bulk.v1.PlanProtectionsResponse;
import platform.bulk.v1.PolicyResolutionItem;
import platform.bulk.v1.ProtectionPlanItem;
import platform.bulk.v1.RecordEventsRequest;
import platform.bulk.v1.RecordEventsResponse;
import platform.bulk.v1.RegisterArtifactsRequest;
import platform.bulk.v1.RegisterArtifactsResponse;
import platform.bulk.v1.RegistrationResult;
import platform.bulk.v1.ResolvePoliciesRequest;
import platform.bulk.v1.ResolvePoliciesResponse;
import platform.client.NotPermittedException;
import platform.client.PlatformClient;
import platform.client.PlatformException;
import platform.client.ReceiptException;
import platform.client.Receipts;
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

/** The steps of a case, one after the other, with one client. */
final class Steps {
  private final PlatformClient client;
  private final boolean hasLogKeys;

  Steps(PlatformClient client, boolean hasLogKeys) {
    this.client = client;
    this.hasLogKeys = hasLogKeys;
  }

  JsonArray run(JsonArray steps) {
    JsonArray answers = new JsonArray();
    for (JsonElement step : steps) answers.add(run(step.getAsJsonObject()));
    return answers;
  }

  private JsonObject run(JsonObject step) {
    pause(step);
    if (step.has("stream")) return new StreamStep(client, hasLogKeys).run(step);
    JsonObject result = new JsonObject();
    switch (step.get("call").getAsString()) {
      case "concurrent" -> result.add("steps", atOnce(step.getAsJsonArray("calls")));
      case "verify-receipt" -> result.addProperty("receipt", isVerified(step) ? "verified" : "refused");
      default -> call(step, result);
    }
    return result;
  }

  private JsonArray atOnce(JsonArray steps) {
    ExecutorService threads = Executors.newFixedThreadPool(Math.max(1, steps.size()));
    try {
      List<CompletableFuture<JsonObject>> running = new ArrayList<>();
      for (JsonElement step : steps)
        running.add(CompletableFuture.supplyAsync(() -> run(step.getAsJsonObject()), threads));
      JsonArray answers = new JsonArray();
      for (CompletableFuture<JsonObject> one : running) answers.add(one.join());
      return answers;
    } finally {
      threads.shutdown();
    }
  }

  private void call(JsonObject step, JsonObject result) {
    try {
      Message answer = answer(step);
      if (step.has("require_allow") && step.get("require_allow").getAsBoolean()) requireAllow(step, answer);
      result.add("answer", json(answer));
      result.addProperty("receipt", hasLogKeys && hasReceipt(answer) ? "verified" : "absent");
    } catch (ReceiptException wrong) {
      wrong.answer().ifPresent(answer -> result.add("answer", json(answer)));
      result.addProperty("receipt", "refused");
    } catch (PlatformException problem) {
      result.add("error", describe(problem));
    } catch (NotPermittedException refusal) {
      JsonObject why = new JsonObject();
      why.add("reasons", list(refusal.reasons()));
      why.add("unknown_obligations", list(refusal.unknownObligations()));
      result.add("not_permitted", why);
    }
  }

  private Message answer(JsonObject step) {
    String key = step.has("idempotency_key") ? step.get("idempotency_key").getAsString() : null;
    return switch (step.get("call").getAsString()) {
      case "whoami" -> client.whoAmI();
      case "capabilities" -> client.getCapabilities();
      case "bootstrap" -> client.getBootstrap();
      case "cached-capabilities" -> client.cachedCapabilities();
      case "cached-bootstrap" -> client.cachedBootstrap();
      case "protection-plan" -> client.planProtection(read(step, PlanProtectionRequest.newBuilder()).build());
      case "policy-resolve" -> client.resolvePolicy(read(step, ResolvePolicyRequest.newBuilder()).build());
      case "key-access-plan" -> client.planKeyAccess(read(step, PlanKeyAccessRequest.newBuilder()).build());
      case "artifact-register" -> {
        RegisterArtifactRequest request = read(step, RegisterArtifactRequest.newBuilder()).build();
        yield key == null ? client.registerArtifact(request) : client.registerArtifact(request, key);
      }
      case "evidence" -> {
        RecordEvidenceRequest request = read(step, RecordEvidenceRequest.newBuilder()).build();
        yield key == null ? client.recordEvidence(request) : client.recordEvidence(request, key);
      }
      case "bulk/protection-plans" -> client.planProtections(read(step, PlanProtectionsRequest.newBuilder()).build());
      case "bulk/policy-resolutions" -> client.resolvePolicies(read(step, ResolvePoliciesRequest.newBuilder()).build());
      case "bulk/key-access-plans" -> client.planKeyAccesses(read(step, PlanKeyAccessesRequest.newBuilder()).build());
      case "bulk/evidence" -> client.recordEvents(read(step, RecordEventsRequest.newBuilder()).build());
      case "bulk/artifact-registrations" ->
          client.registerArtifacts(read(step, RegisterArtifactsRequest.newBuilder()).build());
      default -> throw new IllegalArgumentException("no such call: " + step.get("call"));
    };
  }

  private void requireAllow(JsonObject step, Message answer) {
    JsonObject request = step.has("request") ? step.getAsJsonObject("request") : new JsonObject();
    List<JsonObject> asked =
        request.has("items")
            ? request.getAsJsonArray("items").asList().stream().map(JsonElement::getAsJsonObject).toList()
            : List.of(request);
    List<? extends Message> results = items(answer).orElse(List.of(answer));
    for (int i = 0; i < results.size(); i++) requireAllow(results.get(i), listed(asked.get(i)));
  }

  /** The items of a bulk answer. */
  private static Optional<List<? extends Message>> items(Message answer) {
    if (answer instanceof PlanProtectionsResponse plans) return Optional.of(plans.getItemsList());
    if (answer instanceof ResolvePoliciesResponse policies) return Optional.of(policies.getItemsList());
    if (answer instanceof PlanKeyAccessesResponse plans) return Optional.of(plans.getItemsList());
    if (answer instanceof RegisterArtifactsResponse registered) return Optional.of(registered.getItemsList());
    return answer instanceof RecordEventsResponse recorded ? Optional.of(recorded.getItemsList()) : Optional.empty();
  }

  private void requireAllow(Message answer, String[] listed) {
    if (answer instanceof ProtectionPlanItem plan) client.requireAllow(plan.getDecision(), listed);
    if (answer instanceof PolicyResolutionItem policy) client.requireAllow(policy.getDecision(), listed);
    if (answer instanceof KeyAccessPlanItem plan) client.requireAllow(plan.getDecision(), listed);
    if (answer instanceof PlanProtectionResponse plan) client.requireAllow(plan.getDecision(), listed);
    if (answer instanceof ResolvePolicyResponse policy) client.requireAllow(policy.getDecision(), listed);
    if (answer instanceof PlanKeyAccessResponse plan) client.requireAllow(plan.getDecision(), listed);
  }

  private static String[] listed(JsonObject request) {
    JsonElement listed = request.get("understoodObligations");
    return listed == null
        ? new String[0]
        : listed.getAsJsonArray().asList().stream().map(JsonElement::getAsString).toArray(String[]::new);
  }

  private static boolean isVerified(JsonObject step) {
    try {
      Receipt.Builder receipt = Receipt.newBuilder();
      JsonFormat.parser().merge(step.get("receipt").toString(), receipt);
      Receipts.verify(receipt.build(), step.get("log_key").getAsString());
      return true;
    } catch (ReceiptException | IllegalArgumentException | InvalidProtocolBufferException wrong) {
      return false;
    }
  }

  static boolean hasReceipt(Message answer) {
    return items(answer).map(items -> items.stream().anyMatch(Steps::hasReceipt)).orElse(false)
        || (answer instanceof ProtectionPlanItem plan && plan.getDecision().hasReceipt())
        || (answer instanceof PolicyResolutionItem policy && policy.getDecision().hasReceipt())
        || (answer instanceof KeyAccessPlanItem key && key.getDecision().hasReceipt())
        || (answer instanceof RegistrationResult registered && registered.getRegistration().hasReceipt())
        || (answer instanceof EventResult recorded && recorded.getIngestion().hasReceipt())
        || (answer instanceof PlanProtectionResponse plan && plan.getDecision().hasReceipt())
        || (answer instanceof ResolvePolicyResponse policy && policy.getDecision().hasReceipt())
        || (answer instanceof PlanKeyAccessResponse key && key.getDecision().hasReceipt())
        || (answer instanceof RegisterArtifactResponse registered && registered.getRegistration().hasReceipt())
        || (answer instanceof RecordEvidenceResponse recorded && recorded.getIngestion().hasReceipt());
  }

  private static <B extends Message.Builder> B read(JsonObject step, B request) {
    try {
      if (step.has("request")) JsonFormat.parser().merge(step.get("request").toString(), request);
      return request;
    } catch (InvalidProtocolBufferException unreadable) {
      throw new IllegalArgumentException("the suite sent a request that is none", unreadable);
    }
  }

  static JsonElement json(Message message) {
    try {
      return JsonParser.parseString(JsonFormat.printer().print(message));
    } catch (InvalidProtocolBufferException unwritable) {
      throw new IllegalStateException(unwritable);
    }
  }

  static JsonObject describe(PlatformException problem) {
    JsonObject error = new JsonObject();
    error.addProperty("code", problem.code().name().toLowerCase(Locale.ROOT));
    error.addProperty("reason", problem.reason());
    error.addProperty("request_id", problem.requestId());
    error.add("missing_scopes", list(problem.missingScopes()));
    JsonArray violations = new JsonArray();
    problem
        .violations()
        .forEach(
            broken -> {
              JsonObject violation = new JsonObject();
              violation.addProperty("field", broken.field());
              violations.add(violation);
            });
    error.add("violations", violations);
    return error;
  }

  static JsonArray list(List<String> texts) {
    JsonArray array = new JsonArray();
    texts.forEach(array::add);
    return array;
  }

  static void pause(JsonObject step) {
    if (!step.has("pause_ms")) return;
    try {
      Thread.sleep(step.get("pause_ms").getAsLong());
    } catch (InterruptedException stopped) {
      throw new IllegalStateException(stopped);
    }
  }
}
