//! The client: the eight calls, and receipts.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};
use uuid::Uuid;

use crate::cache::Cache;
use crate::call::{Attempts, ascii};
use crate::channel::PlatformChannel;
use crate::dpop::Nonce;
use crate::proto::discovery_service_client::DiscoveryServiceClient;
use crate::proto::evidence_service_client::EvidenceServiceClient;
use crate::proto::protection_service_client::ProtectionServiceClient;
use crate::proto::registration_service_client::RegistrationServiceClient;
use crate::proto::{
    Caller, GetBootstrapRequest, GetBootstrapResponse, GetCapabilitiesRequest, GetCapabilitiesResponse,
    PlanKeyAccessRequest, PlanKeyAccessResponse, PlanProtectionRequest, PlanProtectionResponse, Receipt,
    RecordEvidenceRequest, RecordEvidenceResponse, RegisterArtifactRequest, RegisterArtifactResponse,
    ResolvePolicyRequest, ResolvePolicyResponse, WhoAmIRequest, WhoAmIResponse,
};
use crate::receipts::{
    BulkRequest, ItemRequest, ReceiptError, RecordedAnswer, Sender, VerifiedReceipt, verify_answer, verify_item,
    verify_items, verify_receipt,
};
use crate::{Call, ClientBuilder, Decision, Error, NotPermitted, ReceiptDetail, Retry, TokenSource, decision};

/// Beyond what clocks can hold, a day will do.
pub(crate) const LONGEST: Duration = Duration::from_secs(86_400);

/// The platform's client. Clones are the same client: one connection, one token, one cache.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    settings: ClientBuilder,
    origin: String,
    channel: PlatformChannel,
    nonce: Nonce,
    capabilities: Cache<Arc<GetCapabilitiesResponse>>,
    bootstrap: Cache<Arc<GetBootstrapResponse>>,
    /// The caller that receipts must name; `None` if that is not known.
    caller: Mutex<Option<Caller>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Client").field("base_url", &self.0.origin).finish_non_exhaustive()
    }
}

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident($request:ty) -> $response:ty = $stub:ident, $path:literal $(, $filled:ident)?;)*) => {
        $($(#[$doc])*
        ///
        /// # Errors
        /// [`Error`] says what the service said, or what came between.
        pub async fn $name(&self, call: impl Into<Call<$request>>) -> Result<$response, Error> {
            #[allow(unused_mut, reason = "of three calls something is filled in")]
            let mut call = call.into();
            $(self.$filled(&mut call.message.understood_obligations);)?
            let made = |channel, request| async move { $stub::new(channel).$name(request).await };
            Ok(self.call(call, concat!("/platform.sdk.v1.", $path), made).await?.into_inner())
        })*
    };
}

impl Client {
    /// Settings, from the base URL of the service on, such as `https://platform.example.com`.
    pub fn builder(base_url: impl Into<String>) -> ClientBuilder {
        ClientBuilder::new(base_url.into())
    }

    pub(crate) fn new(settings: ClientBuilder, origin: String, channel: PlatformChannel) -> Self {
        let (nonce, capabilities, bootstrap) = (Nonce::default(), Cache::new(), Cache::new());
        let caller = Mutex::new(settings.caller.clone());
        Self(Arc::new(Inner { settings, origin, channel, nonce, capabilities, bootstrap, caller }))
    }

