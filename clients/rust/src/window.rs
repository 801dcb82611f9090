//! What a stream has taken and the service has not acknowledged.

use std::collections::{BTreeMap, BTreeSet};

use tokio::sync::oneshot;

use crate::Error;

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

pub(crate) struct Pending<I, R> {
    pub(crate) item: I,
    pub(crate) key: String,
    bytes: usize,
    /// `None` once it has been told that the stream is over.
    told: Option<Told<R>>,
}

pub(crate) struct Window<I, R> {
    bounds: StreamBounds,
    /// By sequence, which is the order in which they were taken.
    pending: BTreeMap<i64, Pending<I, R>>,
    bytes: usize,
    next_sequence: i64,
    /// What has a lower sequence was sent on the connection in use.
    next_unsent: i64,
}

impl<I: Clone, R> Window<I, R> {
    pub(crate) fn new(bounds: StreamBounds) -> Self {
        Self { bounds, pending: BTreeMap::new(), bytes: 0, next_sequence: 0, next_unsent: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    pub(crate) fn items(&self) -> Vec<I> {
        self.pending.values().map(|pending| pending.item.clone()).collect()
    }

    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.is_empty()
            || self.pending.len() < self.bounds.max_unacknowledged_items
                && self.bytes.saturating_add(bytes) <= self.bounds.max_unacknowledged_bytes
    }

    pub(crate) fn add(&mut self, item: I, key: String, bytes: usize, told: Told<R>) {
        self.pending.insert(self.next_sequence, Pending { item, key, bytes, told: Some(told) });
        self.next_sequence += 1;
        self.bytes += bytes;
    }

    /// On another connection all that is here is sent again.
    pub(crate) fn rewind(&mut self) {
        self.next_unsent = self.pending.keys().next().copied().unwrap_or(self.next_sequence);
    }

    /// The next one to send.
    pub(crate) fn take_unsent(&mut self) -> Option<(i64, I)> {
        let (&sequence, pending) = self.pending.range(self.next_unsent..).next()?;
        self.next_unsent = sequence + 1;
        Some((sequence, pending.item.clone()))
    }

    /// What is acknowledged is here no more. Where one of them cannot be, none of them is taken for it.
    pub(crate) fn acknowledge(
        &mut self,
        acknowledged: Vec<(i64, Option<R>)>,
        key_of: impl Fn(&R) -> &str,
    ) -> Result<Vec<(Told<R>, R)>, String> {
        let mut seen = BTreeSet::new();
        for (sequence, result) in &acknowledged {
            let waits = self.pending.get(sequence).filter(|_| *sequence < self.next_unsent && seen.insert(*sequence));
            let Some(pending) = waits else {
                return Err(format!("acknowledged {sequence}, which waits for no acknowledgement"));
            };
            if result.as_ref().is_none_or(|result| key_of(result) != pending.key) {
                return Err(format!("acknowledged {sequence} by another idempotency key"));
            }
        }
        let settle = |(sequence, result): (i64, Option<R>)| {
            let pending = self.pending.remove(&sequence)?;
            self.bytes -= pending.bytes;
            pending.told.zip(result)
        };
        Ok(acknowledged.into_iter().filter_map(settle).collect())
    }

    /// Callers that wait for a result must get another error.
    pub(crate) fn give_up(&mut self) -> Vec<Told<R>> {
        self.pending.values_mut().filter_map(|pending| pending.told.take()).collect()
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
        window.acknowledge(vec![(0, Some("a")), (2, Some("c"))], |key| key).expect("they wait");
        window.rewind();
        window.add("d", "d".to_owned(), 10, oneshot::channel().0);
        assert_eq!(sequences(&mut window), [1, 3]);
        assert_eq!(window.items(), ["b", "d"]);
    }

    #[test]
    fn takes_none_of_a_message_for_acknowledged_where_one_cannot_be() {
        let wrong: [Vec<(i64, Option<&str>)>; 6] = [
            vec![(0, Some("a")), (7, Some("h"))],
            vec![(0, Some("a")), (-1, Some("a"))],
            vec![(0, Some("a")), (0, Some("a"))],
            // Not sent yet on this connection.
            vec![(0, Some("a")), (2, Some("c"))],
            vec![(0, Some("a")), (1, Some("a"))],
            vec![(0, Some("a")), (1, None)],
        ];
        for acknowledged in wrong {
            let mut window = window(&["a", "b", "c"], 2);
            assert!(window.acknowledge(acknowledged.clone(), |key| key).is_err(), "{acknowledged:?}");
            assert_eq!(window.items(), ["a", "b", "c"]);
            window.acknowledge(vec![(0, Some("a"))], |key| key).expect("it waits");
            assert!(window.acknowledge(vec![(0, Some("a"))], |key| key).is_err(), "a second time");
        }
    }
}
