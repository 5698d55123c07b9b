//! Rows of a caller's iterator that may fail.
//!
//! Stands between that iterator and the parts of a load, which take rows only. The rows end at the
//! first error, which is kept; the thread that took the last row then finds it, and the load fails.
//!
//! Must never: let a load succeed whose rows have ended by an error.

use std::sync::Mutex;

use crate::error::Error;
use crate::sync::lock;

/// The error that has ended the rows of a load, if one did.
#[derive(Debug, Default)]
pub(in crate::load) struct Fault(Mutex<Option<Error>>);

impl Fault {
    /// The error, once.
    pub fn take(&self) -> Option<Error> {
        lock(&self.0).take()
    }
}

/// Rows up to the first error.
pub(in crate::load) struct Fallible<'f, I> {
    rows: Option<I>,
    fault: &'f Fault,
}

impl<'f, I> Fallible<'f, I> {
    pub fn new(rows: I, fault: &'f Fault) -> Self {
        Self { rows: Some(rows), fault }
    }
}

impl<I, R, E> Iterator for Fallible<'_, I>
where
    I: Iterator<Item = Result<R, E>>,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Item = R;

    fn next(&mut self) -> Option<R> {
        match self.rows.as_mut()?.next()? {
            Ok(row) => Some(row),
            Err(error) => {
                self.rows = None;
                let error = Error::aborted(error).to_do("correct the source of the rows");
                lock(&self.fault.0).get_or_insert(error);
                None
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.rows.as_ref().map_or((0, Some(0)), Iterator::size_hint)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::ErrorKind;
    use crate::load::{Column, ColumnType, IntoTable, Loader, Report};

    #[derive(Debug, thiserror::Error, PartialEq)]
    #[error("the sensor is gone")]
    struct Gone;

    fn columns() -> [Column; 2] {
        [Column::new("id", ColumnType::Integer), Column::new("name", ColumnType::Text)]
    }

    /// Rows with an error in place of row `bad`; none come after it.
    fn rows(
        ids: impl Iterator<Item = i64> + Send,
        bad: i64,
    ) -> impl Iterator<Item = Result<(i64, String), Gone>> + Send {
        let mut has_failed = false;
        ids.map(move |id| {
            assert!(!has_failed, "a row is asked for after the error");
            has_failed = id == bad;
            if has_failed { Err(Gone) } else { Ok((id, format!("name {id}"))) }
        })
    }

    fn refused(outcome: crate::Result<Report>) {
        let error = outcome.expect_err("a row failed");
        assert!(matches!(error.kind(), ErrorKind::Aborted(_)), "{error}");
        let source = std::error::Error::source(&error).expect("the caller's error");
        assert_eq!(source.downcast_ref::<Gone>(), Some(&Gone));
        assert!(error.state_on_disk().is_some_and(|it| it.starts_with("nothing was written")));
    }

    fn is_empty(folder: &Path) -> bool {
        folder.read_dir().expect("a folder").next().is_none()
    }

    #[test]
    fn an_error_at_any_row_leaves_no_database() {
        let folder = tempfile::tempdir().expect("a folder");
        let database = folder.path().join("a.db");
        let loader = || Loader::new(&database).table("t").threads(2);
        for bad in [0, 1, 5_000, 59_999] {
            refused(loader().try_load_rows(&columns(), rows(0..60_000, bad)));
            // In the order of their key, out of order, and with an index: pressed, then sorted.
            let keyed = loader().primary_key("id").index("name");
            refused(keyed.try_load_rows(&columns(), rows((0..60_000).rev(), bad)));
            // An order that ends in the middle.
            let mixed = (0..30_000).chain((30_000..60_000).rev());
            refused(loader().primary_key("id").try_load_rows(&columns(), rows(mixed, bad)));
            let parts = vec![rows(0..30_000, bad), rows(30_000..60_000, bad)];
            refused(loader().primary_key("id").try_load_parts(&columns(), parts));
            assert!(is_empty(folder.path()));
        }
        let all = loader().try_load_rows(&columns(), rows(0..60_000, -1)).expect("no row fails");
        assert_eq!(all.rows_loaded, 60_000);
    }

    #[test]
    fn an_error_leaves_a_table_as_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let database = folder.path().join("a.db");
        let loader = || Loader::new(&database).table("t");
        loader().load_rows(&columns(), [(1_i64, "one")]).expect("a table");
        let append = || loader().into_table(IntoTable::Append);
        refused(append().try_load_rows(&columns(), rows(2..100, 50)));
        append().try_load_rows(&columns(), rows(2..4, -1)).expect("no row fails");
        let connection = rusqlite::Connection::open(&database).expect("a database");
        let count = connection.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0));
        assert_eq!(count.expect("a count"), 3);
    }
}
