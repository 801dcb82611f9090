//! Receipts, checked offline: that the tenant's log holds exactly the record that an answer speaks of, and stays one.

mod answer;
mod key;
mod note;
mod proof;
mod record;
mod relations;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;

pub(crate) use answer::verify_items;
pub use answer::{BulkRequest, ItemRequest, RecordedAnswer, Sender, verify_answer, verify_item};
pub use key::LogKey;

use crate::proto::Receipt;
use proof::{Hash, TreeHead};

/// Why a receipt does not show what it says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReceiptError(String);

impl ReceiptError {
    fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    pub(crate) fn brief() -> Self {
        Self::new("the receipt is a brief one, and a whole one was asked for")
    }
}

/// What a receipt proves: what the log held when its checkpoint was signed. Not that the record tells the truth.
#[derive(Clone, Debug, PartialEq)]
pub struct VerifiedReceipt {
    log_origin: String,
    leaf_index: u64,
    tree: TreeHead,
    record: Option<serde_json::Value>,
}

impl VerifiedReceipt {
    /// Name of the log.
    #[must_use]
    pub fn log_origin(&self) -> &str {
        &self.log_origin
    }

    /// Place of the record in the log, from 0.
    #[must_use]
    pub fn leaf_index(&self) -> u64 {
        self.leaf_index
    }

    /// Leaves of the log that the receipt speaks of.
    #[must_use]
    pub fn tree_size(&self) -> u64 {
        self.tree.size
    }

    /// Hash of that log.
    #[must_use]
    pub fn root(&self) -> &[u8; 32] {
        &self.tree.root
    }

    /// The record itself; `None` where the receipt is a brief one, and then only the position of a hash is proven.
    #[must_use]
    pub fn record(&self) -> Option<&serde_json::Value> {
        self.record.as_ref()
    }
}

/// Checks a receipt against keys of the tenant's log, which come from the operator and never from the receipt. One of
/// them must have signed it, and not have been retired before; no signature of any of them may be wrong.
///
/// # Errors
/// [`ReceiptError`] says what does not hold.
pub fn verify_receipt(receipt: &Receipt, keys: &[LogKey]) -> Result<VerifiedReceipt, ReceiptError> {
    let leaf_hash: Hash = base64(&receipt.leaf_hash, "leaf_hash")?
        .try_into()
        .map_err(|_| ReceiptError::new("the receipt's leaf_hash is no hash"))?;
    let proven = proof::verify(&receipt.proof, &leaf_hash, keys)?;
    let is = |member: i64, number: u64| u64::try_from(member) == Ok(number);
    if receipt.log_origin != proven.origin {
        return Err(otherwise("log_origin"));
    }
    if !is(receipt.leaf_index, proven.index) {
        return Err(otherwise("leaf_index"));
    }
    if !is(receipt.tree_size, proven.tree.size) {
        return Err(otherwise("tree_size"));
    }
    let record = match (&receipt.leaf, &receipt.opening, &receipt.record) {
        (None, None, None) => None,
        (Some(leaf), Some(opening), Some(record)) => {
            let leaf = base64(leaf, "leaf")?;
            if proof::leaf_hash(&leaf) != leaf_hash {
                return Err(ReceiptError::new("the receipt's leaf_hash is not its leaf's"));
            }
            let record = record::verify(&leaf, &base64(opening, "opening")?, &base64(record, "record")?)?;
            if record["record_id"] != receipt.record_id.as_str() || record["log"] != receipt.log_origin.as_str() {
                return Err(ReceiptError::new("record, leaf and members do not name the same record"));
            }
            Some(record)
        }
        _ => return Err(ReceiptError::new("the receipt has only a part of leaf, opening, record")),
    };
    Ok(VerifiedReceipt { log_origin: proven.origin, leaf_index: proven.index, tree: proven.tree, record })
}

/// Whether the log of the later receipt holds all that the log of the earlier one held, in the same places (RFC 9162
/// section 2.1.4.2). The proof is what the operator's listener answers at `/ledger/<log>/consistency` for the tree sizes
/// of the two: a base64 hash a line.
#[must_use]
pub fn continues(earlier: &VerifiedReceipt, later: &VerifiedReceipt, proof: &str) -> bool {
    let hashes: Option<Vec<Hash>> = proof
        .split('\n')
        .filter(|line| !line.is_empty())
        .map(|line| BASE64.decode(line).ok()?.try_into().ok())
        .collect();
    earlier.log_origin == later.log_origin
        && hashes.is_some_and(|hashes| proof::is_consistent(&earlier.tree, &later.tree, &hashes))
}

/// Bytes of base64 (RFC 4648 section 4): one text for every value.
fn base64(text: &str, member: &str) -> Result<Vec<u8>, ReceiptError> {
    BASE64.decode(text).map_err(|_| ReceiptError::new(format!("the receipt's {member} is not base64")))
}

fn otherwise(member: &str) -> ReceiptError {
    ReceiptError::new(format!("the receipt's {member} is not what its proof shows"))
}
