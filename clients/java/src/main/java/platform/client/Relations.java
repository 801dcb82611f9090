package platform.client;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.gson.JsonPrimitive;
import com.google.protobuf.Message;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.HashSet;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Pattern;

/**
 * What a record settles of an answer, a request, its sender and its time: the table that the packages of all languages
 * share. Each comparison throws a ReceiptException that names the first member that differs.
 */
final class Relations {
  private static final JsonObject TABLE = read();
  private static final JsonObject REQUEST = TABLE.getAsJsonObject("request");
  private static final Duration TOLERANCE =
      Duration.ofSeconds(TABLE.getAsJsonObject("time").get("tolerance_seconds").getAsLong());
  /** A time that counts as none. */
  private static final Pattern ZERO_TIME =
      Pattern.compile("0001-01-01[Tt]00:00:00(\\.0+)?([Zz]|[+-]00:00)");

  private Relations() {}

  private static JsonObject read() {
    try (InputStream file = Relations.class.getResourceAsStream("record-relations.json")) {
      return JsonParser.parseReader(new InputStreamReader(file, StandardCharsets.UTF_8)).getAsJsonObject();
    } catch (IOException impossible) {
      throw new UncheckedIOException(impossible);
    }
  }

  /** Kind of the records of a route. */
  static String kindOf(String route) {
    return TABLE.getAsJsonObject("routes").getAsJsonObject(route).get("kind").getAsString();
  }

  /** The member that has the receipt, in answers of a route. */
  static String holderOf(String route) {
    return TABLE.getAsJsonObject("routes").getAsJsonObject(route).get("holder").getAsString();
  }

  /** Compares an answer or an item in its normal form with its record, but for members whose first step is among these. */
  static void compareAnswer(String route, JsonObject said, JsonObject record, Set<String> others) {
    compare("answer", route, said, record, others);
  }

  /** Compares the caller that `whoAmI` named, in its normal form, with that of the record. */
  static void compareCaller(String route, JsonObject caller, JsonObject record) {
    compare("whoami", route, caller, record, Set.of());
  }

  private static void compare(String rows, String route, JsonObject said, JsonObject record, Set<String> others) {
    Set<String> decided = new HashSet<>();
    for (JsonElement each : TABLE.getAsJsonArray(rows)) {
      JsonObject row = each.getAsJsonObject();
      String member = row.get("member").getAsString();
      boolean isOf = !row.has("of") || row.getAsJsonArray("of").contains(new JsonPrimitive(route));
      if (!isOf || others.contains(member.split("\\.")[0]) || !holdAll(row, record) || !decided.add(member)) continue;
      require(member, "answer", at(said, member), expected(row, record));
    }
  }

  private static void require(String member, String of, JsonElement said, JsonElement recorded) {
    boolean isSame = said == null ? recorded == null : said.equals(recorded);
    if (!isSame) throw new ReceiptException("the receipt is of another " + member + " than the " + of);
  }

  /** Null where nothing may be there. */
  private static JsonElement expected(JsonObject row, JsonObject record) {
    if (row.has("value")) return row.get("value");
    if (row.has("has")) return new JsonPrimitive(at(record, row.get("has").getAsString()) != null);
    if (row.has("count")) return new JsonPrimitive(count(at(record, row.get("count").getAsString())));
    if (row.has("list")) {
      JsonArray items = new JsonArray();
      for (JsonElement each : row.getAsJsonArray("list")) {
        JsonElement item = expected(each.getAsJsonObject(), record);
        if (item != null && holdAll(each.getAsJsonObject(), record)) items.add(item);
      }
      return items;
    }
    JsonElement recorded = at(record, row.get("at").getAsString());
    return recorded == null ? row.get("else") : recorded;
  }

  private static int count(JsonElement members) {
    if (members instanceof JsonArray array) return array.size();
    return members instanceof JsonObject object ? object.size() : 0;
  }

  private static boolean holdAll(JsonObject row, JsonObject record) {
    if (!row.has("when")) return true;
    for (JsonElement each : row.getAsJsonArray("when")) {
      JsonObject condition = each.getAsJsonObject();
      JsonElement recorded = at(record, condition.get("at").getAsString());
      if (recorded == null || (condition.has("is") && !recorded.equals(condition.get("is")))) return false;
    }
    return true;
  }

  /** The member at a dotted path; null where it is not there. */
  static JsonElement at(JsonElement value, String path) {
    JsonElement inner = value;
    for (String step : path.split("\\.")) inner = inner instanceof JsonObject object ? object.get(step) : null;
    return inner;
  }

  /** Compares what was sent with the request of the record, all of it. */
  static void compareRequest(Message sent, JsonObject record) {
    JsonObject form = NormalForm.ofRequest(sent);
    JsonObject recorded = record.getAsJsonObject("request").deepCopy();
    for (JsonElement name : REQUEST.getAsJsonArray("never_recorded")) form.remove(name.getAsString());
    for (JsonElement name : REQUEST.getAsJsonArray("left_out_if_empty"))
      if (new JsonArray().equals(form.get(name.getAsString()))) form.remove(name.getAsString());
    for (JsonElement name : REQUEST.getAsJsonArray("zero_time"))
      if (isZeroTime(form.get(name.getAsString()))) form.remove(name.getAsString());
    for (JsonElement name : REQUEST.getAsJsonArray("rewritten")) {
      // What was made of it cannot be told; that there was one can.
      if (form.remove(name.getAsString()) != null) recorded.remove(name.getAsString());
    }
    for (String name : form.keySet()) {
      require(name, "request", form.get(name), recorded.get(name));
      recorded.remove(name);
    }
    for (String name : recorded.keySet())
      throw new ReceiptException("the receipt is of a request with " + name + ", which was not sent");
  }

  private static boolean isZeroTime(JsonElement text) {
    return text != null && ZERO_TIME.matcher(text.getAsString()).matches();
  }

  /** Whether the record was made in the time in which it can have been. */
  static void compareTime(JsonObject record, Optional<Instant> since) {
    // The form was checked with the leaf's.
    Instant recordedAt = Instant.parse(record.get("recorded_at").getAsString());
    if (recordedAt.isAfter(Instant.now().plus(TOLERANCE)))
      throw new ReceiptException("the receipt is of a time that is still to come: " + recordedAt);
    if (since.isPresent() && recordedAt.isBefore(since.get().minus(TOLERANCE)))
      throw new ReceiptException("the receipt is of a time before the request: " + recordedAt);
  }
}
