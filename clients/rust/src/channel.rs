//! The connection, with what comes from others than the service told apart.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::header::CONTENT_TYPE;
use http::{Request, Response};
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::transport::{Channel, Error};

/// A channel on which a page of a proxy is not read as messages: such an answer has the code of its HTTP status
/// (grpc/doc/http-grpc-status-mapping.md).
#[derive(Clone)]
pub struct PlatformChannel(pub(crate) Channel);

impl Service<Request<Body>> for PlatformChannel {
    type Response = Response<Body>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let answer = self.0.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            let kind = answer.headers().get(CONTENT_TYPE);
            let is_grpc = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
            Ok(if is_grpc { answer } else { answer.map(|_| Body::empty()) })
        })
    }
}
