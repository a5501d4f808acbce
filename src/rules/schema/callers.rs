//! What a set of files says about callers, once for all its rules.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ipnet::IpNet;

use super::super::clients::{Clients, Forwarding, MOST_HOPS, Trust};
use super::super::fault::{CallerProblem, Problem, quote};
use super::super::networks::{self, Networks};
use super::super::reader::{Fields, Report, Spot, number, word, wrong_kind};
use super::super::tree::{Node, Value};
use super::{Schema, api_keys, each, jwt, policies, tiers};

pub(super) const CLIENTS: [&str; 4] = ["trusted_proxies", "trusted_hops", "header", "ipv6_prefix"];
/// No file beside the rules is longer.
const MAX_FILE: u64 = 16 * 1_024 * 1_024;
const WANT_NETWORK: &str = "an address or network; write 10.0.0.0/8 or 2001:db8::/32";

/// The fields at the top of a file that are stated once for all files of a set.
pub(super) const ONCE: [&str; 4] = ["clients", "api_keys", "jwt", "tiers"];

/// Where a file of rules is, and what was read beside it.
pub(super) struct Beside<'f> {
    file: &'f Arc<str>,
    read: &'f mut Vec<PathBuf>,
}

impl<'f> Beside<'f> {
    /// The file that names others.
    pub(super) fn file(&self) -> &'f Arc<str> {
        self.file
    }

    /// The bytes of the file called `name`, seen from the file that names it. A fault, if it
    /// cannot be read.
    pub(super) fn read(
        &mut self,
        name: &str,
        spot: &Spot<'_>,
        report: &mut Report,
    ) -> Option<(PathBuf, Vec<u8>)> {
        let directory = Path::new(&**self.file).parent().unwrap_or(Path::new(""));
        let path = directory.join(name);
        self.read.push(path.clone());
        let mut bytes = Vec::new();
        let mut open = || {
            let found = std::fs::metadata(&path)?;
            if !found.is_file() && !found.is_dir() {
                // It would be waited for at every reload.
                return Err(std::io::Error::other("it is no file"));
            }
            let file = std::fs::File::open(&path)?;
            file.take(MAX_FILE + 1).read_to_end(&mut bytes)
        };
        let read = open();
        let why = match read {
            Ok(length) if length as u64 <= MAX_FILE => return Some((path, bytes)),
            Ok(_) => "it is longer than 16 MiB".to_owned(),
            Err(error) => error.to_string(),
        };
        let file = quote(&path.display().to_string());
        report.fault(spot, CallerProblem::Unreadable { file, why });
        None
    }
}

impl Schema<'_> {
    /// Takes what the file `root` says about callers, and its policies. What is wrong with
    /// its names is for [`Schema::file`] to tell.
    pub(in crate::rules) fn callers(&mut self, file: &Arc<str>, root: &Node, report: &mut Report) {
        let Value::Map(map) = &root.value else {
            return;
        };
        let top = Spot::file(file);
        for (name, node) in map {
            let Ok(field) = name.text.as_deref() else {
                continue;
            };
            let spot = top.field(field, node.at);
            if field == "policies" {
                policies::read(&mut self.policies, file, node, &spot, report);
                continue;
            }
            let Some(field) = ONCE.into_iter().find(|known| *known == field) else {
                continue;
            };
            if let Some((other, at)) = self.stated.get(field) {
                // Twice in one file is told as any name that comes twice.
                if other != file {
                    let (file, line) = (Arc::clone(other), at.line);
                    report.fault(&spot, CallerProblem::StatedTwice { file, line });
                }
                continue;
            }
            self.stated.insert(field, (Arc::clone(file), node.at));
            if node.is_null() {
                continue;
            }
            let callers = &mut self.callers;
            let mut beside = Beside {
                file,
                read: &mut self.files,
            };
            match field {
                "clients" => {
                    if let Some(clients) = clients(node, &spot, report) {
                        callers.clients = clients;
                    }
                }
                "api_keys" => {
                    if let Some(keys) =
                        api_keys::read(node, &spot, &mut beside, &mut self.named, report)
                    {
                        callers.keys = keys;
                    }
                }
                "jwt" => jwt::read(&mut callers.tokens, node, &spot, &mut beside, report),
                _ => self.tiers = Some((Arc::clone(file), node.clone())),
            }
        }
    }

    /// Takes the sources of tiers, which need all else about callers.
    pub(in crate::rules) fn tiers(&mut self, report: &mut Report) {
        if let Some((file, node)) = self.tiers.take() {
            let top = Spot::file(&file);
            let spot = top.field("tiers", node.at);
            let (tokens, named) = (&mut self.callers.tokens, &mut self.named);
            if let Some(tiers) = tiers::read(tokens, named, &node, &spot, report) {
                self.callers.tiers = tiers;
            }
        }
    }
}

