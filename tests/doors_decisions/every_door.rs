//! Every door tells what the engine decides in process: random rules, random requests.
//!
//! Each door has a server with counters of its own, and one engine has no door: all are
//! asked the same at the same moments.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde_json::{Value as Json, json};
use tidegate::counters::Fleet;
use tidegate::engine::{self, Begun, CheckId, Engine, Outcome, Request};
use tidegate::protocol::grpc::messages::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride;
use tidegate::protocol::grpc::messages::envoy::r#type::v3::RateLimitUnit as Wire;
use tidegate::protocol::grpc::messages::envoy::service::ratelimit::v3::RateLimitRequest;
use tidegate::rules::{Described, Descriptor, Unit};
use tidegate::units::{Cost, Nanos, Timestamp};

use super::client;
use super::random::Random;
use super::random_case::{Ask, Case, Kind, Moment, Pairs, Subject, case};
use super::support::{Doors, START, ask, engine, serve};
use super::together::Together;
use super::wanted::Wanted;
use crate::kit::http::{Reply, try_request};
use crate::kit::{Addr, resp};

/// Asks the engine itself.
pub(crate) fn in_process(
    engine: &Engine,
    ask: &Ask,
    peer: Option<IpAddr>,
    now: Timestamp,
    place: String,
) -> Wanted {
    let lower = |pairs: &Pairs| -> Vec<(String, &'static str)> {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| (name.to_ascii_lowercase(), *value))
            .collect()
    };
    let (headers, attributes) = match &ask.subject {
        Subject::Described {
            headers,
            attributes,
            ..
        } => (lower(headers), lower(attributes)),
        _ => (Vec::new(), Vec::new()),
    };
    let [headers, attributes] = [&headers, &attributes].map(|pairs| {
        let pairs = pairs.iter().map(|(name, value)| (&**name, *value));
        pairs.collect::<Vec<(&str, &str)>>()
    });
    let subject = match &ask.subject {
        Subject::Named { rule, key, tier } => engine::Subject::Rule {
            rule,
            key: key.as_bytes(),
            tier: *tier,
        },
        Subject::Described {
            method, path, ip, ..
        } => engine::Subject::Described(Described {
            method,
            path,
            ip: ip.map(|ip| ip.parse::<IpAddr>().unwrap().to_canonical()),
            peer,
            headers: &headers,
            attributes: &attributes,
        }),
        Subject::Descriptor { .. } => engine::Subject::Descriptor(descriptor(ask)),
    };
    let request = Request {
        subject,
        cost: Cost::new(ask.cost),
    };
    let snapshot = engine.snapshot().telling_all();
    let Some(id) = ask.id else {
        let mut wanted = Wanted::of(&snapshot.decide(&request, now), place);
        if let engine::Subject::Descriptor(descriptor) = &request.subject {
            let matched = snapshot.rules().matched(descriptor);
            wanted.called = matched
                .and_then(|it| it.name)
                .unwrap_or_default()
                .to_owned();
        }
        return wanted;
    };
    match snapshot.begin_as(&request, CheckId::new(id.as_bytes()).unwrap(), now) {
        Begun::Decided(decision) => Wanted::of(&decision, place),
        Begun::Pending(_) => panic!("{place}: a store is asked"),
    }
}

/// What is asked about.
///
/// # Panics
/// Where that is no descriptor.
pub(crate) fn descriptor(ask: &Ask) -> Descriptor<'_> {
    let Subject::Descriptor {
        domain,
        entries,
        stated,
    } = &ask.subject
    else {
        panic!("{ask:?}");
    };
    Descriptor {
        domain,
        entries,
        stated: *stated,
    }
}

/// Whether only a gateway can ask so, which states its limits itself.
fn states_a_limit(ask: &Ask) -> bool {
    matches!(&ask.subject, Subject::Descriptor { stated, .. } if stated.is_some())
}

