use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use prost::Message;
use tidegate::protocol::grpc::SHOULD_RATE_LIMIT;
use tidegate::protocol::grpc::messages::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use tidegate::protocol::grpc::messages::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use tidegate::protocol::grpc::messages::envoy::service::ratelimit::v3::rate_limit_response::Code;
use tidegate::protocol::grpc::messages::envoy::service::ratelimit::v3::{
    RateLimitRequest, RateLimitResponse,
};
use tokio::runtime::Runtime;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use crate::kit::{Daemon, GRPC_DOOR, wait_until};

/// A daemon with a gRPC door beside the others.
pub(crate) struct Gate {
    pub(crate) daemon: Daemon,
    pub(crate) socket: PathBuf,
}

impl Gate {
    pub(crate) fn start(rules: &str, args: &[&str]) -> Gate {
        let mut gate = Gate::start_unready(rules, args);
        gate.daemon.until_ready();
        gate
    }

    /// The same, with a daemon that need not become ready.
    pub(crate) fn start_unready(rules: &str, args: &[&str]) -> Gate {
        let daemon = Daemon::start_not_ready_in(rules, &[&GRPC_DOOR, args].concat(), &[]);
        let socket = daemon.dir().join("grpc.sock");
        wait_until("the gRPC door to open", || socket.exists());
        Gate { daemon, socket }
    }
}

/// A client on a connection of its own.
pub(crate) struct Client {
    pub(crate) runtime: Runtime,
    pub(crate) channel: Channel,
}

impl Client {
    pub(crate) fn of(socket: &Path) -> Client {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        Client::on(runtime, socket)
    }

    pub(crate) fn on(runtime: Runtime, socket: &Path) -> Client {
        let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display())).unwrap();
        let channel = runtime.block_on(endpoint.connect()).unwrap();
        Client { runtime, channel }
    }

    pub(crate) fn ask(&self, request: RateLimitRequest) -> Result<RateLimitResponse, Status> {
        self.call(SHOULD_RATE_LIMIT, Request::new(request))
    }

    pub(crate) fn call<Q, A>(&self, path: &'static str, request: Request<Q>) -> Result<A, Status>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let mut grpc = tonic::client::Grpc::new(self.channel.clone());
        self.runtime.block_on(async {
            grpc.ready().await.unwrap();
            let codec = ProstCodec::<Q, A>::default();
            let path = PathAndQuery::from_static(path);
            grpc.unary(request, path, codec)
                .await
                .map(tonic::Response::into_inner)
        })
    }
}

/// A descriptor with these entries.
pub(crate) fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entry = |(key, value): &(&str, &str)| Entry {
        key: (*key).to_owned(),
        value: (*value).to_owned(),
    };
    RateLimitDescriptor {
        entries: entries.iter().map(entry).collect(),
        ..RateLimitDescriptor::default()
    }
}

/// A descriptor of the user that nobody else has.
pub(crate) fn somebody() -> RateLimitDescriptor {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    descriptor(&[("user", &format!("u{number}"))])
}

pub(crate) fn with_hits(hits: u64, descriptor: &RateLimitDescriptor) -> RateLimitDescriptor {
    RateLimitDescriptor {
        hits_addend: Some(hits),
        ..descriptor.clone()
    }
}

pub(crate) fn request(descriptors: &[RateLimitDescriptor]) -> RateLimitRequest {
    RateLimitRequest {
        domain: "shop".to_owned(),
        descriptors: descriptors.to_vec(),
        hits_addend: 0,
    }
}

/// Overall, and each status with what remains.
pub(crate) fn told(response: &RateLimitResponse) -> (Code, Vec<(Code, u32)>) {
    let statuses = response.statuses.iter();
    let statuses = statuses.map(|status| (status.code(), status.limit_remaining));
    (response.overall_code(), statuses.collect())
}
