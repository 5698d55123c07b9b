//! Readers of shards, compared with SQLite over the whole table.

use std::fmt::Write as _;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leafpress::ErrorKind;
use leafpress::load::{ColumnType, Value};
use leafpress::rusqlite::types::{ToSql, ToSqlOutput, Value as SqlValue};
use leafpress_shards::{Manifest, PartBuilder, Routing, Sharder, Shards};
use proptest::prelude::*;
use tempfile::TempDir;

use super::{lines, shard};

/// A reader finds for each key the rows that SQLite finds in the whole table.
#[test]
fn a_reader_finds_the_rows_of_each_key() {
    let rows = lines(0..2000, |id| format!("{},k{}\n", id % 70, id % 9));
    for by in ["hash(id)", "hash(name,id)", "range(id)", "range(name)"] {
        let folder = TempDir::new().expect("a folder");
        shard(folder.path(), &format!("id,name\n{rows}"), by, 4).expect("a run");
        let reader =
            Shards::open(folder.path().join("out")).and_then(|it| it.reader()).expect("a reader");
        for id in -1..71_i64 {
            let name = format!("k{}", id.rem_euclid(9));
            let (id_value, name_value) = (Value::Integer(id), Value::Text(name.as_bytes()));
            let (key, fits): (Vec<Value<'_>>, Box<dyn Fn(usize) -> bool>) = match by {
                "hash(name,id)" => (
                    vec![name_value, id_value],
                    Box::new(|n| (n % 70) as i64 == id && n % 9 == id.rem_euclid(9) as usize),
                ),
                "range(name)" => {
                    (vec![name_value], Box::new(|n| n % 9 == id.rem_euclid(9) as usize))
                }
                _ => (vec![id_value], Box::new(|n| (n % 70) as i64 == id)),
            };
            let found = reader.get(&key).expect("rows");
            assert_eq!(found.len(), (0..2000).filter(|&n| fits(n)).count(), "{by} {id}");
        }
        assert_eq!(reader.get(&[Value::Null; 3]).expect_err("too many").kind().name(), "misuse");
        let counts = reader
            .scan("SELECT count(*) FROM t", |row| Ok(row.get::<_, i64>(0)? as u64))
            .expect("counts");
        assert_eq!(
            counts.concat(),
            reader.manifest().parts.iter().map(|part| part.rows).collect::<Vec<_>>()
        );
        assert!(reader.scan("SELECT nothing FROM t", |_| Ok(())).is_err());
    }
    let folder = TempDir::new().expect("a folder");
    shard(folder.path(), "id\n1\n2\n", "rows", 2).expect("a run");
    let reader =
        Shards::open(folder.path().join("out")).and_then(|it| it.reader()).expect("a reader");
    assert!(reader.part_of(&[Value::Integer(1)]).is_err());
    assert_eq!(reader.get(&[Value::Integer(1)]).expect_err("no key").kind().name(), "misuse");
    // It goes on with its run.
    shard(folder.path(), "id\n7\n", "rows", 1).expect("a run");
    let ids = reader.scan("SELECT id FROM t", |row| row.get::<_, i64>(0)).expect("ids");
    assert_eq!(ids, [[1], [2]]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// A key of any type finds the rows that SQLite's comparison finds in all parts together.
    #[test]
    fn a_key_is_compared_as_sql_compares_it(
        declared in prop::sample::select(vec!["INTEGER", "REAL", "TEXT", "BLOB"]),
        by in prop::sample::select(vec!["hash(k)", "range(k)"]),
        stored in prop::collection::vec(-9..9_i64, 1..40),
    ) {
        let folder = TempDir::new().expect("a folder");
        let input = folder.path().join("input.csv");
        // The input has the bytes of a blob as hexadecimal digits.
        let hex = |text: String| {
            text.bytes().fold(String::new(), |mut hex, byte| {
                let _ = write!(hex, "{byte:02x}");
                hex
            })
        };
        let written = |key: &i64| if declared == "BLOB" { hex(key.to_string()) } else { key.to_string() };
        let lines: String = stored.iter().map(|key| written(key) + "\n").collect();
        fs::write(&input, format!("k\n{lines}")).expect("an input");
        let shards = Shards::at(folder.path().join("out")).expect("a folder");
        let column_type: ColumnType = declared.parse().expect("a type");
        Sharder::new(shards.clone(), by.parse().expect("a rule"), 5)
            .run(|stage| stage.table("t").column_type("k", column_type).load_file(&input))
            .expect("a run");
        let reader = shards.reader().expect("a reader");
        for number in -9..9_i64 {
            let texts = [number.to_string(), format!(" {number}.0"), format!("{number}e0")];
            let mut keys = vec![Value::Integer(number), Value::Real(number as f64), Value::Real(f64::NAN)];
            keys.extend(texts.iter().map(|text| Value::Text(text.as_bytes())));
            keys.extend(texts.iter().map(|text| Value::Blob(text.as_bytes())));
            for key in keys {
                let found = reader.get(&[key]).expect("rows").len();
                let expected = reader.on_all("SELECT count(*) FROM t WHERE k IS ?1", |it| {
                    let count = it.query_row([Parameter(key)], |row| row.get::<_, i64>(0));
                    count.map_err(|error| leafpress::Error::sqlite("count", error))
                });
                let expected: i64 = expected.expect("counts").iter().sum();
                prop_assert_eq!(found as i64, expected, "{:?} in a column of {}", key, declared);
            }
        }
    }
}

struct Parameter<'v>(Value<'v>);

