//! Proofs that a log holds a leaf, and that it goes on from another: C2SP tlog-proof, RFC 9162.

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use ring::digest::{Context, SHA256};

use super::note::{MAX_NOTE_BYTES, open, parse_decimal};
use super::{LogKey, ReceiptError};

const HEADER: &str = "c2sp.org/tlog-proof@v1";
/// A tree of 2^53 leaves has no longer path.
const MAX_PATH_LENGTH: usize = 53;

pub(super) type Hash = [u8; 32];

/// A tree of a log: how many leaves, and the root over them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TreeHead {
    pub(super) size: u64,
    pub(super) root: Hash,
}

pub(super) struct Proven {
    pub(super) origin: String,
    pub(super) index: u64,
    pub(super) tree: TreeHead,
}

/// Verifies that the log of a trusted key holds a leaf with this hash.
pub(super) fn verify(text: &str, leaf: &Hash, keys: &[LogKey]) -> Result<Proven, ReceiptError> {
    let (index, path, checkpoint) = parse(text).ok_or_else(|| ReceiptError::new("the receipt's proof is malformed"))?;
    let checkpoint = open(checkpoint, keys)?;
    if !is_included(leaf, index, &checkpoint.tree, &path) {
        return Err(ReceiptError::new("the proof does not lead from the leaf to the checkpoint's root"));
    }
    Ok(Proven { origin: checkpoint.origin, index, tree: checkpoint.tree })
}

fn parse(text: &str) -> Option<(u64, Vec<Hash>, &str)> {
    if text.len() > MAX_NOTE_BYTES {
        return None;
    }
    let (proof, checkpoint) = text.split_once("\n\n")?;
    let mut lines = proof.split('\n').peekable();
    if lines.next()? != HEADER {
        return None;
    }
    // Opaque and unsigned.
    if let Some(extra) = lines.peek().and_then(|line| line.strip_prefix("extra ")) {
        BASE64.decode(extra).ok()?;
        lines.next();
    }
    let index = parse_decimal(lines.next()?.strip_prefix("index ")?)?;
    let path = lines.map(|line| BASE64.decode(line).ok()?.try_into().ok()).collect::<Option<Vec<Hash>>>()?;
    (path.len() <= MAX_PATH_LENGTH).then_some((index, path, checkpoint))
}

/// RFC 9162 section 2.1.1.
pub(super) fn leaf_hash(leaf: &[u8]) -> Hash {
    hash(&[&[0], leaf])
}

fn node_hash(left: &Hash, right: &Hash) -> Hash {
    hash(&[&[1], left, right])
}

fn hash(parts: &[&[u8]]) -> Hash {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(part);
    }
    let mut hash = Hash::default();
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

/// RFC 9162 section 2.1.3.2.
fn is_included(leaf: &Hash, index: u64, tree: &TreeHead, path: &[Hash]) -> bool {
    if index >= tree.size {
        return false;
    }
    let (mut node, mut last, mut hash) = (index, tree.size - 1, *leaf);
    for sibling in path {
        if last == 0 {
            return false;
        }
        if node % 2 == 1 || node == last {
            hash = node_hash(sibling, &hash);
            while node % 2 == 0 && node != 0 {
                node /= 2;
                last /= 2;
            }
        } else {
            hash = node_hash(&hash, sibling);
        }
        node /= 2;
        last /= 2;
    }
    last == 0 && hash == tree.root
}

