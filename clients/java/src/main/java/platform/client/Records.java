package platform.client;

import com.google.gson.JsonObject;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.DateTimeException;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Pattern;

/** Leaves and records of a log, as its format has them. */
final class Records {
  private static final int OPENING_BYTES = 32;
  private static final int MAX_LEAF_BYTES = 65_535;
  private static final byte[] COMMITMENT_INFO = "platform-ledger/v1/commitment".getBytes(StandardCharsets.US_ASCII);
  private static final Pattern COMMITMENT = Pattern.compile("hmac-sha256:[0-9a-f]{64}");
  private static final DateTimeFormatter MOMENT =
      DateTimeFormatter.ofPattern("uuuu-MM-dd'T'HH:mm:ss.SSS'Z'").withZone(ZoneOffset.UTC);
  private static final Set<String> LEAF = Set.of("commitment", "kind", "record_id", "recorded_at", "v");
  private static final Set<String> DECISION_LEAF =
      Set.of("commitment", "kind", "policy_revision", "record_id", "recorded_at", "v");
  private static final Set<String> RECORD_TEXTS =
      Set.of("kind", "record_id", "log", "tenant_id", "recorded_at", "request_id", "route", "request_digest");
  private static final Set<String> RECORD_OBJECTS = Set.of("caller", "request", "outcome");
  private static final Set<String> CALLER = Set.of("auth_source", "principal_id", "subject");

  private Records() {}

  /** Reads the exact bytes of a leaf. Throws a ReceiptException for all that is none. */
  static JsonObject leaf(byte[] bytes) {
    Optional<JsonObject> leaf = bytes.length > MAX_LEAF_BYTES ? Optional.empty() : CanonicalJson.read(bytes);
    return leaf.filter(Records::isLeaf).orElseThrow(() -> new ReceiptException("the leaf cannot be read"));
  }

  private static boolean isLeaf(JsonObject leaf) {
    boolean hasMembers = CanonicalJson.hasExactly(leaf, LEAF) || CanonicalJson.hasExactly(leaf, DECISION_LEAF);
    return hasMembers
        && leaf.get("v").toString().equals("1")
        && leaf.keySet().stream().allMatch(member -> member.equals("v") || CanonicalJson.text(leaf, member).isPresent())
        && isMoment(leaf.get("recorded_at").getAsString())
        && COMMITMENT.matcher(leaf.get("commitment").getAsString()).matches();
  }

  /** Reads the exact bytes of a record. Throws a ReceiptException for all that is none. */
  static JsonObject record(byte[] bytes) {
    return CanonicalJson.read(bytes)
        .filter(Records::isRecord)
        .orElseThrow(() -> new ReceiptException("the record cannot be read"));
  }

  private static boolean isRecord(JsonObject record) {
    return record.size() == RECORD_TEXTS.size() + RECORD_OBJECTS.size()
        && RECORD_TEXTS.stream().allMatch(member -> CanonicalJson.text(record, member).isPresent())
        && RECORD_OBJECTS.stream().allMatch(member -> record.get(member) instanceof JsonObject)
        && CanonicalJson.hasExactly(record.getAsJsonObject("caller"), CALLER)
        && CALLER.stream().allMatch(member -> CanonicalJson.text(record.getAsJsonObject("caller"), member).isPresent());
  }

  /** Whether the leaf's commitment is to these bytes under this opening. */
  static boolean isCommittedTo(JsonObject leaf, byte[] record, byte[] opening) {
    if (opening.length != OPENING_BYTES) return false;
    byte[] mac = Hashes.hmacSha256(Hashes.hkdfSha256(opening, COMMITMENT_INFO), record);
    String commitment = "hmac-sha256:" + HexFormat.of().formatHex(mac);
    return MessageDigest.isEqual(ascii(commitment), ascii(leaf.get("commitment").getAsString()));
  }

  /** What a record says otherwise than its leaf, or than itself; empty where nothing does. */
  static Optional<String> disagreement(JsonObject record, JsonObject leaf) {
    for (String member : List.of("record_id", "kind", "recorded_at")) {
      if (!record.get(member).equals(leaf.get(member))) return Optional.of("another " + member + " than its leaf");
    }
    JsonObject outcome = record.getAsJsonObject("outcome");
    boolean isDecision = record.get("kind").getAsString().equals("decision");
    if (isDecision && outcome.has("policy_revision") && !outcome.get("policy_revision").equals(leaf.get("policy_revision")))
      return Optional.of("another policy_revision than its leaf");
    byte[] digest = Hashes.sha256(CanonicalJson.write(record.get("request")));
    boolean isOwn = record.get("request_digest").getAsString().equals("sha256:" + HexFormat.of().formatHex(digest));
    return isOwn ? Optional.empty() : Optional.of("another request than its digest");
  }

  /** Whether the text is a time as records have it: one text for every moment. */
  private static boolean isMoment(String text) {
    try {
      return MOMENT.format(Instant.parse(text)).equals(text);
    } catch (DateTimeException none) {
      return false;
    }
  }

  private static byte[] ascii(String text) {
    return text.getBytes(StandardCharsets.US_ASCII);
  }
}
