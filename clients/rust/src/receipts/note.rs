//! Checkpoints: C2SP signed-note and tlog-checkpoint.

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;

use super::proof::{Hash, TreeHead};
use super::{LogKey, ReceiptError};

/// Larger ones are refused before anything else is looked at.
pub(super) const MAX_NOTE_BYTES: usize = 256 * 1024;
const MAX_SIGNATURES: usize = 64;
/// 2^53 - 1: what every reader of JSON keeps.
const MAX_NUMBER: u64 = (1 << 53) - 1;

pub(super) struct Checkpoint {
    pub(super) origin: String,
    pub(super) tree: TreeHead,
}

struct Signature<'a> {
    name: &'a str,
    key_id: [u8; 4],
    bytes: Vec<u8>,
}

/// Opens a checkpoint that one of the keys signed and may have signed. Refuses it also if the signature of any of them is
/// wrong, as signed-note asks, or stands there twice; signatures of other keys are ignored.
pub(super) fn open(note: &str, keys: &[LogKey]) -> Result<Checkpoint, ReceiptError> {
    let (text, signatures) = parse(note).ok_or_else(|| ReceiptError::new("the checkpoint is no signed note"))?;
    let checkpoint = parse_checkpoint(text).ok_or_else(|| ReceiptError::new("the checkpoint is malformed"))?;
    let by = |key: &LogKey, signature: &Signature| signature.name == key.name && signature.key_id == key.id;
    let signing: Vec<_> = keys.iter().filter(|key| signatures.iter().any(|signature| by(key, signature))).collect();
    if signing.is_empty() {
        return Err(ReceiptError::new("the checkpoint is not signed by a trusted key"));
    }
    for key in &signing {
        let own: Vec<_> = signatures.iter().filter(|signature| by(key, signature)).collect();
        if own.len() > 1 {
            return Err(ReceiptError::new("a trusted key has two signature lines"));
        }
        if !own.iter().all(|own| key.verifies(text, &own.bytes)) {
            return Err(ReceiptError::new("a signature of a trusted key does not verify"));
        }
    }
    // signed-note leaves names to who uses it; tlog-checkpoint wants that of the log.
    if signing.iter().any(|key| key.name != checkpoint.origin) {
        return Err(ReceiptError::new("the checkpoint is of another log"));
    }
    if signing.iter().all(|key| key.max_tree_size.is_some_and(|size| checkpoint.tree.size > size)) {
        return Err(ReceiptError::new("the key that signed the checkpoint was retired before"));
    }
    Ok(checkpoint)
}

fn parse(note: &str) -> Option<(&str, Vec<Signature<'_>>)> {
    let is_text = |character: char| character >= ' ' || character == '\n';
    if note.len() > MAX_NOTE_BYTES || !note.chars().all(is_text) {
        return None;
    }
    let end = note.rfind("\n\n")?;
    let (text, lines) = (&note[..=end], note[end + 2..].strip_suffix('\n')?);
    let lines: Vec<_> = lines.split('\n').collect();
    if lines.len() > MAX_SIGNATURES {
        return None;
    }
    Some((text, lines.into_iter().map(parse_signature).collect::<Option<_>>()?))
}

fn parse_signature(line: &str) -> Option<Signature<'_>> {
    let (name, encoded) = line.strip_prefix("— ")?.split_once(' ')?;
    let decoded = BASE64.decode(encoded).ok()?;
    let (key_id, bytes) = decoded.split_first_chunk::<4>()?;
    let fits = is_key_name(name) && !bytes.is_empty();
    fits.then(|| Signature { name, key_id: *key_id, bytes: bytes.to_vec() })
}

/// Origin, size and root, a line each. Further lines are signed and say nothing here.
fn parse_checkpoint(text: &str) -> Option<Checkpoint> {
    let mut lines = text.strip_suffix('\n')?.split('\n');
    let (origin, size, root) = (lines.next()?, parse_decimal(lines.next()?)?, lines.next()?);
    let root: Hash = BASE64.decode(root).ok()?.try_into().ok()?;
    let fits = !origin.is_empty() && lines.all(|line| !line.is_empty());
    fits.then(|| Checkpoint { origin: origin.to_owned(), tree: TreeHead { size, root } })
}

/// Key names are not empty and hold no space, no plus sign and no control character.
pub(super) fn is_key_name(name: &str) -> bool {
    let fits = |character: char| {
        !(character.is_whitespace() || character.is_control() || character == '+' || character == '\u{feff}')
    };
    !name.is_empty() && name.chars().all(fits)
}

/// A decimal number without needless zeros.
pub(super) fn parse_decimal(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|&number| digits && number <= MAX_NUMBER)
}