    /// Who the service takes this caller for: the cheapest way to check that credentials work. The receipts that this
    /// client checks from then on must be of this caller, unless [`ClientBuilder::caller`] names one.
    ///
    /// # Errors
    /// [`Error`] says what the service said, or what came between.
    pub async fn who_am_i(&self, call: impl Into<Call<WhoAmIRequest>>) -> Result<WhoAmIResponse, Error> {
        let made = |channel, request| async move { DiscoveryServiceClient::new(channel).who_am_i(request).await };
        let answer = self.call(call.into(), "/platform.sdk.v1.DiscoveryService/WhoAmI", made).await?.into_inner();
        if self.0.settings.caller.is_none() {
            self.0.caller.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&answer.caller);
        }
        Ok(answer)
    }

    calls! {
        /// Whether, and how, data may be protected. Such a call is decided, and recorded, each time it arrives.
        plan_protection(PlanProtectionRequest) -> PlanProtectionResponse =
            ProtectionServiceClient, "ProtectionService/PlanProtection", understand;
        /// Whether protected data may be accessed or rewrapped, and how it is to be handled.
        resolve_policy(ResolvePolicyRequest) -> ResolvePolicyResponse =
            ProtectionServiceClient, "ProtectionService/ResolvePolicy", understand;
        /// Whether a key may be used.
        plan_key_access(PlanKeyAccessRequest) -> PlanKeyAccessResponse =
            ProtectionServiceClient, "ProtectionService/PlanKeyAccess", understand;
        /// Registers an artifact that was made locally. However often the call is sent, it is recorded once.
        register_artifact(RegisterArtifactRequest) -> RegisterArtifactResponse =
            RegistrationServiceClient, "RegistrationService/RegisterArtifact";
        /// Records an event. However often the call is sent, it is recorded once.
        record_evidence(RecordEvidenceRequest) -> RecordEvidenceResponse =
            EvidenceServiceClient, "EvidenceService/RecordEvidence";
        /// The authentication contract in force and the scopes of each route; see [`Client::capabilities`].
        get_capabilities(GetCapabilitiesRequest) -> GetCapabilitiesResponse =
            DiscoveryServiceClient, "DiscoveryService/GetCapabilities";
        /// The embedded-enforcement model of the deployment; see [`Client::bootstrap`].
        get_bootstrap(GetBootstrapRequest) -> GetBootstrapResponse =
            DiscoveryServiceClient, "DiscoveryService/GetBootstrap";
    }

    /// What [`Client::get_capabilities`] answered a while ago. Callers that need it at once share one call.
    ///
    /// # Errors
    /// Where it has to be asked for, and that fails; nothing is used beyond its time.
    pub async fn capabilities(&self) -> Result<Arc<GetCapabilitiesResponse>, Error> {
        let client = self.clone();
        let fetch = || async move {
            let made =
                |channel, request| async move { DiscoveryServiceClient::new(channel).get_capabilities(request).await };
            let call = Call::new(GetCapabilitiesRequest {});
            let answer = client.call(call, "/platform.sdk.v1.DiscoveryService/GetCapabilities", made).await?;
            client.kept(answer)
        };
        self.0.capabilities.get(fetch).await
    }

    /// What [`Client::get_bootstrap`] answered a while ago, like [`Client::capabilities`].
    ///
    /// # Errors
    /// Where it has to be asked for, and that fails; nothing is used beyond its time.
    pub async fn bootstrap(&self) -> Result<Arc<GetBootstrapResponse>, Error> {
        let client = self.clone();
        let fetch = || async move {
            let made =
                |channel, request| async move { DiscoveryServiceClient::new(channel).get_bootstrap(request).await };
            let call = Call::new(GetBootstrapRequest {});
            let answer = client.call(call, "/platform.sdk.v1.DiscoveryService/GetBootstrap", made).await?;
            client.kept(answer)
        };
        self.0.bootstrap.get(fetch).await
    }

    /// Passes an allow whose obligations are all among those that the client understands; see
    /// [`require_allow`](crate::require_allow).
    ///
    /// # Errors
    /// [`NotPermitted`] for anything else, an answer without a decision included.
    pub fn require_allow(&self, decision: &impl Decision) -> Result<(), NotPermitted> {
        decision::require_allow(decision, &self.0.settings.understood)
    }

    /// Whether [`Client::require_allow`] passes it.
    #[must_use]
    pub fn permitted(&self, decision: &impl Decision) -> bool {
        self.require_allow(decision).is_ok()
    }

    /// Checks the receipt of an answer against the keys of the log that the client was given, and that it is that of this
    /// answer, of this request as it was given to the client, and of the caller that the program or [`Client::who_am_i`]
    /// named, where one did: see [`verify_answer`]. `since` is when the request was given to the client; `None` where it may have
    /// been recorded before, under an idempotency key of the program's own. A brief receipt is refused unless
    /// [`ClientBuilder::receipts`] asks for it.
    ///
    /// # Errors
    /// [`ReceiptError`] says what does not hold; without a key, nothing does.
    pub fn verify_answer<A: RecordedAnswer>(
        &self,
        request: Option<&A::Request>,
        answer: &A,
        since: Option<SystemTime>,
    ) -> Result<VerifiedReceipt, ReceiptError> {
        let sent = request.map(|request| self.completed(request));
        let verified = verify_answer(sent.as_ref(), answer, &self.sender(since), &self.0.settings.log_keys)?;
        // What is in between may have cut it out of a whole one, which comes unasked too.
        if verified.record().is_none() && self.0.settings.receipts != Some(ReceiptDetail::Brief) {
            return Err(ReceiptError::brief());
        }
        Ok(verified)
    }

    /// Checks a receipt against the keys of the log that the client was given.
    ///
    /// # Errors
    /// [`ReceiptError`] says what does not hold; without a key, nothing does.
    pub fn verify_receipt(&self, receipt: &Receipt) -> Result<VerifiedReceipt, ReceiptError> {
        verify_receipt(receipt, &self.0.settings.log_keys)
    }

    /// Checks the receipt of an item against the keys of the log that the client was given, and as
    /// [`Client::verify_answer`] that of an answer: see [`verify_item`].
    ///
    /// # Errors
    /// [`ReceiptError`] says what does not hold; without a key, nothing does.
    pub fn verify_item<Q: ItemRequest>(
        &self,
        request: &Q,
        item: &Q::Item,
        caller: Option<&Caller>,
        since: Option<SystemTime>,
    ) -> Result<VerifiedReceipt, ReceiptError> {
        let verified =
            verify_item(&self.completed(request), item, caller, &self.sender(since), &self.0.settings.log_keys)?;
        self.as_asked(&verified)?;
        Ok(verified)
    }

    /// Checks the receipts of all items of a bulk call that were answered, as [`Client::verify_item`] does: what each
    /// proves, and `None` of those that were not. An item with an idempotency key of the program's own may have been
    /// recorded before.
    ///
    /// # Errors
    /// [`ReceiptError`] says what does not hold of the first that does not, or that the answer has more or fewer items
    /// than the request.
    pub fn verify_items<Q: BulkRequest>(
        &self,
        request: &Q,
        answer: &Q::Answer,
        since: Option<SystemTime>,
    ) -> Result<Vec<Option<VerifiedReceipt>>, ReceiptError> {
        let complete = |request: &Q::Request| self.completed(request);
        let verified = verify_items(request, answer, &self.sender(since), &self.0.settings.log_keys, complete)?;
        verified.iter().flatten().try_for_each(|verified| self.as_asked(verified))?;
        Ok(verified)
    }

    /// Refuses a brief receipt of an item where a whole one was asked for: unasked, brief ones come.
    fn as_asked(&self, verified: &VerifiedReceipt) -> Result<(), ReceiptError> {
        let is_cut = verified.record().is_none() && self.0.settings.receipts == Some(ReceiptDetail::Whole);
        if is_cut { Err(ReceiptError::brief()) } else { Ok(()) }
    }

    /// Who this client is, as far as it knows, and when it sent something.
    fn sender(&self, since: Option<SystemTime>) -> Sender {
        Sender { caller: self.0.caller.lock().unwrap_or_else(PoisonError::into_inner).clone(), since }
    }

    /// The request as it is sent.
    fn completed<Q: ItemRequest>(&self, request: &Q) -> Q {
        let mut sent = request.clone();
        if let Some(obligations) = sent.obligations() {
            self.understand(obligations);
        }
        sent
    }

    pub(crate) async fn call<Q: Clone, A, F>(
        &self,
        call: Call<Q>,
        path: &'static str,
        method: impl Fn(PlatformChannel, Request<Q>) -> F,
    ) -> Result<Response<A>, Error>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let keyed = path.ends_with("/RegisterArtifact") || path.ends_with("/RecordEvidence");
        let key = call.idempotency_key.or_else(|| keyed.then(|| Uuid::new_v4().to_string()));
        let idempotency_key = key.map(|key| ascii(&key, "idempotency key")).transpose()?;
        let deadline = Instant::now() + call.deadline.map_or(self.deadline(), |time| time.min(LONGEST));
        let message = call.message;
        let attempts =
            Attempts { client: self, path, message, idempotency_key, deadline: Some(deadline), token_replaced: false };
        attempts.run(deadline, method).await
    }

    fn kept<A>(&self, answer: Response<A>) -> Result<(Arc<A>, std::time::Instant), Error> {
        let keep = max_age(answer.metadata()).unwrap_or(self.0.settings.keep);
        Ok((Arc::new(answer.into_inner()), std::time::Instant::now() + keep))
    }

    /// Time for a call, or for the token of a stream.
    pub(crate) fn deadline(&self) -> Duration {
        self.0.settings.deadline.min(LONGEST)
    }

    pub(crate) fn understand(&self, understood: &mut Vec<String>) {
        if understood.is_empty() {
            understood.extend(self.0.settings.understood.iter().map(|obligation| obligation.id.clone()));
        }
    }

    pub(crate) fn channel(&self) -> PlatformChannel {
        self.0.channel.clone()
    }

    pub(crate) fn origin(&self) -> &str {
        &self.0.origin
    }

    pub(crate) fn tokens(&self) -> Option<&dyn TokenSource> {
        self.0.settings.tokens.as_deref()
    }

    pub(crate) fn nonce(&self) -> &Nonce {
        &self.0.nonce
    }

    pub(crate) fn retry(&self) -> &Retry {
        &self.0.settings.retry
    }

    pub(crate) fn receipt_detail(&self) -> Option<&'static str> {
        self.0.settings.receipts.map(|detail| match detail {
            ReceiptDetail::Whole => "full",
            ReceiptDetail::Brief => "brief",
        })
    }
}

/// RFC 9111 section 5.2.2.1.
fn max_age(metadata: &MetadataMap) -> Option<Duration> {
    let text = metadata.get("cache-control")?.to_str().ok()?;
    let seconds = text.split(',').find_map(|directive| directive.trim().strip_prefix("max-age="))?;
    Some(Duration::from_secs(u64::from(seconds.parse::<u32>().ok()?)))
}
