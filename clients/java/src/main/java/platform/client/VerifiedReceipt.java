package platform.client;

import java.util.Optional;

/**
 * What a receipt proves: that the log held exactly this when its checkpoint was signed. Not that the record tells the truth,
 * nor that it was not erased since.
 *
 * @param logOrigin name of the log
 * @param leafIndex place of the record in the log, from 0
 * @param treeSize size of the log when its checkpoint was signed
 * @param root hash over the log of this size, in base64
 * @param record the record itself as canonical JSON; empty for a brief receipt, which proves the position of a hash only
 */
public record VerifiedReceipt(String logOrigin, long leafIndex, long treeSize, String root, Optional<String> record) {}
