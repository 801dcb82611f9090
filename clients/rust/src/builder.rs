//! Settings of the client.

use std::sync::Arc;
use std::time::Duration;

use tonic::transport::Endpoint;

use crate::channel::PlatformChannel;
use crate::client::LONGEST;
use crate::http_client::secure_url;
use crate::proto::Caller;
use crate::{Client, Error, LogKey, Retry, Tls, TokenSource, UnderstoodObligation};

/// What receipts carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReceiptDetail {
    /// The record too: the holder of the receipt can show it.
    #[default]
    Whole,
    /// The place in the log alone.
    Brief,
}

/// Settings of a [`Client`].
pub struct ClientBuilder {
    base_url: String,
    tls: Tls,
    pub(crate) tokens: Option<Arc<dyn TokenSource>>,
    pub(crate) deadline: Duration,
    pub(crate) retry: Retry,
    pub(crate) receipts: Option<ReceiptDetail>,
    pub(crate) log_keys: Vec<LogKey>,
    pub(crate) caller: Option<Caller>,
    pub(crate) understood: Vec<UnderstoodObligation>,
    pub(crate) keep: Duration,
}

impl ClientBuilder {
    pub(crate) fn new(base_url: String) -> Self {
        Self {
            base_url,
            tls: Tls::default(),
            tokens: None,
            deadline: Duration::from_secs(10),
            retry: Retry::default(),
            receipts: None,
            log_keys: Vec::new(),
            caller: None,
            understood: Vec::new(),
            keep: Duration::from_secs(300),
        }
    }

    /// Authorities that the service is believed on, and the certificate of this workload.
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = tls;
        self
    }

    /// Where calls get their token from. Default: they have none.
    #[must_use]
    pub fn tokens(mut self, tokens: impl TokenSource + 'static) -> Self {
        self.tokens = Some(Arc::new(tokens));
        self
    }

    /// Time for a call, with all its attempts. Default 10 s.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// How calls are tried again.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// What receipts carry. Default: what the service gives unasked, which is the record too, but not in bulk calls.
    #[must_use]
    pub fn receipts(mut self, detail: ReceiptDetail) -> Self {
        self.receipts = Some(detail);
        self
    }

    /// A key that the tenant's log is believed on, for [`Client::verify_receipt`]. It comes from the operator.
    #[must_use]
    pub fn log_key(mut self, key: LogKey) -> Self {
        self.log_keys.push(key);
        self
    }

    /// The caller that receipts must name, if the program knows it without asking: this program, as
    /// [`Client::who_am_i`] answers. Default: the caller that it named last, and anyone before.
    #[must_use]
    pub fn caller(mut self, caller: Caller) -> Self {
        self.caller = Some(caller);
        self
    }

    /// Obligations that this program meets where a decision demands them. Their ids stand in every request for a
    /// decision that names none itself.
    #[must_use]
    pub fn understands(mut self, obligations: impl IntoIterator<Item = impl Into<UnderstoodObligation>>) -> Self {
        self.understood.extend(obligations.into_iter().map(Into::into));
        self
    }

    /// How long [`Client::capabilities`] and [`Client::bootstrap`] are kept, where the service does not say
    /// (`cache-control: max-age`). Default 5 minutes.
    #[must_use]
    pub fn keep_discovery(mut self, keep: Duration) -> Self {
        self.keep = keep;
        self
    }

    /// Makes the client. The connection is opened by the first call, and again by the first after it broke.
    ///
    /// # Errors
    /// `InvalidArgument` where the settings cannot be used: a URL that is neither https nor of this machine,
    /// certificates that cannot be read, or no Tokio runtime around.
    pub fn build(self) -> Result<Client, Error> {
        tokio::runtime::Handle::try_current()
            .map_err(|cause| Error::setting("a client is made within a Tokio runtime").because(cause))?;
        let uri = secure_url(&self.base_url, "the base URL")?;
        let (Some(scheme), Some(authority), "/") = (uri.scheme(), uri.authority(), uri.path()) else {
            return Err(Error::setting("the base URL of gRPC has no path"));
        };
        let origin = format!("{scheme}://{authority}");
        let unusable = |cause| Error::setting("the connection cannot be set up").because(cause);
        let mut endpoint = Endpoint::from_shared(origin.clone()).map_err(unusable)?;
        if scheme.as_str() == "https" {
            endpoint = endpoint.tls_config(self.tls.grpc()?).map_err(unusable)?;
        }
        // A connection that died unheard is detected while a call waits for it.
        let endpoint = endpoint
            // What has no deadline of its own waits no longer for a connection than a call does.
            .connect_timeout(self.deadline.min(LONGEST))
            .http2_keep_alive_interval(Duration::from_secs(20))
            .keep_alive_timeout(Duration::from_secs(5));
        Ok(Client::new(self, origin, PlatformChannel(endpoint.connect_lazy())))
    }
}