/// The check as JSON has it.
fn as_json(ask: &Ask) -> Json {
    let object = |pairs: &Pairs| -> Json {
        let pairs = pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), json!(value)));
        Json::Object(pairs.collect())
    };
    let mut body = match &ask.subject {
        Subject::Named { rule, key, tier } => json!({"rule": rule, "key": key, "tier": tier}),
        Subject::Described {
            method,
            path,
            ip,
            headers,
            attributes,
        } => json!({
            "request": {"method": method, "path": path, "ip": ip, "headers": object(headers)},
            "attributes": object(attributes),
        }),
        Subject::Descriptor {
            domain, entries, ..
        } => {
            let entries = entries.iter();
            let entries: Vec<_> = entries
                .map(|(key, value)| json!({"key": key, "value": value}))
                .collect();
            json!({"domain": domain, "entries": entries})
        }
    };
    body["cost"] = json!(ask.cost);
    body["id"] = json!(ask.id);
    body
}

/// The command that asks the same, if there is one.
fn as_command(ask: &Ask) -> Option<Vec<String>> {
    let cost = ask.cost.to_string();
    let words: Vec<&str> = match &ask.subject {
        Subject::Named { rule, key, tier } => {
            let words = ["TG.CHECK", rule, key, &cost].into_iter();
            words.chain(*tier).collect()
        }
        Subject::Described {
            method,
            path,
            ip,
            headers,
            attributes,
        } => {
            let mut words = vec!["TG.MATCH", method, path, "COST", &cost];
            words.extend(ip.iter().flat_map(|ip| ["IP", *ip]));
            words.extend(
                headers
                    .iter()
                    .flat_map(|(name, value)| ["HEADER", *name, *value]),
            );
            words.extend(
                attributes
                    .iter()
                    .flat_map(|(name, value)| ["ATTR", *name, *value]),
            );
            words
        }
        Subject::Descriptor { .. } => return None,
    };
    let id = ask.id.iter().flat_map(|id| ["ID", *id]);
    Some(words.into_iter().chain(id).map(str::to_owned).collect())
}

/// Asks as a gateway does, if it can say all of it.
fn authorize(at: &Addr, ask: &Ask, deny: bool) -> Option<Reply> {
    let Subject::Described {
        method,
        path,
        ip,
        headers,
        attributes,
    } = &ask.subject
    else {
        return None;
    };
    if !attributes.is_empty() || ask.id.is_some() {
        return None;
    }
    let mut query = format!("?cost={}", ask.cost);
    query.extend(ip.map(|ip| format!("&ip={ip}")));
    query.push_str(if deny { "&deny=403" } else { "" });
    let described = [("X-Forwarded-Method", *method), ("X-Forwarded-Uri", *path)];
    let headers = [&described[..], headers].concat();
    let path = format!("/v1/authorize{query}");
    Some(try_request(at, "GET", &path, &headers, "").unwrap())
}

/// The fields of a reply that tell of the decision, their names in lower case.
fn fields(headers: &[(String, String)]) -> BTreeMap<String, String> {
    let told = headers
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), value.clone()));
    told.filter(|(name, _)| {
        name.contains("ratelimit") || name == "retry-after" || name.contains("expose")
    })
    .collect()
}

/// What is asked of the gRPC door about descriptors of one domain.
pub(crate) fn as_message(domain: &str, asks: &[&Ask], cost: u64) -> RateLimitRequest {
    let descriptors = asks.iter().map(|ask| {
        let asked = descriptor(ask);
        let mut descriptor = client::descriptor(asked.entries);
        descriptor.hits_addend = (ask.cost == 0).then_some(0);
        descriptor.limit = asked.stated.map(|stated| RateLimitOverride {
            requests_per_unit: stated.requests,
            // A week has no word of its own there.
            unit: match stated.unit {
                Unit::Second => Wire::Second,
                Unit::Minute => Wire::Minute,
                Unit::Hour => Wire::Hour,
                Unit::Day | Unit::Week => Wire::Day,
                Unit::Month => Wire::Month,
                Unit::Year => Wire::Year,
            }
            .into(),
            unit_multiplier: (stated.unit == Unit::Week).then_some(7),
        });
        descriptor
    });
    RateLimitRequest {
        domain: domain.to_owned(),
        descriptors: descriptors.collect(),
        hits_addend: u32::try_from(cost).unwrap(),
    }
}

