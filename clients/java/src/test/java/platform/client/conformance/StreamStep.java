package platform.client.conformance;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.protobuf.util.JsonFormat;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.function.Function;
import platform.bulk.v1.EventItem;
import platform.bulk.v1.RegistrationItem;
import platform.client.PlatformClient;
import platform.client.PlatformException;
import platform.client.ReceiptException;
import platform.client.ResumingStream;
import platform.client.StreamOptions;

/** A step that sends items on a stream. */
final class StreamStep {
  private final PlatformClient client;
  private final boolean hasLogKeys;
  private String receipt = "absent";

  StreamStep(PlatformClient client, boolean hasLogKeys) {
    this.client = client;
    this.hasLogKeys = hasLogKeys;
  }

  JsonObject run(JsonObject step) {
    StreamOptions options =
        new StreamOptions(
            number(step, "max_unacknowledged_items", StreamOptions.DEFAULT.maxUnacknowledgedItems()),
            number(step, "max_unacknowledged_bytes", StreamOptions.DEFAULT.maxUnacknowledgedBytes()));
    JsonArray items = step.getAsJsonArray("items");
    return step.get("stream").getAsString().equals("events")
        ? run(items, client.openEventStream(options), StreamStep::event, EventItem::getIdempotencyKey)
        : run(items, client.openRegistrationStream(options), StreamStep::registration, RegistrationItem::getIdempotencyKey);
  }

  private <I extends Message, R extends Message> JsonObject run(
      JsonArray items, ResumingStream<I, R> stream, Function<JsonObject, I> read, Function<I, String> keyOf) {
    List<CompletableFuture<R>> sent = new ArrayList<>();
    PlatformException failure = null;
    try (stream) {
      for (JsonElement item : items) {
        Steps.pause(item.getAsJsonObject());
        sent.add(stream.send(read.apply(item.getAsJsonObject())));
      }
    } catch (PlatformException problem) {
      failure = problem;
    }
    JsonArray results = new JsonArray();
    for (int i = 0; i < items.size(); i++)
      results.add(i < sent.size() ? resultOf(sent.get(i)).map(Steps::json).orElse(JsonNull.INSTANCE) : JsonNull.INSTANCE);
    JsonObject answer = new JsonObject();
    answer.add("results", results);
    answer.addProperty("receipt", receipt);
    if (failure != null) {
      answer.add("error", Steps.describe(failure));
      answer.add("unacknowledged", Steps.list(stream.unacknowledged().stream().map(keyOf).toList()));
    }
    return answer;
  }

  private <R extends Message> Optional<Message> resultOf(CompletableFuture<R> sent) {
    try {
      R result = sent.join();
      if (hasLogKeys && Steps.hasReceipt(result) && !receipt.equals("refused")) receipt = "verified";
      return Optional.of(result);
    } catch (CompletionException failed) {
      if (!(failed.getCause() instanceof ReceiptException wrong)) return Optional.empty();
      receipt = "refused";
      return wrong.answer();
    }
  }

  private static EventItem event(JsonObject item) {
    EventItem.Builder builder = EventItem.newBuilder();
    merge(item.get("event"), builder.getEventBuilder());
    return builder.setIdempotencyKey(keyOf(item)).build();
  }

  private static RegistrationItem registration(JsonObject item) {
    RegistrationItem.Builder builder = RegistrationItem.newBuilder();
    merge(item.get("registration"), builder.getRegistrationBuilder());
    return builder.setIdempotencyKey(keyOf(item)).build();
  }

  private static String keyOf(JsonObject item) {
    return item.has("idempotency_key") ? item.get("idempotency_key").getAsString() : "";
  }

  private static void merge(JsonElement json, Message.Builder into) {
    try {
      JsonFormat.parser().merge(json.toString(), into);
    } catch (InvalidProtocolBufferException unreadable) {
      throw new IllegalArgumentException("the suite sent an item that is none", unreadable);
    }
  }

  private static int number(JsonObject step, String member, int unless) {
    return step.has(member) ? step.get(member).getAsInt() : unless;
  }
}
