//! What a stream has taken and the service has not acknowledged.

use std::collections::VecDeque;

use tokio::sync::oneshot;

use crate::Error;
use crate::proto::Receipt;

/// How much may be unacknowledged on a stream. One item alone may always go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamBounds {
    /// Default 256.
    pub max_unacknowledged_items: usize,
    /// Of the items' messages. Default 256 KiB.
    pub max_unacknowledged_bytes: usize,
}

impl Default for StreamBounds {
    fn default() -> Self {
        Self { max_unacknowledged_items: 256, max_unacknowledged_bytes: 256 * 1024 }
    }
}

pub(crate) type Told<R> = oneshot::Sender<Result<R, Error>>;

/// How many of the latest records may answer no other item: as many as a bulk call has items.
const MAX_OWNERS: usize = 1_000;

struct Pending<I, R> {
    sequence: i64,
    item: I,
    key: String,
    bytes: usize,
    /// `None` once it has been told that the stream is over.
    told: Option<Told<R>>,
}

pub(crate) struct Window<I, R> {
    bounds: StreamBounds,
    /// In the order in which they were taken.
    pending: VecDeque<Pending<I, R>>,
    bytes: usize,
    next_sequence: i64,
    /// How many of them were sent on the connection in use.
    sent: usize,
    /// Where the latest records are, by index and log, and the key of the item that each answers.
    owners: VecDeque<(i64, String, String)>,
}

impl<I: Clone, R> Window<I, R> {
    pub(crate) fn new(bounds: StreamBounds) -> Self {
        Self { bounds, pending: VecDeque::new(), bytes: 0, next_sequence: 0, sent: 0, owners: VecDeque::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    pub(crate) fn items(&self) -> Vec<I> {
        self.pending.iter().map(|pending| pending.item.clone()).collect()
    }

    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.is_empty()
            || self.pending.len() < self.bounds.max_unacknowledged_items
                && self.bytes.saturating_add(bytes) <= self.bounds.max_unacknowledged_bytes
    }

    pub(crate) fn add(&mut self, item: I, key: String, bytes: usize, told: Told<R>) {
        self.pending.push_back(Pending { sequence: self.next_sequence, item, key, bytes, told: Some(told) });
        self.next_sequence += 1;
        self.bytes += bytes;
    }

    /// On another connection all that is here is sent again.
    pub(crate) fn rewind(&mut self) {
        self.sent = 0;
    }

    /// The next one to send.
    pub(crate) fn take_unsent(&mut self) -> Option<(i64, I)> {
        let pending = self.pending.get(self.sent)?;
        self.sent += 1;
        Some((pending.sequence, pending.item.clone()))
    }

    /// What is acknowledged is here no more; it must be the first that were sent. Where one of them cannot be, none of
    /// them is taken for it.
    pub(crate) fn acknowledge(
        &mut self,
        acknowledged: Vec<(i64, Option<R>)>,
        key_and_receipt: impl Fn(&R) -> (&str, Option<&Receipt>),
    ) -> Result<Vec<(Told<R>, R)>, String> {
        for (at, (sequence, result)) in acknowledged.iter().enumerate() {
            let next = self.pending.get(at).filter(|pending| at < self.sent && pending.sequence == *sequence);
            let Some(pending) = next else {
                return Err(format!("acknowledged {sequence}, which was not the next"));
            };
            let Some((key, receipt)) = result.as_ref().map(&key_and_receipt).filter(|(key, _)| *key == pending.key)
            else {
                return Err(format!("acknowledged {sequence} by another idempotency key"));
            };
            // Items may ask the same, so that a record does not tell whose it is. Those with one key have one record.
            let Some(Receipt { log_origin, leaf_index, .. }) = receipt else { continue };
            match self.owners.iter().find(|(index, origin, _)| index == leaf_index && origin == log_origin) {
                Some((_, _, owner)) if owner != key => {
                    return Err(format!("acknowledged {sequence} with the record of another item"));
                }
                Some(_) => {}
                None => self.owners.push_back((*leaf_index, log_origin.clone(), key.to_owned())),
            }
            if self.owners.len() > MAX_OWNERS {
                self.owners.pop_front();
            }
        }
        self.sent -= acknowledged.len();
        let settled = self.pending.drain(..acknowledged.len()).zip(acknowledged);
        let settle = |(pending, (_, result)): (Pending<I, R>, (i64, Option<R>))| {
            self.bytes -= pending.bytes;
            pending.told.zip(result)
        };
        Ok(settled.filter_map(settle).collect())
    }

    /// Callers that wait for a result must get another error.
    pub(crate) fn give_up(&mut self) -> Vec<Told<R>> {
        self.pending.iter_mut().filter_map(|pending| pending.told.take()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: StreamBounds = StreamBounds { max_unacknowledged_items: 3, max_unacknowledged_bytes: 30 };

    /// With items of 10 bytes, which are their keys; so many of them were sent.
    fn window(items: &[&'static str], sent: usize) -> Window<&'static str, &'static str> {
        let mut window = Window::new(BOUNDS);
        for &item in items {
            window.add(item, item.to_owned(), 10, oneshot::channel().0);
        }
        for _ in 0..sent {
            window.take_unsent();
        }
        window
    }

    fn sequences(window: &mut Window<&'static str, &'static str>) -> Vec<i64> {
        std::iter::from_fn(|| window.take_unsent()).map(|(sequence, _)| sequence).collect()
    }

    #[test]
    fn holds_no_more_than_its_bounds_but_one_item_of_any_size() {
        assert!(window(&[], 0).has_room(1_000));
        assert!(!window(&["a"], 0).has_room(21));
        assert!(window(&["a", "b"], 0).has_room(10));
        assert!(!window(&["a", "b", "c"], 0).has_room(0));
    }

    #[test]
    fn sends_each_item_once_a_connection_in_order() {
        let mut window = window(&["a", "b", "c"], 0);
        assert_eq!(sequences(&mut window), [0, 1, 2]);
        window.acknowledge(vec![(0, Some("a")), (1, Some("b"))], |key| (key, None)).expect("they wait");
        window.rewind();
        window.add("d", "d".to_owned(), 10, oneshot::channel().0);
        assert_eq!(sequences(&mut window), [2, 3]);
        assert_eq!(window.items(), ["c", "d"]);
    }

    #[test]
    fn takes_none_of_a_message_for_acknowledged_where_one_cannot_be() {
        let wrong: [Vec<(i64, Option<&str>)>; 7] = [
            vec![(0, Some("a")), (7, Some("h"))],
            vec![(0, Some("a")), (-1, Some("a"))],
            vec![(0, Some("a")), (0, Some("a"))],
            // Out of order.
            vec![(1, Some("b")), (0, Some("a"))],
            // Not sent yet on this connection.
            vec![(0, Some("a")), (2, Some("c"))],
            vec![(0, Some("a")), (1, Some("a"))],
            vec![(0, Some("a")), (1, None)],
        ];
        for acknowledged in wrong {
            let mut window = window(&["a", "b", "c"], 2);
            assert!(window.acknowledge(acknowledged.clone(), |key| (key, None)).is_err(), "{acknowledged:?}");
            assert_eq!(window.items(), ["a", "b", "c"]);
            window.acknowledge(vec![(0, Some("a"))], |key| (key, None)).expect("it waits");
            assert!(window.acknowledge(vec![(0, Some("a"))], |key| (key, None)).is_err(), "a second time");
        }
    }
}
