//! Counts of events, minute by minute, in the table `leafpress_minute`.
//!
//! A row is a minute since the Unix epoch, and its `counts` are JSON:
//! `{"events":{"pushed":12,…},"acked_attempts":9,"wait":{…},"run":{…}}`, with
//! histograms as `histogram.rs` has them. All processes add to the same rows.
//! Two rows are no minutes: [`LIFE`] counts all events that ever happened, and [`OUTSIDE`] those
//! of pushes on connections of the application, whose transactions have no counters, until a writer
//! adds them to the others.
//!
//! 1. What a row counts is counted in the row [`LIFE`] too, but for [`OUTSIDE`].
//! 2. Rows are read and changed in one write transaction, so nothing is lost
//!    when several processes add to one.
//!
//! Must never: fail for a text that was changed from outside: it counts as nothing.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension};

use super::counters::{Counts, When, minute_of};

/// Row of the queue's whole life.
pub(super) const LIFE: i64 = -1;
/// Row of the events without counters.
const OUTSIDE: i64 = -2;

/// Minutes that are kept: a week of them.
const MINUTES_KEPT: i64 = 7 * 24 * 60;
/// Rows that are purged at once. There are few, unless there was no write for days.
const PURGED_AT_ONCE: i64 = 200;

/// A queue that was dropped gets no row.
const WRITE: &str = "INSERT OR REPLACE INTO leafpress_minute(queue, minute, counts)
     SELECT id, ?2, ?3 FROM leafpress_queue WHERE id = ?1";
const READ: &str = "SELECT counts FROM leafpress_minute WHERE queue = +?1 AND minute = ?2";
const READ_SINCE: &str =
    "SELECT minute, counts FROM leafpress_minute WHERE queue = +?1 AND minute >= ?2";
const TAKE_OUTSIDE: &str = "DELETE FROM leafpress_minute WHERE queue = +?1 AND minute = -2";
const PURGE: &str = "DELETE FROM leafpress_minute WHERE queue = +?1 AND minute IN (
     SELECT minute FROM leafpress_minute WHERE queue = +?1 AND minute >= 0 AND minute < ?2
     ORDER BY minute LIMIT +?3)";

/// Adds the counts to the rows of these queues and minutes, and of the queues' lives.
/// Purges minutes that are too old.
pub(super) fn write(
    connection: &Connection,
    counted: &[(When, Counts)],
    now_ms: i64,
) -> rusqlite::Result<()> {
    let mut queues: Vec<i64> = counted.iter().map(|((queue, _), _)| *queue).collect();
    queues.sort_unstable();
    queues.dedup();
    for queue in queues {
        let mut life = read(connection, queue, LIFE)?;
        let outside = take_outside(connection, queue)?;
        let now = minute_of(now_ms).max(0);
        if let Some(outside) = &outside {
            add(connection, queue, now, outside)?;
            life.add(outside);
        }
        for ((_, minute), counts) in counted.iter().filter(|((other, _), _)| *other == queue) {
            add(connection, queue, (*minute).max(0), counts)?;
            life.add(counts);
        }
        store(connection, queue, LIFE, &life)?;
        connection.prepare_cached(PURGE)?.execute((queue, now - MINUTES_KEPT, PURGED_AT_ONCE))?;
    }
    Ok(())
}

/// Adds counts on a connection without counters, in its transaction.
pub(super) fn add_outside(
    connection: &Connection,
    queue: i64,
    counts: &Counts,
) -> rusqlite::Result<()> {
    add(connection, queue, OUTSIDE, counts)
}

/// Counts of all events that ever happened.
pub(super) fn life(connection: &Connection, queue: i64) -> rusqlite::Result<Counts> {
    let mut life = read(connection, queue, LIFE)?;
    life.add(&read(connection, queue, OUTSIDE)?);
    Ok(life)
}

/// The minutes from this one on that have a row.
pub(super) fn since(
    connection: &Connection,
    queue: i64,
    minute: i64,
) -> rusqlite::Result<Vec<(i64, Counts)>> {
    let mut statement = connection.prepare_cached(READ_SINCE)?;
    let rows = statement
        .query_map((queue, minute.max(0)), |row| Ok((row.get(0)?, parsed(row.get_ref(1)?))))?;
    rows.collect()
}

fn take_outside(connection: &Connection, queue: i64) -> rusqlite::Result<Option<Counts>> {
    let outside = read(connection, queue, OUTSIDE)?;
    let taken = connection.prepare_cached(TAKE_OUTSIDE)?.execute([queue])?;
    Ok((taken > 0).then_some(outside))
}

fn add(connection: &Connection, queue: i64, minute: i64, more: &Counts) -> rusqlite::Result<()> {
    let mut counts = read(connection, queue, minute)?;
    counts.add(more);
    store(connection, queue, minute, &counts)
}

fn read(connection: &Connection, queue: i64, minute: i64) -> rusqlite::Result<Counts> {
    let counts = connection
        .prepare_cached(READ)?
        .query_row((queue, minute), |row| row.get_ref(0).map(parsed))
        .optional()?;
    Ok(counts.unwrap_or_default())
}

