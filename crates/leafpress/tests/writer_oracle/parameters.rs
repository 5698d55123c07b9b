//! Parameters: each form of them is taken by every call that takes parameters.

use leafpress::Profile;
use leafpress::rusqlite::types::Value;
use leafpress::rusqlite::{ToSql, named_params, params};
use leafpress::writer::{Batch, Writer};

const POSITIONS: &str = "INSERT INTO t VALUES (?1, ?2) RETURNING a";
const NAMES: &str = "INSERT INTO t VALUES (:a, :b) RETURNING a";
const NONE: &str = "INSERT INTO t VALUES (1, 'x') RETURNING a";

/// Inserts the row (1, 'x') by each call.
macro_rules! by_every_call {
    ($writer:expr, $sql:expr, $parameters:expr) => {
        let before = rows($writer);
        $writer.execute($sql, $parameters).expect("by execute");
        $writer.submit($sql, $parameters).expect("taken").wait().expect("by submit");
        $writer.try_submit($sql, $parameters).expect("taken").wait().expect("by try_submit");
        let batch = Batch::new().statement($sql, $parameters).expect("values");
        $writer.execute_batch(batch).expect("by a batch");
        let in_closure = $writer.transaction(|tx| {
            tx.execute($sql, $parameters)?;
            let one = tx.query_row($sql, $parameters, |row| row.get::<_, i64>(0))?;
            Ok((one, tx.query_map($sql, $parameters, |row| row.get::<_, i64>(0))?))
        });
        assert_eq!(in_closure.expect("by a closure"), (Some(1), vec![1]));
        assert_eq!(rows($writer), before + 7);
    };
}

fn rows(writer: &Writer) -> i64 {
    let reader = writer.reader().expect("a reader");
    let sql = "SELECT count(*) FROM t WHERE (a, b) IS (?1, ?2)";
    reader.query_row(sql, (1, "x"), |row| row.get(0)).expect("a count")
}

#[test]
fn each_form_is_taken_by_each_call() {
    let folder = tempfile::tempdir().expect("a folder");
    let builder = Writer::builder(folder.path().join("a.db")).profile(Profile::Relaxed);
    let writer = &builder.open().expect("a writer");
    writer.execute_batch("CREATE TABLE t(a, b)").expect("a table");
    by_every_call!(writer, NONE, ());
    by_every_call!(writer, NONE, []);
    by_every_call!(writer, NONE, params![]);
    by_every_call!(writer, POSITIONS, (1, "x"));
    by_every_call!(writer, POSITIONS, [Value::Integer(1), Value::Text("x".to_owned())]);
    by_every_call!(writer, POSITIONS, vec![Value::Integer(1), Value::Text("x".to_owned())]);
    by_every_call!(writer, POSITIONS, &[Value::Integer(1), Value::Text("x".to_owned())][..]);
    by_every_call!(writer, POSITIONS, params![1, "x"]);
    by_every_call!(writer, POSITIONS, &[&1 as &dyn ToSql, &"x"]);
    by_every_call!(writer, POSITIONS, &[&1 as &dyn ToSql, &"x"][..]);
    by_every_call!(writer, NAMES, named_params! {":a": 1, ":b": "x"});
    by_every_call!(writer, NAMES, &[(":b", &"x" as &dyn ToSql), (":a", &1)][..]);
    by_every_call!(writer, NAMES, &[(":b", &"x" as &dyn ToSql), (":a", &1)]);
    let long: [i64; 32] = std::array::from_fn(|index| index as i64);
    let wanted: Vec<_> = (1..=32).map(|place| format!("?{place}")).collect();
    let sql = format!("SELECT {}", wanted.join(" + "));
    let sum = writer.transaction(move |tx| tx.query_row(&sql, long, |row| row.get::<_, i64>(0)));
    assert_eq!(sum.expect("a sum"), Some((0..32).sum()));
}

#[test]
fn a_query_with_a_value_too_many_or_too_few_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let builder = Writer::builder(folder.path().join("a.db")).profile(Profile::Relaxed);
    let writer = builder.open().expect("a writer");
    for (sql, values) in [("SELECT ?1", vec![]), ("SELECT 1", vec![Value::Null])] {
        let in_closure = writer.transaction(move |tx| {
            let one = tx.query_row(sql, values.clone(), |_| Ok(())).expect_err("a wrong number");
            let all = tx.query_map(sql, values.clone(), |_| Ok(())).expect_err("a wrong number");
            Ok([one.to_string(), all.to_string()])
        });
        for text in in_closure.expect("the errors") {
            assert!(text.contains("Wrong number of parameters"), "{text}");
        }
    }
}
