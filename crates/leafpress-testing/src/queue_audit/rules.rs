//! Rules of a database with queues that hold whenever no transaction is open:
//! queries of what would break them.
//!
//! They hold of a queue whose limits never changed, whose dead were not tried
//! again, and whose done and dead ones are kept; a test that does more asks
//! for fewer.

use rusqlite::Connection;

/// A rule, and the query that finds the jobs that break it.
struct Rule {
    says: &'static str,
    broken_by: &'static str,
}

/// States by their numbers: 0 ready, 1 leased, 2 delayed, 3 blocked, 4 done, 5 dead.
const RULES: &[Rule] = &[
    Rule {
        says: "a job is in a state that there is, of a queue that there is",
        broken_by: "SELECT id FROM leafpress_job
             WHERE state NOT BETWEEN 0 AND 5 OR queue NOT IN (SELECT id FROM leafpress_queue)",
    },
    Rule {
        says: "a lease has an end, a delay has one, and a leased job was claimed",
        broken_by: "SELECT id FROM leafpress_job
             WHERE state IN (1, 2) AND due_at_ms IS NULL OR state = 1 AND claims < 1",
    },
    Rule {
        says: "ids are never given again",
        broken_by: "SELECT max(id) FROM leafpress_job
             HAVING max(id) > (SELECT seq FROM sqlite_sequence WHERE name = 'leafpress_job')",
    },
    Rule {
        says: "a group's open jobs are no more than its slots",
        broken_by: "SELECT min(id) FROM leafpress_job
             WHERE ordering_group IS NOT NULL AND state IN (0, 1, 2)
             GROUP BY queue, ordering_group HAVING count(*) >
                 (SELECT group_concurrency FROM leafpress_queue WHERE id = queue)",
    },
    Rule {
        says: "a job waits behind its group only while all slots are taken",
        broken_by: "SELECT id FROM leafpress_job AS blocked WHERE state = 3 AND
             (ordering_group IS NULL OR (SELECT count(*) FROM leafpress_job AS open
                  WHERE open.queue = blocked.queue AND state IN (0, 1, 2)
                      AND open.ordering_group = blocked.ordering_group)
              < (SELECT group_concurrency FROM leafpress_queue WHERE id = blocked.queue))",
    },
    Rule {
        says: "a group's open jobs are older than those that wait behind them",
        broken_by: "SELECT open.id FROM leafpress_job AS open JOIN leafpress_job AS blocked
                 ON open.queue = blocked.queue AND open.ordering_group = blocked.ordering_group
             WHERE open.state IN (0, 1, 2) AND blocked.state = 3 AND open.id > blocked.id",
    },
    Rule {
        says: "a key that is held is held by a job of that key, which waits or runs",
        broken_by: "SELECT job FROM leafpress_key AS held LEFT JOIN leafpress_job ON id = job
             WHERE id IS NOT NULL AND (unique_key IS NOT held.key
                     OR unique_scope IS NOT held.scope)
                 OR scope = 0 AND (id IS NULL OR state NOT IN (0, 2, 3))
                 OR scope = 1 AND (id IS NULL OR state NOT IN (0, 1, 2, 3))
                 OR scope = 2 AND held.until_ms IS NULL",
    },
    Rule {
        says: "a job that waits, or runs if it is of that scope, holds its key",
        broken_by: "SELECT id FROM leafpress_job WHERE unique_key IS NOT NULL
             AND (unique_scope = 0 AND state IN (0, 2, 3) AND claims = 0
                 OR unique_scope = 1 AND state IN (0, 1, 2, 3))
             AND NOT EXISTS (SELECT 1 FROM leafpress_key AS held WHERE held.queue
                 = leafpress_job.queue AND key = unique_key AND job = id)",
    },
    Rule {
        says: "attempts are no more than allowed, and no claim is taken back twice",
        broken_by: "SELECT leafpress_job.id FROM leafpress_job
             JOIN leafpress_queue ON leafpress_queue.id = queue
             WHERE releases NOT BETWEEN 0 AND claims OR claims - releases
                 > coalesce(leafpress_job.attempts_max, leafpress_queue.attempts_max)",
    },
    Rule {
        says: "every claim but one that runs or was acknowledged has its end written down",
        broken_by:
            "SELECT id FROM leafpress_job WHERE claims - (state IN (1, 4)) IS NOT
             (SELECT count(*) FROM leafpress_attempt WHERE job = id AND claim BETWEEN 1 AND claims)",
    },
    Rule {
        says: "attempts go with their job, and none is ahead of its claims",
        broken_by: "SELECT job FROM leafpress_attempt LEFT JOIN leafpress_job ON id = job
             WHERE id IS NULL OR claim > claims OR ended_at_ms IS NULL",
    },
];

/// Rules that the database breaks, in words; empty if all is well.
///
/// # Errors
/// As SQLite says: the tables are not those of the description.
pub fn broken_rules(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut broken = Vec::new();
    for Rule { says, broken_by } in RULES {
        let mut statement = connection.prepare_cached(broken_by)?;
        let jobs = statement
            .query_map([], |row| row.get(0))?
            .collect::<rusqlite::Result<Vec<Option<i64>>>>()?;
        if !jobs.is_empty() {
            broken.push(format!("it is not so that {says}: jobs {jobs:?}"));
        }
    }
    Ok(broken)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leafpress::queue::{Job, Queue, UniqueFor};
    use leafpress::writer::Writer;

    use super::*;

    /// For each rule, in their order, what breaks it in the database below.
    const BREAKS: [&str; 11] = [
        "UPDATE leafpress_job SET state = 7 WHERE id = 3",
        "UPDATE leafpress_job SET due_at_ms = NULL WHERE id = 1",
        "UPDATE sqlite_sequence SET seq = 1 WHERE name = 'leafpress_job'",
        "UPDATE leafpress_job SET state = 0 WHERE id = 2",
        "UPDATE leafpress_job SET state = 4 WHERE id = 1",
        "UPDATE leafpress_job SET id = 9 WHERE id = 1",
        "UPDATE leafpress_key SET job = 2",
        "DELETE FROM leafpress_key",
        "UPDATE leafpress_job SET releases = 5 WHERE id = 1",
        "UPDATE leafpress_job SET claims = 2 WHERE id = 1",
        "INSERT INTO leafpress_attempt (job, claim, claimed_at_ms, ended_at_ms, outcome)
             VALUES (77, 1, 0, 0, 'expired')",
    ];

    #[test]
    fn each_rule_is_noticed_when_it_is_broken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let writer = Writer::builder(&path).open().unwrap();
        let queue = Queue::open(&writer, "mail").unwrap();
        let of_group = || Job::bytes("x").group("group");
        let time = Duration::from_secs(3600);
        let unique = Job::bytes("x").unique("key", UniqueFor::WaitingOrRunning).delay(time);
        queue.push_many([of_group(), of_group(), unique]).unwrap();
        assert_eq!(queue.claim().unwrap().unwrap().id, 1);
        drop(queue);
        writer.close().unwrap();
        let connection = Connection::open(&path).unwrap();
        assert_eq!(broken_rules(&connection).unwrap(), Vec::<String>::new());
        assert_eq!(BREAKS.len(), RULES.len());
        for (sql, rule) in BREAKS.iter().zip(RULES) {
            connection.execute_batch(&format!("BEGIN; {sql}")).unwrap();
            let broken = broken_rules(&connection).unwrap();
            assert!(broken.iter().any(|broken| broken.contains(rule.says)), "{sql}: {broken:?}");
            connection.execute_batch("ROLLBACK").unwrap();
        }
    }
}
