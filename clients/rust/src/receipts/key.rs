//! Keys that a log is believed on: C2SP signed-note verifier keys.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use ring::digest::{SHA256, digest};
use ring::signature::{ED25519, UnparsedPublicKey};

use super::ReceiptError;
use super::note::{is_key_name, parse_decimal};

const ED25519_TYPE: u8 = 1;

/// A key of a log, as the operator prints it: `<origin>+<hash>+<key>`; with `@<size>` behind it where it was retired, and
/// counts for trees of up to so many leaves.
#[derive(Clone, PartialEq, Eq)]
pub struct LogKey {
    pub(super) name: String,
    pub(super) id: [u8; 4],
    public_key: [u8; 32],
    pub(super) max_tree_size: Option<u64>,
}

impl LogKey {
    pub(super) fn verifies(&self, text: &str, signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.public_key).verify(text.as_bytes(), signature).is_ok()
    }
}

impl FromStr for LogKey {
    type Err = ReceiptError;

    fn from_str(text: &str) -> Result<Self, ReceiptError> {
        read(text).ok_or_else(|| ReceiptError::new("the log's key cannot be read"))
    }
}

fn read(text: &str) -> Option<LogKey> {
    // No base64 has an @, so it never is of the key.
    let (vkey, max_tree_size) = match text.rsplit_once('@') {
        Some((vkey, size)) if !size.contains('+') => (vkey, Some(parse_decimal(size)?)),
        _ => (text, None),
    };
    let mut parts = vkey.splitn(3, '+');
    let (name, id, encoded) = (parts.next()?, parts.next()?, parts.next()?);
    let decoded = BASE64.decode(encoded).ok()?;
    let (&ED25519_TYPE, public_key) = decoded.split_first()? else { return None };
    let public_key: [u8; 32] = public_key.try_into().ok()?;
    let named = digest(&SHA256, &[name.as_bytes(), b"\n", &decoded].concat());
    let id_bytes: [u8; 4] = named.as_ref()[..4].try_into().ok()?;
    let hex: String = id_bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let fits = is_key_name(name) && hex == id;
    fits.then(|| LogKey { name: name.to_owned(), id: id_bytes, public_key, max_tree_size })
}

impl fmt::Debug for LogKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("LogKey").field("name", &self.name).field("max_tree_size", &self.max_tree_size).finish()
    }
}
