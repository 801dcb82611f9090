//! Receipts of a real log, which verify, and whatever is made of them by changing something, which does not.

#[path = "../src/messages.rs"]
#[allow(dead_code, reason = "the driver needs the rest")]
mod messages;

use std::error::Error;
use std::sync::LazyLock;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use proptest::prelude::*;
use serde_json::Value;
use svc_platform_client::proto::Receipt;
use svc_platform_client::receipts::{LogKey, VerifiedReceipt, continues, verify_receipt};

/// The vectors that clients of every language share, made by the service.
static VECTORS: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../../conformance/vectors/receipts.json")).expect("the vectors are JSON")
});

fn list(name: &str) -> &'static [Value] {
    VECTORS[name].as_array().expect("the vectors are lists")
}

fn text(value: &'static Value) -> &'static str {
    value.as_str().expect("it is a text")
}

fn read(vector: &Value) -> Receipt {
    messages::read("Receipt", &vector["receipt"]).expect("it is a receipt")
}

/// A receipt with other members than the format's is none.
fn verify(vector: &'static Value) -> Result<VerifiedReceipt, Box<dyn Error>> {
    let receipt = messages::read("Receipt", &vector["receipt"])?;
    Ok(verify_receipt(&receipt, &[text(&vector["log_key"]).parse()?])?)
}

fn named(name: &str) -> &'static Value {
    list("receipts").iter().find(|vector| vector["name"] == name).expect("it is there")
}

fn key_text() -> &'static str {
    text(&named("whole, leaf 1 of 3")["log_key"])
}

fn key() -> LogKey {
    key_text().parse().expect("the key is one")
}

static WHOLE: LazyLock<[Receipt; 3]> =
    LazyLock::new(|| ["whole, leaf 1 of 3", "whole, leaf 3 of 6", "whole, leaf 8 of 9"].map(|name| read(named(name))));
static BRIEF: LazyLock<[Receipt; 2]> =
    LazyLock::new(|| ["brief, leaf 0 of 2", "brief, leaf 0 of 9"].map(|name| read(named(name))));

fn all() -> Vec<Receipt> {
    WHOLE.iter().chain(BRIEF.iter()).cloned().collect()
}

#[test]
fn the_service_says_the_same_of_every_vector() {
    for vector in list("receipts") {
        let verified = verify(vector);
        assert_eq!(verified.is_err(), !vector["refused"].is_null(), "{}: {verified:?}", vector["name"]);
    }
}

#[test]
fn the_service_says_the_same_of_every_proof() {
    for vector in list("consistency") {
        let tree = |name: &str| verify(named(text(&vector[name]))).expect("it holds");
        let continued = continues(&tree("earlier"), &tree("later"), text(&vector["proof"]));
        assert_eq!(continued, vector["continues"], "{vector}");
    }
}

#[test]
fn a_whole_receipt_shows_its_record() {
    for receipt in WHOLE.iter() {
        let verified = verify_receipt(receipt, &[key()]).expect("it verifies");
        let record = verified.record().expect("it has a record");
        assert_eq!(record["record_id"], receipt.record_id.as_str());
        assert_eq!(record["log"], verified.log_origin());
        assert_eq!(i64::try_from(verified.leaf_index()), Ok(receipt.leaf_index));
    }
}

#[test]
fn a_brief_receipt_shows_a_position() {
    for receipt in BRIEF.iter() {
        let verified = verify_receipt(receipt, &[key()]).expect("it verifies");
        assert_eq!(verified.record(), None);
        assert_eq!(i64::try_from(verified.tree_size()), Ok(receipt.tree_size));
    }
}

#[test]
fn nothing_verifies_without_the_key_of_the_log() {
    let other = "localhost/other+b6a8a6f1+AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".parse::<LogKey>();
    assert!(other.is_err(), "a key whose id is another's");
    for receipt in all() {
        assert!(verify_receipt(&receipt, &[]).is_err());
    }
}

#[test]
fn a_retired_key_counts_for_the_trees_before() {
    for receipt in all() {
        let retired = |size: i64| format!("{}@{size}", key_text()).parse::<LogKey>().expect("the key is one");
        assert!(verify_receipt(&receipt, &[retired(receipt.tree_size)]).is_ok());
        assert!(verify_receipt(&receipt, &[retired(receipt.tree_size - 1)]).is_err());
        assert!(verify_receipt(&receipt, &[retired(receipt.tree_size - 1), key()]).is_ok());
    }
}

