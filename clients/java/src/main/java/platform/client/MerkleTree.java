package platform.client;

import java.util.Arrays;
import java.util.List;

/** Checks of Merkle proofs (RFC 9162 sections 2.1.3.2 and 2.1.4.2) in trees of RFC 6962. */
final class MerkleTree {
  private MerkleTree() {}

  static byte[] leafHash(byte[] entry) {
    return Hashes.sha256(new byte[] {0}, entry);
  }

  private static byte[] nodeHash(byte[] left, byte[] right) {
    return Hashes.sha256(new byte[] {1}, left, right);
  }

  /** Whether the proof shows that the leaf with this hash stands at the index of the tree with this size and root. */
  static boolean includes(byte[] leaf, long index, long size, byte[] root, List<byte[]> proof) {
    if (index >= size) return false;
    long node = index;
    long last = size - 1;
    byte[] hash = leaf;
    for (byte[] sibling : proof) {
      if (last == 0) return false;
      if (isOdd(node) || node == last) {
        hash = nodeHash(sibling, hash);
        while (!isOdd(node) && node != 0) {
          node /= 2;
          last /= 2;
        }
      } else {
        hash = nodeHash(hash, sibling);
      }
      node /= 2;
      last /= 2;
    }
    return last == 0 && Arrays.equals(hash, root);
  }

  /** Whether the proof shows that the second tree begins with all leaves of the first, which has at least one. */
  static boolean isConsistent(long firstSize, byte[] firstRoot, long secondSize, byte[] secondRoot, List<byte[]> proof) {
    if (firstSize < 1 || firstSize > secondSize) return false;
    if (firstSize == secondSize) return proof.isEmpty() && Arrays.equals(firstRoot, secondRoot);
    boolean startsWhole = Long.bitCount(firstSize) == 1;
    if (!startsWhole && proof.isEmpty()) return false;
    byte[] old = startsWhole ? firstRoot : proof.get(0);
    byte[] whole = old;
    long node = firstSize - 1;
    long last = secondSize - 1;
    while (isOdd(node)) {
      node /= 2;
      last /= 2;
    }
    for (byte[] sibling : startsWhole ? proof : proof.subList(1, proof.size())) {
      if (last == 0) return false;
      if (isOdd(node) || node == last) {
        old = nodeHash(sibling, old);
        whole = nodeHash(sibling, whole);
        while (!isOdd(node) && node != 0) {
          node /= 2;
          last /= 2;
        }
      } else {
        whole = nodeHash(whole, sibling);
      }
      node /= 2;
      last /= 2;
    }
    return last == 0 && Arrays.equals(old, firstRoot) && Arrays.equals(whole, secondRoot);
  }

  private static boolean isOdd(long number) {
    return (number & 1) == 1;
  }
}
