//! Streams without answers, and how they end. What they do with a service the conformance suite shows.

use std::net::TcpListener;
use std::time::Duration;

use futures_util::future::join;
use svc_platform_client::bulk_proto::EventItem;
use svc_platform_client::proto::RecordEvidenceRequest;
use svc_platform_client::{Client, Code, Error, Retry, StreamBounds};
use tokio::time::timeout;

const ONE: StreamBounds = StreamBounds { max_unacknowledged_items: 1, max_unacknowledged_bytes: 1_000 };

/// A service that takes connections and says nothing, as long as it is held.
fn silent() -> (TcpListener, Client) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let client = client(&listener);
    (listener, client)
}

fn client(listener: &TcpListener) -> Client {
    let address = listener.local_addr().expect("it has an address");
    let retry = Retry::default().attempts(3).initial_backoff(Duration::ZERO).max_backoff(Duration::ZERO);
    Client::builder(format!("http://{address}")).retry(retry).build().expect("the settings are usable")
}

fn event(key: &str) -> EventItem {
    EventItem { idempotency_key: key.to_owned(), event: Some(RecordEvidenceRequest::default()) }
}

async fn soon<T>(awaited: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(10), awaited).await.expect("it is over soon")
}

fn code<T>(result: Result<T, Error>) -> Option<Code> {
    result.err().map(|error| error.code())
}

#[tokio::test]
async fn abort_ends_a_stream_for_all_who_wait() {
    let (_listener, client) = silent();
    let stream = client.open_event_stream(ONE);
    let acknowledgement = stream.send(event("key-0")).await.expect("there is room");
    let (held_back, ()) = join(stream.send(event("key-1")), async { stream.abort() }).await;
    assert_eq!(code(held_back), Some(Code::Cancelled));
    assert_eq!(code(soon(acknowledgement).await), Some(Code::Cancelled));
    assert_eq!(stream.unacknowledged(), [event("key-0")]);
    assert_eq!(code(stream.send(event("key-2")).await), Some(Code::Cancelled));
    soon(stream.close()).await.expect("what was aborted closes");
}

#[tokio::test]
async fn a_stream_that_is_dropped_is_aborted() {
    let (_listener, client) = silent();
    let stream = client.open_event_stream(StreamBounds::default());
    let acknowledgement = stream.send(event("key-0")).await.expect("there is room");
    drop(stream);
    assert_eq!(code(soon(acknowledgement).await), Some(Code::Cancelled));
}

#[tokio::test]
async fn a_closed_stream_takes_nothing() {
    let (_listener, client) = silent();
    let stream = client.open_registration_stream(StreamBounds::default());
    soon(stream.close()).await.expect("nothing was sent");
    let registration = svc_platform_client::proto::RegisterArtifactRequest::default();
    assert_eq!(code(stream.send(registration).await), Some(Code::Cancelled));
}

#[tokio::test]
async fn where_there_is_no_service_all_who_wait_are_told() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let client = client(&listener);
    drop(listener);
    let stream = client.open_event_stream(ONE);
    let acknowledgement = stream.send(event("key-0")).await.expect("there is room");
    assert_eq!(code(soon(stream.send(event("key-1"))).await), Some(Code::Unavailable));
    assert_eq!(code(soon(acknowledgement).await), Some(Code::Unavailable));
    assert_eq!(code(soon(stream.close()).await), Some(Code::Unavailable));
    assert_eq!(stream.unacknowledged(), [event("key-0")]);
}

#[tokio::test]
async fn a_key_that_cannot_be_sent_is_refused_at_once() {
    let (_listener, client) = silent();
    let stream = client.open_event_stream(StreamBounds::default());
    assert_eq!(code(stream.send(event("key\n")).await), Some(Code::InvalidArgument));
    assert_eq!(stream.unacknowledged(), []);
}
