//! The statements that each job goes through are compiled once. SQLite compiles a
//! statement again when a parameter is bound whose value it has planned with, as with a
//! bare `LIMIT ?`, or a bare `queue = ?` beside a partial index. That costs ten times as
//! much as to run it, and nothing else shows it.

use leafpress::queue::{self, Queue};
use leafpress::writer::Writer;
use rusqlite::{Connection, StatementStatus};

/// What is run for jobs, or once a millisecond while there are claims.
const OFTEN: [&str; 24] = [
    "read the queue's settings",
    "push",
    "the next jobs",
    "lease a job",
    "count leases",
    "the first lease to end",
    "the first delay to be over",
    "find a job",
    "delete a job",
    "keep a job that is done",
    "give a job back",
    "extend a lease",
    "leases that ended",
    "delays that are over",
    "jobs that expired",
    "jobs that were kept long enough",
    "count a group's slots",
    "a group's next job",
    "who holds a key",
    "purge keys",
    "read a bucket",
    "purge buckets",
    "schedules that have come due",
    "the first schedule to come due",
];

#[test]
fn no_statement_is_compiled_again_for_another_value() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("queue.db");
    let writer = Writer::builder(&path).open().expect("it opens");
    drop(Queue::open(&writer, "a").expect("the tables are made"));
    writer.close().expect("it closes");
    let connection = Connection::open(&path).expect("it opens");
    let statements = queue::statements();
    for name in OFTEN {
        let (_, sql) = statements.iter().find(|(other, _)| *other == name).expect(name);
        let mut statement = connection.prepare(sql).expect(name);
        for value in 1_i64..4 {
            for index in 1..=statement.parameter_count() {
                statement.raw_bind_parameter(index, value).expect(name);
            }
            // What comes of it does not matter, and with such values it may be an error.
            let _ = statement.raw_query().next();
            statement.clear_bindings();
        }
        let again = statement.get_status(StatementStatus::RePrepare);
        assert_eq!(again, 0, "{name} is compiled again: {sql}");
    }
}
