package platform.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.UnknownFieldSet;
import java.security.GeneralSecurityException;
import java.util.List;
import org.junit.jupiter.api.Test;
import platform.sdk.v1.Receipt;

/** Receipts of a log that is made here, of every place and size, and all that is nearly one. */
class ReceiptsTest {
  private static final int SIZE = 13;

  private final TestLog log;
  private final String key;
  private final Receipt whole;

  ReceiptsTest() throws GeneralSecurityException {
    log = new TestLog(SIZE);
    key = log.key();
    whole = log.receipt(4, 11);
  }

  @Test
  void everyPlaceOfEverySizeIsProven() throws GeneralSecurityException {
    for (int size = 1; size <= SIZE; size++) {
      for (int index = 0; index < size; index++) {
        VerifiedReceipt verified = Receipts.verify(log.receipt(index, size), key);
        assertEquals(index, verified.leafIndex());
        assertEquals(size, verified.treeSize());
        assertTrue(verified.record().orElseThrow().contains("\"tenant_id\":\"t\""));
      }
    }
  }

  @Test
  void aBriefReceiptProvesAPlaceOnly() {
    Receipt brief = whole.toBuilder().clearLeaf().clearOpening().clearRecord().build();
    assertTrue(Receipts.verify(brief, key).record().isEmpty());
    for (Receipt.Builder part :
        List.of(whole.toBuilder().clearLeaf(), whole.toBuilder().clearOpening(), whole.toBuilder().clearRecord()))
      refused(part.build());
  }

  @Test
  void everyCharacterCounts() {
    for (FieldDescriptor member : Receipt.getDescriptor().getFields()) {
      if (member.getJavaType() != FieldDescriptor.JavaType.STRING) continue;
      String text = (String) whole.getField(member);
      for (int i = 0; i < text.length(); i++) {
        String changed = text.substring(0, i) + (text.charAt(i) == 'A' ? 'B' : 'A') + text.substring(i + 1);
        String shortened = text.substring(0, i) + text.substring(i + 1);
        for (String other : List.of(changed, shortened)) refused(whole.toBuilder().setField(member, other).build(), member.getName() + " " + other);
      }
    }
    refused(whole.toBuilder().setLeafIndex(5).build());
    refused(whole.toBuilder().setTreeSize(12).build());
  }

  @Test
  void anUnknownMemberIsRefused() {
    UnknownFieldSet.Field value = UnknownFieldSet.Field.newBuilder().addVarint(1).build();
    refused(whole.toBuilder().setUnknownFields(UnknownFieldSet.newBuilder().addField(99, value).build()).build());
  }

  @Test
  void aKeyThatWasRetiredCountsUpToItsSize() {
    assertEquals(11, Receipts.verify(whole, key + "@11").treeSize());
    assertThrows(ReceiptException.class, () -> Receipts.verify(whole, key + "@10"));
  }

  @Test
  void oneOfSeveralKeysIsEnoughAndNoneIsNot() throws GeneralSecurityException {
    String foreign = new TestLog(1).key();
    assertThrows(ReceiptException.class, () -> Receipts.verify(whole, foreign));
    assertThrows(ReceiptException.class, () -> Receipts.verify(whole, List.of()));
    assertEquals(11, Receipts.verify(whole, List.of(foreign, key)).treeSize());
  }

  @Test
  void keysAreReadStrictly() {
    for (String text : List.of("", key + "=", key + "@", key + "@01", key + " ", key.replace("+", " "), "x" + key))
      assertThrows(IllegalArgumentException.class, () -> Receipts.verify(whole, text), text);
  }

  @Test
  void aLogThatGrewContinues() throws GeneralSecurityException {
    for (int first = 1; first <= SIZE; first++) {
      for (int second = first; second <= SIZE; second++) {
        VerifiedReceipt earlier = Receipts.verify(log.receipt(0, first), key);
        VerifiedReceipt later = Receipts.verify(log.receipt(0, second), key);
        String proof = log.consistency(first, second);
        assertTrue(Receipts.continues(earlier, later, proof), first + " to " + second);
        assertEquals(first == second, Receipts.continues(later, earlier, proof), second + " to " + first);
        assertFalse(Receipts.continues(earlier, later, proof + proof + "x\n"));
        if (!proof.isEmpty()) assertFalse(Receipts.continues(earlier, later, ""));
      }
    }
  }

  @Test
  void anotherLogDoesNotContinue() throws GeneralSecurityException {
    TestLog other = new TestLog(SIZE);
    VerifiedReceipt earlier = Receipts.verify(log.receipt(0, 5), key);
    VerifiedReceipt later = Receipts.verify(other.receipt(0, 9), other.key());
    // The same records in the same places are the same tree, whatever key signs it.
    assertTrue(Receipts.continues(earlier, later, log.consistency(5, 9)));
    VerifiedReceipt renamed = new VerifiedReceipt("another", 0, 9, later.root(), later.record());
    assertFalse(Receipts.continues(earlier, renamed, log.consistency(5, 9)));
    String lastHash = log.consistency(5, 9).replaceFirst("[A-Z]", "+");
    assertFalse(Receipts.continues(earlier, later, lastHash));
  }

  private void refused(Receipt receipt) {
    refused(receipt, "");
  }

  private void refused(Receipt receipt, String what) {
    assertThrows(ReceiptException.class, () -> Receipts.verify(receipt, key), what);
  }
}
