package platform.client;

import com.google.gson.JsonObject;
import com.google.protobuf.Message;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import platform.sdk.v1.Receipt;

/** Receipts, checked offline: that the tenant's log holds exactly the record that an answer speaks of, and stays one. */
public final class Receipts {
  private Receipts() {}

  /**
   * Checks a receipt against keys of the tenant's log. They come from the operator, never from the receipt.
   *
   * @param receipt of a decision, registration or event
   * @param logKeys C2SP verifier keys, {@code <origin>+<id>+<key>}; with {@code @<size>} behind where the key was retired and
   *     counts for trees of up to so many leaves. One of them must have signed, and no signature of any of them be wrong
   * @return what it proves
   * @throws ReceiptException where it does not
   * @throws IllegalArgumentException where a key cannot be read
   */
  public static VerifiedReceipt verify(Receipt receipt, Collection<String> logKeys) {
    List<LogKey> keys = logKeys.stream().map(LogKey::parse).toList();
    // Nothing rides along that nothing vouches for.
    if (!receipt.getUnknownFields().asMap().isEmpty()) throw new ReceiptException("the receipt has unknown members");
    byte[] hash = bytes(receipt.getLeafHash(), "leaf_hash");
    LogProof proof = LogProof.parse(receipt.getProof());
    Checkpoint checkpoint = Checkpoint.open(proof.checkpoint(), keys);
    if (hash.length != Hashes.SIZE_BYTES
        || !MerkleTree.includes(hash, proof.index(), checkpoint.size(), checkpoint.root(), proof.path()))
      throw new ReceiptException("the proof does not lead from the leaf to the checkpoint's root");
    if (!receipt.getLogOrigin().equals(checkpoint.origin())
        || receipt.getLeafIndex() != proof.index()
        || receipt.getTreeSize() != checkpoint.size())
      throw new ReceiptException("the receipt's origin, index or size is not what its proof shows");
    return new VerifiedReceipt(
        checkpoint.origin(),
        proof.index(),
        checkpoint.size(),
        Base64.getEncoder().encodeToString(checkpoint.root()),
        verifiedRecord(receipt, hash));
  }

  /**
   * Checks a receipt against one key.
   *
   * @param receipt of a decision, registration or event
   * @param logKey as of {@link #verify(Receipt, Collection)}
   * @return what it proves
   * @throws ReceiptException where it does not
   * @throws IllegalArgumentException where the key cannot be read
   */
  public static VerifiedReceipt verify(Receipt receipt, String logKey) {
    return verify(receipt, List.of(logKey));
  }

  /**
   * Checks the receipt of an answer as {@link #verify(Receipt, Collection)} does, and that it is that of this answer, of this
   * request and of its sender: every member of the answer that its record settles is the record's, and the whole request was
   * recorded as it was sent. Of a brief receipt only the id of a decision is compared.
   *
   * @param request as it was sent, with the obligations that the client lists; empty where only the answer was kept
   * @param answer to a call that decides, registers or records
   * @param sender who sent the request, and when
   * @param logKeys as of {@link #verify(Receipt, Collection)}
   * @return what it proves
   * @throws ReceiptException where it does not, or the answer has no receipt
   * @throws IllegalArgumentException where a key cannot be read
   */
  public static VerifiedReceipt verifyAnswer(
      Optional<? extends Message> request, Message answer, Sender sender, Collection<String> logKeys) {
    Receipt receipt = Answers.receipt(answer).orElseThrow(() -> new ReceiptException("the answer has no receipt"));
    VerifiedReceipt verified = verify(receipt, logKeys);
    Answers.require(request, answer, sender, receipt, verified.record());
    return verified;
  }

