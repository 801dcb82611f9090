package platform.client;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.regex.Pattern;

/** A checkpoint (C2SP tlog-checkpoint): a signed note whose text is origin, tree size and root hash, a line each. */
record Checkpoint(String origin, long size, byte[] root) {
  /** Of a note and of a proof. */
  static final int MAX_BYTES = 256 * 1024;

  private static final int MAX_SIGNATURES = 64;
  private static final int KEY_ID_BYTES = 4;
  private static final Pattern CONTROL = Pattern.compile("[\\x00-\\x09\\x0b-\\x1f]");

  private record Line(String name, String keyId, byte[] signature) {
    boolean isBy(LogKey key) {
      return name.equals(key.name()) && keyId.equals(key.keyId());
    }
  }

  /**
   * Reads a checkpoint that one of the keys signed, and may have signed: its origin is that key's name, and the key was not
   * retired before the tree had this size. A wrong signature of any of the keys refuses the whole (C2SP signed-note), and so
   * does a second line of one of them.
   */
  static Checkpoint open(String note, List<LogKey> keys) {
    if (note.getBytes(StandardCharsets.UTF_8).length > MAX_BYTES) throw new ReceiptException("the note is too large");
    if (CONTROL.matcher(note).find() || !isWellFormed(note)) throw new ReceiptException("the note holds control characters");
    int end = note.lastIndexOf("\n\n");
    if (end < 0 || !note.endsWith("\n") || end + 2 == note.length())
      throw new ReceiptException("the note has no signatures");
    String text = note.substring(0, end + 1);
    List<Line> lines = lines(note.substring(end + 2));
    Checkpoint checkpoint = parse(text);
    byte[] signed = text.getBytes(StandardCharsets.UTF_8);
    boolean believed = false;
    boolean retired = false;
    for (LogKey key : keys) {
      List<Line> own = lines.stream().filter(line -> line.isBy(key)).toList();
      if (own.isEmpty()) continue;
      if (own.size() > 1) throw new ReceiptException("a trusted key has two signature lines");
      if (!own.stream().allMatch(line -> key.verifies(signed, line.signature())))
        throw new ReceiptException("the signature of a trusted key does not verify");
      if (!checkpoint.origin().equals(key.name())) throw new ReceiptException("the checkpoint is of another log");
      boolean counts = checkpoint.size() <= key.maxTreeSize().orElse(Long.MAX_VALUE);
      believed |= counts;
      retired |= !counts;
    }
    if (believed) return checkpoint;
    throw new ReceiptException(retired ? "the key was retired before" : "the checkpoint is not signed by a trusted key");
  }

  private static List<Line> lines(String signatures) {
    // Without the final newline: an empty line among them is malformed.
    String[] lines = signatures.substring(0, signatures.length() - 1).split("\n", -1);
    if (lines.length > MAX_SIGNATURES) throw new ReceiptException("the note has too many signatures");
    return Arrays.stream(lines).map(Checkpoint::line).toList();
  }

  private static Line line(String text) {
    String[] words = text.split(" ", -1);
    if (words.length != 3 || !words[0].equals("\u2014") || !LogKey.isName(words[1])) throw malformedLine();
    byte[] bytes = TextForms.base64(words[2]).orElseThrow(Checkpoint::malformedLine);
    if (bytes.length <= KEY_ID_BYTES) throw malformedLine();
    String keyId = HexFormat.of().formatHex(bytes, 0, KEY_ID_BYTES);
    return new Line(words[1], keyId, Arrays.copyOfRange(bytes, KEY_ID_BYTES, bytes.length));
  }

  private static ReceiptException malformedLine() {
    return new ReceiptException("a signature line of the note is malformed");
  }

  private static Checkpoint parse(String text) {
    // Without the final newline. Further lines are signed and say nothing here, but none is empty.
    List<String> lines = List.of(text.substring(0, text.length() - 1).split("\n", -1));
    if (lines.size() < 3 || lines.contains("")) throw malformed();
    return new Checkpoint(
        lines.get(0),
        TextForms.decimal(lines.get(1)).orElseThrow(Checkpoint::malformed),
        TextForms.hash(lines.get(2)).orElseThrow(Checkpoint::malformed));
  }

  private static ReceiptException malformed() {
    return new ReceiptException("the checkpoint is malformed");
  }

  private static boolean isWellFormed(String text) {
    return StandardCharsets.UTF_8.newEncoder().canEncode(text);
  }
}