impl ToSql for Parameter<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self.0 {
            Value::Null => ToSqlOutput::Owned(SqlValue::Null),
            Value::Integer(integer) => integer.into(),
            Value::Real(real) => real.into(),
            Value::Text(text) => std::str::from_utf8(text).expect("a text").into(),
            Value::Blob(blob) => blob.into(),
        })
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_reader_of_many_parts_has_few_files_open() {
    let folder = TempDir::new().expect("a folder");
    let rows = lines(0..500, |n| format!("{n},x\n"));
    shard(folder.path(), &format!("id,v\n{rows}"), "hash(id)", 300).expect("a run");
    let reader =
        Shards::at(folder.path().join("out")).and_then(|to| to.reader()).expect("a reader");
    let place = folder.path().canonicalize().expect("a folder");
    let open_files = || {
        let all = fs::read_dir("/proc/self/fd").expect("descriptors").flatten();
        all.filter(|it| fs::read_link(it.path()).is_ok_and(|it| it.starts_with(&place))).count()
    };
    for _ in 0..2 {
        let counts = reader.scan("SELECT count(*) FROM t", |row| row.get::<_, i64>(0));
        assert_eq!(counts.expect("counts").into_iter().flatten().sum::<i64>(), 500);
        let open = open_files();
        assert!((64..=200).contains(&open), "{open} files are open");
    }
    for id in (0..500).rev() {
        assert_eq!(reader.get(&[Value::Integer(id)]).expect("rows").len(), 1);
    }
    // Threads that use parts while others look for the one that was not used for the longest time.
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| reader.scan("SELECT 1", |_| Ok(())).expect("a scan"));
        }
    });
    assert!(open_files() <= 200);
}

#[test]
fn a_wait_for_another_thread_ends_once_the_caller_wants_it() {
    let folder = TempDir::new().expect("a folder");
    shard(folder.path(), "id\n1\n", "hash(id)", 1).expect("a run");
    let (is_stopping, is_over) = (Arc::new(AtomicBool::new(false)), AtomicBool::new(false));
    let looked = Arc::clone(&is_stopping);
    let reader = Shards::open(folder.path().join("out"))
        .and_then(|it| it.reader())
        .expect("a reader")
        .stop_when(move || looked.load(Ordering::Relaxed));
    std::thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let holder = scope.spawn(|| {
            let has_it = sender;
            reader.on_part(0, "SELECT 1", |_| {
                has_it.send(()).expect("a receiver");
                while !is_over.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(())
            })
        });
        receiver.recv().expect("the part is in use");
        let waiter = scope.spawn(|| reader.get(&[Value::Integer(1)]));
        std::thread::sleep(Duration::from_millis(100));
        assert!(!waiter.is_finished());
        is_stopping.store(true, Ordering::Relaxed);
        let error = waiter.join().expect("a thread").expect_err("it was stopped");
        assert!(matches!(error.kind(), ErrorKind::Cancelled), "{error}");
        is_stopping.store(false, Ordering::Relaxed);
        is_over.store(true, Ordering::Relaxed);
        holder.join().expect("a thread").expect("it went on");
    });
    assert_eq!(reader.get(&[Value::Integer(1)]).expect("rows").len(), 1);
}

#[test]
fn a_read_inside_of_a_read_is_refused() {
    let folder = TempDir::new().expect("a folder");
    shard(folder.path(), "id\n1\n2\n3\n4\n", "hash(id)", 2).expect("a run");
    let open = || Shards::open(folder.path().join("out")).and_then(|it| it.reader()).expect("one");
    let (reader, other) = (open(), open());
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let refused = |found: leafpress::Result<()>| {
            let error = found.expect_err("it would wait for itself");
            assert!(matches!(error.kind(), ErrorKind::Misuse(_)), "{error}");
        };
        let sql = "SELECT id FROM t";
        let ids = reader.scan(sql, |row| {
            let id = row.get(0)?;
            refused(reader.get(&[Value::Integer(id)]).map(drop));
            refused(reader.scan(sql, |_| Ok(())).map(drop));
            // The control: another reader has connections of its own.
            assert_eq!(other.get(&[Value::Integer(id)]).expect("rows").len(), 1);
            Ok(id)
        });
        assert_eq!(ids.expect("ids").concat().len(), 4);
        assert_eq!(reader.get(&[Value::Integer(1)]).expect("rows").len(), 1);
        done.send(()).expect("the test waits");
    });
    is_done.recv_timeout(Duration::from_secs(60)).expect("it comes to its end");
}

#[test]
fn a_routing_column_whose_texts_are_compared_otherwise_is_refused() {
    for (collation, is_refused) in
        [("", false), (" COLLATE binary", false), (" COLLATE NOCASE", true)]
    {
        let folder = TempDir::new().expect("a folder");
        let input = folder.path().join("input.csv");
        fs::write(&input, "name\nAda\n").expect("an input");
        let to = Shards::at(folder.path().join("out")).expect("a folder");
        let publication = to.begin().expect("a run");
        let declaration = format!("CREATE TABLE t(name TEXT{collation})");
        let part = PartBuilder::new(&to, &publication.run, 0)
            .build(|loader| loader.declaration(&declaration).load_file(&input));
        let (record, schema) = part.expect("a part");
        let routing = Routing::hash(vec!["name".to_owned()], 0);
        let run = publication.run.clone();
        let published = to.publish(&publication, Manifest::new(run, schema, routing, vec![record]));
        match published {
            Ok(_) => assert!(!is_refused, "{collation}"),
            Err(error) => {
                assert!(is_refused && error.to_string().contains("NOCASE"), "{collation}: {error}");
                assert!(to.manifest().is_err(), "it was published");
            }
        }
    }
}
