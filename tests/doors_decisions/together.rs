//! Descriptors of one request to the gRPC door, which others of them replace, and which refuse
//! it alone or only together.

use tidegate::counters::Fleet;
use tidegate::engine::Engine;
use tidegate::protocol::grpc::messages::envoy::service::ratelimit::v3::rate_limit_response::{
    Code, DescriptorStatus,
};
use tidegate::units::Timestamp;

use super::client::Client;
use super::every_door::{as_message, descriptor, in_process};
use super::random_case::{Ask, Case, Moment, Replacing};
use super::support::{Doors, engine, serve};

/// A server that is asked everything of a moment at once, and what is to be answered.
pub(crate) struct Together {
    pub(crate) doors: Doors,
    client: Client,
    engine: Engine,
    replacing: Vec<Replacing>,
}

/// What is known of a descriptor before it is decided.
struct Row<'a> {
    ask: &'a Ask,
    /// What its rule is called.
    called: Option<String>,
    is_quota: bool,
}

impl Together {
    pub(crate) fn new(case: &Case) -> Together {
        let doors = serve(&case.rules);
        let client = Client::of(&doors.grpc);
        Together {
            doors,
            client,
            engine: engine(&case.rules, Fleet::alone()),
            replacing: case.replacing.clone(),
        }
    }

    pub(crate) fn ask(&self, moment: &Moment, now: Timestamp, place: &str) {
        for domain in ["shop", "shpo"] {
            let asks = moment.asks.iter();
            let asks: Vec<&Ask> = asks
                .filter(|ask| descriptor(ask).domain == domain)
                .collect();
            if asks.is_empty() {
                continue;
            }
            // What is refused for its domain is compared elsewhere.
            let Ok(said) = self.client.ask(as_message(domain, &asks, moment.cost)) else {
                continue;
            };
            let rows: Vec<Row<'_>> = asks.iter().map(|ask| self.row(ask)).collect();
            assert_eq!(said.statuses.len(), rows.len(), "{place}");
            // Of those that may refuse the request alone, and of the quotas, which do.
            let (mut alone, mut quotas) = (Vec::new(), Vec::new());
            for (row, status) in rows.iter().zip(&said.statuses) {
                if self.is_replaced(row, &rows) {
                    let nothing = DescriptorStatus {
                        code: Code::Ok.into(),
                        ..DescriptorStatus::default()
                    };
                    assert_eq!(status, &nothing, "{:?} {place}", row.ask);
                    continue;
                }
                let one_place = format!("at once: {:?} {place}", row.ask);
                let one = in_process(&self.engine, row.ask, None, now, one_place);
                one.by_status(status);
                let of = if row.is_quota {
                    &mut quotas
                } else {
                    &mut alone
                };
                of.push(status.code() == Code::OverLimit);
            }
            let refused = alone.contains(&true) || (!quotas.is_empty() && !quotas.contains(&false));
            let overall = if refused { Code::OverLimit } else { Code::Ok };
            assert_eq!(said.overall_code(), overall, "{place}");
        }
    }

    fn row<'a>(&self, ask: &'a Ask) -> Row<'a> {
        let snapshot = self.engine.snapshot();
        let matched = snapshot.rules().matched(&descriptor(ask));
        Row {
            ask,
            called: matched.as_ref().and_then(|it| it.name).map(str::to_owned),
            is_quota: matched.is_some_and(|it| it.is_quota),
        }
    }

    fn is_replaced(&self, row: &Row<'_>, rows: &[Row<'_>]) -> bool {
        let of = |row: &Row<'_>| {
            let called = row.called.as_deref();
            self.replacing.iter().find(|it| Some(it.rule) == called)
        };
        let Some(one) = of(row).filter(|one| one.limits) else {
            return false;
        };
        let mut others = rows.iter().filter_map(of);
        others.any(|other| other.replaces.contains(&one.rule))
    }
}