  /**
   * Checks the receipts of all items that a bulk call answered, as {@link #verifyAnswer} does that of one call: what a record
   * holds is compared with the item that was asked, with its answer and with the sender. An item with an idempotency key may
   * have been recorded before. One record answers two items only if both have the same key.
   *
   * @param request of a bulk call, as it was sent, with the obligations that the client lists
   * @param answer to it
   * @param sender who sent the request, and when
   * @param logKeys as of {@link #verify(Receipt, Collection)}
   * @return what they prove, in the order of the items; empty for one that was not answered
   * @throws ReceiptException where one does not, an item that was answered has no receipt, or one that was not has a result
   * @throws IllegalArgumentException where a key cannot be read, or these are not of a bulk call
   */
  public static List<Optional<VerifiedReceipt>> verifyItems(
      Message request, Message answer, Sender sender, Collection<String> logKeys) {
    List<Message> asked = BulkItems.of(request);
    List<Message> results = BulkItems.of(answer);
    if (asked.size() != results.size())
      throw new ReceiptException(asked.size() + " items were asked, and " + results.size() + " answered");
    Optional<Message> caller = Optional.of(BulkItems.caller(answer));
    List<Optional<VerifiedReceipt>> verified = new ArrayList<>();
    // Two items may ask the same, so that their questions do not tell their records apart.
    Map<Place, Object> owners = new HashMap<>();
    for (int i = 0; i < results.size(); i++) {
      Message result = results.get(i);
      Sender since = BulkItems.key(asked.get(i)).isPresent() ? new Sender(sender.caller(), Optional.empty()) : sender;
      Optional<VerifiedReceipt> one = verifyItem(asked.get(i), result, caller, since, logKeys);
      if (one.isEmpty() && BulkItems.isAnswered(result)) throw new ReceiptException("item " + i + " has no receipt");
      Object owner = BulkItems.key(asked.get(i)).<Object>map(key -> key).orElse(i);
      if (one.isPresent()
          && !owner.equals(owners.computeIfAbsent(new Place(one.get().logOrigin(), one.get().leafIndex()), place -> owner)))
        throw new ReceiptException("one record answers two items");
      verified.add(one);
    }
    return verified;
  }

  /** Where a log has a record. */
  record Place(String logOrigin, long leafIndex) {}

  /**
   * Checks the receipt of what became of an item; empty where it has none.
   *
   * @param caller of the answer around the item; empty on a stream
   */
  static Optional<VerifiedReceipt> verifyItem(
      Message item, Message result, Optional<Message> caller, Sender sender, Collection<String> logKeys) {
    if (BulkItems.isAnswered(result) != Answers.hasResult(result))
      throw new ReceiptException("an item has a result if it was answered, and only then");
    return Answers.receipt(result)
        .map(
            receipt -> {
              VerifiedReceipt verified = verify(receipt, logKeys);
              Answers.requireItem(item, result, caller, sender, receipt, verified.record());
              return verified;
            });
  }

  /**
   * Whether the log of the later receipt holds all that the log of the earlier one held, in the same places (RFC 6962
   * section 2.1.2).
   *
   * @param earlier what was verified
   * @param later what was verified
   * @param proof what the operator's listener answers at {@code /ledger/<log>/consistency} for the two tree sizes: a base64
   *     hash a line
   * @return false where the proof does not show it
   */
  public static boolean continues(VerifiedReceipt earlier, VerifiedReceipt later, String proof) {
    if (!earlier.logOrigin().equals(later.logOrigin())) return false;
    List<byte[]> hashes = new ArrayList<>();
    for (String line : proof.split("\n")) {
      Optional<byte[]> hash = TextForms.hash(line);
      if (hash.isPresent()) hashes.add(hash.get());
      else if (!line.isEmpty()) return false;
    }
    return MerkleTree.isConsistent(earlier.treeSize(), rootOf(earlier), later.treeSize(), rootOf(later), hashes);
  }

  private static byte[] rootOf(VerifiedReceipt receipt) {
    return Base64.getDecoder().decode(receipt.root());
  }

  /** The record, shown to be the one that the leaf with this hash commits to; empty for a brief receipt. */
  private static Optional<String> verifiedRecord(Receipt receipt, byte[] hash) {
    if (!receipt.hasLeaf() && !receipt.hasOpening() && !receipt.hasRecord()) return Optional.empty();
    if (!receipt.hasLeaf() || !receipt.hasOpening() || !receipt.hasRecord())
      throw new ReceiptException("the receipt has only a part of leaf, opening, record");
    byte[] leafBytes = bytes(receipt.getLeaf(), "leaf");
    if (!Arrays.equals(MerkleTree.leafHash(leafBytes), hash))
      throw new ReceiptException("the receipt's leaf_hash is not its leaf's");
    JsonObject leaf = Records.leaf(leafBytes);
    byte[] recordBytes = bytes(receipt.getRecord(), "record");
    if (!Records.isCommittedTo(leaf, recordBytes, bytes(receipt.getOpening(), "opening")))
      throw new ReceiptException("the record is not the one that its leaf commits to");
    JsonObject record = Records.record(recordBytes);
    Records.disagreement(record, leaf)
        .ifPresent(
            problem -> {
              throw new ReceiptException("the record has " + problem);
            });
    if (!record.get("record_id").getAsString().equals(receipt.getRecordId())
        || !record.get("log").getAsString().equals(receipt.getLogOrigin()))
      throw new ReceiptException("record, leaf and members do not name the same record");
    return Optional.of(new String(recordBytes, StandardCharsets.UTF_8));
  }

  private static byte[] bytes(String text, String member) {
    return TextForms.base64(text)
        .orElseThrow(() -> new ReceiptException("the receipt's " + member + " is not base64"));
  }
}