fn store(
    connection: &Connection,
    queue: i64,
    minute: i64,
    counts: &Counts,
) -> rusqlite::Result<()> {
    let text = serde_json::to_string(counts)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    connection.prepare_cached(WRITE)?.execute((queue, minute, text)).map(drop)
}

fn parsed(stored: ValueRef<'_>) -> Counts {
    // No JSON, if it is no text.
    let text = stored.as_str().unwrap_or_default();
    serde_json::from_str(text).unwrap_or_else(|error| {
        tracing::warn!(%error, "a minute of a queue's statistics is not as it was written");
        Counts::default()
    })
}

/// The statements of this file.
#[cfg(test)]
pub(super) const STATEMENTS: [(&str, &str); 5] = [
    ("write a minute", WRITE),
    ("read a minute", READ),
    ("read minutes", READ_SINCE),
    ("take what was counted outside", TAKE_OUTSIDE),
    ("purge minutes", PURGE),
];

#[cfg(test)]
mod tests {
    use super::super::events::Events;
    use super::*;
    use crate::queue::schema;

    fn database() -> Connection {
        let connection = Connection::open_in_memory().expect("a database");
        schema::bring_up(&connection).expect("the tables");
        let queues = "INSERT INTO leafpress_queue(name) VALUES ('a'), ('b')";
        connection.execute_batch(queues).expect("two queues");
        connection
    }

    fn pushed(number: u64) -> Counts {
        let mut counts = Counts::default();
        counts.events.pushed = number;
        counts.wait.record(number, 1);
        counts
    }

    fn rows(connection: &Connection) -> Vec<(i64, i64, i64)> {
        let sql = "SELECT queue, minute, json_extract(counts, '$.events.pushed')
                   FROM leafpress_minute ORDER BY 1, 2";
        let mut statement = connection.prepare(sql).expect("a query");
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
        rows.and_then(Iterator::collect).expect("rows")
    }

    #[test]
    fn several_writers_add_to_the_same_rows() {
        let connection = database();
        write(&connection, &[((1, 10), pushed(3)), ((2, 10), pushed(5))], 600_000)
            .expect("written");
        write(&connection, &[((1, 10), pushed(4)), ((1, 11), pushed(1))], 660_000)
            .expect("written");
        assert_eq!(
            rows(&connection),
            [(1, LIFE, 8), (1, 10, 7), (1, 11, 1), (2, LIFE, 5), (2, 10, 5)]
        );
        let life = life(&connection, 1).expect("counts");
        assert_eq!((life.wait.count, life.wait.max), (3, 4));
        let since = since(&connection, 1, 11).expect("minutes");
        assert_eq!(since, [(11, pushed(1))]);
    }

    #[test]
    fn what_is_pushed_outside_is_added_by_the_next_writer() {
        let connection = database();
        add_outside(&connection, 1, &pushed(2)).expect("counted");
        let mut more = pushed(1);
        more.events.duplicates = 4;
        add_outside(&connection, 1, &more).expect("counted");
        let both = Events { pushed: 3, duplicates: 4, ..Events::default() };
        assert_eq!(life(&connection, 1).expect("counts").events, both);
        write(&connection, &[((1, 9), pushed(1))], 600_000).expect("written");
        assert_eq!(rows(&connection), [(1, LIFE, 4), (1, 9, 1), (1, 10, 3)]);
        assert_eq!(life(&connection, 1).expect("counts").events, Events { pushed: 4, ..both });
    }

    #[test]
    fn old_minutes_go_and_the_total_stays() {
        let connection = database();
        write(&connection, &[((1, 0), pushed(1)), ((1, 5), pushed(1))], 0).expect("written");
        let later = MINUTES_KEPT + 3;
        write(&connection, &[((1, later), pushed(1))], later * 60_000).expect("written");
        assert_eq!(rows(&connection), [(1, LIFE, 3), (1, 5, 1), (1, later, 1)]);
    }

    #[test]
    fn a_changed_text_counts_as_nothing_and_a_queue_that_is_gone_gets_no_row() {
        let connection = database();
        for text in ["", "[]", "null", r#"{"events":{"pushed":-1}}"#, "{\"events\":"] {
            connection
                .execute("INSERT OR REPLACE INTO leafpress_minute VALUES (1, 7, ?1)", [text])
                .expect("a row");
            assert_eq!(since(&connection, 1, 0).expect("minutes"), [(7, Counts::default())]);
        }
        write(&connection, &[((1, 7), pushed(1)), ((3, 7), pushed(1))], 0).expect("written");
        assert_eq!(rows(&connection), [(1, LIFE, 1), (1, 7, 1)]);
        for odd in ["x'7b7d'", "7", "CAST(x'7bff7d' AS TEXT)"] {
            let sql = format!("UPDATE leafpress_minute SET counts = {odd}");
            connection.execute_batch(&sql).expect("changed from outside");
            assert_eq!(since(&connection, 1, 0).expect("minutes"), [(7, Counts::default())]);
            write(&connection, &[((1, 7), pushed(1))], 0).expect("written");
            assert_eq!(rows(&connection), [(1, LIFE, 1), (1, 7, 1)], "{odd}");
        }
    }
}
