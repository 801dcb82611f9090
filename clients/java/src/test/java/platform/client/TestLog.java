package platform.client;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.Signature;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import platform.sdk.v1.Receipt;

/** A log as the service keeps one, small and in memory: RFC 6962 as its text has it. */
final class TestLog {
  static final String ORIGIN = "logs.example.com/evidence/0123456789abcdef0123456789abcdef";
  private static final byte[] OPENING = new byte[32];

  private final KeyPair keys;
  private final List<byte[]> leaves = new ArrayList<>();
  private final List<byte[]> records = new ArrayList<>();

  TestLog(int size) throws GeneralSecurityException {
    keys = KeyPairGenerator.getInstance("Ed25519").generateKeyPair();
    for (int i = 0; i < size; i++) append(i);
  }

  /** The verifier key. */
  String key() {
    byte[] typed = typedKey();
    return ORIGIN + "+" + HexFormat.of().formatHex(keyId(typed)) + "+" + base64(typed);
  }

  /** Receipt of a leaf from when the log had this size. */
  Receipt receipt(int index, int size) throws GeneralSecurityException {
    StringBuilder proof = new StringBuilder("c2sp.org/tlog-proof@v1\nindex " + index + "\n");
    inclusion(index, 0, size).forEach(hash -> proof.append(base64(hash)).append('\n'));
    return Receipt.newBuilder()
        .setRecordId(idOf(index))
        .setLogOrigin(ORIGIN)
        .setLeafIndex(index)
        .setTreeSize(size)
        .setLeafHash(base64(MerkleTree.leafHash(leaves.get(index))))
        .setProof(proof + "\n" + checkpoint(size))
        .setLeaf(base64(leaves.get(index)))
        .setOpening(base64(OPENING))
        .setRecord(base64(records.get(index)))
        .build();
  }

  /** As the operator's listener answers. */
  String consistency(int first, int second) {
    StringBuilder lines = new StringBuilder();
    if (first < second) subproof(first, 0, second, true).forEach(hash -> lines.append(base64(hash)).append('\n'));
    return lines.toString();
  }

  private void append(int index) {
    String request = "{\"purpose\":\"audit\"}";
    String time = "2026-01-31T00:00:00.%03dZ".formatted(index);
    String digest = HexFormat.of().formatHex(Hashes.sha256(bytes(request)));
    byte[] record =
        bytes(
            """
            {"caller":{"auth_source":"bearer_token","principal_id":"p","subject":"s"},"kind":"decision","log":"%s",\
            "outcome":{"allow":true,"policy_revision":"sha256:00"},"record_id":"%s","recorded_at":"%s","request":%s,\
            "request_digest":"sha256:%s","request_id":"r","route":"/v1/sdk/protection-plan","tenant_id":"t"}"""
                .formatted(ORIGIN, idOf(index), time, request, digest));
    append(record, "decision", time);
  }

  /** Appends the canonical text of a record, whose id is {@link #idOf} its place. */
  void append(byte[] record, String kind, String time) {
    byte[] key = Hashes.hkdfSha256(OPENING, bytes("platform-ledger/v1/commitment"));
    String commitment = HexFormat.of().formatHex(Hashes.hmacSha256(key, record));
    String id = idOf(records.size());
    records.add(record);
    leaves.add(
        bytes(
            """
            {"commitment":"hmac-sha256:%s","kind":"%s","policy_revision":"sha256:00","record_id":"%s",\
            "recorded_at":"%s","v":1}"""
                .formatted(commitment, kind, id, time)));
  }

  private String checkpoint(int size) throws GeneralSecurityException {
    String text = ORIGIN + "\n" + size + "\n" + base64(root(0, size)) + "\n";
    Signature signer = Signature.getInstance("Ed25519");
    signer.initSign(keys.getPrivate());
    signer.update(bytes(text));
    return text + "\n\u2014 " + ORIGIN + " " + base64(join(keyId(typedKey()), signer.sign())) + "\n";
  }

  private byte[] root(int begin, int end) {
    if (end - begin == 1) return MerkleTree.leafHash(leaves.get(begin));
    int middle = begin + split(end - begin);
    return Hashes.sha256(new byte[] {1}, root(begin, middle), root(middle, end));
  }

  private List<byte[]> inclusion(int index, int begin, int end) {
    if (end - begin == 1) return new ArrayList<>();
    int middle = begin + split(end - begin);
    boolean isLeft = index < middle;
    List<byte[]> path = isLeft ? inclusion(index, begin, middle) : inclusion(index, middle, end);
    path.add(isLeft ? root(middle, end) : root(begin, middle));
    return path;
  }

  /** RFC 6962 section 2.1.2. */
  private List<byte[]> subproof(int size, int begin, int end, boolean isKnown) {
    if (size == end - begin) return isKnown ? new ArrayList<>() : new ArrayList<>(List.of(root(begin, end)));
    int split = split(end - begin);
    int middle = begin + split;
    boolean isLeft = size <= split;
    List<byte[]> proof =
        isLeft ? subproof(size, begin, middle, isKnown) : subproof(size - split, middle, end, false);
    proof.add(isLeft ? root(middle, end) : root(begin, middle));
    return proof;
  }

  private static int split(int size) {
    return Integer.highestOneBit(size - 1);
  }

  private byte[] typedKey() {
    byte[] spki = keys.getPublic().getEncoded();
    return join(new byte[] {1}, Arrays.copyOfRange(spki, spki.length - 32, spki.length));
  }

  private static byte[] keyId(byte[] typed) {
    return Arrays.copyOf(Hashes.sha256(bytes(ORIGIN + "\n"), typed), 4);
  }

  static String idOf(int index) {
    return "01890a5d-ac96-774b-bcce-%012d".formatted(index);
  }

  private static byte[] join(byte[] first, byte[] second) {
    byte[] both = Arrays.copyOf(first, first.length + second.length);
    System.arraycopy(second, 0, both, first.length, second.length);
    return both;
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private static String base64(byte[] bytes) {
    return Base64.getEncoder().encodeToString(bytes);
  }
}