/// Whether the second tree begins with all leaves of the first (RFC 9162 section 2.1.4.2).
pub(super) fn is_consistent(first: &TreeHead, second: &TreeHead, proof: &[Hash]) -> bool {
    if first.size > second.size {
        return false;
    }
    if first.size == second.size {
        return proof.is_empty() && first.root == second.root;
    }
    if first.size == 0 {
        return proof.is_empty() && first.root == hash(&[]);
    }
    // A first tree that is a node of the second stands at the path's beginning by itself.
    let (start, rest) = match proof {
        rest if first.size.is_power_of_two() => (first.root, rest),
        [start, rest @ ..] => (*start, rest),
        [] => return false,
    };
    let (mut node, mut last) = (first.size - 1, second.size - 1);
    while node % 2 == 1 {
        node /= 2;
        last /= 2;
    }
    let (mut old, mut whole) = (start, start);
    for sibling in rest {
        if last == 0 {
            return false;
        }
        if node % 2 == 1 || node == last {
            old = node_hash(sibling, &old);
            whole = node_hash(sibling, &whole);
            while node % 2 == 0 && node != 0 {
                node /= 2;
                last /= 2;
            }
        } else {
            whole = node_hash(&whole, sibling);
        }
        node /= 2;
        last /= 2;
    }
    last == 0 && old == first.root && whole == second.root
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9162 section 2.1.1, as it is written there.
    fn root(leaves: &[Hash]) -> Hash {
        match leaves {
            [] => hash(&[]),
            [leaf] => *leaf,
            _ => {
                let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
                node_hash(&root(left), &root(right))
            }
        }
    }

    /// RFC 9162 section 2.1.3.1.
    fn path(index: usize, leaves: &[Hash]) -> Vec<Hash> {
        if leaves.len() < 2 {
            return Vec::new();
        }
        let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
        let (mut path, sibling) = if index < left.len() {
            (path(index, left), root(right))
        } else {
            (path(index - left.len(), right), root(left))
        };
        path.push(sibling);
        path
    }

    /// RFC 9162 section 2.1.4.1: the flag is false above what the first tree is a node of.
    fn subproof(size: usize, leaves: &[Hash], whole: bool) -> Vec<Hash> {
        if size == leaves.len() {
            return if whole { Vec::new() } else { vec![root(leaves)] };
        }
        let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
        let (mut proof, sibling) = if size <= left.len() {
            (subproof(size, left, whole), root(right))
        } else {
            (subproof(size - left.len(), right, false), root(left))
        };
        proof.push(sibling);
        proof
    }

    fn leaves(count: u8) -> Vec<Hash> {
        (0..count).map(|number| leaf_hash(&[number])).collect()
    }

    fn head(leaves: &[Hash]) -> TreeHead {
        TreeHead { size: leaves.len() as u64, root: root(leaves) }
    }

    #[test]
    fn each_leaf_is_where_it_is_and_nowhere_else() {
        for count in 1..=33 {
            let leaves = leaves(count);
            for index in 0..leaves.len() {
                let path = path(index, &leaves);
                for claimed in 0..leaves.len() + 2 {
                    let included = is_included(&leaves[index], claimed as u64, &head(&leaves), &path);
                    assert_eq!(included, claimed == index, "{index} of {count}, as {claimed}");
                }
                let longer = [path.as_slice(), &[leaves[0]]].concat();
                assert!(!is_included(&leaves[index], index as u64, &head(&leaves), &longer));
            }
        }
    }

    #[test]
    fn each_tree_continues_those_before_it_and_no_other() {
        for count in 1..=33 {
            let leaves = leaves(count);
            for size in 1..=leaves.len() {
                let (first, second) = (head(&leaves[..size]), head(&leaves));
                let proof = subproof(size, &leaves, true);
                assert!(is_consistent(&first, &second, &proof), "{size} of {count}");
                let other = TreeHead { root: leaf_hash(b"another"), ..first };
                assert!(!is_consistent(&other, &second, &proof));
                assert!(!is_consistent(&first, &TreeHead { root: leaf_hash(b"another"), ..second.clone() }, &proof));
                let longer = [proof.as_slice(), &[leaves[0]]].concat();
                assert!(!is_consistent(&first, &second, &longer));
                if size < leaves.len() {
                    assert!(!is_consistent(&second, &first, &proof));
                }
            }
        }
    }
}
