//! The doctor of a cluster of rqlite: what its nodes tell of themselves, and of one another.
//!
//! Must never: call a node dead that was only not asked.

use super::DoctorFlags;
use crate::exit::Status;
use crate::output;

/// Says that this build knows no clusters.
#[cfg(not(feature = "rqlite"))]
pub fn run(url: &str, flags: &DoctorFlags) -> Status {
    output::print_failure(crate::cluster::unreachable(url), flags.json)
}

#[cfg(feature = "rqlite")]
pub use self::with_rqlite::run;

#[cfg(feature = "rqlite")]
mod with_rqlite {
    use std::collections::BTreeSet;
    use std::time::Instant;

    use leafpress_rqlite::{Address, NodeState, NodeStatus, Survey, survey};
    use serde::Serialize;

    use super::{DoctorFlags, Status, output};
    use crate::cluster::shown;
    use crate::progress::{self, Spinner};
    use crate::summary::finding::{Check, Finding, Verdict};
    use crate::{human, summary};

    /// A follower this many entries behind gets a snapshot, in place of the entries.
    const BEHIND_MAX: u64 = 10_000;
    const LOG_BYTES_MAX: u64 = 1_000_000_000;
    /// Rows of applied groups are kept by clocks; they may differ by some minutes.
    const CLOCK_MAX_S: f64 = 60.0;

    /// The doctor's report of a cluster.
    #[derive(Serialize)]
    struct ClusterReport {
        database: String,
        healthy: bool,
        checks: Vec<Finding>,
        notes: Vec<String>,
        cluster: Survey,
        elapsed_s: f64,
    }

    /// Looks at the nodes of a cluster.
    pub fn run(url: &str, flags: &DoctorFlags) -> Status {
        let started = Instant::now();
        let found = url.parse::<Address>().and_then(|address| {
            let doing = format!("asking the nodes of {}", shown(url));
            let _spinner = Spinner::start(progress::is_wanted(flags.json), &doing);
            survey(&address)
        });
        let cluster = match found {
            Ok(cluster) => cluster,
            Err(error) => return output::print_failure(error, flags.json),
        };
        let checks: Vec<Finding> = [answers, leader, versions, behind, log, room, clocks, staging]
            .map(|it| it(&cluster))
            .into();
        let report = ClusterReport {
            database: shown(url),
            healthy: checks.iter().all(|finding| finding.verdict != Verdict::Care),
            checks,
            notes: Vec::new(),
            cluster,
            elapsed_s: started.elapsed().as_secs_f64(),
        };
        let text = |it: &ClusterReport| summary::of_doctor(&it.database, &it.checks, &it.notes);
        output::answer(Ok(report), flags.json, text, |report| {
            if report.healthy { Status::Done } else { Status::DoneWithProblems }
        })
    }

    fn name(node: &NodeState) -> &str {
        node.id.as_deref().unwrap_or(&node.url)
    }

    fn known(cluster: &Survey) -> impl Iterator<Item = (&NodeState, &NodeStatus)> {
        cluster.nodes.iter().filter_map(|node| Some((node, node.status.as_ref()?)))
    }

    /// The nodes that answered, with a text about each.
    fn each(cluster: &Survey, text: impl Fn(&NodeStatus) -> String) -> String {
        let one =
            |(node, status): (&NodeState, &NodeStatus)| format!("{} {}", name(node), text(status));
        known(cluster).map(one).collect::<Vec<_>>().join(", ")
    }

    /// Check 40.
    fn answers(cluster: &Survey) -> Finding {
        let check = Check(40, "nodes that answer");
        let is_silent =
            |it: &&NodeState| it.error.as_ref().is_some_and(|it| !it.contains("was not asked"));
        let silent: Vec<&NodeState> = cluster.nodes.iter().filter(is_silent).collect();
        let not_asked =
            cluster.nodes.iter().filter(|it| it.status.is_none()).count() - silent.len();
        let all = human::counted(cluster.nodes.len() as u64, "node", "nodes");
        if silent.is_empty() && not_asked > 0 {
            return check.unknown(format!(
                "{not_asked} of {all} are not named in the URL, and credentials go to no other host"
            ));
        }
        if silent.is_empty() {
            return check.ok(format!("all of {all}"));
        }
        let reason = |node: &&NodeState| {
            let error = node.error.as_deref().unwrap_or_default();
            // The error may begin with the URL, too.
            if error.starts_with(name(node)) {
                error.to_owned()
            } else {
                format!("{}: {error}", name(node))
            }
        };
        let reasons: Vec<String> = silent.iter().map(reason).collect();
        let voters = cluster.nodes.iter().filter(|it| it.votes).count();
        let lost = silent.iter().filter(|it| it.votes).count();
        let do_not = if lost == 1 { "does not" } else { "do not" };
        let gone = format!("{lost} of {voters} voters {do_not} answer");
        let risk = match (voters - lost).checked_sub(needed(voters)) {
            None => format!("{gone}: nothing can be written"),
            Some(0) => format!("{gone}: if one more fails, nothing can be written"),
            Some(spare) => format!("{gone}: if {} more fail, nothing can be written", spare + 1),
        };
        check.care(
            reasons.join("; "),
            risk,
            "start rqlited there again with its folder, or remove the node: \
             DELETE /remove with its id",
        )
    }