#[test]
fn a_receipt_has_all_of_its_material_or_none() {
    for receipt in WHOLE.iter() {
        for part in [
            Receipt { leaf: None, ..receipt.clone() },
            Receipt { opening: None, ..receipt.clone() },
            Receipt { record: None, ..receipt.clone() },
        ] {
            assert!(verify_receipt(&part, &[key()]).is_err());
        }
    }
}

#[test]
fn a_log_continues_itself_and_no_other_tree() {
    let verified: Vec<_> =
        all().iter().map(|receipt| verify_receipt(receipt, &[key()]).expect("it verifies")).collect();
    for earlier in &verified {
        for later in &verified {
            assert_eq!(continues(earlier, later, ""), earlier.tree_size() == later.tree_size());
        }
    }
}

/// The member at this place, as text.
fn member(receipt: &mut Receipt, place: usize) -> &mut String {
    match place {
        0 => &mut receipt.record_id,
        1 => &mut receipt.log_origin,
        2 => &mut receipt.leaf_hash,
        3 => &mut receipt.proof,
        4 => receipt.leaf.get_or_insert_default(),
        5 => receipt.opening.get_or_insert_default(),
        _ => receipt.record.get_or_insert_default(),
    }
}

#[test]
fn no_member_of_another_receipt_verifies() {
    for receipt in WHOLE.iter() {
        for mut donor in WHOLE.clone() {
            for place in 0..7 {
                let mut changed = receipt.clone();
                member(&mut changed, place).clone_from(member(&mut donor, place));
                assert_eq!(verify_receipt(&changed, &[key()]).is_ok(), changed == *receipt, "member {place}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_other_character_verifies(
        nth in 0..3_usize, place in 0..7_usize, at in any::<prop::sample::Index>(), other in "[ -~\n—\u{0}]"
    ) {
        let mut receipt = WHOLE[nth].clone();
        let text = member(&mut receipt, place);
        let mut characters: Vec<char> = text.chars().collect();
        let at = at.index(characters.len());
        let other = other.chars().next().expect("one character");
        prop_assume!(characters[at] != other);
        characters[at] = other;
        *text = characters.into_iter().collect();
        prop_assert!(verify_receipt(&receipt, &[key()]).is_err());
    }

    #[test]
    fn no_other_bit_verifies(nth in 0..3_usize, place in 4..7_usize, at in any::<prop::sample::Index>(), bit in 0..8_u32) {
        let mut receipt = WHOLE[nth].clone();
        let text = member(&mut receipt, place);
        let mut bytes = BASE64.decode(&*text).expect("it is base64");
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        *text = BASE64.encode(bytes);
        prop_assert!(verify_receipt(&receipt, &[key()]).is_err());
    }

    #[test]
    fn nothing_that_is_cut_short_or_longer_verifies(
        nth in 0..3_usize, place in 0..7_usize, kept in any::<prop::sample::Index>(), more in "[ -~\n]{0,3}"
    ) {
        let mut receipt = WHOLE[nth].clone();
        let text = member(&mut receipt, place);
        let changed: String = text.chars().take(kept.index(text.chars().count() + 1)).chain(more.chars()).collect();
        prop_assume!(*text != changed);
        *text = changed;
        prop_assert!(verify_receipt(&receipt, &[key()]).is_err());
    }

    #[test]
    fn no_other_number_verifies(nth in 0..3_usize, number: i64, of_size: bool) {
        let mut receipt = WHOLE[nth].clone();
        let member = if of_size { &mut receipt.tree_size } else { &mut receipt.leaf_index };
        prop_assume!(*member != number);
        *member = number;
        prop_assert!(verify_receipt(&receipt, &[key()]).is_err());
    }

    #[test]
    fn no_text_is_too_odd(proof: String, key in "[ -~]{0,80}") {
        let receipt = Receipt { proof, ..WHOLE[0].clone() };
        prop_assert!(verify_receipt(&receipt, &[self::key()]).is_err());
        let _ = key.parse::<LogKey>();
    }
}
