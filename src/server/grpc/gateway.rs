use std::collections::HashSet;
use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::body::Incoming;
use hyper::{Request, Response};
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::server::NamedService;
use tonic_reflection::server::Builder;

use super::Answering;
use super::quota::Quotas;
use crate::protocol::grpc::DESCRIPTIONS;
use crate::protocol::text::Shown;

/// So many unknown domains are named in the log; callers may invent any number of them.
const MOST_NAMED: usize = 64;

/// What all connections of the gRPC door share.
pub(in crate::server) struct Gateway {
    /// The unknown domains that were named in the log.
    named: Mutex<HashSet<Box<str>>>,
    reflections: Vec<(&'static str, Reflect)>,
    quotas: Arc<Quotas>,
}

/// Tells of the services that there are.
pub(super) type Reflect = Box<dyn Fn(Request<Incoming>) -> Answering + Send + Sync>;

impl Gateway {
    pub(in crate::server) fn new() -> Gateway {
        Gateway {
            named: Mutex::default(),
            reflections: reflections().unwrap_or_else(|error| {
                tracing::error!(%error, "the gRPC door does not tell of its services");
                Vec::new()
            }),
            quotas: Arc::new(Quotas::new()),
        }
    }

    /// What the streams of gateways that decide by assignments share.
    pub(in crate::server) fn quotas(&self) -> &Arc<Quotas> {
        &self.quotas
    }

    /// Says in the log, once for each domain, that no rule is for it.
    pub(super) fn unknown(&self, domain: &str) {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if named.len() >= MOST_NAMED || named.contains(domain) {
            return;
        }
        named.insert(domain.into());
        drop(named);
        let domain = Shown(domain.as_bytes());
        tracing::warn!(%domain, "a gateway asks about a domain that no rule is for");
    }

    /// Who tells of the services, by the name of a service of that kind.
    pub(super) fn reflection(&self, service: &str) -> Option<&Reflect> {
        let mut all = self.reflections.iter();
        all.find_map(|(name, reflect)| (*name == service).then_some(reflect))
    }
}

fn reflections() -> Result<Vec<(&'static str, Reflect)>, tonic_reflection::server::Error> {
    let builder = || {
        Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTIONS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    Ok(vec![
        named(builder().build_v1()?),
        named(builder().build_v1alpha()?),
    ])
}

fn named<S>(service: S) -> (&'static str, Reflect)
where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
    S: NamedService + Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let reflect = move |request| -> Answering {
        let mut service = service.clone();
        Box::pin(async move {
            service
                .call(request)
                .await
                .unwrap_or_else(|never| match never {})
        })
    };
    (S::NAME, Box::new(reflect))
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gateway")
    }
}