/// The servers of one case; the last three for those that can ask them.
struct Every {
    engine: Engine,
    now: Timestamp,
    /// Which of the addresses of a door is asked.
    at: usize,
    single: Doors,
    batch: Doors,
    commands: Option<(Doors, resp::Client)>,
    gateway: Option<Doors>,
    grpc: Option<(Doors, client::Client)>,
    together: Option<Together>,
}

impl Every {
    fn new(kind: Kind, case: &Case) -> Every {
        let (rules, at) = (&*case.rules, case.at);
        Every {
            engine: engine(rules, Fleet::alone()),
            now: Timestamp::EPOCH.after(Nanos::from_secs(START)),
            at,
            single: serve(rules),
            batch: serve(rules),
            commands: (!kind.is_of_descriptors()).then(|| {
                let doors = serve(rules);
                let client = resp::Client::connect(&doors.resp[at]);
                (doors, client)
            }),
            gateway: (kind == Kind::Described).then(|| serve(rules)),
            grpc: kind.is_of_descriptors().then(|| {
                let doors = serve(rules);
                let client = client::Client::of(&doors.grpc);
                (doors, client)
            }),
            together: kind.is_of_descriptors().then(|| Together::new(case)),
        }
    }

    fn wait(&mut self, span: Nanos) {
        self.now = self.now.after(span);
        let others = [
            self.commands.as_ref().map(|(doors, _)| doors),
            self.gateway.as_ref(),
        ];
        let grpc = self.grpc.iter().map(|(doors, _)| doors);
        let grpc = grpc.chain(self.together.iter().map(|together| &together.doors));
        let all = [&self.single, &self.batch].into_iter();
        for doors in all.chain(others.into_iter().flatten()).chain(grpc) {
            doors.clock.advance(span);
        }
    }

    fn ask_json(&self, doors: &Doors, body: &Json) -> Reply {
        ask(&doors.http[self.at], &body.to_string())
    }

    /// Asks all of a moment by every door, and compares what they tell. Answers the
    /// outcomes.
    fn ask(&mut self, moment: &Moment, deny: bool, place: &str) -> Vec<&'static str> {
        let mut seen = Vec::new();
        let mut wanted = Vec::new();
        let mut replies = Vec::new();
        for ask in &moment.asks {
            let place = format!("{ask:?} {place}");
            let peer = match &self.single.http[self.at] {
                Addr::Tcp(address) => Some(address.ip()),
                Addr::Unix(_) => None,
            };
            let one = in_process(&self.engine, ask, peer, self.now, place);
            if states_a_limit(ask) {
                self.ask_grpc(ask, moment.cost, &one, None);
                seen.push(one.outcome.name());
                continue;
            }
            let reply = self.ask_json(&self.single, &as_json(ask));
            let told = fields(&reply.headers);
            assert_eq!(reply.status, one.status(), "{}", one.place);
            if !one.own_body {
                one.by_json(&reply.json());
            }
            one.by_fields(&told);
            if let Some((_, client)) = &mut self.commands {
                let words = as_command(ask).unwrap();
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                one.by_resp(&client.command(&words));
            }
            if let Some(doors) = &self.gateway {
                match authorize(&doors.http[self.at], ask, deny) {
                    Some(said) => same_by_gateway(&said, &reply, &one, deny),
                    // So that the counters stay equal.
                    None => drop(self.ask_json(doors, &as_json(ask))),
                }
            }
            self.ask_grpc(ask, moment.cost, &one, Some(&told));
            seen.push(one.outcome.name());
            wanted.push(one);
            replies.push(reply);
        }
        self.ask_at_once(moment, &wanted, &replies);
        if let Some(together) = &self.together {
            together.ask(moment, self.now, place);
        }
        seen
    }

    /// Asks the gRPC door about one descriptor, if this is one.
    fn ask_grpc(
        &self,
        ask: &Ask,
        cost: u64,
        one: &Wanted,
        told: Option<&BTreeMap<String, String>>,
    ) {
        let Some((_, client)) = &self.grpc else {
            return;
        };
        match client.ask(as_message(descriptor(ask).domain, &[ask], cost)) {
            Ok(said) => {
                let fields = said.response_headers_to_add.iter();
                let fields = fields.map(|it| (it.key.clone(), it.value.clone()));
                let fields: BTreeMap<_, _> = fields.collect();
                one.by_fields(&fields);
                one.by_response(&said, told.unwrap_or(&fields));
            }
            Err(status) => {
                assert_eq!(status.code(), tonic::Code::NotFound, "{}", one.place);
                assert_eq!(one.outcome, Outcome::UnknownRule, "{}", one.place);
            }
        }
    }

    fn ask_at_once(&self, moment: &Moment, wanted: &[Wanted], replies: &[Reply]) {
        let asks = moment.asks.iter().filter(|ask| !states_a_limit(ask));
        let checks: Vec<Json> = asks.map(as_json).collect();
        if checks.is_empty() {
            return;
        }
        let batch = self.ask_json(&self.batch, &json!({"checks": checks, "response": true}));
        assert_eq!(batch.status, 200, "{}", batch.body);
        for ((one, reply), mut said) in wanted
            .iter()
            .zip(replies)
            .zip(batch.json()["results"].as_array().unwrap().clone())
        {
            let response = said.as_object_mut().unwrap().remove("response");
            if one.own_body {
                one.by_json(&said);
                let body = &response.as_ref().unwrap()["body"];
                assert_eq!(body, &json!(reply.body), "{}", one.place);
            } else {
                assert_eq!(said, reply.json(), "{}", one.place);
            }
            if let Some(response) = response {
                let told = response["headers"].as_object().unwrap().iter();
                let told: Vec<_> = told
                    .map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()))
                    .collect();
                assert_eq!(fields(&told), fields(&reply.headers), "{}", one.place);
                let status = response
                    .get("status")
                    .map_or(200, |it| it.as_u64().unwrap());
                assert_eq!(status, u64::from(reply.status), "{}", one.place);
            }
        }
    }
}