fn clients(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<Clients> {
    let want = "a map; write {trusted_proxies: [10.0.0.0/8]}";
    let fields = Fields::read(node, spot, &CLIENTS, want, report)?;
    let trusted = fields.with("trusted_proxies", spot, report, trusted);
    let hops = fields
        .with("trusted_hops", spot, report, hops)
        .filter(|hops| *hops > 0);
    let header = fields.with("header", spot, report, |node, spot, report| {
        word(node, spot, &Forwarding::WORDS, report)
    });
    let prefix = fields.with("ipv6_prefix", spot, report, prefix);
    let trust = match (trusted, hops) {
        (Some(trusted), Some(_)) if !trusted.is_empty() => {
            let at = fields.get("trusted_hops").map_or(spot.at, |node| node.at);
            let problem = Problem::SaidTwice("trusted_hops", "trusted_proxies");
            report.fault(&spot.field("trusted_hops", at), problem);
            return None;
        }
        (_, Some(hops)) => Trust::Hops(hops),
        (Some(trusted), None) if !trusted.is_empty() => Trust::Networks(trusted),
        _ => Trust::Nobody,
    };
    Some(Clients::new(
        trust,
        header,
        prefix.unwrap_or(Clients::default_prefix()),
    ))
}

fn prefix(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<u8> {
    let bits = number(node, spot, report)?;
    match u8::try_from(bits) {
        Ok(bits @ 32..=128) => Some(bits),
        _ => {
            report.fault(spot, CallerProblem::Ipv6Prefix(bits));
            None
        }
    }
}

fn hops(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<usize> {
    let hops = number(node, spot, report)?;
    match usize::try_from(hops) {
        Ok(few) if few <= MOST_HOPS => Some(few),
        _ => {
            report.fault(spot, CallerProblem::TooManyHops(hops));
            None
        }
    }
}

/// Networks of whoever is believed.
pub(super) fn trusted(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<Networks<()>> {
    let mut all = Networks::default();
    each_network(node, spot, report, |network, spot, report| {
        if network.prefix_len() == 0 {
            report.warn(spot, CallerProblem::TrustsEverybody(network.to_string()));
        }
        all.insert(network, ());
    })?;
    Some(all)
}

/// Calls `take` for each network; `None` if there is any fault in them.
pub(super) fn each_network(
    node: &Node,
    spot: &Spot<'_>,
    report: &mut Report,
    mut take: impl FnMut(IpNet, &Spot<'_>, &mut Report),
) -> Option<()> {
    let before = report.faults.len();
    if matches!(node.value, Value::Map(_)) {
        return wrong_kind(node, spot, WANT_NETWORK, report);
    }
    each(node, spot, |node, spot| {
        // An address without quotes is nothing else, whatever else it looks like.
        let (Value::Text(found) | Value::Bare(found)) = &node.value else {
            return wrong_kind(node, spot, WANT_NETWORK, report).unwrap_or_default();
        };
        match networks::parse(found) {
            Some(network) => take(network, spot, report),
            None => report.fault(spot, CallerProblem::Network(quote(found))),
        }
    });
    (report.faults.len() == before).then_some(())
}
