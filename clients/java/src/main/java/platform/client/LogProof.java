package platform.client;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/** An inclusion proof as text (C2SP tlog-proof v1): index, audit path, signed checkpoint. */
record LogProof(long index, List<byte[]> path, String checkpoint) {
  private static final String HEADER = "c2sp.org/tlog-proof@v1";
  /** A tree of 2^53 leaves has no longer path. */
  private static final int MAX_PATH_LENGTH = 53;

  static LogProof parse(String text) {
    if (text.getBytes(StandardCharsets.UTF_8).length > Checkpoint.MAX_BYTES)
      throw new ReceiptException("the proof is too large");
    int end = text.indexOf("\n\n");
    if (end < 0) throw new ReceiptException("the proof has no checkpoint");
    List<String> lines = new ArrayList<>(List.of(text.substring(0, end).split("\n", -1)));
    if (!lines.remove(0).equals(HEADER)) throw new ReceiptException("the text is no tlog-proof of version 1");
    // It is unsigned and carries no meaning, but it has a form.
    if (!lines.isEmpty() && lines.get(0).startsWith("extra "))
      valueOf(lines.remove(0), "extra").flatMap(TextForms::base64).orElseThrow(LogProof::malformed);
    if (lines.isEmpty()) throw malformed();
    String indexText = valueOf(lines.remove(0), "index").orElseThrow(LogProof::malformed);
    long index = TextForms.decimal(indexText).orElseThrow(LogProof::malformed);
    if (lines.size() > MAX_PATH_LENGTH) throw new ReceiptException("the proof is too long");
    List<byte[]> path = lines.stream().map(line -> TextForms.hash(line).orElseThrow(LogProof::malformed)).toList();
    return new LogProof(index, path, text.substring(end + 2));
  }

  private static Optional<String> valueOf(String line, String name) {
    return line.startsWith(name + " ") ? Optional.of(line.substring(name.length() + 1)) : Optional.empty();
  }

  private static ReceiptException malformed() {
    return new ReceiptException("a line of the proof is missing or malformed");
  }
}