/// Whether a gateway is told what an asker is told.
fn same_by_gateway(said: &Reply, reply: &Reply, one: &Wanted, deny: bool) {
    let place = &one.place;
    let mut told = fields(&said.headers);
    let told_status = told.remove("x-ratelimit-status");
    let told_body = told.remove("x-ratelimit-body");
    assert_eq!(told, fields(&reply.headers), "{place}");
    if reply.status == 200 {
        assert_eq!((said.status, &*said.body), (200, ""), "{place}");
        return;
    }
    assert_eq!(said.body, reply.body, "{place}");
    if deny {
        let status = if reply.status == 401 { 401 } else { 403 };
        assert_eq!(said.status, status, "{place}");
        assert_eq!(told_status, Some(reply.status.to_string()), "{place}");
        assert_eq!(told_body.as_ref(), Some(&reply.body), "{place}");
    } else {
        assert_eq!((said.status, told_status), (reply.status, None), "{place}");
    }
}

/// Many cases of a kind, in which at least these outcomes are met.
fn every_door_agrees(kind: Kind, outcomes: &[&str]) {
    const CASES: usize = 60;
    let mut random = Random::seeded("every door");
    let seed = random.seed();
    let mut seen = BTreeSet::new();
    for number in 0..CASES {
        let case = case(kind, &mut random);
        let place = format!("in case {number} of seed {seed} of {}", case.rules);
        let mut every = Every::new(kind, &case);
        for moment in &case.moments {
            every.wait(Nanos::new(moment.after));
            seen.extend(every.ask(moment, random.once_in(3), &place));
        }
    }
    for outcome in outcomes {
        assert!(seen.contains(outcome), "never {outcome}: seed {seed}");
    }
}

#[test]
fn a_described_request_is_decided_alike_by_every_door() {
    every_door_agrees(
        Kind::Described,
        &["allowed", "refused", "unlimited", "impossible"],
    );
}

#[test]
fn a_rule_and_a_key_are_decided_alike_by_every_door() {
    every_door_agrees(
        Kind::Named,
        &["allowed", "refused", "unknown_rule", "impossible"],
    );
}

#[test]
fn a_descriptor_is_decided_alike_by_every_door() {
    every_door_agrees(
        Kind::Descriptor,
        &["allowed", "refused", "unlimited", "impossible"],
    );
}

#[test]
fn a_descriptor_is_decided_alike_by_every_door_by_a_file_of_envoy() {
    every_door_agrees(Kind::Envoy, &["allowed", "refused", "unlimited", "banned"]);
}