    /// Number of voters without which nothing can be written.
    fn needed(voters: usize) -> usize {
        voters / 2 + 1
    }

    /// Check 41.
    fn leader(cluster: &Survey) -> Finding {
        let check = Check(41, "leader");
        let leads = |it: &(&NodeState, &NodeStatus)| it.1.state == "Leader";
        let leaders: Vec<_> = known(cluster).filter(leads).collect();
        let term = known(cluster).map(|(_, it)| it.term).max().unwrap_or_default();
        if let Some(reason) = &cluster.unanswered {
            return check.care(
                format!("no query at level strong is answered: {reason}"),
                "the cluster has no leader that most nodes follow: nothing can be written",
                "see that most nodes run and reach one another at their addresses of Raft",
            );
        }
        match leaders.as_slice() {
            [(node, status)] if status.term == term => {
                let voters = cluster.nodes.iter().filter(|it| it.votes).count();
                check.ok(format!(
                    "{} leads in term {term}, and needs {} of {}",
                    name(node),
                    needed(voters),
                    human::counted(voters as u64, "voter", "voters")
                ))
            }
            [] => check.unknown("it is a node that was not asked"),
            several => {
                let names: Vec<String> = several
                    .iter()
                    .map(|(node, it)| format!("{} in term {}", name(node), it.term))
                    .collect();
                check.care(
                    format!("{} believe that they lead; the last term is {term}", names.join(" and ")),
                    "an old leader is cut off, and has not noticed; what it answers at level none is old",
                    "look at the network between the nodes",
                )
            }
        }
    }

    /// Check 42.
    fn versions(cluster: &Survey) -> Finding {
        let check = Check(42, "versions");
        let all: BTreeSet<(&str, &str)> =
            known(cluster).map(|(_, it)| (&*it.rqlite, &*it.sqlite)).collect();
        let said = each(cluster, |it| format!("rqlite {} with SQLite {}", it.rqlite, it.sqlite));
        if all.len() > 1 {
            return check.care(
                said,
                "each node carries out the SQL itself: two versions of SQLite may store different values",
                "bring all nodes to the same version, one after the other, the leader last",
            );
        }
        match all.first() {
            Some((rqlite, sqlite)) => {
                check.ok(format!("rqlite {rqlite} with SQLite {sqlite} on all that answered"))
            }
            None => check.unknown("no node answered"),
        }
    }

    /// Check 43.
    fn behind(cluster: &Survey) -> Finding {
        let check = Check(43, "nodes that are behind");
        let newest = known(cluster).map(|(_, it)| it.commit_index).max().unwrap_or_default();
        let lag = |it: &NodeStatus| newest.saturating_sub(it.applied_index);
        let said = each(cluster, |it| format!("{} entries", lag(it)));
        if known(cluster).any(|(_, it)| lag(it) > BEHIND_MAX) {
            return check.care(
                said,
                "reads there at level none are old, and if the leader dies, another node has to lead",
                "look at the disk and the network of that node",
            );
        }
        check.ok(said)
    }

    /// Check 44.
    fn log(cluster: &Survey) -> Finding {
        let check = Check(44, "size of the log");
        let said = each(cluster, |it| {
            format!(
                "{}, {} entries since its snapshot",
                human::bytes(it.log_bytes),
                it.entries_since_snapshot
            )
        });
        if known(cluster).any(|(_, it)| it.log_bytes > LOG_BYTES_MAX) {
            return check.care(
                said,
                "a node that starts reads all of it, and the file does not shrink",
                "take snapshots more often (-raft-snap), send smaller groups, and give the node an empty \
                 folder once, from which it joins again",
            );
        }
        check.ok(said)
    }

    /// Check 45.
    fn room(cluster: &Survey) -> Finding {
        let said = each(cluster, |it| {
            format!(
                "{} of which the database has {}",
                human::bytes(it.folder_bytes),
                human::bytes(it.database_bytes)
            )
        });
        Check(45, "room on the disk")
            .unknown(format!("nodes tell what they use, not what is left: {said}"))
    }

    /// Check 46.
    fn clocks(cluster: &Survey) -> Finding {
        let check = Check(46, "clocks");
        let told: Vec<f64> = known(cluster).filter_map(|(_, it)| it.clock_ahead_s).collect();
        if told.is_empty() {
            return check.unknown("no node tells its time");
        }
        let said = each(cluster, |it| match it.clock_ahead_s {
            Some(ahead) => format!("{ahead:+.3} s (±{:.3})", it.clock_error_s),
            None => "does not tell".to_owned(),
        });
        let said = format!("beside this machine: {said}");
        if told.iter().any(|it| it.abs() > CLOCK_MAX_S) {
            return check.care(
                said,
                "rows that let a group be applied once are kept for 15 minutes, by these clocks; jobs of a \
                 queue come at another time",
                "let a service set the clocks, such as chrony",
            );
        }
        check.ok(said)
    }

    /// Check 47.
    fn staging(cluster: &Survey) -> Finding {
        let check = Check(47, "tables of loads");
        if cluster.unanswered.is_some() {
            return check.unknown("the cluster answers no query");
        }
        match cluster.staging_tables.as_slice() {
            [] => check.ok("no load goes on, or was cut off"),
            tables => check.ok(format!(
                "{}: of a load that goes on, or was cut off; a load drops those that are idle, after 15 to 35 minutes",
                tables.join(", ")
            )),
        }
    }
}
